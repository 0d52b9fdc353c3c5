package host_test

import (
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// claimed gives the server to a new machine.
func claimed(t *testing.T, server *controllerstest.Server, machine string) *controllerstest.Claim {
	t.Helper()
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	claim := env.NewClaim(t, server.Host.Namespace, machine)
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Finalizers = []string{v1alpha1.MachineFinalizer} })
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = controllerstest.Claimed(machine) })
	return claim
}

// observeStage records a boot stage of the server.
func observeStage(t *testing.T, server *controllerstest.Server, stage v1alpha1.BootStage) {
	t.Helper()
	boot := bootOf(t, server)
	NewWithT(t).Expect(controllers.ApplyStages(t.Context(), env.Client, boot, controllers.NewStage(boot, stage))).To(Succeed())
}

// bootOf returns the record of the server's last boot.
func bootOf(t *testing.T, server *controllerstest.Server) *v1alpha1.BareMetalBoot {
	t.Helper()
	boot := controllerstest.BootOf(t, env, server.Host)
	NewWithT(t).Expect(boot).NotTo(BeNil())
	return boot
}

// waitForOverride waits until the boot override of an attempt is set.
func waitForOverride(t *testing.T, server *controllerstest.Server, attempt int32) *v1alpha1.BootOverrideStatus {
	t.Helper()
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.Boots).To(Equal(attempt))
		g.Expect(h.Status.BMC.BootOverride).NotTo(BeNil())
		g.Expect(h.Status.BMC.BootOverride.Boot).To(Equal(attempt))
		g.Expect(conditions.GetReason(h, v1alpha1.BootedCondition)).To(Equal(v1alpha1.ReasonWaitingForDHCP))
	})
	return server.Host.Status.BMC.BootOverride
}

// TestOverrideThatLasts: a BMC makes an override for one boot permanent. The override is cleared after it did its work, and a release leaves neither an
// override nor virtual media.
func TestOverrideThatLasts(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	misbehave(t, server, bmctest.OnceReadsContinuous, -1)
	misbehave(t, server, bmctest.OverrideNeverResets, -1)
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	claim := claimed(t, server, "m")
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForDHCP))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.BMC.BootOverride).To(Equal(&v1alpha1.BootOverrideStatus{Boot: 1, Target: "PXE", Method: "Plain", Persistent: true}))
	})
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.BootedCondition)).To(ContainSubstring(`method "Plain"`))
	observeStage(t, server, v1alpha1.StageScript)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.BMC.BootOverride).To(Equal(&v1alpha1.BootOverrideStatus{Boot: 1, Target: "PXE", Method: "Plain", Worked: true}))
	})
	g.Eventually(func() bmc.BootTarget { return server.Override().Target }, 30*time.Second).Should(Equal(bmc.BootNone))

	insertMedia(t, server)
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.Image()).To(BeEmpty())
	g.Expect(server.Override().Target).To(Equal(bmc.BootNone))
}

// TestOverrideThatNeverGoes: a BMC keeps an override for one boot without reporting it. The override is cleared after it did its work, even if the first
// observed stage of the boot is the report of the running system.
func TestOverrideThatNeverGoes(t *testing.T) {
	for name, then := range map[string]func(*testing.T, *controllerstest.Server){
		"script": func(t *testing.T, server *controllerstest.Server) {
			t.Helper()
			observeStage(t, server, v1alpha1.StageScript)
		},
		"reported": func(t *testing.T, server *controllerstest.Server) {
			t.Helper()
			controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) {
				b.DataAddress, b.ReportedTime = "192.0.2.7", new(metav1.Now())
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			defer start(t)()
			server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
			misbehave(t, server, bmctest.OverrideNeverResets, -1)
			register(t, server)
			claimed(t, server, "m")
			waitForOverride(t, server, 1)
			g.Expect(server.Override()).To(Equal(bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}))
			then(t, server)
			g.Eventually(func() bmc.BootTarget { return server.Override().Target }, 30*time.Second).Should(Equal(bmc.BootNone))
			g.Consistently(server.CommandNames, 300*time.Millisecond).Should(Equal([]string{"Boot=PXE", "On", "Boot=None"}))
		})
	}
}

// TestEscalation: if a server does not appear on the network, the next attempt uses the next method.
func TestEscalation(t *testing.T) {
	g := NewWithT(t)
	settings := controllerstest.Settings()
	settings.BootAttempts = 3
	clock := &shiftedClock{}
	defer startAt(t, settings, clock)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	misbehave(t, server, bmctest.OverrideReverts, -1)
	register(t, server)
	claimed(t, server, "m")
	for i, want := range []v1alpha1.BootOverrideStatus{{Target: "PXE", Method: "Plain"}, {Target: "PXE", Method: "NoMode"}, {Target: "HTTP", Method: "Plain"}} {
		want.Boot = int32(i) + 1
		g.Expect(waitForOverride(t, server, want.Boot)).To(Equal(&want))
		clock.forward(settings.BootTimeout)
	}
}

// TestWhatWorkedIsRemembered: a method that worked is used by the next attempt, by the next machine, and after a restart.
func TestWhatWorkedIsRemembered(t *testing.T) {
	g := NewWithT(t)
	settings := controllerstest.Settings()
	clock := &shiftedClock{}
	stop := startAt(t, settings, clock)
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	misbehave(t, server, bmctest.RefusesBootMode, -1)
	register(t, server)
	claim := claimed(t, server, "m1")
	g.Expect(waitForOverride(t, server, 1).Method).To(Equal("NoMode"))
	observeStage(t, server, v1alpha1.StageDHCP)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.BMC.BootOverride.Worked).To(BeTrue()) })
	clock.forward(settings.BootTimeout)
	g.Expect(waitForOverride(t, server, 2).Method).To(Equal("NoMode"))
	observeStage(t, server, v1alpha1.StageScript)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.BMC.BootOverride.Worked).To(BeTrue()) })

	worked := &v1alpha1.BootOverrideStatus{Boot: 2, Target: "PXE", Method: "NoMode", Worked: true}
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.Override().Target).To(Equal(bmc.BootNone))
	g.Expect(server.Host.Status.BMC.BootOverride).To(Equal(worked))

	claim = claimed(t, server, "m2")
	g.Expect(waitForOverride(t, server, 3).Method).To(Equal("NoMode"))
	observeStage(t, server, v1alpha1.StageScript)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.BMC.BootOverride.Worked).To(BeTrue()) })
	stop()
	clock.forward(settings.BootTimeout)
	defer startAt(t, settings, clock)()
	g.Expect(waitForOverride(t, server, 4).Method).To(Equal("NoMode"))
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, phase(v1alpha1.PhaseAvailable))
}

// TestCleanUpRefused: a host is released even if its BMC refuses to clear the override, and says so. The media are still ejected.
func TestCleanUpRefused(t *testing.T) {
	for name, fault := range map[string]bmctest.Fault{"with an error": bmctest.ETagStorm, "by doing nothing": bmctest.IgnoresOverride} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			defer start(t)()
			server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
			misbehave(t, server, bmctest.OverrideNeverResets, -1)
			register(t, server)
			claim := claimed(t, server, "m")
			waitForOverride(t, server, 1)
			insertMedia(t, server)
			misbehave(t, server, fault, -1)
			g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
			wait(t, server, phase(v1alpha1.PhaseAvailable))
			g.Expect(server.Override().Target).To(Equal(bmc.BootPXE))
			g.Expect(server.Image()).To(BeEmpty())
			g.Expect(server.Host.Status.LastOperation.Name).To(Equal("CleanUp"))
			g.Expect(server.Host.Status.LastOperation.Outcome).To(Equal(v1alpha1.OperationFailed))
			g.Expect(server.Host.Status.LastOperation.Message).NotTo(BeEmpty())
			g.Expect(conditions.IsTrue(server.Host, v1alpha1.BMCReadyCondition)).To(BeTrue())
		})
	}
}

// insertMedia inserts virtual media, as a user would.
func insertMedia(t *testing.T, server *controllerstest.Server) {
	t.Helper()
	g := NewWithT(t)
	address, err := url.Parse(server.Host.Spec.BMC.Address)
	g.Expect(err).NotTo(HaveOccurred())
	user, err := (&redfish.Driver{Permit: bmctest.Loopback}).Open(t.Context(),
		bmc.Endpoint{URL: address, Username: controllerstest.Username, Password: controllerstest.Password})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(user.(bmc.VirtualMedia).InsertMedia(t.Context(), "http://192.0.2.1/image.iso")).To(Succeed())
}
