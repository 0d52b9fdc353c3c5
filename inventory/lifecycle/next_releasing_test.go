package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextReleasing are hosts that are being released.
var nextReleasing = map[string]nextCase{
	"externally provisioned is released running": {
		claimedView(external, poweredOn, deleting), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
	},
	"the record is missing, released": {bootingView(noRecord, deleting), StateReleasing, RecordCleaning, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"clean, and the boot is not void": {bootingView(deleting, cleaningBegan, cleaned), StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"clean, and the boot is that of a machine that waits": {
		bootingView(deleting, cleaningBegan, cleaned, recordOfOtherClaim, bootMachinePending), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
	},
	"force-released, and the machine waits without its Cluster": {
		bootingView(releaseUnfencedRequested, seeded, bootMachinePending, func(v *View) { v.Consumer.ClusterFound = false }), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
	},
	"clean, and the boot is void": {bootingView(deleting, cleaningBegan, cleaned, voided), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"force-released, the boot is not void": {
		bootingView(deleting, releaseUnfencedRequested), StateReleasing, RecordBoot, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
	},
	"release: shut down":                {claimedView(provisioned, poweredOn, deleting), StateReleasing, ShutDown, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: shutting down":            {claimedView(provisioned, poweredOn, deleting, commanded(CommandShutDown, 10*time.Second)), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: does not shut down":       {claimedView(provisioned, poweredOn, deleting, commanded(CommandShutDown, 3*time.Minute)), StateReleasing, ForceOff, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: cannot shut down":         {claimedView(provisioned, poweredOn, deleting, func(v *View) { v.BMC.ShutDownUnsupported = true }), StateReleasing, ForceOff, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: never came up":            {bootingView(poweredOn, deleting), StateReleasing, ForceOff, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: never came up, commanded": {bootingView(poweredOn, deleting, commanded(CommandForceOff, 5*time.Second)), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: off, but read long ago":   {claimedView(provisioned, deleting, stale), StateReleasing, ReadPower, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: off, read a while ago, and looked at for the first time": {
		claimedView(provisioned, deleting, func(v *View) { v.BMC.PowerAt, v.BMC.PowerNew = noon.Add(-50*time.Second), true }), StateReleasing, RecordCleaning,
		v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
	},
	"release: off, cleaning begins":   {claimedView(provisioned, deleting), StateReleasing, RecordCleaning, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: off, to be cleaned up":  {claimedView(provisioned, deleting, cleaningBegan), StateCleaning, CleanUp, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: off":                    {claimedView(provisioned, deleting, cleaningBegan, cleaned), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: off, read once":         {claimedView(provisioned, deleting, justOff), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: override set, then off": {claimedView(deleting, cleaningBegan, cleaned, func(v *View) { v.BMC.NetworkBootSetAt = noon }), StateCleaning, CleanUp, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: off after our command":  {claimedView(provisioned, deleting, justOff, cleaningBegan, cleaned, commanded(CommandForceOff, 5*time.Second)), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: off, but the former process may have switched it on": {
		claimedView(deleting, func(v *View) { v.BMC.PowerSince = v.BMC.PowerAt.Add(-10 * time.Second) }), StateReleasing, Nothing,
		v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
	},
	"release: off, but just switched on": {
		bootingView(deleting, commanded(CommandPowerOn, 10*time.Second)), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
	},
	"release: media cannot be ejected": {
		claimedView(provisioned, deleting, cleaningBegan, func(v *View) { v.BMC.CleanUpFailures = 4 }), StateCleaning, CleanUp, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
	},
	"release: media cannot be ejected at all": {
		claimedView(provisioned, deleting, cleaningBegan, func(v *View) { v.BMC.CleanUpFailures = 5 }), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
	},
	"release: switched on while it is cleaned": {
		claimedView(provisioned, deleting, cleaningBegan, poweredOn), StateCleaning, RecordCleaning, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
	},
	"release: cleaningBegan, BMC down": {claimedView(provisioned, deleting, cleaningBegan, bmcDown), StateCleaning, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonWaitingForBMC},
	"release: force-release":           {claimedView(provisioned, deleting, poweredOn, bmcDown, releaseUnfencedRequested), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"orphaned: force-release":          {claimedView(poweredOn, releaseUnfencedRequested, func(v *View) { v.Consumer.Found = false }), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: overdue":                 {claimedView(provisioned, deleting, poweredOn, bmcDown, releaseDeadlinePassed), StateReleasing, Release, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: not overdue": {
		claimedView(provisioned, deleting, poweredOn, bmcDown, releaseDeadlinePassed, func(v *View) { v.Consumer.DeletingSince = noon }), StateReleasing, Nothing,
		v1alpha1.PhaseReleasing, v1alpha1.ReasonWaitingForBMC,
	},
	"goes with its namespace":        {claimedView(provisioned, poweredOn, deleting, namespaceGone), StateReleasing, ShutDown, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"held, and released":             {claimedView(provisioned, deleting, forceHeld, powerHeldOff, cleaningBegan, cleaned), StateCleaning, Release, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"releasing, inspected yesterday": {claimedView(deleting, inspected(24*time.Hour)), StateReleasing, RecordCleaning, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"release: BMC down":              {claimedView(provisioned, deleting, bmcDown), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonWaitingForBMC},
}
