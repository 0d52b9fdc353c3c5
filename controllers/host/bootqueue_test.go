package host_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// rack is the servers of a failure domain, each claimed by a machine, with the limit of those that boot at once.
type rack struct {
	limit   int
	servers []*controllerstest.Server
}

func newRack(t *testing.T, limit int, domain string) *rack {
	t.Helper()
	r := &rack{limit: limit}
	namespace := env.Namespace(t)
	for i := range 5 {
		server := controllerstest.NewServer(t, namespace, fmt.Sprintf("h%d", i), bmctest.Options{})
		server.Host.Spec.FailureDomain = domain
		register(t, server)
		r.servers = append(r.servers, server)
	}
	return r
}

func (r *rack) settings() lifecycle.Settings {
	s := controllerstest.Settings()
	s.BootConcurrency = r.limit
	return s
}

func (r *rack) claim(t *testing.T) {
	t.Helper()
	for i, server := range r.servers {
		claimed(t, server, fmt.Sprintf("m%d", i))
	}
}

// booting returns the hosts that boot.
func (r *rack) booting(g Gomega) []string {
	var boots v1alpha1.BareMetalBootList
	g.Expect(env.Client.List(context.Background(), &boots, client.InNamespace(r.servers[0].Host.Namespace))).To(Succeed())
	names := []string{}
	for i := range boots.Items {
		b := &boots.Items[i]
		err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(b), &v1alpha1.BareMetalHost{})
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		if err == nil && b.Spec.Number > 0 && b.Spec.ReportedTime == nil && b.Spec.VoidedTime == nil {
			names = append(names, b.Name)
		}
	}
	return names
}

// comesTo waits until these hosts boot, and checks that never more do than the limit. The time is shorter than the interval of queued hosts: events have to enqueue them.
func (r *rack) comesTo(t *testing.T, names ...string) {
	t.Helper()
	most := 0
	NewWithT(t).Eventually(func(g Gomega) {
		now := r.booting(g)
		most = max(most, len(now))
		g.Expect(now).To(ConsistOf(names))
	}, 20*time.Second, 20*time.Millisecond).Should(Succeed())
	NewWithT(t).Expect(most).To(BeNumerically("<=", r.limit))
}

// reports lets a server report in.
func (r *rack) reports(t *testing.T, name string) {
	t.Helper()
	i := slices.IndexFunc(r.servers, func(s *controllerstest.Server) bool { return s.Host.Name == name })
	controllerstest.ModifyBoot(t, env, r.servers[i].Host, func(b *v1alpha1.BareMetalBootSpec) {
		b.DataServedTime, b.ReportedTime = new(metav1.Now()), new(metav1.Now())
	})
}

func waits(g Gomega, h *v1alpha1.BareMetalHost) {
	g.Expect(h.Spec.ProviderState.Boots).To(BeZero())
	g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseClaimed))
	for _, kind := range []string{v1alpha1.BootedCondition, v1alpha1.ReadyCondition} {
		g.Expect(conditions.GetReason(h, kind)).To(Equal(v1alpha1.ReasonWaitingForBootSlot))
		g.Expect(conditions.GetMessage(h, kind)).To(MatchRegexp(`^Number [1-5] in the boot queue: [12] hosts of failure domain "rack-[a-z]+" boot`))
	}
}

// TestBootQueue: of five hosts of a failure domain two boot at once, and the next one as soon as one of them is done. A queued host says so, gets no command and is
// not written. A new manager knows the hosts that boot; only one host is queued then, because the queue is built while the BMCs are asked.
func TestBootQueue(t *testing.T) {
	g := NewWithT(t)
	r := newRack(t, 2, "rack-queue")
	stop := startWith(t, r.settings())
	r.claim(t)
	r.comesTo(t, "h0", "h1")
	for _, server := range r.servers[2:] {
		wait(t, server, waits)
	}
	last := r.servers[4].Host
	reads := func() string {
		g.Expect(env.Client.Get(t.Context(), keyOf(last), last)).To(Succeed())
		return last.ResourceVersion
	}
	g.Consistently(reads, time.Second, 50*time.Millisecond).Should(Equal(reads()), "its power is read now and then, and nothing is written")
	g.Expect(r.servers[4].CommandNames()).To(BeEmpty())

	r.reports(t, "h1")
	r.comesTo(t, "h0", "h2")
	r.reports(t, "h0")
	r.comesTo(t, "h2", "h3")
	stop()
	r.reports(t, "h2")
	defer startWith(t, r.settings())()
	r.comesTo(t, "h3", "h4")
}

// TestBootQueueIsNotBlocked: a host that cannot start its boot blocks no other host, and boots when it can.
func TestBootQueueIsNotBlocked(t *testing.T) {
	g := NewWithT(t)
	r := newRack(t, 1, "rack-pass")
	defer startWith(t, r.settings())()
	r.claim(t)
	r.comesTo(t, "h0")
	for _, server := range r.servers[1:] {
		wait(t, server, waits)
	}
	paused, dead := r.servers[1], r.servers[2]
	controllerstest.Modify(t, env, paused.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	wait(t, paused, reason(v1alpha1.BootedCondition, v1alpha1.ReasonPaused))
	misbehave(t, dead, bmctest.Down, -1)
	// The last reading of the power still counts until the BMC has failed: the host would start.
	wait(t, dead, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.IsFalse(h, v1alpha1.BMCReadyCondition)).To(BeTrue())
	})
	r.reports(t, "h0")
	r.comesTo(t, "h3")
	wait(t, dead, reason(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForBMC))

	// The slot of a host that is deleted goes to the next, which is now the one that was paused: its machine is the oldest.
	controllerstest.Modify(t, env, paused.Host, func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, clusterv1.PausedAnnotation) })
	wait(t, paused, waits)
	controllerstest.Modify(t, env, r.servers[3].Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations[v1alpha1.DetachedAnnotation] = "a test"
	})
	g.Expect(env.Client.Delete(t.Context(), r.servers[3].Host)).To(Succeed())
	r.comesTo(t, "h1")

	// A host that boots, and whose failure domain changes, has its slot in the new one.
	misbehave(t, dead, bmctest.Down, 0)
	wait(t, dead, waits)
	controllerstest.Modify(t, env, paused.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = "rack-elsewhere" })
	r.limit = 2
	r.comesTo(t, "h1", "h2")
	wait(t, r.servers[4], waits)
	r.reports(t, "h2")
	r.comesTo(t, "h1", "h4")
}

// TestLimitedStart: a host that asks while many others start their boots waits until their time is over, and starts without an event. A server that a person powers on in the meantime is not booted.
func TestLimitedStart(t *testing.T) {
	g := NewWithT(t)
	r := &host.Reconciler{Settings: controllerstest.Settings(), Clock: &shiftedClock{}}
	defer startReconciler(t, r)()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	used := controllerstest.NewServer(t, namespace, "used", bmctest.Options{})
	for _, s := range []*controllerstest.Server{server, used} {
		register(t, s)
		wait(t, s, phase(v1alpha1.PhaseAvailable))
	}
	spent := time.Now()
	r.SpendStarts(spent)
	claimed(t, server, "m")
	claimed(t, used, "n")
	g.Eventually(func() int { return r.WaitingStarts(time.Now()) }).Should(Equal(2))
	used.SetPower(true)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.ProviderState.Boots).To(BeEquivalentTo(1)) })
	g.Expect(bootOf(t, server).Spec.StartTime.Time).To(BeTemporally(">=", spent.Add(3*time.Second)), "in whole seconds")
	wait(t, used, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.BootedCondition)).To(ContainSubstring("it may be in use"))
		g.Expect(h.Spec.ProviderState.Boots).To(BeZero())
	})
}
