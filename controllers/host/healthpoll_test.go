package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestHealthOverTime: a power supply that fails is in the condition, in an event and in the log of the status, and a recovery is seen. The host stays available meanwhile: the health is a report.
func TestHealthOverTime(t *testing.T) {
	g := NewWithT(t)
	settings := controllerstest.Settings()
	settings.HealthInterval = 200 * time.Millisecond
	defer startWith(t, settings)()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	before := server.Requests()
	g.Eventually(server.Requests, "10s").Should(BeNumerically(">", before+20), "it is polled")

	server.SetHealth(bmctest.PartPowerSupply, bmc.HealthWarning)
	wait(t, server, reason(v1alpha1.HardwareHealthyCondition, v1alpha1.ReasonPowerSupplyUnhealthy))
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	server.SetHealth(bmctest.PartPowerSupply, bmc.HealthCritical)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Health).NotTo(BeNil())
		g.Expect(h.Status.Health.Parts).To(Equal([]v1alpha1.UnhealthyPart{
			{Class: v1alpha1.PartPowerSupply, Name: bmctest.PartPowerSupply, Model: "P800", Health: "Critical"},
		}))
		g.Expect(h.Status.Health.Log).NotTo(BeEmpty())
		g.Expect(h.Status.LastOperation.Name).To(Equal("Inspect"), "a recurring reading is no operation")
	})
	server.SetHealth(bmctest.PartPowerSupply, bmc.HealthOK)
	wait(t, server, reason(v1alpha1.HardwareHealthyCondition, v1alpha1.ReasonHardwareOK))
	g.Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
		count := map[string]int{}
		for i := range all.Items {
			count[all.Items[i].Reason]++
		}
		g.Expect(count).To(HaveKeyWithValue(controllers.EventHardwareUnhealthy, BeNumerically(">=", 2)))
		g.Expect(count).To(HaveKeyWithValue(controllers.EventHardwareHealthy, 1))
		g.Expect(count).To(HaveKeyWithValue(controllers.EventBMCLogEntry, BeNumerically(">=", 2)))
	}, "30s").Should(Succeed())
	g.Expect(server.CommandNames()).To(BeEmpty(), "the health commands nothing")
}

// TestHealthAtRest: readings of the health write nothing, also not those of the next process.
func TestHealthAtRest(t *testing.T) {
	g := NewWithT(t)
	settings := controllerstest.Settings()
	settings.HealthInterval = 100 * time.Millisecond
	stop := startWith(t, settings)
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	server.Log(bmc.HealthCritical, "from before")
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Health).NotTo(BeNil()) })
	version := func() string {
		g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), server.Host)).To(Succeed())
		return server.Host.ResourceVersion
	}
	before, requests := version(), server.Requests()
	g.Consistently(version, time.Second, 50*time.Millisecond).Should(Equal(before))
	g.Expect(server.Requests()).To(BeNumerically(">", requests+10))
	stop()
	defer startWith(t, settings)()
	g.Consistently(version, 2*time.Second, 50*time.Millisecond).Should(Equal(before))
}
