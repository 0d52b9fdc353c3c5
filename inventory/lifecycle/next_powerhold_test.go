package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextPowerHold are hosts with power holds.
var nextPowerHold = map[string]nextCase{
	"a power cycle is recorded first":         {claimedView(provisioned, poweredOn, cycle), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a power cycle of what is held off":       {claimedView(provisioned, powerHeld, powerHeldOff, cycle), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a machine that is off is wanted on":      {claimedView(provisioned, powerOnRequested), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a machine that is on is wanted on":       {claimedView(provisioned, poweredOn, powerOnRequested), StatePowerHold, DropRequests, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a machine is held off, and wanted on":    {claimedView(provisioned, powerHeld, powerHeldOff, powerOnRequested), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"a hold is recorded first":                {claimedView(provisioned, poweredOn, powerHeld), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: after a boot":                      {bootingView(provisioned, poweredOn, powerHeld), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: shut down":                         {claimedView(provisioned, poweredOn, powerHeld, powerHoldSince), StatePowerHold, ShutDown, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: at once":                           {claimedView(provisioned, poweredOn, forceHeld, powerHoldSince), StatePowerHold, ForceOff, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: shutting down":                     {claimedView(provisioned, poweredOn, powerHeld, powerHoldSince, commanded(CommandShutDown, 10*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: does not shut down":                {claimedView(provisioned, poweredOn, powerHeld, powerHoldSince, commanded(CommandShutDown, 3*time.Minute)), StatePowerHold, ForceOff, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: at once, while it shuts down":      {claimedView(provisioned, poweredOn, forceHeld, powerHoldSince, commanded(CommandShutDown, 10*time.Second)), StatePowerHold, ForceOff, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: off, read once":                    {claimedView(provisioned, forceHeld, powerHoldSince, justOff, commanded(CommandForceOff, 9*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: off":                               {claimedView(provisioned, forceHeld, powerHoldSince, commanded(CommandForceOff, 9*time.Second)), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: found off":                         {claimedView(provisioned, forceHeld, powerHoldSince), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: just switched on, not off":         {claimedView(provisioned, forceHeld, powerHoldSince, commanded(CommandPowerOn, 9*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held: BMC down":                          {claimedView(provisioned, forceHeld, powerHoldSince, bmcDown), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held off":                                {claimedView(provisioned, powerHeld, powerHeldOff), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held off, after a restart":               {claimedView(provisioned, powerHeld, powerHeldOff, func(v *View) { v.BMC = BMC{} }), StatePowerHold, Inspect, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"held off, and somebody switched it on":   {claimedView(provisioned, poweredOn, powerHeld, powerHeldOff), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: it is powered on again": {claimedView(provisioned, powerHeldOff), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: switch on":              {claimedView(provisioned, powerHoldSince), StatePowerHold, PowerOn, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left, and from memory":        {claimedView(provisioned, ephemeral, powerHoldSince, justOff), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: being switched on":      {claimedView(provisioned, powerHoldSince, commanded(CommandPowerOn, 9*time.Second)), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: on":                     {claimedView(provisioned, poweredOn, powerHoldSince, commanded(CommandPowerOn, 9*time.Second)), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
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
		claimedView(provisioned, poweredOn, powerOnRequested, func(v *View) { v.BMC.PowerAt = noon.Add(-4 * time.Minute) }), StatePowerHold, ReadPower, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold,
	},
	"no hold is left: never off": {claimedView(provisioned, poweredOn, powerHoldSince), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
	"no hold is left: on, after a restart": {
		claimedView(provisioned, poweredOn, powerHoldSince, func(v *View) { v.BMC.PowerSince = noon.Add(-time.Minute) }), StatePowerHold, Nothing, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold,
	},
}
