package claim

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

func host(name string, changes ...func(*v1alpha1.BareMetalHost)) v1alpha1.BareMetalHost {
	h := v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: name, Labels: map[string]string{"rack": "a"}},
		Spec:       v1alpha1.BareMetalHostSpec{Architecture: v1alpha1.ArchitectureAMD64},
		Status: v1alpha1.BareMetalHostStatus{
			Hardware: &v1alpha1.Hardware{
				CPU: v1alpha1.CPU{Threads: 8}, Memory: *quantity("16Gi"), Disks: []v1alpha1.Disk{{Size: *quantity("100Gi")}, {Size: *quantity("400Gi")}},
			},
			Conditions: []metav1.Condition{
				{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue}, {Type: v1alpha1.VerifiedCondition, Status: metav1.ConditionTrue},
			},
		},
	}
	for _, change := range changes {
		change(&h)
	}
	return h
}

func sized(mib int64) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Status.Hardware.Memory = *resource.NewQuantity(mib<<20, resource.BinarySI)
	}
}

func domain(name string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = name }
}

func nobody(*v1alpha1.BareMetalHost) bool { return false }

func anything() Want { return Want{Selector: labels.Everything()} }

// TestClaimOnce: of many concurrent claims of one host, one succeeds, and the others fail.
func TestClaimOnce(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	h := host("a")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&h).Build()
	var seen v1alpha1.BareMetalHost
	g.Expect(c.Get(context.Background(), client.ObjectKeyFromObject(&h), &seen)).To(Succeed())

	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			switch err := Claim(context.Background(), c, &seen, Terms{Machine: fmt.Sprintf("m-%d", i)}); {
			case err == nil:
				won.Add(1)
			case apierrors.IsConflict(err):
				lost.Add(1)
			default:
				t.Errorf("claim: %v", err)
			}
		})
	}
	wg.Wait()
	g.Expect(won.Load()).To(Equal(int32(1)))
	g.Expect(lost.Load()).To(Equal(int32(15)))
	g.Expect(seen.Spec.ConsumerRef).To(BeNil(), "what was read is not changed")
}

// TestClaimClearsOldRecords: a claim clears the power hold record of an earlier machine.
func TestClaimClearsOldRecords(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	h := host("a", func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.Boots = 3
		h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime = new(metav1.Now()), new(metav1.Now())
	})
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&h).Build()
	var now v1alpha1.BareMetalHost
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(&h), &now)).To(Succeed())
	disks := []wire.DiskIdentity{{SerialNumber: "S1"}}
	g.Expect(Claim(t.Context(), c, &now, Terms{Machine: "m", CleaningPolicy: wire.PolicyClear, Disks: disks})).To(Succeed())
	g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(&h), &now)).To(Succeed())
	g.Expect(now.Spec.ConsumerRef).NotTo(BeNil())
	g.Expect(now.Spec.ConsumerRef.ClaimID).NotTo(BeEmpty())
	g.Expect(now.Spec.ConsumerRef.CleaningPolicy).To(Equal(wire.PolicyClear))
	g.Expect(now.Spec.ConsumerRef.Disks).To(Equal(disks))
	g.Expect(now.Spec.ProviderState.Boots).To(Equal(int32(3)), "the boots of the server go on being counted")
	g.Expect(now.Spec.ProviderState.PowerHoldStartTime).To(BeNil())
	g.Expect(now.Spec.ProviderState.PowerHoldOffTime).To(BeNil())
}

func TestAssumed(t *testing.T) {
	version := func(version string) []v1alpha1.BareMetalHost {
		h := host("a")
		h.ResourceVersion = version
		return []v1alpha1.BareMetalHost{h}
	}
	g := NewWithT(t)
	var assumed Assumed
	gets := func(machine, at string) bool {
		got, diagnosis := assumed.Pick(Each(version(at)), anything(), machine)
		if got == nil {
			g.Expect(diagnosis.String()).To(Equal("None of 1 hosts fits: 1 claimed by another machine"))
		}
		return got != nil
	}
	g.Expect(gets("m1", "10")).To(BeTrue())
	g.Expect(gets("m1", "10")).To(BeTrue(), "again for the same machine")
	g.Expect(gets("m2", "10")).To(BeFalse())
	g.Expect(gets("m2", "9")).To(BeFalse(), "a list from before the claim proves nothing")
	g.Expect(gets("m2", "11")).To(BeTrue(), "the cache has caught up: the host is free")
	g.Expect(gets("m1", "11")).To(BeFalse())
	assumed.Drop(&version("11")[0], "m1")
	g.Expect(gets("m1", "11")).To(BeFalse(), "Drop keeps an assumption for another machine")
	assumed.Drop(&version("11")[0], "m2")
	g.Expect(gets("m1", "11")).To(BeTrue())

	assumed.Lost(&version("12")[0])
	assumed.Drop(&version("12")[0], "m1")
	g.Expect(gets("m1", "12")).To(BeFalse(), "its claim conflicted: the version is outdated for every machine")
	g.Expect(gets("m1", "13")).To(BeTrue())
}

// TestAssumedAtOnce: concurrent picks from one list all get different hosts.
func TestAssumedAtOnce(t *testing.T) {
	const n = 64
	g := NewWithT(t)
	hosts := make([]v1alpha1.BareMetalHost, n)
	for i := range hosts {
		hosts[i] = host(fmt.Sprintf("h-%02d", i))
		hosts[i].ResourceVersion = "7"
	}
	var assumed Assumed
	var mu sync.Mutex
	got := map[string]bool{}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			host, _ := assumed.Pick(Each(hosts), anything(), fmt.Sprintf("m-%d", i))
			mu.Lock()
			defer mu.Unlock()
			got[host.Name] = true
		})
	}
	wg.Wait()
	g.Expect(got).To(HaveLen(n))
}

func TestOwner(t *testing.T) {
	type labels = map[string]string
	machine := func(l labels, refs ...metav1.OwnerReference) metav1.Object {
		return &metav1.ObjectMeta{Labels: l, OwnerReferences: refs}
	}
	const cp, md, ms = "cluster.x-k8s.io/control-plane-name", "cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/set-name"
	for name, test := range map[string]struct {
		objects []metav1.Object
		want    string
	}{
		"a control plane's":                 {[]metav1.Object{machine(labels{cp: "kcp"})}, "KubeadmControlPlane/kcp"},
		"another control plane provider's":  {[]metav1.Object{machine(labels{cp: "x"}, metav1.OwnerReference{Kind: "OtherControlPlane", Name: "x", Controller: new(true)})}, "OtherControlPlane/x"},
		"its name cut":                      {[]metav1.Object{machine(labels{cp: "hash_z"}, metav1.OwnerReference{Kind: "KubeadmControlPlane", Name: "long", Controller: new(true)})}, "KubeadmControlPlane/hash_z"},
		"a MachineDeployment's":             {[]metav1.Object{machine(labels{md: "md", ms: "md-1"})}, "MachineDeployment/md"},
		"a MachineSet's":                    {[]metav1.Object{machine(labels{ms: "ms"})}, "MachineSet/ms"},
		"one that stands alone":             {[]metav1.Object{machine(nil), machine(labels{"rack": "a"})}, ""},
		"whose first object lost its label": {[]metav1.Object{machine(nil), machine(labels{md: "md"})}, "MachineDeployment/md"},
		"of nothing":                        {nil, ""},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(Owner(test.objects...)).To(Equal(test.want)) })
	}
}

// TestClaimOfAHostThatWasJustDetached: the optimistic lock also protects a host whose annotation the cache does not show yet.
func TestClaimOfAHostThatWasJustDetached(t *testing.T) {
	for _, annotation := range []string{v1alpha1.DetachedAnnotation, v1alpha1.PowerHoldPrefix + "anna", v1alpha1.ForcePowerHoldPrefix + "anna"} {
		g := NewWithT(t)
		scheme := runtime.NewScheme()
		g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
		h := host("a")
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&h).Build()
		var seen, now v1alpha1.BareMetalHost
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(&h), &seen)).To(Succeed())
		seen.DeepCopyInto(&now)
		annotated(annotation)(&now)
		g.Expect(c.Update(t.Context(), &now)).To(Succeed())
		g.Expect(apierrors.IsConflict(Claim(t.Context(), c, &seen, Terms{Machine: "m"}))).To(BeTrue(), annotation)
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(&h), &now)).To(Succeed())
		g.Expect(now.Spec.ConsumerRef).To(BeNil())
	}
}
