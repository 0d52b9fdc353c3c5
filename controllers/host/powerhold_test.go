package host_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// runningServer returns a server that runs a machine.
func runningServer(t *testing.T) (*controllerstest.Server, *controllerstest.Claim) {
	t.Helper()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true})
	server.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
	claim := env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
		c.BareMetalMachine.Finalizers = []string{v1alpha1.MachineFinalizer}
		c.BareMetalMachine.Spec.ProviderID = inventory.ProviderID(namespace, "h", "m")
	})
	register(t, server)
	return server, claim
}

func expectHolds(holds ...v1alpha1.PowerHold) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = holds }
}

// TestPowerHolds: a server is off while any hold exists, and its host lists the holders. It is powered on when the last hold is removed, even by a
// manager that started in between: that is one power cycle.
func TestPowerHolds(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	server, _ := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	anna, otto := v1alpha1.PowerHold{Holder: "anna", Reason: "a new disk"}, v1alpha1.PowerHold{Holder: "otto", Reason: "a new fan", Force: true}
	controllerstest.Modify(t, env, server.Host, expectHolds(anna, otto))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).NotTo(BeNil())
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhasePowerHold))
		g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff))
		g.Expect(conditions.GetReason(h, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonPowerHold))
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(ContainSubstring("Kept powered off by anna (a new disk), otto (a new fan)"))
	})
	g.Expect(server.On()).To(BeFalse())
	controllerstest.Modify(t, env, server.Host, expectHolds(anna))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(HavePrefix("Kept powered off by anna (a new disk)"))
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).NotTo(ContainSubstring("otto"))
	})
	g.Expect(server.CommandNames()).To(Equal([]string{"ForceOff"}))

	stop()
	controllerstest.Modify(t, env, server.Host, expectHolds())
	defer start(t)()
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldStartTime).To(BeNil())
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).To(BeNil())
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseProvisioned))
		g.Expect(conditions.IsTrue(h, v1alpha1.ReadyCondition)).To(BeTrue())
	})
	g.Expect(server.On()).To(BeTrue())
	g.Expect(server.CommandNames()).To(Equal([]string{"ForceOff", "On"}))
}

// TestPowerHoldEndsWithTheClaim: a release overrides holds and removes them: the server of the next machine is not kept off.
func TestPowerHoldEndsWithTheClaim(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server, claim := runningServer(t)
	controllerstest.Modify(t, env, server.Host, expectHolds(v1alpha1.PowerHold{Holder: "anna", Reason: "a new disk"}))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).NotTo(BeNil())
	})
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ConsumerRef).To(BeNil())
		g.Expect(h.Spec.PowerHolds).To(BeEmpty())
		g.Expect(h.Spec.ProviderState.PowerHoldStartTime).To(BeNil())
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).To(BeNil())
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseAvailable))
	})
	g.Expect(server.CommandNames()).NotTo(ContainElement("On"))
}
