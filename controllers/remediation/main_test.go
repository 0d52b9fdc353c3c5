package remediation_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/remediation"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// start runs the remediation controller with the host controller, and returns a function that stops both.
func start(t *testing.T) (stop func()) {
	t.Helper()
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: (&redfish.Driver{Permit: bmctest.Loopback}).Driver()}, bmc.PoolOptions{})
	var shutdown func()
	stopManager := env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		kubeconfigs, err := controllers.SetupKubeconfigs(ctx, mgr, controllerstest.Loopback)
		if err != nil {
			return err
		}
		clusters, err := node.NewClusterCache(ctx, mgr, kubeconfigs, "", controller.Options{MaxConcurrentReconciles: 4})
		if err != nil {
			return err
		}
		shutdown = controllerstest.UseShortConnectRetry(t, clusters)
		settings := controllerstest.Settings()
		settings.PowerSettle = time.Second // the servers take time to switch, and the tests count their commands
		if err := (&host.Reconciler{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Pool: pool, Settings: settings,
		}).SetupWithManager(ctx, mgr, controller.Options{}); err != nil {
			return err
		}
		return (&remediation.Reconciler{
			Client: &behind{Client: mgr.GetClient()}, APIReader: mgr.GetAPIReader(), Clusters: clusters, Recorder: recorder{mgr.GetEventRecorder("capbm-remediation")},
			Started: time.Now().Add(-24 * time.Hour),
		}).SetupWithManager(ctx, mgr, controller.Options{})
	})
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			stopManager()
			shutdown()
			pool.Close()
		}
	}
	t.Cleanup(stop)
	return stop
}

// behind is a client whose cache seems to be behind: the first patch of each version of a remediation is refused. So no test passes with an event, a metric or a command
// that precedes its record.
type behind struct {
	client.Client
	refused sync.Map
}

func (b *behind) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	if r, ok := o.(*v1alpha1.BareMetalRemediation); ok {
		if _, again := b.refused.LoadOrStore(string(r.UID)+r.ResourceVersion, true); !again {
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("baremetalremediations").GroupResource(), o.GetName(), errors.New("the test refuses it once"))
		}
	}
	return b.Client.Patch(ctx, o, patch, options...)
}

// recorder notes the reasons of events by the name of their object. Events that differ in nothing are one object in the API server.
type recorder struct{ events.EventRecorder }

var recorded = struct {
	sync.Mutex
	reasons map[string][]string
}{reasons: map[string][]string{}}

func (r recorder) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(about, related, kind, reason, action, note, args...)
	recorded.Lock()
	defer recorded.Unlock()
	if m, ok := about.(*clusterv1.Machine); ok {
		recorded.reasons[m.Name] = append(recorded.reasons[m.Name], reason)
	}
}

// fixture is a machine that runs on an emulated server, with its Node, and a remediation as a MachineHealthCheck creates it.
type fixture struct {
	*controllerstest.Server
	claim       *controllerstest.Claim
	node        *corev1.Node
	remediation *v1alpha1.BareMetalRemediation
	boot        *v1alpha1.BareMetalBootSpec // the boot of the host; nil for none
	noCluster   bool                        // the workload cluster cannot be reached
}

// newFixture creates a fixture whose kubelet is dead. The API server of the tests is also its workload cluster.
func newFixture(t *testing.T, changes ...func(*fixture)) *fixture {
	t.Helper()
	g := NewWithT(t)
	namespace := env.Namespace(t)
	name := "m-" + namespace
	p := &fixture{
		Server: controllerstest.NewServer(t, namespace, "h", bmctest.Options{On: true, PowerDelay: 50 * time.Millisecond}),
		node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: inventory.ProviderID(namespace, "h", name)}},
		remediation: &v1alpha1.BareMetalRemediation{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: name},
		}},
	}
	p.Host.Spec.ConsumerRef = controllerstest.Claimed(name)
	p.claim = env.NewClaim(t, namespace, name, func(c *controllerstest.Claim) {
		p.claim = c
		c.BareMetalMachine.Finalizers = []string{v1alpha1.MachineFinalizer}
		c.Machine.Finalizers = []string{clusterv1.MachineFinalizer}
		c.Machine.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "MachineSet", Name: "set", UID: "1", Controller: new(true),
		}}
		c.BareMetalMachine.Spec.ProviderID = p.node.Spec.ProviderID
		for _, change := range changes {
			change(p)
		}
	})
	if !p.noCluster {
		env.Workload(t, namespace, name)
	}
	env.Create(t, p.Secret, p.node)
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), p.node) })
	env.Create(t, p.Host)
	if p.boot != nil {
		controllerstest.ModifyBoot(t, env, p.Host, func(b *v1alpha1.BareMetalBootSpec) {
			b.Attempt, b.ReportedTime, b.Failure = p.boot.Attempt, p.boot.ReportedTime, p.boot.Failure
		})
	}
	p.setNodeReady(t, corev1.ConditionUnknown)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.claim.Machine), p.claim.Machine)).To(Succeed())
	p.claim.Machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: name}
	g.Expect(env.Client.Status().Update(t.Context(), p.claim.Machine)).To(Succeed())
	t.Cleanup(func() { p.cleanUp(t) })
	p.remediation.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: p.claim.Machine.UID,
	}}
	env.Create(t, p.remediation)
	return p
}

// cleanUp removes what the controllers of later tests would reconcile: the server is gone.
func (p *fixture) cleanUp(t *testing.T) {
	t.Helper()
	for _, o := range []client.Object{p.remediation, p.Host, p.claim.BareMetalMachine, p.claim.Machine, p.claim.Cluster} {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		ctx := context.Background() // the context of the test has ended
		NewWithT(t).Expect(client.IgnoreNotFound(env.Client.Patch(ctx, o, patch))).To(Succeed())
		NewWithT(t).Expect(client.IgnoreNotFound(env.Client.Delete(ctx, o))).To(Succeed())
	}
}

// setNodeReady sets the condition Ready of the Node with a new heartbeat.
func (p *fixture) setNodeReady(t *testing.T, ready corev1.ConditionStatus) {
	t.Helper()
	g := NewWithT(t)
	now := metav1.NewTime(time.Now().Add(time.Second)) // API times have seconds
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.node), p.node)).To(Succeed())
	p.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: now, LastTransitionTime: now}}
	g.Expect(env.Client.Status().Update(t.Context(), p.node)).To(Succeed())
}

// setHealthCheck sets the result of the MachineHealthCheck.
func (p *fixture) setHealthCheck(t *testing.T, healthy metav1.ConditionStatus) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.claim.Machine), p.claim.Machine); err != nil {
			return err
		}
		conditions.Set(p.claim.Machine, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: healthy, Reason: "Test"})
		return env.Client.Status().Update(t.Context(), p.claim.Machine)
	}).Should(Succeed())
}

// expire makes the time of the power cycle pass.
func (p *fixture) expire(t *testing.T) {
	t.Helper()
	ago := metav1.NewTime(time.Now().Add(-24 * time.Hour))
	p.unpausedLong(t)
	controllerstest.Modify(t, env, p.remediation, func(r *v1alpha1.BareMetalRemediation) { r.Spec.PowerCycle.StartTime = ago })
	// A concurrent status write contains all conditions and may undo the change.
	NewWithT(t).Eventually(func(g Gomega) {
		err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.remediation), p.remediation)
		if cycle := p.remediation.Spec.PowerCycle; apierrors.IsNotFound(err) || cycle == nil || cycle.StartTime.After(ago.Time) {
			return // the controller reacted
		}
		g.Expect(err).NotTo(HaveOccurred())
		if conditions.Get(p.remediation, clusterv1.PausedCondition).LastTransitionTime.After(ago.Add(time.Hour)) {
			p.unpausedLong(t)
		}
		g.Expect(conditions.Get(p.remediation, v1alpha1.ReadyCondition).ObservedGeneration).To(Equal(p.remediation.Generation))
	}).Should(Succeed())
}

// unpausedLong makes the remediation unpaused for a day.
func (p *fixture) unpausedLong(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	ago := metav1.NewTime(time.Now().Add(-24 * time.Hour))
	g.Eventually(func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.remediation), p.remediation); err != nil {
			return err
		}
		conditions.Get(p.remediation, clusterv1.PausedCondition).LastTransitionTime = ago
		return env.Client.Status().Update(t.Context(), p.remediation)
	}).Should(Succeed())
}

// wait waits until the remediation has a phase and a reason.
func (p *fixture) wait(t *testing.T, phase v1alpha1.RemediationPhase, reason string) {
	t.Helper()
	controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
		g.Expect(r.Status.Phase).To(Equal(phase), conditions.GetMessage(r, v1alpha1.ReadyCondition))
		g.Expect(conditions.GetReason(r, v1alpha1.ReadyCondition)).To(Equal(reason), conditions.GetMessage(r, v1alpha1.ReadyCondition))
	})
}

// waitMessage waits until the message of the remediation contains a text.
func (p *fixture) waitMessage(t *testing.T, what string) {
	t.Helper()
	controllerstest.Wait(t, env, p.remediation, func(g Gomega, r *v1alpha1.BareMetalRemediation) {
		g.Expect(conditions.GetMessage(r, v1alpha1.ReadyCondition)).To(ContainSubstring(what))
	})
}

// message is the message of the remediation when it was last read.
func (p *fixture) message() string {
	return conditions.GetMessage(p.remediation, v1alpha1.ReadyCondition)
}

func (p *fixture) waitHost(t *testing.T, until func(Gomega, *v1alpha1.BareMetalHost)) {
	t.Helper()
	controllerstest.Wait(t, env, p.Host, until)
}

func (p *fixture) waitNode(t *testing.T, tainted bool) {
	t.Helper()
	controllerstest.Wait(t, env, p.node, func(g Gomega, n *corev1.Node) { g.Expect(isTainted(n)).To(Equal(tainted)) })
}

func isTainted(n *corev1.Node) bool {
	for _, taint := range n.Spec.Taints {
		if taint.Key == "node.kubernetes.io/out-of-service" && taint.Value == "nodeshutdown" && taint.Effect == corev1.TaintEffectNoExecute {
			return true
		}
	}
	return false
}

// noPowerHold expects a host without a power cycle in progress.
func noPowerHold(g Gomega, h *v1alpha1.BareMetalHost) {
	g.Expect(h.Spec.PowerHolds).To(BeEmpty())
	g.Expect(h.Spec.ProviderState.PowerHoldStartTime).To(BeNil())
	g.Expect(h.Spec.ProviderState.PowerHoldOffTime).To(BeNil())
}

// handedOver expects that the Machine's owner was asked to replace it.
func (p *fixture) handedOver(t *testing.T) {
	t.Helper()
	p.wait(t, v1alpha1.RemediationHandedOver, v1alpha1.ReasonHandedOver)
	controllerstest.Wait(t, env, p.claim.Machine, func(g Gomega, m *clusterv1.Machine) {
		g.Expect(conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)).To(BeTrue(), "MachineSets look at it too")
		g.Expect(conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition)).To(BeTrue())
	})
}

// replaced is true if the Machine's owner was asked to replace it.
func (p *fixture) replaced(t *testing.T) bool {
	t.Helper()
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.claim.Machine), p.claim.Machine)).To(Succeed())
	return conditions.Has(p.claim.Machine, clusterv1.MachineOwnerRemediatedCondition)
}

// waitEvents waits until the events of the Machine have these reasons, in any order, and the API server has each of them.
func (p *fixture) waitEvents(t *testing.T, reasons ...string) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		recorded.Lock()
		got := slices.Clone(recorded.reasons[p.claim.Machine.Name])
		recorded.Unlock()
		g.Expect(got).To(ConsistOf(reasons))
		var list eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &list, client.InNamespace(p.remediation.Namespace))).To(Succeed())
		for _, reason := range reasons {
			g.Expect(list.Items).To(ContainElement(And(HaveField("Reason", reason), HaveField("Regarding.Name", p.claim.Machine.Name))))
		}
	}, 20*time.Second).Should(Succeed())
}
