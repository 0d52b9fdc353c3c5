package host_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// expectEvents waits until the events of a namespace have these reasons, in this order, each once.
func expectEvents(t *testing.T, namespace string, want ...string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
		slices.SortFunc(all.Items, func(a, b eventsv1.Event) int { return cmp.Compare(a.EventTime.UnixNano(), b.EventTime.UnixNano()) })
		reasons := []string{}
		for i := range all.Items {
			if all.Items[i].Reason != controllers.EventPreflightWarnings { // the emulated BMCs have no TLS
				reasons = append(reasons, all.Items[i].Reason)
			}
			g.Expect(all.Items[i].Series).To(BeNil(), "recorded twice: "+all.Items[i].Note)
		}
		g.Expect(reasons).To(Equal(want))
	}, 30*time.Second, 100*time.Millisecond).Should(Succeed())
}

// TestEventsAcrossRestarts: restarts and reconciles of a host at rest record no event again. User actions and changes of the BMC are recorded once.
func TestEventsAcrossRestarts(t *testing.T) {
	stop := start(t)
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	expectEvents(t, namespace, "Registered")
	stop()
	stop = start(t)
	misbehave(t, server, bmctest.Down, -1)
	wait(t, server, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonBMCUnreachable))
	expectEvents(t, namespace, "Registered", "BMCNotReady")
	stop()
	defer start(t)()
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
	expectEvents(t, namespace, "Registered", "BMCNotReady", "BMCReady", "MaintenanceStarted", "MaintenanceEnded", "Quarantined")
}

// TestEventsOfAPowerHold: events show who keeps a running server powered off, and how it is powered on again.
func TestEventsOfAPowerHold(t *testing.T) {
	defer start(t)()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true})
	claim := env.NewClaim(t, namespace, "m")
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://" + namespace + "/h/m" })
	server.Host.Spec.ConsumerRef = controllerstest.Claimed("m")
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	expectEvents(t, namespace, "Registered")
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.ForcePowerHoldPrefix + "anna": "a new fan"}
	})
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).NotTo(BeNil())
	})
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldStartTime).To(BeNil())
	})
	expectEvents(t, namespace, "Registered", "PowerHoldStarted", "ForceOff", "PowerHoldOff", "PowerHoldEnded", "PowerRestored")
}
