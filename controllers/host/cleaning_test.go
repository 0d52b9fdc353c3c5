package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// serverInCleaning returns a server whose machine was deleted. Its cleaning continues while its virtual drive is locked.
func serverInCleaning(t *testing.T) *controllerstest.Server {
	t.Helper()
	server, claim := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	insertMedia(t, server)
	misbehave(t, server, bmctest.EjectFails, -1)
	NewWithT(t).Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseCleaning))
		g.Expect(h.Spec.ProviderState.CleaningStartTime).NotTo(BeNil())
		g.Expect(h.Spec.ConsumerRef).NotTo(BeNil())
		g.Expect(conditions.GetReason(h, v1alpha1.BootedCondition)).To(Equal(v1alpha1.ReasonCleaning))
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(ContainSubstring("The virtual drive is locked"))
	})
	NewWithT(t).Expect(server.On()).To(BeFalse(), "only a server that is off is cleaned")
	return server
}

// expectReleasedClean expects that a host was released and cleaned.
func expectReleasedClean(g Gomega, h *v1alpha1.BareMetalHost) {
	g.Expect(h.Spec.ConsumerRef).To(BeNil())
	g.Expect(h.Spec.ProviderState.CleaningStartTime).To(BeNil())
	g.Expect(h.Spec.Quarantine).To(BeNil())
	g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseAvailable))
	g.Expect(h.Spec.ProviderState.LastConsumer).To(HaveValue(HaveField("Name", "m")))
}

// longCleaning returns settings with which a cleaning does not time out during a test.
func longCleaning() lifecycle.Settings {
	settings := controllerstest.Settings()
	settings.PowerSettle = 3 * time.Second
	return settings
}

// TestCleaning: a release includes the cleaning, which the API shows. The cleaning ends when the server is off and its virtual drive is empty. A manager
// that starts during the cleaning continues it without a second power command.
func TestCleaning(t *testing.T) {
	g := NewWithT(t)
	stop := startWith(t, longCleaning())
	server := serverInCleaning(t)
	commands := server.CommandNames()
	stop()
	misbehave(t, server, bmctest.EjectFails, 0)
	defer start(t)()
	wait(t, server, expectReleasedClean)
	g.Expect(server.Image()).To(BeEmpty())
	g.Expect(server.CommandNames()).To(Equal(append(commands, "Media=")))
}

// TestCleaningByHand: with the policy Manual a user confirms that the disks are wiped.
func TestCleaningByHand(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server, claim := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = wire.PolicyManual })
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, phase(v1alpha1.PhaseQuarantined))
	g.Expect(server.Host.Spec.ConsumerRef).To(BeNil())
	g.Expect(server.Host.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonCleaningByHand))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.AvailableCondition)).To(And(ContainSubstring("Wipe them"), ContainSubstring("Remove spec.quarantine")))
	g.Expect(server.On()).To(BeFalse())
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })
	wait(t, server, expectReleasedClean)
}

// TestCleaningFails: a host is quarantined if its virtual media cannot be ejected: they may hold data of the machine.
func TestCleaningFails(t *testing.T) {
	g := NewWithT(t)
	settings := controllerstest.Settings()
	settings.PowerSettle = time.Second // the test sees the cleaning before its last attempt
	defer startWith(t, settings)()
	server := serverInCleaning(t)
	wait(t, server, phase(v1alpha1.PhaseQuarantined))
	g.Expect(server.Host.Spec.ConsumerRef).To(BeNil())
	g.Expect(server.Host.Spec.ProviderState.CleaningStartTime).To(BeNil())
	g.Expect(server.Host.Spec.Quarantine).To(HaveValue(And(
		HaveField("Reason", v1alpha1.ReasonCleaningFailed), HaveField("Message", ContainSubstring("The virtual drive is locked")))))
	g.Expect(server.Image()).NotTo(BeEmpty())
}

// TestCleaningWithoutDrive: a BMC without virtual drives has nothing to eject.
func TestCleaningWithoutDrive(t *testing.T) {
	defer start(t)()
	server, claim := runningServer(t)
	misbehave(t, server, bmctest.NoMedia, -1)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	NewWithT(t).Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, expectReleasedClean)
}

// TestCleaningWaitsForTheBMC: a cleaning waits for a BMC that becomes unreachable, and the host says how a user can end the wait.
func TestCleaningWaitsForTheBMC(t *testing.T) {
	g := NewWithT(t)
	defer startWith(t, longCleaning())()
	server := serverInCleaning(t)
	misbehave(t, server, bmctest.Down, -1)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(And(
			HavePrefix("The server will be cleaned. Waiting for the BMC"), ContainSubstring(v1alpha1.ReleaseUnfencedAnnotation)))
		g.Expect(h.Spec.ConsumerRef).NotTo(BeNil())
	})
	misbehave(t, server, bmctest.EjectFails, 0)
	misbehave(t, server, bmctest.Down, 0)
	wait(t, server, expectReleasedClean)
	g.Expect(server.Image()).To(BeEmpty())
}

// TestSwitchedOnInTheCleaning: a server that is powered on during the cleaning is powered off again before the cleaning continues.
func TestSwitchedOnInTheCleaning(t *testing.T) {
	g := NewWithT(t)
	defer startWith(t, longCleaning())()
	server := serverInCleaning(t)
	commands := len(server.CommandNames())
	server.SetPower(true)
	wait(t, server, func(g Gomega, _ *v1alpha1.BareMetalHost) {
		g.Expect(server.CommandNames()[commands:]).To(ContainElement(BeElementOf("GracefulShutdown", "ForceOff")))
		g.Expect(server.On()).To(BeFalse())
	})
	misbehave(t, server, bmctest.EjectFails, 0)
	wait(t, server, expectReleasedClean)
	g.Expect(server.On()).To(BeFalse())
	g.Expect(server.Image()).To(BeEmpty())
}
