package machine_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
)

// TestNoMatchingHost: HostClaimed reports a failure domain that no host has, and a selector that matches no host, with a remedy.
func TestNoMatchingHost(t *testing.T) {
	start(t)
	namespace := env.Namespace(t)
	newHost(t, namespace, "h", 30, nil)
	lost := env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
		c.Machine.Spec.FailureDomain = "rack-9"
		c.BareMetalMachine.Spec.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"disk": "nvme"}}
	})
	wait(t, lost, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonNoHostFits)(g, m)
		reason(v1alpha1.HostBootedCondition, v1alpha1.ReasonWaitingForHost)(g, m)
		g.Expect(conditions.GetMessage(m, v1alpha1.HostClaimedCondition)).To(And(
			ContainSubstring(`hostSelector "disk=nvme" matches no host: correct it, or label the hosts that it is meant for`),
			ContainSubstring(`No host is in failure domain "rack-9", which the Machine asks for: the hosts are in rack-1`)))
		g.Expect(m.Status.FailureReason).To(BeEmpty(), "it is no failure to wait for a host")
	})
	right := env.NewClaim(t, namespace, "right", func(c *controllerstest.Claim) { c.Machine.Spec.FailureDomain = "rack-1" })
	wait(t, right, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		has("h")(g, m)
		g.Expect(m.Status.FailureDomain).To(Equal("rack-1"))
	})
}

// TestLabelsRestored: labels that were removed from the machine are restored. The owner reference is not, since only Cluster API sets it: without it
// the machine is not reconciled.
func TestLabelsRestored(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	newHost(t, namespace, "h", 31, nil)
	labels := map[string]string{
		clusterv1.ClusterNameLabel: "m", clusterv1.MachineControlPlaneLabel: "", clusterv1.MachineControlPlaneNameLabel: "kcp",
		clusterv1.MachineDeploymentNameLabel: "md", clusterv1.MachineSetNameLabel: "ms",
	}
	claim := env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) { c.Machine.Labels, c.BareMetalMachine.Labels = labels, nil })
	whole := func(g Gomega, m *v1alpha1.BareMetalMachine) {
		has("h")(g, m)
		g.Expect(m.Labels).To(And(HaveLen(len(labels)), HaveKeyWithValue(clusterv1.ClusterNameLabel, "m"), Equal(labels)))
		g.Expect(m.Finalizers).To(ConsistOf(v1alpha1.MachineFinalizer))
	}
	wait(t, claim, whole)
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Labels, m.Finalizers = nil, nil })
	wait(t, claim, whole)
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Labels[clusterv1.ClusterNameLabel] = "another" })
	wait(t, claim, whole)

	owners := claim.BareMetalMachine.OwnerReferences
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.OwnerReferences, m.Labels = nil, nil })
	newHost(t, namespace, "h2", 32, nil)
	wait(t, env.NewClaim(t, namespace, "later"), has("h2")) // shows that the machine was reconciled meanwhile
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(claim.BareMetalMachine), claim.BareMetalMachine)).To(Succeed())
	g.Expect(claim.BareMetalMachine.Labels).To(BeEmpty())
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.OwnerReferences = owners })
	wait(t, claim, whole)
}

// TestFailureEnds: a failed boot is reported in the conditions and in the fields that Cluster API copies to the Machine. When the failure is over,
// the report is removed and the machine continues.
func TestFailureEnds(t *testing.T) {
	start(t)
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h", 33, nil)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, has("h"))
	controllerstest.ModifyBoot(t, env, h, func(b *v1alpha1.BareMetalBootSpec) {
		b.Attempt, b.Failure = 3, &v1alpha1.BootFailure{Reason: v1alpha1.ReasonBootTimedOut, Message: "no request came"}
	})
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostClaimed)(g, m)
		for _, kind := range []string{v1alpha1.HostBootedCondition, v1alpha1.ReadyCondition} {
			reason(kind, v1alpha1.ReasonBootTimedOut)(g, m)
			g.Expect(conditions.GetMessage(m, kind)).To(Equal("no request came"))
		}
		g.Expect(m.Status.FailureReason).To(Equal(v1alpha1.ReasonBootTimedOut))
		g.Expect(m.Status.FailureMessage).To(Equal("no request came"))
		g.Expect(m.Status.Initialization.Provisioned).To(BeNil())
	})
	well := func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Status.FailureReason).To(BeEmpty())
		g.Expect(m.Status.FailureMessage).To(BeEmpty())
	}
	next := func(b *v1alpha1.BareMetalBootSpec) {
		*b = v1alpha1.BareMetalBootSpec{Number: b.Number + 1, Attempt: 1, ClaimID: b.ClaimID, MachineName: b.MachineName, StartTime: metav1.Now()}
	}
	controllerstest.ModifyBoot(t, env, h, next)
	wait(t, claim, well)
	controllerstest.ModifyBoot(t, env, h, func(b *v1alpha1.BareMetalBootSpec) { b.DataAddress, b.ReportedTime = "192.0.2.9", new(metav1.Now()) })
	ready := func(g Gomega, m *v1alpha1.BareMetalMachine) {
		well(g, m)
		g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
	}
	wait(t, claim, ready)

	ref := h.Spec.ConsumerRef
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostLost)(g, m)
		g.Expect(m.Status.FailureReason).To(Equal(v1alpha1.ReasonHostLost))
		g.Expect(m.Status.FailureMessage).To(ContainSubstring("Restore the host"))
		g.Expect(m.Status.Initialization.Provisioned).To(HaveValue(BeTrue()), "it never becomes false again")
	})
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = ref })
	wait(t, claim, ready)
}

// TestAddresses: a machine has the addresses of its running system, and none that only the BMC reports.
func TestAddresses(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h", 34, nil)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, has("h"))
	address := func(kind clusterv1.MachineAddressType, a string) clusterv1.MachineAddress {
		return clusterv1.MachineAddress{Type: kind, Address: a}
	}
	addresses := func(want ...clusterv1.MachineAddress) func(Gomega, *v1alpha1.BareMetalMachine) {
		return func(g Gomega, m *v1alpha1.BareMetalMachine) { g.Expect(m.Status.Addresses).To(BeEquivalentTo(want)) }
	}
	name := address(clusterv1.MachineHostName, "m")
	ip := func(a string) clusterv1.MachineAddress { return address(clusterv1.MachineInternalIP, a) }
	change := func(change func(*v1alpha1.BareMetalBootSpec)) { controllerstest.ModifyBoot(t, env, h, change) }
	change(func(b *v1alpha1.BareMetalBootSpec) { b.DataAddress, b.DataServedTime = "192.0.2.9", new(metav1.Now()) })
	wait(t, claim, addresses())
	change(func(b *v1alpha1.BareMetalBootSpec) { b.ReportedTime = new(metav1.Now()) })
	wait(t, claim, addresses(name, ip("192.0.2.9")))
	change(func(b *v1alpha1.BareMetalBootSpec) { b.ReportAddress = "192.0.2.10" })
	wait(t, claim, addresses(name, ip("192.0.2.10")))

	before := h.DeepCopy()
	h.Status.Hardware = &v1alpha1.Hardware{NICs: []v1alpha1.NIC{{Name: "eth0", MACAddress: "52:54:00:00:01:22"}}}
	g.Expect(env.Client.Status().Patch(t.Context(), h, client.MergeFrom(before))).To(Succeed())
	boot := controllerstest.BootOf(t, env, h)
	seen := controllers.NewStage(boot, v1alpha1.StageNode)
	seen.Addresses = clusterv1.MachineAddresses{
		name, ip("192.0.2.10"), ip("2001:db8::10"), address(clusterv1.MachineHostName, "other"), address(clusterv1.MachineExternalIP, "198.51.100.10"),
	}
	g.Expect(controllers.ApplyStages(t.Context(), env.Client, boot, seen)).To(Succeed())
	wait(t, claim, addresses(name, ip("192.0.2.10"), ip("2001:db8::10"), address(clusterv1.MachineHostName, "other"), address(clusterv1.MachineExternalIP, "198.51.100.10")))
}

// TestMachineNameReused: a machine with the name of a deleted one takes no provider ID from the old machine's host, which the cache still shows.
func TestMachineNameReused(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h", 35, nil)
	cached := h.DeepCopy()
	cached.Spec.ConsumerRef, cached.Spec.ProviderState.Boots = controllerstest.Claimed("m"), 1
	boot := &v1alpha1.BareMetalBoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"},
		Spec: v1alpha1.BareMetalBootSpec{
			Number: 1, ClaimID: cached.Spec.ConsumerRef.ClaimID, MachineName: "m", StartTime: metav1.Now(), DataAddress: "192.0.2.9", ReportedTime: new(metav1.Now()),
		},
	}
	behind := fake.NewClientBuilder().WithScheme(env.Scheme).WithObjects(boot.DeepCopy()).Build() // a stale cache
	r := &machine.Reconciler{Client: behind, APIReader: env.Client}
	m := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m"}}
	untouched := func(why string) {
		t.Helper()
		g.Expect(r.ReconcileBootOn(t.Context(), m, cached)).To(Succeed(), why)
		g.Expect(m.Spec.ProviderID).To(BeEmpty(), why)
		g.Expect(m.Status.Initialization.Provisioned).To(BeNil(), why)
	}
	untouched("there is no boot")
	voided := boot.DeepCopy()
	voided.Spec.VoidedTime = new(metav1.Now())
	env.Create(t, voided)
	untouched("its claim ended")
	controllerstest.Modify(t, env, voided, func(b *v1alpha1.BareMetalBoot) {
		b.Spec = v1alpha1.BareMetalBootSpec{Number: 2, ClaimID: "another", MachineName: "m", StartTime: metav1.Now(), ReportedTime: new(metav1.Now())}
	})
	untouched("it is that of another claim")
	controllerstest.Modify(t, env, voided, func(b *v1alpha1.BareMetalBoot) {
		b.Spec = *boot.Spec.DeepCopy()
		b.Spec.Number = 3
	})
	g.Expect(r.ReconcileBootOn(t.Context(), m, cached)).To(Succeed())
	g.Expect(m.Spec.ProviderID).To(Equal("baremetal://" + namespace + "/h/m"))
}

// TestFailureKeptOnError: a reported failure stays while the API server does not answer, and is removed when it is over.
func TestFailureKeptOnError(t *testing.T) {
	g := NewWithT(t)
	var broken atomic.Bool
	var refused atomic.Int32
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		c, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
		if err != nil {
			return err
		}
		faulty := interceptor.NewClient(c, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, ok := list.(*v1alpha1.BareMetalHostList); ok && broken.Load() {
					refused.Add(1)
					return errors.New("no answer")
				}
				return c.List(ctx, list, opts...)
			},
		})
		return (&machine.Reconciler{Client: faulty, APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, controller.Options{})
	})
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h", 36, nil)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, has("h"))
	controllerstest.ModifyBoot(t, env, h, func(b *v1alpha1.BareMetalBootSpec) {
		b.Attempt, b.Failure = 3, &v1alpha1.BootFailure{Reason: v1alpha1.ReasonBootTimedOut, Message: "no request came"}
	})
	failed := func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Status.FailureReason).To(Equal(v1alpha1.ReasonBootTimedOut))
		g.Expect(m.Status.FailureMessage).To(Equal("no request came"))
	}
	wait(t, claim, failed)
	broken.Store(true)
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Annotations = map[string]string{"look": "again"} })
	g.Eventually(refused.Load, 30*time.Second, time.Millisecond).Should(BeNumerically(">=", 3), "the first look ended, with what it wrote")
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(claim.BareMetalMachine), claim.BareMetalMachine)).To(Succeed())
	failed(g, claim.BareMetalMachine)
	controllerstest.ModifyBoot(t, env, h, func(b *v1alpha1.BareMetalBootSpec) {
		*b = v1alpha1.BareMetalBootSpec{Number: b.Number + 1, Attempt: 1, ClaimID: b.ClaimID, MachineName: b.MachineName, StartTime: metav1.Now()}
	})
	broken.Store(false)
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) { g.Expect(m.Status.FailureReason).To(BeEmpty()) })
}

// TestBootedElsewhere: a machine for which a server was booted claims no other host after the consumerRef of its host was cleared: the server may
// have its bootstrap data.
func TestBootedElsewhere(t *testing.T) {
	g := NewWithT(t)
	start(t)
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h", 37, nil)
	claim := env.NewClaim(t, namespace, "m")
	wait(t, claim, has("h"))
	boot := controllerstest.ModifyBoot(t, env, h, func(b *v1alpha1.BareMetalBootSpec) { b.DataAddress, b.DataServedTime = "192.0.2.9", new(metav1.Now()) })
	newHost(t, namespace, "other", 38, nil)
	ref := h.Spec.ConsumerRef
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonBootUnknown)(g, m)
		g.Expect(conditions.GetMessage(m, v1alpha1.HostClaimedCondition)).To(ContainSubstring("{name: m, claimID: " + ref.ClaimID + "}"))
		g.Expect(m.Status.HostRef).To(BeNil())
	})
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = ref })
	wait(t, claim, has("h"))
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
	wait(t, claim, reason(v1alpha1.HostClaimedCondition, v1alpha1.ReasonBootUnknown))
	g.Expect(conditions.GetMessage(claim.BareMetalMachine, v1alpha1.HostClaimedCondition)).To(And(ContainSubstring("delete the Machine"), Not(ContainSubstring("delete the BareMetalBoot"))))
	g.Expect(env.Client.Delete(t.Context(), boot)).To(Succeed()) // no host controller runs that would keep it
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) { g.Expect(m.Status.HostRef).NotTo(BeNil()) })
}

// TestBootedHostGone: the host of an unprovisioned machine is deleted. The machine is lost if its bootstrap data was served; otherwise it waits until
// the boot is deleted.
func TestBootedHostGone(t *testing.T) {
	for name, test := range map[string]struct {
		served          bool
		reason, failure string
		number          int
	}{
		"served":     {true, v1alpha1.ReasonHostLost, v1alpha1.ReasonHostLost, 41}, // Cluster API replaces it
		"not served": {false, v1alpha1.ReasonBootUnknown, "", 43},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			start(t)
			namespace := env.Namespace(t)
			h := newHost(t, namespace, "h", test.number, nil)
			claim := env.NewClaim(t, namespace, "m")
			wait(t, claim, has("h"))
			boot := controllerstest.ModifyBoot(t, env, h, func(b *v1alpha1.BareMetalBootSpec) {
				if test.served {
					b.DataAddress, b.DataServedTime = "192.0.2.9", new(metav1.Now())
				}
			})
			newHost(t, namespace, "other", test.number+1, nil)
			g.Expect(env.Client.Delete(t.Context(), h)).To(Succeed())
			wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
				reason(v1alpha1.HostClaimedCondition, test.reason)(g, m)
				g.Expect(m.Status.FailureReason).To(Equal(test.failure))
				g.Expect(m.Status.HostRef).To(BeNil())
			})
			g.Expect(env.Client.Delete(t.Context(), boot)).To(Succeed())
			wait(t, claim, has("other"))
		})
	}
}
