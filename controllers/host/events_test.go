package host_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
)

// startTelling runs the host controller with events, and returns a function that stops it.
func startTelling(t *testing.T) func() {
	t.Helper()
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: (&redfish.Driver{Permit: bmctest.Loopback}).Driver()}, bmc.PoolOptions{})
	stop := env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		return (&host.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Pool: pool, Settings: controllerstest.Settings(), Recorder: mgr.GetEventRecorder("capbm-host"),
		}).SetupWithManager(ctx, mgr, controller.Options{})
	})
	return func() {
		stop()
		pool.Close()
	}
}

// toldAbout waits until the events of a namespace are these, in their order and each once.
func toldAbout(t *testing.T, namespace string, want ...string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
		slices.SortFunc(all.Items, func(a, b eventsv1.Event) int { return cmp.Compare(a.EventTime.UnixNano(), b.EventTime.UnixNano()) })
		reasons := []string{}
		for i := range all.Items {
			reasons = append(reasons, all.Items[i].Reason)
			g.Expect(all.Items[i].Series).To(BeNil(), "told twice: "+all.Items[i].Note)
		}
		g.Expect(reasons).To(Equal(want))
	}, 30*time.Second, 100*time.Millisecond).Should(Succeed())
}

// TestStoryAcrossRestarts: a restart, and looks at a host at rest, tell nothing again; what people do to it, and what becomes of its BMC, is told once.
func TestStoryAcrossRestarts(t *testing.T) {
	stop := startTelling(t)
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	toldAbout(t, namespace, "Registered")
	stop()
	stop = startTelling(t)
	misbehave(t, server, bmctest.Down, -1)
	wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonBMCUnreachable))
	toldAbout(t, namespace, "Registered", "BMCNotReady")
	stop()
	defer startTelling(t)()
	misbehave(t, server, bmctest.Down, 0)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "anna replaces a fan"}
	})
	wait(t, server, phase(v1alpha1.PhaseMaintenance))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Maintenance, h.Spec.Quarantine = nil, &v1alpha1.Quarantine{Reason: "Smoke", Message: "bob saw smoke"}
	})
	wait(t, server, phase(v1alpha1.PhaseQuarantined))
	toldAbout(t, namespace, "Registered", "BMCNotReady", "BMCReady", "MaintenanceStarted", "MaintenanceEnded", "Quarantined")
}

// TestStoryOfAHold: who holds a running server off, and how it comes back, is told.
func TestStoryOfAHold(t *testing.T) {
	defer startTelling(t)()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true})
	claim := env.NewClaim(t, namespace, "m")
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://" + namespace + "/h/m" })
	server.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	toldAbout(t, namespace, "Registered")
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.ForcePowerHoldPrefix + "anna": "a new fan"}
	})
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.PowerHoldOffAt).NotTo(BeNil()) })
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.PowerHoldSince).To(BeNil()) })
	toldAbout(t, namespace, "Registered", "PowerHoldStarted", "ForceOff", "PowerHoldOff", "PowerHoldEnded", "PowerOn", "PowerRestored")
}
