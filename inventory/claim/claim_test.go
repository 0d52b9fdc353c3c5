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
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func host(name string, changes ...func(*v1alpha1.BareMetalHost)) v1alpha1.BareMetalHost {
	h := v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: name, Labels: map[string]string{"rack": "a"}},
		Spec:       v1alpha1.BareMetalHostSpec{Architecture: v1alpha1.ArchitectureAMD64},
		Status: v1alpha1.BareMetalHostStatus{
			Hardware: &v1alpha1.Hardware{
				CPU: v1alpha1.CPU{Threads: 8}, MemoryMiB: 16 << 10, Disks: []v1alpha1.Disk{{SizeGiB: 100}, {SizeGiB: 400}},
			},
			Conditions: []metav1.Condition{{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(&h)
	}
	return h
}

func sized(mib int64) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Status.Hardware.MemoryMiB = mib }
}

func domain(name string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = name }
}

func nobody(*v1alpha1.BareMetalHost) bool { return false }

func anything() Want { return Want{Selector: labels.Everything()} }

func TestPickOrder(t *testing.T) {
	for name, test := range map[string]struct {
		hosts []v1alpha1.BareMetalHost
		want  string
	}{
		"the smallest first":               {[]v1alpha1.BareMetalHost{host("a", sized(64<<10)), host("b", sized(32<<10))}, "b"},
		"then the emptiest failure domain": {[]v1alpha1.BareMetalHost{host("a", domain("r1")), host("b", domain("r2")), host("c", domain("r2"))}, "b"},
		"then the name":                    {[]v1alpha1.BareMetalHost{host("b"), host("a")}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := Pick(test.hosts, anything(), nobody)
			NewWithT(t).Expect(got.Name).To(Equal(test.want))
		})
	}
}

func TestPickTellsWhy(t *testing.T) {
	quantity := func(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
	now := metav1.Now()
	for want, test := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		want   func(*Want)
	}{
		"claimed by another machine": {change: func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} }},
		"being deleted":              {change: func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &now }},
		"externally provisioned":     {change: func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }},
		"in maintenance":             {change: func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{} }},
		"quarantined":                {change: func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = &v1alpha1.Quarantine{} }},
		"not available (their condition Available says why)": {change: func(h *v1alpha1.BareMetalHost) { h.Status = v1alpha1.BareMetalHostStatus{} }},
		`not matched by hostSelector "rack=b"`:               {want: func(w *Want) { w.Selector = labels.SelectorFromSet(labels.Set{"rack": "b"}) }},
		`not in failure domain "r7"`:                         {want: func(w *Want) { w.FailureDomain = "r7" }},
		"of another architecture than arm64":                 {want: func(w *Want) { w.Hardware.Architecture = v1alpha1.ArchitectureARM64 }},
		"with less than 9 CPUs":                              {want: func(w *Want) { w.Hardware.CPU = 9 }},
		"with less than 17Gi memory":                         {want: func(w *Want) { w.Hardware.Memory = quantity("17Gi") }},
		"without a disk of 401Gi":                            {want: func(w *Want) { w.Hardware.Disk = quantity("401Gi") }},
	} {
		t.Run(want, func(t *testing.T) {
			g := NewWithT(t)
			h, w := host("a"), anything()
			if test.change != nil {
				test.change(&h)
			}
			if test.want != nil {
				test.want(&w)
			}
			got, tally := Pick([]v1alpha1.BareMetalHost{h}, w, nobody)
			g.Expect(got).To(BeNil())
			g.Expect(tally.String()).To(Equal("None of 1 hosts fits: 1 " + want))
		})
	}
	t.Run("the commonest reason stands first", func(t *testing.T) {
		claimed := func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} }
		maintained := func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{} }
		_, tally := Pick([]v1alpha1.BareMetalHost{host("a", maintained), host("b", claimed), host("c", claimed)}, anything(), nobody)
		NewWithT(t).Expect(tally.String()).To(Equal("None of 3 hosts fits: 2 claimed by another machine, 1 in maintenance"))
	})
	t.Run("no hosts", func(t *testing.T) {
		_, tally := Pick(nil, anything(), nobody)
		NewWithT(t).Expect(tally.String()).To(ContainSubstring("no BareMetalHost"))
	})
}

// TestPickFits: whatever is picked fits, and something is picked if anything fits.
func TestPickFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1alpha1.BareMetalHost {
			return host(rapid.StringMatching(`[a-z]{3}`).Draw(t, "name"), sized(rapid.Int64Range(0, 100).Draw(t, "size")<<10),
				domain(rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "domain")))
		}), 0, 10).Draw(t, "hosts")
		need := resource.NewQuantity(rapid.Int64Range(0, 100).Draw(t, "need")*gibibyte, resource.BinarySI)
		w := Want{Selector: labels.Everything(), FailureDomain: rapid.SampledFrom([]string{"", "r1"}).Draw(t, "want"), Hardware: v1alpha1.HardwareRequirements{Memory: need}}
		got, tally := Pick(hosts, w, nobody)
		fits := 0
		for i := range hosts {
			if exclusion(&hosts[i], w) == "" {
				fits++
			}
		}
		if (got != nil) != (fits > 0) || got != nil && exclusion(got, w) != "" {
			t.Fatalf("%d hosts fit, picked %v (%s)", fits, got, tally)
		}
	})
}

// TestClaimOnce: of many that claim one host, one gets it, and the others learn that they did not.
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
			switch err := Claim(context.Background(), c, &seen, fmt.Sprintf("m-%d", i)); {
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

func TestAssumed(t *testing.T) {
	g := NewWithT(t)
	var assumed Assumed
	h := host("a")
	h.ResourceVersion = "1"
	g.Expect(assumed.Take(&h, "m1")).To(BeTrue())
	g.Expect(assumed.Take(&h, "m1")).To(BeTrue(), "again for the same machine")
	g.Expect(assumed.Take(&h, "m2")).To(BeFalse())
	g.Expect(assumed.Taken(&h, "m2")).To(BeTrue())
	g.Expect(assumed.Taken(&h, "m1")).To(BeFalse())
	h.ResourceVersion = "2"
	g.Expect(assumed.Taken(&h, "m2")).To(BeFalse(), "the cache has caught up")
	g.Expect(assumed.Take(&h, "m2")).To(BeTrue())
	assumed.Drop(&h)
	g.Expect(assumed.Taken(&h, "m1")).To(BeFalse())
}
