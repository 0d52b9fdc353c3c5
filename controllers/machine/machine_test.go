package machine_test

import (
	"context"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

func start(t *testing.T) {
	t.Helper()
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		return (&machine.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).
			SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 16})
	})
}

// newHost creates a host and makes it available, as the host controller does.
func newHost(t *testing.T, namespace, name string, number int, labels map[string]string) *v1alpha1.BareMetalHost {
	t.Helper()
	h := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}, BootMACAddresses: []string{fmt.Sprintf("52:54:00:00:01:%02x", number)},
			FailureDomain: "rack-1",
		},
	}
	env.Create(t, h)
	setAvailable(t, h)
	return h
}

func setAvailable(t *testing.T, h *v1alpha1.BareMetalHost) {
	t.Helper()
	before := h.DeepCopy()
	conditions.Set(h, metav1.Condition{Type: v1alpha1.VerifiedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonVerified})
	conditions.Set(h, metav1.Condition{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAvailable})
	NewWithT(t).Expect(env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before))).To(Succeed())
}

func wait(t *testing.T, claim *controllerstest.Claim, until func(Gomega, *v1alpha1.BareMetalMachine)) {
	t.Helper()
	controllerstest.Wait(t, env, claim.BareMetalMachine, until)
}

func reason(kind, want string) func(Gomega, *v1alpha1.BareMetalMachine) {
	return func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.GetReason(m, kind)).To(Equal(want), conditions.GetMessage(m, kind))
	}
}

// TestLife follows a machine from its creation to its deletion; the test acts as the host controller.
func TestLife(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonNoHostFits))
	g.Expect(conditions.GetMessage(claim.BareMetalMachine, v1alpha1.ReadyCondition)).To(ContainSubstring("no BareMetalHost in this namespace"))

	h := newHost(t, namespace, "h", 1, nil)
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Status.HostRef).To(HaveValue(Equal(v1alpha1.HostReference{Name: "h"})))
		g.Expect(m.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
		g.Expect(m.Status.FailureDomain).To(Equal("rack-1"))
		g.Expect(m.Status.Initialization.Provisioned).To(BeNil())
	})
	controllerstest.ModifyBoot(t, env, h, func(b *v1alpha1.BareMetalBootSpec) { b.DataAddress, b.ReportedTime = "192.0.2.9", new(metav1.Now()) })
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Spec.ProviderID).To(Equal("baremetal://" + namespace + "/h/m"))
		g.Expect(m.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
		g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
		g.Expect(m.Status.Addresses).To(ConsistOf(
			clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: "m"}, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: "192.0.2.9"},
		))
	})

	before := h.DeepCopy()
	conditions.Set(h, metav1.Condition{
		Type: v1alpha1.BootProgressCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonBootstrapFailed, Message: "look at its console",
	})
	g.Expect(env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before))).To(Succeed())
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.IsTrue(m, v1alpha1.HostBootedCondition)).To(BeTrue(), "its operating system was up")
		g.Expect(conditions.GetMessage(m, v1alpha1.HostBootedCondition)).To(Equal("look at its console"))
	})

	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonWaitingForRelease))
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
	env.Gone(t, claim.BareMetalMachine)
}

// TestPrerequisites: no host is claimed before the cluster's infrastructure and the bootstrap data exist.
func TestPrerequisites(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonNoHostFits))
	controllerstest.Modify(t, env, claim.Machine, func(m *clusterv1.Machine) {
		m.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "b.example", Kind: "B", Name: "b"}}
	})
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonWaitingForBootstrapData))
	claim.Cluster.Status.Initialization.InfrastructureProvisioned = new(false)
	g.Expect(env.Client.Status().Update(t.Context(), claim.Cluster)).To(Succeed())
	h := newHost(t, namespace, "h", 2, nil)
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonWaitingForCluster))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
	g.Expect(h.Spec.ConsumerRef).To(BeNil())
	claim.Cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	g.Expect(env.Client.Status().Update(t.Context(), claim.Cluster)).To(Succeed())
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonWaitingForBootstrapData))
	controllerstest.Modify(t, env, claim.Machine, func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = new("m") })
	wait(t, claim, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostClaimed))
}

// TestOwnerDeleting: a machine claims no host while its Machine or Cluster is being deleted.
func TestOwnerDeleting(t *testing.T) {
	for name, part := range map[string]func(*controllerstest.Claim) client.Object{
		"machine": func(c *controllerstest.Claim) client.Object { return c.Machine },
		"cluster": func(c *controllerstest.Claim) client.Object { return c.Cluster },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			start(t)
			namespace := env.Namespace(t)
			leaving := env.NewClaim(t, namespace, "leaving", func(c *controllerstest.Claim) {
				part(c).SetFinalizers([]string{"example.com/hook"})
			})
			wait(t, leaving, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonNoHostFits))
			g.Expect(env.Client.Delete(t.Context(), part(leaving))).To(Succeed())
			h := newHost(t, namespace, "h", 9, nil)
			wait(t, leaving, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonDeleting))
			wait(t, env.NewClaim(t, namespace, "later"), has("h"))
			g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
			g.Expect(h.Spec.ConsumerRef.Name).To(Equal("later"))
		})
	}
}

// TestSelection: the machine respects its failure domain and selector, and reports what excluded how many hosts.
func TestSelection(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	newHost(t, namespace, "a", 3, map[string]string{"rack": "a"})
	b := newHost(t, namespace, "b", 4, map[string]string{"rack": "b"})
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostClaimed))

	picky := env.NewClaim(t, namespace, "picky")
	wait(t, picky, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostClaimed))
	third := env.NewClaim(t, namespace, "third")
	wait(t, third, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonNoHostFits))
	g.Expect(conditions.GetMessage(third.BareMetalMachine, v1alpha1.ReadyCondition)).To(Equal("None of 2 hosts fits: 2 claimed by another machine"))
	controllerstest.Modify(t, env, third.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.HostSelector = &v1alpha1.HostSelector{MatchExpressions: []v1alpha1.HostSelectorRequirement{
			{Key: "rack", Operator: metav1.LabelSelectorOpIn, Values: []v1alpha1.LabelValue{"b"}},
		}}
	})
	controllerstest.Modify(t, env, third.Machine, func(m *clusterv1.Machine) { m.Spec.FailureDomain = "rack-1" })
	c := newHost(t, namespace, "c", 5, map[string]string{"rack": "c"})
	controllerstest.Modify(t, env, b, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }) // released: claimed at once
	controllerstest.Wait(t, env, b, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ConsumerRef).NotTo(BeNil())
	})
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(c), c)).To(Succeed())
}

// TestConcurrentClaims: many machines that claim at once get one host each, and no host gets two machines.
func TestConcurrentClaims(t *testing.T) {
	const n = 20
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	claims := make([]*controllerstest.Claim, n)
	for i := range n {
		claims[i] = env.NewClaim(t, namespace, fmt.Sprintf("m-%02d", i))
	}
	for i := range n {
		newHost(t, namespace, fmt.Sprintf("h-%02d", i), 100+i, nil)
	}
	hosts := map[string]string{}
	for _, c := range claims {
		wait(t, c, func(g Gomega, m *v1alpha1.BareMetalMachine) { g.Expect(m.Status.HostRef).NotTo(BeNil()) })
		hosts[c.BareMetalMachine.Status.HostRef.Name] = c.BareMetalMachine.Name
	}
	g.Expect(hosts).To(HaveLen(n))
	for host, name := range hosts {
		var h v1alpha1.BareMetalHost
		g.Expect(env.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: host}, &h)).To(Succeed())
		g.Expect(h.Spec.ConsumerRef.Name).To(Equal(name))
	}
}

// TestMove: a machine that `clusterctl move` deletes loses its finalizer and keeps its host; a paused machine is not reconciled.
func TestMove(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h", 6, nil)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostClaimed))
	controllerstest.Modify(t, env, claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	wait(t, claim, reason(clusterv1.PausedCondition, clusterv1.PausedReason))
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Annotations = map[string]string{v1alpha1.DeleteForMoveAnnotation: ""}
	})
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	env.Gone(t, claim.BareMetalMachine)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
	g.Expect(h.Spec.ConsumerRef.Name).To(Equal("m"))
}

// TestOwnerGone: a machine that is deleted after its Machine does not remain forever, and remains until its host is released.
func TestOwnerGone(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h", 7, nil)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostClaimed))
	g.Expect(env.Client.Delete(t.Context(), claim.Machine)).To(Succeed())
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ConsumerRef).NotTo(BeNil())
		h.Spec.ConsumerRef = nil // as the host controller does at the end of the release
	})
	env.Gone(t, claim.BareMetalMachine)
}

// TestWatchFilter: machines of another manager are not reconciled, even if an event of a host enqueues them.
func TestWatchFilter(t *testing.T) {
	g := NewWithT(t)
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		return (&machine.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), WatchFilter: "mine"}).SetupWithManager(ctx, mgr, controller.Options{})
	})
	namespace := env.Namespace(t)
	theirs := env.NewClaim(t, namespace, "theirs")
	mine := env.NewClaim(t, namespace, "mine")
	newHost(t, namespace, "h", 8, nil)
	controllerstest.Modify(t, env, mine.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Labels[clusterv1.WatchLabel] = "mine" })
	wait(t, mine, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostClaimed))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(theirs.BareMetalMachine), theirs.BareMetalMachine)).To(Succeed())
	g.Expect(theirs.BareMetalMachine.Finalizers).To(BeEmpty())
}

// TestHostsOutOfService: hosts that annotations take out of service are not claimed, and the diagnosis counts them. The machine gets a host at once
// when its annotation is removed.
func TestHostsOutOfService(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	held := newHost(t, namespace, "held", 10, nil)
	annotate := func(annotation string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{annotation: "anna: new fan"} }
	}
	controllerstest.Modify(t, env, held, annotate(v1alpha1.PowerHoldPrefix+"anna"))
	controllerstest.Modify(t, env, newHost(t, namespace, "detached", 11, nil), annotate(v1alpha1.DetachedAnnotation))
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonNoHostFits))
	g.Expect(conditions.GetMessage(claim.BareMetalMachine, v1alpha1.HostClaimedCondition)).To(ContainSubstring("None of 2 hosts fits: 1 detached, 1 kept powered off"))
	controllerstest.Modify(t, env, held, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Status.HostRef).To(HaveValue(Equal(v1alpha1.HostReference{Name: "held"})))
	})
}
