package remediation_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/remediation"
)

// staleCache shows a former version of a remediation or a host.
type staleCache struct {
	client.Client
	remediation *v1alpha1.BareMetalRemediation
	host        *v1alpha1.BareMetalHost
}

func (l *staleCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if r, ok := o.(*v1alpha1.BareMetalRemediation); ok && l.remediation != nil {
		l.remediation.DeepCopyInto(r)
		return nil
	}
	return l.Client.Get(ctx, key, o, opts...)
}

func (l *staleCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if hosts, ok := list.(*v1alpha1.BareMetalHostList); ok && l.host != nil {
		hosts.Items = []v1alpha1.BareMetalHost{*l.host.DeepCopy()}
		return nil
	}
	return l.Client.List(ctx, list, opts...)
}

// stepper is a fixture for which only the remediation controller runs, step by step.
type stepper struct {
	*fixture
	cache *staleCache
	r     *remediation.Reconciler
}

func newStepper(t *testing.T, changes ...func(*fixture)) *stepper {
	t.Helper()
	b := &stepper{fixture: newFixture(t, changes...), cache: &staleCache{Client: env.Client}}
	b.r = &remediation.Reconciler{
		Client: b.cache, APIReader: env.Client, Clusters: clustercache.NewFakeClusterCache(env.Client, client.ObjectKeyFromObject(b.claim.Cluster), "remediation"),
	}
	return b
}

// step reconciles the remediation once, and reads the results.
func (b *stepper) step(t *testing.T) ctrl.Result {
	t.Helper()
	g := NewWithT(t)
	result, err := b.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.remediation)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.IgnoreNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(b.remediation), b.remediation))).To(Succeed())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(b.Host), b.Host)).To(Succeed())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(b.node), b.node)).To(Succeed())
	return result
}

// steps reconciles until a condition holds.
func (b *stepper) steps(t *testing.T, until func() bool) {
	t.Helper()
	for range 10 {
		if until() {
			return
		}
		b.step(t)
	}
	t.Fatalf("the condition does not hold after 10 steps: %+v", b.remediation.Spec)
}

func (b *stepper) hasPowerHold() bool { return len(b.Host.Spec.PowerHolds) == 1 }

// confirmOff confirms the power-off of a server that has been off for a duration, as the host controller does.
func (b *stepper) confirmOff(t *testing.T, ago time.Duration) {
	t.Helper()
	at := metav1.NewTime(time.Now().Add(-ago))
	controllerstest.Modify(t, env, b.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime = &at, &at
	})
}

// TestOldOffConfirmation: an old confirmation of the power-off, or one from before a pause, is renewed before the Node is tainted.
func TestOldOffConfirmation(t *testing.T) {
	for name, test := range map[string]struct {
		off      time.Duration
		unpaused time.Duration // relative to now
	}{
		"long ago":       {time.Hour, -2 * time.Hour},
		"before a pause": {10 * time.Second, -5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newStepper(t)
			b.steps(t, b.hasPowerHold)
			b.confirmOff(t, test.off)
			b.unpaused(t, test.unpaused)
			began := time.Now()
			b.step(t)
			g.Expect(isTainted(b.node)).To(BeFalse())
			g.Expect(b.remediation.Spec.TaintedNode).To(BeEmpty())
			g.Expect(b.Host.Spec.PowerHolds).To(HaveLen(1))
			g.Expect(b.Host.Spec.ProviderState.PowerHoldOffTime).To(BeNil())
			g.Expect(b.Host.Spec.ProviderState.PowerHoldStartTime.After(began.Add(-2*time.Second))).To(BeTrue(), "its power is to be read twice again")
			b.confirmOff(t, 0)
			b.step(t)
			g.Expect(isTainted(b.node)).To(BeTrue())
		})
	}
}

// unpaused sets since when the remediation is not paused.
func (b *stepper) unpaused(t *testing.T, from time.Duration) {
	t.Helper()
	g := NewWithT(t)
	for i := range b.remediation.Status.Conditions {
		if c := &b.remediation.Status.Conditions[i]; c.Type == "Paused" {
			c.LastTransitionTime = metav1.NewTime(time.Now().Add(from))
		}
	}
	g.Expect(env.Client.Status().Update(t.Context(), b.remediation)).To(Succeed())
}

// TestStaleHost: a cache that still shows a running server as off does not lead to a taint on its Node.
func TestStaleHost(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t)
	b.steps(t, b.hasPowerHold)
	b.confirmOff(t, 0)
	b.cache.host = b.Host.DeepCopy()
	controllerstest.Modify(t, env, b.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.PowerHoldOffTime = nil })
	g.Expect(b.step(t).RequeueAfter).To(Equal(100 * time.Millisecond))
	g.Expect(isTainted(b.node)).To(BeFalse())
	g.Expect(b.remediation.Spec.TaintedNode).To(BeEmpty())
}

// TestStaleRemediation: a cache that shows the remediation before it released its power hold does not lead to a new hold.
func TestStaleRemediation(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t)
	b.steps(t, b.hasPowerHold)
	b.cache.remediation = b.remediation.DeepCopy()
	controllerstest.Modify(t, env, b.remediation, func(r *v1alpha1.BareMetalRemediation) { r.Spec.PowerCycle.OffTime = new(metav1.Now()) })
	controllerstest.Modify(t, env, b.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil })
	g.Expect(b.step(t).RequeueAfter).To(Equal(100 * time.Millisecond))
	g.Expect(b.Host.Spec.PowerHolds).To(BeEmpty())
	b.cache.remediation = nil
	b.step(t)
	g.Expect(b.Host.Spec.PowerHolds).To(BeEmpty())
	g.Expect(b.remediation.Status.Phase).To(Equal(v1alpha1.RemediationWaiting))
}

// TestHoldWithoutRecord: a power hold without a record is released when the remediation ends.
func TestHoldWithoutRecord(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t)
	b.steps(t, b.hasPowerHold)
	controllerstest.Modify(t, env, b.remediation, func(r *v1alpha1.BareMetalRemediation) { r.Spec.PowerCycle = nil })
	g.Expect(env.Client.Delete(t.Context(), b.remediation)).To(Succeed())
	b.step(t)
	g.Expect(b.Host.Spec.PowerHolds).To(BeEmpty())
}

// clusterless returns connections to a workload cluster that does not answer.
func clusterless(t *testing.T) clustercache.ClusterCache {
	t.Helper()
	return clustercache.NewFakeClusterCache(env.Client, client.ObjectKey{Namespace: "nowhere", Name: "none"})
}

// changingErrors are connections that fail with a different text each time.
type changingErrors struct {
	clustercache.ClusterCache
	calls int
}

func (b *changingErrors) GetUncachedClient(context.Context, client.ObjectKey) (client.Client, error) {
	b.calls++
	return nil, fmt.Errorf("read tcp 10.0.0.5:%d->10.0.0.9:6443: connection reset by peer", 40000+b.calls)
}

// TestConnectTimeout: the status does not change with the text of an error. The connect timeout starts again after a restart of the provider, and so
// does the wait for the Machine to name its Node after a move.
func TestConnectTimeout(t *testing.T) {
	g := NewWithT(t)
	b := newStepper(t)
	b.setHealthCheck(t, metav1.ConditionFalse)
	b.steps(t, b.hasPowerHold)
	connected := b.r.Clusters
	b.r.Clusters, b.r.Started = &changingErrors{ClusterCache: connected}, time.Now()
	b.confirmOff(t, time.Hour)
	b.unpaused(t, -2*time.Hour)
	b.step(t)
	g.Expect(b.message()).To(ContainSubstring("cannot be tainted or read yet"))
	g.Expect(b.Host.Spec.PowerHolds).To(HaveLen(1), "the provider has just started")
	version := b.remediation.ResourceVersion
	b.step(t)
	g.Expect(b.remediation.ResourceVersion).To(Equal(version))

	b.r.Clusters, b.r.Started = connected, time.Now().Add(-time.Hour)
	ref := b.claim.Machine.Status.NodeRef
	b.nameNode(t, clusterv1.MachineNodeReference{})
	b.confirmOff(t, 0)
	b.step(t)
	g.Expect(b.message()).To(ContainSubstring("does not name its Node yet"))
	g.Expect(b.Host.Spec.PowerHolds).To(HaveLen(1))
	b.nameNode(t, ref)
	b.step(t)
	g.Expect(isTainted(b.node)).To(BeTrue())

	b.step(t)
	g.Expect(b.Host.Spec.PowerHolds).To(BeEmpty())
	controllerstest.Modify(t, env, b.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime = nil, nil
	})
	b.r.Clusters = &changingErrors{ClusterCache: connected}
	for range 2 {
		b.step(t)
	}
	g.Expect(b.message()).To(ContainSubstring("cannot be read: the workload cluster does not answer"))
	version = b.remediation.ResourceVersion
	b.step(t)
	g.Expect(b.remediation.ResourceVersion).To(Equal(version))
}

func (b *stepper) nameNode(t *testing.T, ref clusterv1.MachineNodeReference) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(b.claim.Machine), b.claim.Machine)).To(Succeed())
	b.claim.Machine.Status.NodeRef = ref
	g.Expect(env.Client.Status().Update(t.Context(), b.claim.Machine)).To(Succeed())
}
