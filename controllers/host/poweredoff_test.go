package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestPowerLost: a server of a machine on disk that loses its power is reported once, also after a restart of the provider, and gets no command. It stays Ready while the BMC is the
// only witness, and is Ready when it is on again.
func TestPowerLost(t *testing.T) {
	g := NewWithT(t)
	clock := &shiftedClock{}
	stop := startAt(t, controllerstest.Settings(), clock)
	server, _ := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	wait(t, server, reason(v1alpha1.HardwareHealthyCondition, v1alpha1.ReasonHardwareOK))

	boot := controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) {
		b.DataAddress, b.DataServedTime = "192.0.2.9", new(metav1.NewTime(clock.Now().Add(-time.Hour)))
	})

	server.SetPower(false)
	lost := clock.Now()
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff)) })
	clock.forward(5 * time.Minute)
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonPowerUnconfirmed))
	for _, kind := range []string{v1alpha1.BootedCondition, v1alpha1.ReadyCondition} {
		g.Expect(conditions.IsTrue(server.Host, kind)).To(BeTrue(), "one witness alone")
	}
	node := &v1alpha1.ObservedNode{Name: "n", Number: boot.Spec.Number, Readiness: v1alpha1.NodeNotReady, ReadinessTime: new(metav1.NewTime(clock.Now()))}
	g.Expect(controllers.ApplyNode(t.Context(), env.Client, boot, node, controllers.NewStage(boot, v1alpha1.StageNode))).To(Succeed())
	off := func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseProvisioned))
		reason(v1alpha1.BootedCondition, v1alpha1.ReasonPoweredOff)(g, h)
		reason(v1alpha1.ReadyCondition, v1alpha1.ReasonPoweredOff)(g, h)
		g.Expect(h.Status.PoweredOffTime).NotTo(BeNil())
		g.Expect(h.Status.PoweredOffTime.Time).To(BeTemporally("~", lost, 10*time.Second))
	}
	wait(t, server, off)
	events := []string{controllers.EventRegistered, controllers.EventPowerUnconfirmed, controllers.EventPoweredOff}
	expectEvents(t, server.Host.Namespace, events...) // an event follows its status: a provider that stops in between does not send it

	stop()
	before := server.Host.ResourceVersion
	defer startAt(t, controllerstest.Settings(), clock)()
	g.Consistently(func() string {
		g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), server.Host)).To(Succeed())
		return server.Host.ResourceVersion
	}, 2*time.Second, 50*time.Millisecond).Should(Equal(before), "a restart proves nothing")

	server.SetPower(true)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.IsTrue(h, v1alpha1.ReadyCondition)).To(BeTrue())
		g.Expect(h.Status.PoweredOffTime).To(BeNil())
	})
	g.Expect(server.CommandNames()).To(BeEmpty())
	expectEvents(t, server.Host.Namespace, append(events, controllers.EventPowerReturned)...)
}
