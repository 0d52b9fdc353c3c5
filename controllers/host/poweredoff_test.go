package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestPowerLost: a server of a machine on disk that loses its power is reported once, also after a restart of the provider, and gets no command. It is Ready when it is on again.
func TestPowerLost(t *testing.T) {
	g := NewWithT(t)
	clock := &shiftedClock{}
	stop := startAt(t, controllerstest.Settings(), clock)
	server, _ := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	wait(t, server, reason(v1alpha1.HardwareHealthyCondition, v1alpha1.ReasonHardwareOK))

	server.SetPower(false)
	lost := clock.Now()
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff)) })
	g.Expect(conditions.IsTrue(server.Host, v1alpha1.ReadyCondition)).To(BeTrue(), "one witness alone")
	clock.forward(5 * time.Minute) // no Node could be read meanwhile
	off := func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseProvisioned))
		reason(v1alpha1.BootedCondition, v1alpha1.ReasonPoweredOff)(g, h)
		reason(v1alpha1.ReadyCondition, v1alpha1.ReasonPoweredOff)(g, h)
		g.Expect(h.Status.PoweredOffTime).NotTo(BeNil())
		g.Expect(h.Status.PoweredOffTime.Time).To(BeTemporally("~", lost, 10*time.Second))
	}
	wait(t, server, off)

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
	expectEvents(t, server.Host.Namespace, controllers.EventRegistered, controllers.EventPoweredOff, controllers.EventPowerReturned)
}
