package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextHeld are hosts that are held off.
var nextHeld = map[string]nextCase{
	"a power cycle is recorded first":         {claimedView(provisioned, poweredOn, cycle), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a power cycle of what is held off":       {claimedView(provisioned, heldBy, heldOff, cycle), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a machine that is off is wanted on":      {claimedView(provisioned, wantedOn), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a machine that is on is wanted on":       {claimedView(provisioned, poweredOn, wantedOn), StatePowerHold, DropRequests, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a machine is held off, and wanted on":    {claimedView(provisioned, heldBy, heldOff, wantedOn), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a hold is recorded first":                {claimedView(provisioned, poweredOn, heldBy), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: lets a move go on":                 {bootingView(provisioned, poweredOn, heldBy), StatePowerHold, AllowMove, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: shut down":                         {claimedView(provisioned, poweredOn, heldBy, powerHoldSince), StatePowerHold, ShutDown, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: at once":                           {claimedView(provisioned, poweredOn, heldHard, powerHoldSince), StatePowerHold, ForceOff, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: shutting down":                     {claimedView(provisioned, poweredOn, heldBy, powerHoldSince, commanded(CommandShutDown, 10*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: does not shut down":                {claimedView(provisioned, poweredOn, heldBy, powerHoldSince, commanded(CommandShutDown, 3*time.Minute)), StatePowerHold, ForceOff, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: at once, while it shuts down":      {claimedView(provisioned, poweredOn, heldHard, powerHoldSince, commanded(CommandShutDown, 10*time.Second)), StatePowerHold, ForceOff, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: off, read once":                    {claimedView(provisioned, heldHard, powerHoldSince, justOff, commanded(CommandForceOff, 9*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: off":                               {claimedView(provisioned, heldHard, powerHoldSince, commanded(CommandForceOff, 9*time.Second)), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: found off":                         {claimedView(provisioned, heldHard, powerHoldSince), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: just switched on, not off":         {claimedView(provisioned, heldHard, powerHoldSince, commanded(CommandPowerOn, 9*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: BMC down":                          {claimedView(provisioned, heldHard, powerHoldSince, bmcDown), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held off":                                {claimedView(provisioned, heldBy, heldOff), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held off, after a restart":               {claimedView(provisioned, heldBy, heldOff, func(v *View) { v.BMC = BMC{} }), StatePowerHold, Inspect, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held off, and somebody switched it on":   {claimedView(provisioned, poweredOn, heldBy, heldOff), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: it is not off for good": {claimedView(provisioned, heldOff), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: switch on":              {claimedView(provisioned, powerHoldSince), StatePowerHold, PowerOn, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left, and from memory":        {claimedView(provisioned, ephemeral, powerHoldSince, justOff), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: being switched on":      {claimedView(provisioned, powerHoldSince, commanded(CommandPowerOn, 9*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: on":                     {claimedView(provisioned, poweredOn, powerHoldSince, commanded(CommandPowerOn, 9*time.Second)), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: it still shuts down":    {claimedView(provisioned, poweredOn, powerHoldSince, commanded(CommandShutDown, 9*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: it may shut down unheard": {
		claimedView(provisioned, poweredOn, powerHoldSince, func(v *View) { v.BMC.OffUnansweredAt = noon.Add(-time.Minute) }), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold,
	},
	"no hold is left: asked long ago, and switched off just now": {
		claimedView(provisioned, poweredOn, powerHoldSince, func(v *View) {
			v.BMC.FirstShutDownAt, v.BMC.LastPower, v.BMC.LastPowerAt = noon.Add(-time.Hour), CommandForceOff, noon.Add(-2*time.Second)
		}), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold,
	},
	"wanted on, by an old reading it is": {
		claimedView(provisioned, poweredOn, wantedOn, func(v *View) { v.BMC.PowerAt = noon.Add(-4 * time.Minute) }), StatePowerHold, ReadPower, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold,
	},
	"no hold is left: never off": {claimedView(provisioned, poweredOn, powerHoldSince), StatePowerHold, RecordHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: on, after a restart": {
		claimedView(provisioned, poweredOn, powerHoldSince, func(v *View) { v.BMC.PowerSince = noon.Add(-time.Minute) }), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold,
	},
}
