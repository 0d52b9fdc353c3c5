package host_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// rackOf starts servers of one failure domain that run machines, and are to be powered on after an outage.
func rackOf(t *testing.T, count int) []*controllerstest.Server {
	t.Helper()
	namespace := env.Namespace(t)
	servers := make([]*controllerstest.Server, count)
	for i := range servers {
		name := fmt.Sprintf("h-%d", i)
		servers[i] = controllerstest.NewServer(t, namespace, name, bmctest.Options{On: true})
		spec := &servers[i].Host.Spec
		spec.ConsumerRef, spec.FailureDomain, spec.WhenPoweredOff = controllerstest.Claimed("m-"+name), "rack-1", v1alpha1.WhenPoweredOffPowerOn
		env.NewClaim(t, namespace, "m-"+name, func(c *controllerstest.Claim) {
			c.BareMetalMachine.Finalizers = []string{v1alpha1.MachineFinalizer}
			c.BareMetalMachine.Spec.ProviderID = inventory.ProviderID(namespace, name, "m-"+name)
		})
		register(t, servers[i])
	}
	for _, server := range servers {
		wait(t, server, phase(v1alpha1.PhaseProvisioned))
		wait(t, server, reason(v1alpha1.HardwareHealthyCondition, v1alpha1.ReasonHardwareOK))
	}
	return servers
}

// observeNode records what the Node of a server says.
func observeNode(t *testing.T, server *controllerstest.Server, readiness v1alpha1.NodeReadiness, at time.Time) {
	t.Helper()
	boot := controllerstest.ModifyBoot(t, env, server.Host, func(*v1alpha1.BareMetalBootSpec) {})
	node := &v1alpha1.ObservedNode{Name: server.Host.Name, Number: boot.Spec.Number, Readiness: readiness, ReadinessTime: new(metav1.NewTime(at))}
	NewWithT(t).Expect(controllers.ApplyNode(t.Context(), env.Client, boot, node, controllers.NewStage(boot, v1alpha1.StageNode))).To(Succeed())
}

func loses(t *testing.T, server *controllerstest.Server, at time.Time) {
	t.Helper()
	server.SetPower(false)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff)) })
	observeNode(t, server, v1alpha1.NodeNotReady, at)
}

// TestPowerOnAfterOutage: a server whose neighbours run is not powered on. When all have lost their power, each is powered on once, with as many boot slots as there are, also
// after a restart of the provider in between.
func TestPowerOnAfterOutage(t *testing.T) {
	g := NewWithT(t)
	clock := &shiftedClock{}
	settings := controllerstest.Settings()
	settings.BootConcurrency = 1
	stop := startAt(t, settings, clock)
	servers := rackOf(t, 2)
	for _, server := range servers {
		controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) {
			b.DataAddress, b.DataServedTime = "192.0.2.9", new(metav1.NewTime(clock.Now().Add(-time.Hour)))
		})
	}
	message := func(text string) func(Gomega, *v1alpha1.BareMetalHost) {
		return func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(conditions.GetMessage(h, v1alpha1.BootedCondition)).To(ContainSubstring(text))
		}
	}
	loses(t, servers[0], clock.Now())
	clock.forward(6 * time.Minute)
	wait(t, servers[0], message(`1 other servers of failure domain "rack-1" did not lose their power`))
	g.Expect(servers[0].CommandNames()).To(BeEmpty())

	loses(t, servers[1], clock.Now())
	clock.forward(6 * time.Minute)
	for i, server := range servers { // their timers run by the real clock
		controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"reconcile": strconv.Itoa(i)} })
	}
	var first, second *controllerstest.Server
	g.Eventually(func(g Gomega) {
		first, second = servers[0], servers[1]
		if len(second.CommandNames()) > 0 {
			first, second = second, first
		}
		g.Expect(first.CommandNames()).To(Equal([]string{"On"}))
	}, 30*time.Second, 50*time.Millisecond).Should(Succeed())
	wait(t, second, message("Number 1 in the boot queue"))
	stop()
	defer startAt(t, settings, clock)()
	wait(t, first, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.PowerRestore).NotTo(BeNil())
		g.Expect(h.Status.PowerRestore.Servers).To(BeEquivalentTo(2))
		g.Expect(h.Status.PowerRestore.PowerOns).To(BeEquivalentTo(1))
		g.Expect(conditions.IsTrue(h, v1alpha1.ReadyCondition)).To(BeTrue())
	})
	g.Consistently(second.CommandNames, time.Second, 50*time.Millisecond).Should(BeEmpty(), "the other one has the slot")

	observeNode(t, first, v1alpha1.NodeReady, clock.Now().Add(time.Second))
	wait(t, second, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(second.CommandNames()).To(Equal([]string{"On"}))
		g.Expect(conditions.IsTrue(h, v1alpha1.ReadyCondition)).To(BeTrue())
	})
	wait(t, first, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.PowerRestore.EndTime).NotTo(BeNil()) })
	g.Expect(first.CommandNames()).To(Equal([]string{"On"}))
}
