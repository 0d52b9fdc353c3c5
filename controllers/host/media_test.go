package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
)

// mediumSecret is the part of the tokens of media that must appear nowhere except at the BMC.
const mediumSecret = "Secret-t0ken_of-a-medium"

// mediumOf is the URL of the boot medium of a boot.
func mediumOf(server *controllerstest.Server, number int32) string {
	return fmt.Sprintf("http://192.0.2.1/media/%s/%s/%s%d/boot.iso", server.Host.Namespace, server.Host.Name, mediumSecret, number)
}

// methodTimeout is how long the request of a method may take.
const methodTimeout = time.Minute

// startWithMedia runs the host controller of a provider that offers boot media. recorded are its events.
func startWithMedia(t *testing.T, clock *shiftedClock) (stop func(), recorded *events.FakeRecorder) {
	t.Helper()
	settings := controllerstest.Settings()
	settings.MethodTimeout, settings.BootTimeout = methodTimeout, 5*time.Minute
	recorded = events.NewFakeRecorder(1000)
	return startReconciler(t, &host.Reconciler{
		Settings: settings, Clock: clock, Recorder: recorded, MediaURLs: host.MediaURLs{{URL: "http://192.0.2.1"}},
		MediaToken: func(_ context.Context, b *v1alpha1.BareMetalBoot) (string, error) {
			return fmt.Sprintf("%s%d", mediumSecret, b.Spec.Number), nil
		},
	}), recorded
}

// mediaServer registers a server with boot methods, and gives it to a machine.
func mediaServer(t *testing.T, methods ...v1alpha1.BootMethod) (*controllerstest.Server, *controllerstest.Claim) {
	t.Helper()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	server.Host.Spec.BootMethods = methods
	register(t, server)
	return server, claimed(t, server, "m")
}

// waitForBoot waits until a boot has this number and method, and its server is on.
func waitForBoot(t *testing.T, server *controllerstest.Server, number int32, method v1alpha1.BootMethod) *v1alpha1.BareMetalBoot {
	t.Helper()
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		boot := controllerstest.BootOf(t, env, server.Host)
		g.Expect(boot).NotTo(BeNil())
		g.Expect(boot.Spec.Number).To(Equal(number), conditions.GetMessage(h, v1alpha1.BootedCondition))
		g.Expect(boot.Spec.Method).To(Equal(method))
		g.Expect(boot.Spec.PoweredOnTime).NotTo(BeNil())
		g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOn))
	})
	return bootOf(t, server)
}

// expectNoSecret expects that no token of a medium is in the objects of a namespace or in the events.
func expectNoSecret(t *testing.T, server *controllerstest.Server, recorded *events.FakeRecorder) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), server.Host)).To(Succeed())
	g.Expect(fmt.Sprintf("%+v %+v", server.Host, bootOf(t, server))).NotTo(ContainSubstring(mediumSecret))
	for len(recorded.Events) > 0 {
		g.Expect(<-recorded.Events).NotTo(ContainSubstring(mediumSecret))
	}
}

// TestVirtualMedia: the medium of the boot is inserted while the server is off, and the server boots from it once. When its agent is done, the medium is ejected, and the
// override is gone. The method is remembered.
func TestVirtualMedia(t *testing.T) {
	g := NewWithT(t)
	stop, recorded := startWithMedia(t, &shiftedClock{})
	defer stop()
	server, claim := mediaServer(t, v1alpha1.MethodVirtualMedia)
	waitForBoot(t, server, 1, v1alpha1.MethodVirtualMedia)
	g.Expect(server.Image()).To(Equal(mediumOf(server, 1)))
	g.Expect(server.CommandNames()).To(Equal([]string{"Media=" + mediumOf(server, 1), "Boot=CD", "On"}))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.BMC.BootOverride).To(Equal(&v1alpha1.BootOverrideStatus{Boot: 1, BootMethod: v1alpha1.MethodVirtualMedia, Target: "CD", Method: "Plain"}))
		g.Expect(conditions.GetReason(h, v1alpha1.BootProgressCondition)).To(Equal(v1alpha1.ReasonWaitingForMedia))
		g.Expect(conditions.GetMessage(h, v1alpha1.BootProgressCondition)).To(HavePrefix("Boot attempt 1 (VirtualMedia). The server was powered on. Awaited until"))
	})
	observeStage(t, server, v1alpha1.StageMedia)
	wait(t, server, reason(v1alpha1.BootProgressCondition, v1alpha1.ReasonWaitingForMediaBoot))
	observeStage(t, server, v1alpha1.StageAgent)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.BMC.BootOverride.Worked).To(BeTrue()) })
	g.Expect(server.Image()).To(Equal(mediumOf(server, 1)), "it is not ejected while the system on it starts")

	controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) {
		now := metav1.Now()
		b.DataAddress, b.DataServedTime = "192.0.2.7", &now
	})
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.LastOperation).To(HaveValue(And(HaveField("Name", "EjectMedia"), HaveField("Outcome", v1alpha1.OperationSucceeded))))
	})
	g.Expect(server.Image()).To(BeEmpty())
	expectNoSecret(t, server, recorded)

	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	expectNoSecret(t, server, recorded)
}

// TestBootURL: the firmware is given the URL of the medium of the boot.
func TestBootURL(t *testing.T) {
	g := NewWithT(t)
	stop, recorded := startWithMedia(t, &shiftedClock{})
	defer stop()
	server, _ := mediaServer(t, v1alpha1.MethodUefiHTTP)
	misbehave(t, server, bmctest.OverrideNeverResets, -1)
	waitForBoot(t, server, 1, v1alpha1.MethodUefiHTTP)
	g.Expect(server.Override()).To(Equal(bmc.BootOverride{Target: bmc.BootHTTP, Mode: bmc.BootUEFI, URI: mediumOf(server, 1)}))
	g.Expect(server.CommandNames()).To(Equal([]string{"Boot=HTTP", "On"}))
	expectNoSecret(t, server, recorded)
}

// TestMethodFallsBack: a server that requests nothing by PXE is powered off and booted from virtual media, although the boot has an attempt by PXE left. After that
// also fails, the boot has failed, and the failure says that the medium was never requested. The release ejects it.
func TestMethodFallsBack(t *testing.T) {
	g := NewWithT(t)
	clock := &shiftedClock{}
	stop, recorded := startWithMedia(t, clock)
	defer stop()
	server, claim := mediaServer(t, v1alpha1.MethodPXE, v1alpha1.MethodVirtualMedia)
	waitForBoot(t, server, 1, v1alpha1.MethodPXE)
	clock.forward(methodTimeout)
	waitForBoot(t, server, 2, v1alpha1.MethodVirtualMedia)
	g.Eventually(server.CommandNames).Should(Equal([]string{"Boot=PXE", "On", "ForceOff", "Media=" + mediumOf(server, 2), "Boot=CD", "On"}))
	var given []string
	for len(recorded.Events) > 0 {
		if e := <-recorded.Events; strings.Contains(e, "BootStarted") {
			given = append(given, e)
		}
	}
	g.Expect(given).To(ContainElement(ContainSubstring("Boot attempt 2 (VirtualMedia) begins. 1m0s after the server was powered on in attempt 1: the server requested no boot file (DHCP)")))

	clock.forward(methodTimeout)
	g.Consistently(func() int32 { return bootOf(t, server).Spec.Number }, time.Second, 100*time.Millisecond).Should(Equal(int32(2)), "no method is left, so it has its whole time")
	clock.forward(5 * time.Minute)
	wait(t, server, phase(v1alpha1.PhaseBootFailed))
	g.Expect(bootOf(t, server).Spec.Failure.Message).To(ContainSubstring("the BMC never requested the boot medium from http://192.0.2.1: check that it reaches that URL"))
	expectNoSecret(t, server, recorded)
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.Image()).To(BeEmpty())
	g.Expect(server.Override().Target).To(Equal(bmc.BootNone))
}

// TestMethodRefused: a BMC that cannot insert a medium is left for the next method at once. The BMC stays ready.
func TestMethodRefused(t *testing.T) {
	g := NewWithT(t)
	stop, recorded := startWithMedia(t, &shiftedClock{})
	defer stop()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	server.Host.Spec.BootMethods = []v1alpha1.BootMethod{v1alpha1.MethodVirtualMedia, v1alpha1.MethodPXE}
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	misbehave(t, server, bmctest.NoMedia, -1)
	claimed(t, server, "m")
	boot := waitForBoot(t, server, 2, v1alpha1.MethodPXE)
	g.Expect(boot.Spec.Attempt).To(Equal(int32(2)))
	g.Expect(server.CommandNames()).To(Equal([]string{"Boot=PXE", "On"}))
	g.Expect(conditions.IsTrue(server.Host, v1alpha1.BMCReadyCondition)).To(BeTrue())
	expectNoSecret(t, server, recorded)
}

// TestMediumStaysInDrive: a host whose medium cannot be ejected at the release goes into quarantine.
func TestMediumStaysInDrive(t *testing.T) {
	g := NewWithT(t)
	stop, recorded := startWithMedia(t, &shiftedClock{})
	defer stop()
	server, claim := mediaServer(t, v1alpha1.MethodVirtualMedia)
	waitForBoot(t, server, 1, v1alpha1.MethodVirtualMedia)
	misbehave(t, server, bmctest.EjectFails, -1)
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, server, phase(v1alpha1.PhaseQuarantined))
	g.Expect(server.Host.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonCleaningFailed))
	expectNoSecret(t, server, recorded)
}

// TestNoMediaOffered: a host that boots from media only is not offered by a provider without them, and says why.
func TestNoMediaOffered(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	server.Host.Spec.BootMethods = []v1alpha1.BootMethod{v1alpha1.MethodVirtualMedia}
	register(t, server)
	wait(t, server, reason(v1alpha1.VerifiedCondition, v1alpha1.ReasonCapabilityMissing))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.VerifiedCondition)).To(ContainSubstring("--boot-media-url"))
	g.Expect(server.Host.Status.Phase).NotTo(Equal(v1alpha1.PhaseAvailable))
}

// TestOldMediumIsRemoved: before an attempt by PXE, the medium of the attempt before is ejected, or its URL is removed.
func TestOldMediumIsRemoved(t *testing.T) {
	for method, want := range map[v1alpha1.BootMethod]func(*controllerstest.Server) []string{
		v1alpha1.MethodVirtualMedia: func(s *controllerstest.Server) []string {
			return []string{"Media=" + mediumOf(s, 1), "Boot=CD", "On", "ForceOff", "Media=", "Boot=PXE", "On"}
		},
		v1alpha1.MethodUefiHTTP: func(*controllerstest.Server) []string {
			return []string{"Boot=HTTP", "On", "ForceOff", "Boot=None", "Boot=PXE", "On"}
		},
	} {
		t.Run(string(method), func(t *testing.T) {
			g := NewWithT(t)
			clock := &shiftedClock{}
			stop, recorded := startWithMedia(t, clock)
			defer stop()
			server, _ := mediaServer(t, method, v1alpha1.MethodPXE)
			waitForBoot(t, server, 1, method)
			clock.forward(methodTimeout)
			waitForBoot(t, server, 2, v1alpha1.MethodPXE)
			g.Eventually(server.CommandNames).Should(Equal(want(server)))
			g.Expect(server.Image()).To(BeEmpty())
			expectNoSecret(t, server, recorded)
		})
	}
}
