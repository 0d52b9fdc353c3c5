package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func replaced(v *View) {
	v.Identity.Replacement, v.BMC.InspectedTime = anotherServer(), v.Now.Add(-time.Minute)
}
func bmcTaken(v *View) { v.Identity.BMCTakenBy = otherHost("h") }
func hardwareTaken(v *View) {
	v.Identity.HardwareTakenBy, v.BMC.InspectedTime = otherHost("h"), v.Now.Add(-time.Minute)
}

// nextIdentity are hosts whose BMC may belong to another server. Its readings are ignored.
var nextIdentity = map[string]nextCase{
	"free, another server":                {freeView(replaced), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"free, another server, to be off":     {freeView(replaced, poweredOn, func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOff }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"free, another host's board":          {freeView(hardwareTaken), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"another server is looked at again":   {freeView(replaced, inspected(10*time.Minute)), StateFree, Inspect, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"another host's BMC is not looked at": {freeView(bmcTaken, inspected(10*time.Minute)), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"claimed, another server":             {claimedView(replaced), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBMC},
	"claimed, another host's board":       {claimedView(hardwareTaken), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForBMC},
	"releasing, another server":           {claimedView(provisioned, deleting, replaced), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonWaitingForBMC},
	"releasing, another host's BMC":       {claimedView(provisioned, deleting, bmcTaken), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonWaitingForBMC},
	"releasing, another host's board":     {claimedView(provisioned, deleting, hardwareTaken), StateReleasing, Nothing, v1alpha1.PhaseReleasing, v1alpha1.ReasonWaitingForBMC},
	"reported, and never inspected":       {bootingView(poweredOn, reported, overrideSet, func(v *View) { v.BMC.Inspected = false }), StateReportedIn, Inspect, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine},
	"reported, from another server":       {bootingView(poweredOn, reported, overrideSet, replaced), StateReportedIn, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForMachine},
	"force-released, another server":      {bootingView(deleting, releaseUnfencedRequested, replaced), StateReleasing, RecordBoot, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing},
	"in memory, another server is off":    {claimedView(provisioned, ephemeral, replaced), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"held, another server is off":         {claimedView(provisioned, forceHeld, replaced), StatePowerHold, RecordPowerHold, v1alpha1.PhasePowerHold, v1alpha1.ReasonPowerHold},
}

// TestConflictAndProblem: of several conflicts, the condition of the BMC has the reason and the message of one.
func TestConflictAndProblem(t *testing.T) {
	for name, c := range map[string]struct {
		view            View
		reason, message string
	}{
		"MAC address alone":        {freeView(func(v *View) { v.Identity.MACTakenBy = otherHost("m") }), "", ""},
		"board and MAC address":    {freeView(hardwareTaken, func(v *View) { v.Identity.MACTakenBy = otherHost("m") }), v1alpha1.ReasonHardwareConflict, "the serial number of host h"},
		"BMC and MAC address":      {freeView(bmcTaken, func(v *View) { v.Identity.MACTakenBy = otherHost("m") }), v1alpha1.ReasonBMCConflict, "is already that of host h"},
		"replaced and MAC address": {freeView(replaced, func(v *View) { v.Identity.MACTakenBy = otherHost("m") }), v1alpha1.ReasonServerReplaced, "another server"},
		"not permitted, and all":   {freeView(replaced, bmcTaken, func(v *View) { v.Identity.NotPermitted = errNotPermitted }), v1alpha1.ReasonNotPermitted, "not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			problem := c.view.BMCProblem()
			if c.reason == "" {
				g.Expect(problem).To(BeNil())
				return
			}
			g.Expect(problem.Reason).To(Equal(c.reason))
			g.Expect(problem.Message).To(ContainSubstring(c.message))
		})
	}
}

// TestNameFor: a message names only hosts of the same namespace.
func TestNameFor(t *testing.T) {
	g := NewWithT(t)
	g.Expect(NameFor("dc", types.NamespacedName{Namespace: "dc", Name: "a"})).To(Equal("host a"))
	g.Expect(NameFor("dc", types.NamespacedName{Namespace: "secret", Name: "b"})).To(Equal("a host of another namespace"))
}
