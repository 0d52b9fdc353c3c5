package template_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/template"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// counts are the numbers of computations and writes by the controller, by namespace.
type counts struct {
	mu                sync.Mutex
	computed, written map[string]int
}

// of returns how often the templates of a namespace were computed and written.
func (c *counts) of(namespace string) (computed, written int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.computed[namespace], c.written[namespace]
}

func (c *counts) add(to map[string]int, namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to[namespace]++
}

func start(t *testing.T, filter string) *counts {
	t.Helper()
	n := &counts{computed: map[string]int{}, written: map[string]int{}}
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		own, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
		if err != nil {
			return err
		}
		counting := interceptor.NewClient(own, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*v1alpha1.BareMetalHostList); ok {
					n.add(n.computed, (&client.ListOptions{}).ApplyOptions(opts).Namespace)
				}
				return c.List(ctx, list, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				n.add(n.written, o.GetNamespace())
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		})
		return (&template.Reconciler{Client: counting, WatchFilter: filter}).SetupWithManager(ctx, mgr, controller.Options{})
	})
	return n
}

// newHost registers a host with an inventory, as the host controller does.
func newHost(t *testing.T, namespace string, number int, change ...func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	t.Helper()
	h := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("h-%03d", number), Labels: map[string]string{"rack": "a"}},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC:              v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"},
			BootMACAddresses: []string{fmt.Sprintf("52:54:00:00:%02x:%02x", number>>8, number&255)},
		},
		Status: v1alpha1.BareMetalHostStatus{
			Hardware: &v1alpha1.Hardware{
				CPU: v1alpha1.CPU{Threads: 16}, Memory: resource.MustParse("64Gi"),
				Disks: []v1alpha1.Disk{{Name: "a", Size: resource.MustParse("400Gi")}, {Name: "b", Size: resource.MustParse("200Gi")}},
			},
			Conditions: []metav1.Condition{{
				Type: v1alpha1.VerifiedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonVerified, LastTransitionTime: metav1.Now(),
			}},
		},
	}
	for _, f := range change {
		f(h)
	}
	status := h.Status
	env.Create(t, h)
	setStatus(t, h, func(h *v1alpha1.BareMetalHost) { h.Status = status })
	return h
}

func setStatus(t *testing.T, h *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalHost)) {
	t.Helper()
	before := h.DeepCopy()
	change(h)
	NewWithT(t).Expect(env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before))).To(Succeed())
}

func newTemplate(t *testing.T, namespace, name string, change ...func(*v1alpha1.BareMetalMachineTemplate)) *v1alpha1.BareMetalMachineTemplate {
	t.Helper()
	template := &v1alpha1.BareMetalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	template.Spec.Template.Spec.Boot = v1alpha1.BootSource{IPXETemplate: "#!ipxe\n", Persistence: v1alpha1.PersistenceInstalled}
	for _, f := range change {
		f(template)
	}
	env.Create(t, template)
	return template
}

func wait(t *testing.T, template *v1alpha1.BareMetalMachineTemplate, until func(Gomega, *v1alpha1.BareMetalMachineTemplate)) {
	t.Helper()
	controllerstest.Wait(t, env, template, until)
}

// has expects a capacity and a number of matching hosts.
func has(hosts int, cpu, memory, disk string) func(Gomega, *v1alpha1.BareMetalMachineTemplate) {
	return func(g Gomega, m *v1alpha1.BareMetalMachineTemplate) {
		g.Expect(m.Status.MatchingHosts).To(BeEquivalentTo(hosts))
		g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(Equal(hosts > 0))
		g.Expect(conditions.IsFalse(m, v1alpha1.ReadyCondition)).To(Equal(hosts == 0))
		want := map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory, corev1.ResourceEphemeralStorage: disk}
		for name, value := range want {
			got, there := m.Status.Capacity[name]
			g.Expect(there).To(Equal(value != ""), "%s is %s", name, got.String())
			if there {
				g.Expect(got.Equal(resource.MustParse(value))).To(BeTrue(), "%s is %s", name, got.String())
			}
		}
	}
}

// TestPullSecretMoves: the credentials of a registry move with the template, which may have no machine yet.
func TestPullSecretMoves(t *testing.T) {
	start(t, "")
	namespace := env.Namespace(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "registry"}}
	env.Create(t, secret)
	newTemplate(t, namespace, "t", func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Spec.Template.Spec.Boot = v1alpha1.BootSource{}
		m.Spec.Template.Spec.Image = &v1alpha1.Image{URL: "oci://registry.example/os:1", Checksum: "sha256:" + strings.Repeat("0", 64), PullSecret: "registry"}
	})
	controllerstest.Wait(t, env, secret, func(g Gomega, s *corev1.Secret) { g.Expect(s.Labels).To(HaveKey(v1alpha1.MoveLabel)) })
}

// TestCapacity: the capacity is the minimum over the hosts that machines of the template can have, including claimed ones, and follows them.
func TestCapacity(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	namespace := env.Namespace(t)
	plain := newTemplate(t, namespace, "plain")
	wait(t, plain, func(g Gomega, m *v1alpha1.BareMetalMachineTemplate) {
		has(0, "", "", "")(g, m)
		g.Expect(conditions.GetReason(m, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonNoHostMatches))
		g.Expect(conditions.GetMessage(m, v1alpha1.ReadyCondition)).To(ContainSubstring("no BareMetalHost in this namespace"))
		g.Expect(m.Status.NodeInfo).To(Equal(v1alpha1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}))
		g.Expect(conditions.IsFalse(m, clusterv1.PausedCondition)).To(BeTrue())
	})
	inMemory := newTemplate(t, namespace, "memory", func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Spec.Template.Spec.Boot.Persistence = v1alpha1.PersistenceEphemeral
	})
	big := newTemplate(t, namespace, "big", func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Spec.Template.Spec.Hardware.Memory = new(resource.MustParse("128Gi"))
	})
	arm := newTemplate(t, namespace, "arm", func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Spec.Template.Spec.Hardware.Architecture = v1alpha1.ArchitectureARM64
	})
	gpu := newTemplate(t, namespace, "gpu", func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Spec.Template.Spec.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"gpu": "a100"}}
		m.Spec.Template.Spec.Tolerations = []v1alpha1.HostToleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	})

	first := newHost(t, namespace, 1)
	second := newHost(t, namespace, 2, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
		h.Status.Hardware.CPU.Threads, h.Status.Hardware.Memory = 8, resource.MustParse("256Gi")
	})
	newHost(t, namespace, 3, func(h *v1alpha1.BareMetalHost) {
		h.Status.Conditions, h.Status.Hardware.Memory = nil, resource.MustParse("1Mi")
	})
	newHost(t, namespace, 4, func(h *v1alpha1.BareMetalHost) { h.Status.Hardware = nil })
	newHost(t, namespace, 5, func(h *v1alpha1.BareMetalHost) { h.Spec.Architecture = v1alpha1.ArchitectureARM64 })
	newHost(t, namespace, 6, func(h *v1alpha1.BareMetalHost) {
		h.Labels = map[string]string{"gpu": "a100"}
		h.Spec.Taints = []v1alpha1.HostTaint{{Key: "gpu"}}
		h.Status.Hardware.CPU.Threads = 4
	})
	newHost(t, env.Namespace(t), 7, func(h *v1alpha1.BareMetalHost) { h.Status.Hardware.Memory = resource.MustParse("1Mi") })

	wait(t, plain, has(3, "8", "64Gi", "200Gi"))
	wait(t, inMemory, has(3, "8", "64Gi", ""))
	wait(t, big, has(1, "8", "256Gi", "200Gi"))
	wait(t, arm, func(g Gomega, m *v1alpha1.BareMetalMachineTemplate) {
		has(1, "16", "64Gi", "200Gi")(g, m)
		g.Expect(m.Status.NodeInfo.Architecture).To(Equal(v1alpha1.ArchitectureARM64))
	})
	wait(t, gpu, has(1, "4", "64Gi", "200Gi"))

	setStatus(t, first, func(h *v1alpha1.BareMetalHost) { h.Status.Hardware.Memory = resource.MustParse("32Gi") })
	wait(t, plain, has(3, "8", "32Gi", "200Gi"))
	controllerstest.Modify(t, env, first, func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"} })
	wait(t, plain, has(2, "8", "256Gi", "200Gi"))
	controllerstest.Modify(t, env, second, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: "anna"}
	})
	wait(t, big, has(0, "", "", ""))
	g.Expect(env.Client.DeleteAllOf(t.Context(), &v1alpha1.BareMetalHost{}, client.InNamespace(namespace))).To(Succeed())
	wait(t, plain, has(0, "", "", ""))
	wait(t, gpu, has(0, "", "", ""))
}

// TestEventBatching: a rack that registers causes few reconciles, not one per server, and a status without a change is not written.
func TestEventBatching(t *testing.T) {
	const rack = 100
	g := NewWithT(t)
	n := start(t, "")
	namespace := env.Namespace(t)
	m := newTemplate(t, namespace, "t")
	wait(t, m, has(0, "", "", ""))
	before, writtenBefore := n.of(namespace)
	began := time.Now()
	hosts := make([]*v1alpha1.BareMetalHost, rack)
	for i := range hosts {
		hosts[i] = newHost(t, namespace, i)
	}
	wait(t, m, has(rack, "16", "64Gi", "200Gi"))
	// At most once a second, and once more for each write: there were 200 changes.
	computed, written := n.of(namespace)
	computed, written = computed-before, written-writtenBefore
	seconds := int(time.Since(began)/time.Second) + 1
	t.Logf("%d hosts in %d s: computed %d times, written %d times", rack, seconds, computed, written)
	g.Expect(written).To(BeNumerically("<=", seconds))
	g.Expect(computed).To(BeNumerically("<=", seconds+written))

	// A change that does not matter to a template does not enqueue it; a later change of a label does.
	version := m.ResourceVersion
	for _, h := range hosts {
		setStatus(t, h, func(h *v1alpha1.BareMetalHost) {
			h.Status.Phase, h.Status.Power = v1alpha1.PhaseAvailable, v1alpha1.PowerOff
		})
	}
	before, writtenBefore = n.of(namespace)
	controllerstest.Modify(t, env, hosts[0], func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"rack": "b"} })
	g.Eventually(func() int { computed, _ := n.of(namespace); return computed }, 30*time.Second).Should(Equal(before + 1))
	_, written = n.of(namespace)
	g.Expect(written).To(Equal(writtenBefore), "nothing is written that says nothing new")
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(m), m)).To(Succeed())
	g.Expect(m.ResourceVersion).To(Equal(version))
}

// TestPaused: a template that is paused, or whose Cluster is paused, is not computed and reports it. A template whose Cluster does not exist is not
// computed either.
func TestPaused(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	namespace := env.Namespace(t)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}, Spec: clusterv1.ClusterSpec{
		Paused: new(true), InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: "c"},
	}}
	env.Create(t, cluster)
	owner := metav1.OwnerReference{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: cluster.UID}
	owned := newTemplate(t, namespace, "owned", func(m *v1alpha1.BareMetalMachineTemplate) { m.OwnerReferences = []metav1.OwnerReference{owner} })
	annotated := newTemplate(t, namespace, "annotated", func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	strayed := newTemplate(t, namespace, "strayed", func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: "gone"}
	})
	free := newTemplate(t, namespace, "free")
	newHost(t, namespace, 1)
	wait(t, free, has(1, "16", "64Gi", "200Gi"))
	for _, m := range []*v1alpha1.BareMetalMachineTemplate{owned, annotated} {
		wait(t, m, func(g Gomega, m *v1alpha1.BareMetalMachineTemplate) {
			g.Expect(conditions.IsTrue(m, clusterv1.PausedCondition)).To(BeTrue())
			g.Expect(m.Status.MatchingHosts).To(BeZero())
		})
	}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(strayed), strayed)).To(Succeed())
	g.Expect(strayed.Status.Conditions).To(BeEmpty())

	controllerstest.Modify(t, env, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	controllerstest.Modify(t, env, annotated, func(m *v1alpha1.BareMetalMachineTemplate) { m.Annotations = nil })
	for _, m := range []*v1alpha1.BareMetalMachineTemplate{owned, annotated} {
		wait(t, m, has(1, "16", "64Gi", "200Gi"))
		g.Expect(conditions.IsFalse(m, clusterv1.PausedCondition)).To(BeTrue())
	}
}

// TestClusterCreatedLater: a template that exists before its Cluster, as after a restore from a backup, is computed once the Cluster exists. There is
// no host whose event would enqueue it.
func TestClusterCreatedLater(t *testing.T) {
	g := NewWithT(t)
	start(t, "")
	namespace := env.Namespace(t)
	early := newTemplate(t, namespace, "early", func(m *v1alpha1.BareMetalMachineTemplate) {
		m.Labels = map[string]string{clusterv1.ClusterNameLabel: "c"}
	})
	wait(t, newTemplate(t, namespace, "shows-that-it-was-looked-at"), has(0, "", "", ""))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(early), early)).To(Succeed())
	g.Expect(early.Status.Conditions).To(BeEmpty())
	env.Create(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: "c"},
	}})
	wait(t, early, has(0, "", "", ""))
}

// TestWatchFilter: templates of another manager are not reconciled, even if an event of a host enqueues them.
func TestWatchFilter(t *testing.T) {
	g := NewWithT(t)
	start(t, "mine")
	namespace := env.Namespace(t)
	theirs := newTemplate(t, namespace, "a-theirs")
	mine := newTemplate(t, namespace, "mine", func(m *v1alpha1.BareMetalMachineTemplate) { m.Labels = map[string]string{clusterv1.WatchLabel: "mine"} })
	newHost(t, namespace, 1)
	wait(t, mine, has(1, "16", "64Gi", "200Gi"))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
	g.Expect(theirs.Status.Conditions).To(BeEmpty())
	g.Expect(theirs.Status.NodeInfo).To(BeZero())
}
