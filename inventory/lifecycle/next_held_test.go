package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextHeld are hosts that are held off.
var nextHeld = map[string]nextCase{
	"a power cycle is recorded first":         {claimedView(provisioned, poweredOn, cycle), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"a power cycle of what is held off":       {claimedView(provisioned, heldBy, heldOff, cycle), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"a machine that is off is wanted on":      {claimedView(provisioned, wantedOn), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"a machine that is on is wanted on":       {claimedView(provisioned, poweredOn, wantedOn), StateHeld, DropRequests, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"a machine is held off, and wanted on":    {claimedView(provisioned, heldBy, heldOff, wantedOn), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"a hold is recorded first":                {claimedView(provisioned, poweredOn, heldBy), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: lets a move go on":                 {bootingView(provisioned, poweredOn, heldBy), StateHeld, AllowMove, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: shut down":                         {claimedView(provisioned, poweredOn, heldBy, heldSince), StateHeld, ShutDown, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: at once":                           {claimedView(provisioned, poweredOn, heldHard, heldSince), StateHeld, ForceOff, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: shutting down":                     {claimedView(provisioned, poweredOn, heldBy, heldSince, commanded(CommandShutDown, 10*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: does not shut down":                {claimedView(provisioned, poweredOn, heldBy, heldSince, commanded(CommandShutDown, 3*time.Minute)), StateHeld, ForceOff, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: at once, while it shuts down":      {claimedView(provisioned, poweredOn, heldHard, heldSince, commanded(CommandShutDown, 10*time.Second)), StateHeld, ForceOff, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: off, read once":                    {claimedView(provisioned, heldHard, heldSince, justOff, commanded(CommandForceOff, 9*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: off":                               {claimedView(provisioned, heldHard, heldSince, commanded(CommandForceOff, 9*time.Second)), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: found off":                         {claimedView(provisioned, heldHard, heldSince), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: just switched on, not off":         {claimedView(provisioned, heldHard, heldSince, commanded(CommandPowerOn, 9*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held: BMC down":                          {claimedView(provisioned, heldHard, heldSince, bmcDown), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held off":                                {claimedView(provisioned, heldBy, heldOff), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held off, after a restart":               {claimedView(provisioned, heldBy, heldOff, func(v *View) { v.BMC = BMC{} }), StateHeld, Inspect, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"held off, and somebody switched it on":   {claimedView(provisioned, poweredOn, heldBy, heldOff), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"no hold is left: it is not off for good": {claimedView(provisioned, heldOff), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"no hold is left: switch on":              {claimedView(provisioned, heldSince), StateHeld, PowerOn, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"no hold is left, and from memory":        {claimedView(provisioned, ephemeral, heldSince, justOff), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"no hold is left: being switched on":      {claimedView(provisioned, heldSince, commanded(CommandPowerOn, 9*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"no hold is left: on":                     {claimedView(provisioned, poweredOn, heldSince, commanded(CommandPowerOn, 9*time.Second)), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"no hold is left: it still shuts down":    {claimedView(provisioned, poweredOn, heldSince, commanded(CommandShutDown, 9*time.Second)), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"no hold is left: it may shut down unheard": {
		claimedView(provisioned, poweredOn, heldSince, func(v *View) { v.BMC.OffUnheardAt = noon.Add(-time.Minute) }), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff,
	},
	"no hold is left: asked long ago, and switched off just now": {
		claimedView(provisioned, poweredOn, heldSince, func(v *View) {
			v.BMC.FirstShutDownAt, v.BMC.LastPower, v.BMC.LastPowerAt = noon.Add(-time.Hour), CommandForceOff, noon.Add(-2*time.Second)
		}), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff,
	},
	"wanted on, by an old reading it is": {
		claimedView(provisioned, poweredOn, wantedOn, func(v *View) { v.BMC.PowerAt = noon.Add(-4 * time.Minute) }), StateHeld, ReadPower, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff,
	},
	"no hold is left: never off": {claimedView(provisioned, poweredOn, heldSince), StateHeld, RecordHold, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff},
	"no hold is left: on, after a restart": {
		claimedView(provisioned, poweredOn, heldSince, func(v *View) { v.BMC.PowerSince = noon.Add(-time.Minute) }), StateHeld, Nothing, v1alpha1.PhaseHeldOff, v1alpha1.ReasonHeldOff,
	},
}
