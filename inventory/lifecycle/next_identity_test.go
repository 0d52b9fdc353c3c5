package lifecycle

import "github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"

func replaced(v *View)      { v.BMC.Replaced = "another server" }
func bmcTaken(v *View)      { v.BMCTakenBy = "host h" }
func hardwareTaken(v *View) { v.HardwareTakenBy = "host h" }

// nextIdentity are hosts whose BMC may not be that of their server.
var nextIdentity = map[string]nextCase{
	"free, another server":              {freeView(replaced), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"free, another server, to be off":   {freeView(replaced, poweredOn, func(v *View) { v.Spec.Power = v1alpha1.PowerOff }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"free, another host's board":        {freeView(hardwareTaken), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"claimed, another server":           {claimedView(replaced), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonServerReplaced},
	"claimed, another host's board":     {claimedView(hardwareTaken), StateWaiting, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonHardwareConflict},
	"releasing, another server":         {claimedView(provisioned, poweredOn, deleting, replaced), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonServerReplaced},
	"releasing, another host's BMC":     {claimedView(provisioned, poweredOn, deleting, bmcTaken), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonBMCConflict},
	"releasing, another host's board":   {claimedView(provisioned, poweredOn, deleting, hardwareTaken), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonHardwareConflict},
	"reported, and never inspected":     {bootingView(poweredOn, reported, overrideSet, func(v *View) { v.BMC.Inspected = false }), StateReported, Inspect, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine},
	"reported, from another server":     {bootingView(poweredOn, reported, overrideSet, replaced), StateReported, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonServerReplaced},
	"force-released, another server":    {bootingView(deleting, letGo, replaced), StateReleasing, RecordBoot, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"provisioned, another server, runs": {claimedView(provisioned, poweredOn, replaced), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
}
