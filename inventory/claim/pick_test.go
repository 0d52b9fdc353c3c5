package claim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

func tainted(taints ...v1alpha1.HostTaint) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Spec.Taints = append(h.Spec.Taints, taints...) }
}

func labelled(key, value string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{key: value} }
}

func hadBy(owner string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.LastConsumer = &v1alpha1.LastConsumer{Name: "old", Owner: owner}
	}
}

func soft(key v1alpha1.LabelKey) v1alpha1.HostTaint {
	return v1alpha1.HostTaint{Key: key, Effect: v1alpha1.TaintPreferNoClaim}
}

func prefer(key, value string, weight int32) Preference {
	return Preference{Weight: weight, Selector: labels.SelectorFromSet(labels.Set{key: value})}
}

// TestPickOrder: each criterion of the order of preference outranks all later ones.
func TestPickOrder(t *testing.T) {
	const big, small = 64 << 10, 32 << 10
	reuse := func(w *Want) { w.Reuse = "MachineDeployment/md" }
	for name, test := range map[string]struct {
		hosts []v1alpha1.BareMetalHost
		want  func(*Want)
		gets  string
	}{
		"the owner's former host, also a tainted and bigger one": {
			hosts: []v1alpha1.BareMetalHost{host("a", sized(small)), host("b", sized(big), tainted(soft("x")), hadBy("MachineDeployment/md"))},
			want:  reuse, gets: "b",
		},
		"not another owner's":                {hosts: []v1alpha1.BareMetalHost{host("a"), host("b", hadBy("MachineDeployment/other"))}, want: reuse, gets: "a"},
		"nor the owner's where nobody asked": {hosts: []v1alpha1.BareMetalHost{host("a"), host("b", hadBy("MachineDeployment/md"))}, gets: "a"},
		"nor one of nobody's":                {hosts: []v1alpha1.BareMetalHost{host("a"), host("b", hadBy(""))}, gets: "a"},
		"then the fewest taints that are not tolerated": {
			hosts: []v1alpha1.BareMetalHost{host("a", tainted(soft("x"), soft("y"))), host("b", sized(big), tainted(soft("x"))), host("c", tainted(soft("y"), soft("z")))},
			want:  func(w *Want) { w.Preferences = []Preference{prefer("rack", "a", 1)} }, gets: "b",
		},
		"and a tolerated taint does not count": {
			hosts: []v1alpha1.BareMetalHost{host("a", tainted(soft("x"))), host("b")},
			want:  func(w *Want) { w.Tolerations = []v1alpha1.HostToleration{{Key: "x"}} }, gets: "a",
		},
		"then the greatest weight": {
			hosts: []v1alpha1.BareMetalHost{host("a", sized(small), labelled("disk", "hdd")), host("b", sized(big), labelled("disk", "ssd"))},
			want:  func(w *Want) { w.Preferences = []Preference{prefer("disk", "hdd", 10), prefer("disk", "ssd", 11)} }, gets: "b",
		},
		"which is a sum": {
			hosts: []v1alpha1.BareMetalHost{host("a", labelled("x", "1")), host("b", func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"y": "1", "z": "1"} })},
			want: func(w *Want) {
				w.Preferences = []Preference{prefer("x", "1", 50), prefer("y", "1", 26), prefer("z", "1", 25)}
			}, gets: "b",
		},
		"then the smallest":                {hosts: []v1alpha1.BareMetalHost{host("a", sized(big)), host("b", sized(small))}, gets: "b"},
		"then the emptiest failure domain": {hosts: []v1alpha1.BareMetalHost{host("a", domain("r1")), host("b", domain("r2")), host("c", domain("r2"))}, gets: "b"},
		"then the name":                    {hosts: []v1alpha1.BareMetalHost{host("b"), host("a")}, gets: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			w := anything()
			if test.want != nil {
				test.want(&w)
			}
			got, _ := Pick(Each(test.hosts), w, nobody)
			NewWithT(t).Expect(got.Name).To(Equal(test.gets))
		})
	}
}

// TestReasonDoesNotWriteQuantity: the reasons are formatted from objects of the cache, which must not be written.
func TestReasonDoesNotWriteQuantity(t *testing.T) {
	g := NewWithT(t)
	h, want := host("a", sized(1)), anything()
	want.Hardware.Memory = quantity("65536Mi") // not canonical, so String would cache its result
	before := *want.Hardware.Memory
	g.Expect(Eligible(&h, want)).To(Equal("with less than 64Gi memory"))
	g.Expect(*want.Hardware.Memory).To(Equal(before))
}

func quantity(s string) *resource.Quantity { return new(resource.MustParse(s)) }

// TestHardRules: a host that breaks a hard rule is never picked, whatever its rank, and the Diagnosis says why.
func TestHardRules(t *testing.T) {
	now := metav1.Now()
	condition := func(kind string) func(*v1alpha1.BareMetalHost) {
		return func(h *v1alpha1.BareMetalHost) {
			for i := range h.Status.Conditions {
				if c := &h.Status.Conditions[i]; c.Type == kind {
					c.Status = metav1.ConditionFalse
				}
			}
		}
	}
	for want, test := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		want   func(*Want)
		suits  bool
	}{
		"claimed by another machine": {change: func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} }, suits: true},
		"being deleted":              {change: func(h *v1alpha1.BareMetalHost) { h.DeletionTimestamp = &now }},
		"externally provisioned":     {change: func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }},
		"in maintenance":             {change: func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{} }},
		"quarantined":                {change: func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = &v1alpha1.Quarantine{} }},
		"kept powered off":           {change: func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna"}} }},
		"getting firmware settings":  {change: func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.SettingsRuns = 1 }, suits: true},
		"not available (their condition Available says why)": {change: condition(v1alpha1.AvailableCondition), suits: true},
		"not verified (their condition Verified says why)":   {change: condition(v1alpha1.VerifiedCondition)},
		"unhealthy (their BMC says Critical)":                {change: func(h *v1alpha1.BareMetalHost) { h.Status.Hardware.Health = "Critical" }},
		"of another architecture than their spec.architecture says": {
			change: func(h *v1alpha1.BareMetalHost) { h.Status.Hardware.Architecture = "arm64" },
		},
		`not matched by hostSelector "rack=b"`: {want: func(w *Want) { w.Selector = labels.SelectorFromSet(labels.Set{"rack": "b"}) }},
		`not in failure domain "r7"`:           {want: func(w *Want) { w.FailureDomain = "r7" }},
		"of another architecture than arm64":   {want: func(w *Want) { w.Hardware.Architecture = v1alpha1.ArchitectureARM64 }},
		"of another architecture than amd64":   {change: func(h *v1alpha1.BareMetalHost) { h.Spec.Architecture = v1alpha1.ArchitectureARM64 }},
		"with less than 9 CPUs":                {want: func(w *Want) { w.Hardware.CPU = 9 }},
		"with less than 17Gi memory":           {want: func(w *Want) { w.Hardware.Memory = quantity("17Gi") }},
		"without a disk of 401Gi":              {want: func(w *Want) { w.Hardware.Disk = quantity("401Gi") }},
		`without the firmware settings of BareMetalProfile "fast" (their condition SettingsConform says why)`: {
			change: func(h *v1alpha1.BareMetalHost) { h.Status.SettingsProfile = "slow" }, want: func(w *Want) { w.Profile = "fast" },
		},
		"with the taint gpu=a100, which tolerations do not name": {
			change: tainted(v1alpha1.HostTaint{Key: "gpu", Value: "a100", Effect: v1alpha1.TaintNoClaim}),
			want: func(w *Want) {
				w.Tolerations = []v1alpha1.HostToleration{{Key: "gpu"}, {Key: "cpu", Operator: corev1.TolerationOpExists}}
			},
		},
		"with the taint old, which tolerations do not name": {change: tainted(v1alpha1.HostTaint{Key: "old"})},
	} {
		t.Run(want, func(t *testing.T) {
			g := NewWithT(t)
			h, w := host("a", hadBy("MachineSet/ms")), anything()
			w.Reuse, w.Preferences = "MachineSet/ms", []Preference{{Weight: 100, Selector: labels.Everything()}}
			if test.change != nil {
				test.change(&h)
			}
			if test.want != nil {
				test.want(&w)
			}
			got, diagnosis := Pick(Each([]v1alpha1.BareMetalHost{h}), w, nobody)
			g.Expect(got).To(BeNil())
			g.Expect(diagnosis.String()).To(HaveSuffix("None of 1 hosts fits: 1 " + want))
			if test.suits {
				g.Expect(Eligible(&h, w)).To(BeEmpty())
			} else {
				g.Expect(Eligible(&h, w)).NotTo(BeEmpty())
				g.Expect(want).To(HavePrefix(Eligible(&h, w)), "the Diagnosis adds the selector")
			}
		})
	}
}

func TestTolerations(t *testing.T) {
	taint := v1alpha1.HostTaint{Key: "gpu", Value: "a100", Effect: v1alpha1.TaintNoClaim}
	for name, test := range map[string]struct {
		toleration v1alpha1.HostToleration
		tolerated  bool
	}{
		"the same value":        {v1alpha1.HostToleration{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "a100"}, true},
		"no operator is Equal":  {v1alpha1.HostToleration{Key: "gpu", Value: "a100"}, true},
		"another value":         {v1alpha1.HostToleration{Key: "gpu", Operator: corev1.TolerationOpEqual, Value: "h100"}, false},
		"no value":              {v1alpha1.HostToleration{Key: "gpu", Operator: corev1.TolerationOpEqual}, false},
		"any value":             {v1alpha1.HostToleration{Key: "gpu", Operator: corev1.TolerationOpExists}, true},
		"any value, other key":  {v1alpha1.HostToleration{Key: "cpu", Operator: corev1.TolerationOpExists}, false},
		"same value, other key": {v1alpha1.HostToleration{Key: "cpu", Value: "a100"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := anything()
			w.Tolerations = []v1alpha1.HostToleration{test.toleration}
			got, _ := Pick(Each([]v1alpha1.BareMetalHost{host("a", tainted(taint))}), w, nobody)
			NewWithT(t).Expect(got != nil).To(Equal(test.tolerated))
		})
	}
}

// TestDiagnosisNamesUnmeetableRequirementsFirst: a requirement that no host meets comes first, with a remedy.
func TestDiagnosisNamesUnmeetableRequirementsFirst(t *testing.T) {
	claimed := func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} }
	maintained := func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{} }
	var many []v1alpha1.BareMetalHost
	for i := range 12 {
		many = append(many, host(strconv.Itoa(i), domain(fmt.Sprintf("r%02d", i)), claimed))
	}
	inR9 := func(w *Want) { w.FailureDomain = "r9" }
	onZ := func(w *Want) { w.Selector = labels.SelectorFromSet(labels.Set{"rack": "z"}) }
	for name, test := range map[string]struct {
		hosts []v1alpha1.BareMetalHost
		want  func(*Want)
		says  string
	}{
		"no hosts": {nil, func(*Want) {}, "There is no BareMetalHost in this namespace: register one, or create the Cluster in the namespace of the hosts"},
		"the commonest reason stands first": {
			[]v1alpha1.BareMetalHost{host("a", maintained), host("b", claimed), host("c", claimed)}, func(*Want) {},
			"None of 3 hosts fits: 2 claimed by another machine, 1 in maintenance",
		},
		"a failure domain that no host has": {
			[]v1alpha1.BareMetalHost{host("a", domain("r2"), claimed), host("b", domain("r1"), claimed), host("c")}, inR9,
			`No host is in failure domain "r9", which the Machine asks for: the hosts are in r1, r2. Ask for one of these, or correct the ` +
				`spec.failureDomain of the hosts. None of 3 hosts fits: 2 claimed by another machine, 1 not in failure domain "r9"`,
		},
		"where no host has any": {
			[]v1alpha1.BareMetalHost{host("a")}, inR9,
			`No host is in failure domain "r9", which the Machine asks for: no host has a spec.failureDomain. Set it on the hosts, or leave the failure ` +
				`domain out. None of 1 hosts fits: 1 not in failure domain "r9"`,
		},
		"and where they are many": {
			many, inR9,
			`No host is in failure domain "r9", which the Machine asks for: the hosts are in r00, r01, r02, r03, r04, r05, r06, r07, r08, r09 and 2 more. ` +
				`Ask for one of these, or correct the spec.failureDomain of the hosts. None of 12 hosts fits: 12 claimed by another machine`,
		},
		"one that only claimed hosts have": {
			[]v1alpha1.BareMetalHost{host("a", domain("r9"), claimed)}, inR9, "None of 1 hosts fits: 1 claimed by another machine",
		},
		"a selector that matches nothing": {
			[]v1alpha1.BareMetalHost{host("a", claimed)}, onZ,
			`hostSelector "rack=z" matches no host: correct it, or label the hosts that it is meant for. None of 1 hosts fits: 1 claimed by another machine`,
		},
		"both": {
			[]v1alpha1.BareMetalHost{host("a", domain("r1"))}, func(w *Want) { inR9(w); onZ(w) },
			`hostSelector "rack=z" matches no host: correct it, or label the hosts that it is meant for. No host is in failure domain "r9", which the ` +
				`Machine asks for: the hosts are in r1. Ask for one of these, or correct the spec.failureDomain of the hosts. ` +
				`None of 1 hosts fits: 1 not matched by hostSelector "rack=z"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := anything()
			test.want(&w)
			_, diagnosis := Pick(Each(test.hosts), w, nobody)
			NewWithT(t).Expect(diagnosis.String()).To(Equal(test.says))
		})
	}
}

// TestPowerHoldOfClaimedHost: a power hold of a claimed host does not exclude the host for another machine, because the release removes the hold.
func TestPowerHoldOfClaimedHost(t *testing.T) {
	h := host("a", func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef, h.Spec.PowerHolds = &v1alpha1.ConsumerReference{Name: "m"}, []v1alpha1.PowerHold{{Holder: "anna"}}
	})
	NewWithT(t).Expect(Eligible(&h, anything())).To(BeEmpty())
}

func drawHost(t *rapid.T, name string) v1alpha1.BareMetalHost {
	h := host(name, sized(rapid.Int64Range(1, 4).Draw(t, "size")<<10), domain(rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(t, "domain")),
		labelled("disk", rapid.SampledFrom([]string{"ssd", "hdd"}).Draw(t, "disk")), hadBy(rapid.SampledFrom([]string{"", "A", "B"}).Draw(t, "had by")))
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3, rapid.ID[string]).Draw(t, "taints") {
		effect := rapid.SampledFrom([]v1alpha1.TaintEffect{v1alpha1.TaintNoClaim, v1alpha1.TaintPreferNoClaim, ""}).Draw(t, "effect")
		h.Spec.Taints = append(h.Spec.Taints, v1alpha1.HostTaint{Key: v1alpha1.LabelKey(key), Effect: effect})
	}
	switch rapid.IntRange(0, 9).Draw(t, "state") {
	case 0:
		h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
	case 1:
		h.Spec.Quarantine = &v1alpha1.Quarantine{}
	case 2:
		h.Spec.Maintenance = &v1alpha1.Maintenance{}
	case 3:
		h.Status.Conditions = nil
	case 4:
		h.Status.Hardware.Health = rapid.SampledFrom([]wire.Health{wire.HealthCritical, wire.HealthWarning, wire.HealthOK}).Draw(t, "health")
	case 5:
		h.Spec.Architecture = v1alpha1.ArchitectureARM64
	}
	return h
}

func drawWant(t *rapid.T) Want {
	w := Want{
		Selector:      rapid.SampledFrom([]labels.Selector{labels.Everything(), labels.SelectorFromSet(labels.Set{"disk": "ssd"})}).Draw(t, "selector"),
		FailureDomain: rapid.SampledFrom([]string{"", "", "r1"}).Draw(t, "want domain"),
		Hardware:      v1alpha1.HardwareRequirements{Memory: resource.NewQuantity(rapid.Int64Range(0, 4).Draw(t, "need")<<30, resource.BinarySI)},
		Reuse:         rapid.SampledFrom([]string{"", "A"}).Draw(t, "reuse"),
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y"}), 0, 2).Draw(t, "tolerations") {
		w.Tolerations = append(w.Tolerations, v1alpha1.HostToleration{Key: v1alpha1.LabelKey(key), Operator: corev1.TolerationOpExists})
	}
	for _, disk := range rapid.SliceOfN(rapid.SampledFrom([]string{"ssd", "hdd"}), 0, 2).Draw(t, "preferences") {
		w.Preferences = append(w.Preferences, prefer("disk", disk, rapid.Int32Range(1, 3).Draw(t, "weight")))
	}
	return w
}

// mayClaim is a second implementation of the hard rules.
func mayClaim(h v1alpha1.BareMetalHost, w Want) bool {
	ok := h.Spec.ConsumerRef == nil && h.Spec.Quarantine == nil && h.Spec.Maintenance == nil && len(h.Status.Conditions) == 2 &&
		h.Status.Hardware.Health != "Critical" && h.Spec.Architecture == v1alpha1.ArchitectureAMD64 && w.Selector.Matches(labels.Set(h.Labels)) &&
		(w.FailureDomain == "" || w.FailureDomain == h.Spec.FailureDomain) && h.Status.Hardware.Memory.Value() >= w.Hardware.Memory.Value()
	for _, taint := range h.Spec.Taints {
		ok = ok && (taint.Effect == v1alpha1.TaintPreferNoClaim || minds(string(taint.Key), w) == 0)
	}
	return ok
}

func minds(key string, w Want) int {
	if slices.ContainsFunc(w.Tolerations, func(t v1alpha1.HostToleration) bool { return string(t.Key) == key }) {
		return 0
	}
	return 1
}

// rank is a second implementation of the order of preference, as numbers. Less is better.
func rank(h v1alpha1.BareMetalHost, w Want, free map[string]int) []int {
	out := []int{1, 0, 0, int(h.Status.Hardware.Memory.Value()), -free[h.Spec.FailureDomain]}
	if w.Reuse != "" && h.Spec.ProviderState.LastConsumer.Owner == w.Reuse {
		out[0] = 0
	}
	for _, taint := range h.Spec.Taints {
		if taint.Effect == v1alpha1.TaintPreferNoClaim {
			out[1] += minds(string(taint.Key), w)
		}
	}
	for _, p := range w.Preferences {
		if p.Selector.Matches(labels.Set(h.Labels)) {
			out[2] -= int(p.Weight)
		}
	}
	return out
}

// better is true when the machine prefers a to b.
func better(a, b v1alpha1.BareMetalHost, w Want, free map[string]int) bool {
	return cmp.Or(slices.Compare(rank(a, w, free), rank(b, w, free)), cmp.Compare(a.Name, b.Name)) < 0
}

func sum(counts map[string]int) int {
	all := 0
	for _, n := range counts {
		all += n
	}
	return all
}

// TestPickProperties: Pick returns a host if and only if the machine may claim one. The machine may claim that host, and no other one is better. The
// order of the list does not matter, and every host is counted once.
func TestPickProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := make([]v1alpha1.BareMetalHost, rapid.IntRange(0, 8).Draw(t, "hosts"))
		for i := range hosts {
			hosts[i] = drawHost(t, fmt.Sprintf("h%d", i))
		}
		w := drawWant(t)
		got, diagnosis := Pick(Each(hosts), w, nobody)
		may := slices.DeleteFunc(slices.Clone(hosts), func(h v1alpha1.BareMetalHost) bool { return !mayClaim(h, w) })
		free := map[string]int{}
		for _, h := range may {
			free[h.Spec.FailureDomain]++
		}
		if (got != nil) != (len(may) > 0) || got != nil && !mayClaim(*got, w) {
			t.Fatalf("%d hosts fit, picked %v (%s)", len(may), got, diagnosis)
		}
		for _, other := range may {
			if better(other, *got, w, free) {
				t.Fatalf("picked %s, and %s is better", got.Name, other.Name)
			}
		}
		if diagnosis.Total != len(hosts) || sum(diagnosis.excluded)+len(may) != len(hosts) {
			t.Fatalf("of %d hosts %d fit and %d are excluded", len(hosts), len(may), sum(diagnosis.excluded))
		}
		if again, _ := Pick(Each(rapid.Permutation(hosts).Draw(t, "order")), w, nobody); got != nil && again.Name != got.Name {
			t.Fatalf("picked %s, and %s from another order of the list", got.Name, again.Name)
		}
	})
}

func TestWantOf(t *testing.T) {
	g := NewWithT(t)
	spec := &v1alpha1.BareMetalMachineSpec{
		HostSelector: &v1alpha1.HostSelector{
			MatchLabels:      map[string]v1alpha1.LabelValue{"rack": "a"},
			MatchExpressions: []v1alpha1.HostSelectorRequirement{{Key: "disk", Operator: metav1.LabelSelectorOpIn, Values: []v1alpha1.LabelValue{"ssd", "nvme"}}},
		},
		Preferences: []v1alpha1.HostPreference{{Weight: 7, HostSelector: v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"new": "1"}}}},
		Tolerations: []v1alpha1.HostToleration{{Key: "gpu"}},
	}
	w, err := WantOf(spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Selector.String()).To(Equal("disk in (nvme,ssd),rack=a"))
	g.Expect(w.Preferences).To(HaveLen(1))
	g.Expect(w.Preferences[0].Weight).To(Equal(int32(7)))
	g.Expect(w.Preferences[0].Selector.String()).To(Equal("new=1"))
	g.Expect(w.Tolerations).To(Equal(spec.Tolerations))

	spec.HostSelector.MatchExpressions[0].Operator = "Near"
	_, err = WantOf(spec)
	g.Expect(err).To(MatchError(ContainSubstring("Near")))
	w, err = WantOf(&v1alpha1.BareMetalMachineSpec{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Selector.Empty()).To(BeTrue(), "no selector picks all")
}

func annotated(annotation string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{annotation: "anna"} }
}

// TestAnnotationsKeepHosts: annotations exclude a host at once, whatever its conditions still say, and the Diagnosis counts it.
func TestAnnotationsKeepHosts(t *testing.T) {
	g := NewWithT(t)
	hosts := []v1alpha1.BareMetalHost{
		host("a", annotated(v1alpha1.DetachedAnnotation)),
		host("b", annotated(v1alpha1.PowerHoldPrefix+"anna")),
		host("c", annotated(v1alpha1.ForcePowerHoldPrefix+"otto")),
	}
	got, diagnosis := Pick(Each(hosts), anything(), nobody)
	g.Expect(got).To(BeNil())
	g.Expect(diagnosis.String()).To(HaveSuffix("None of 3 hosts fits: 2 kept powered off, 1 detached"))
	held := host("d", annotated(v1alpha1.PowerHoldPrefix+"anna"), func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} })
	g.Expect(Eligible(&held, anything())).To(BeEmpty(), "the hold is the machine's, and goes with it")
	cycled := host("e", annotated(v1alpha1.PowerCyclePrefix+"anna"))
	got, _ = Pick(Each([]v1alpha1.BareMetalHost{cycled}), anything(), nobody)
	g.Expect(got).NotTo(BeNil(), "nobody is kept waiting by a wish that is dropped")
}

// TestStart: among hosts of equal ranks, different values of Start lead to different hosts, and each always to the same. Ranks come first.
func TestStart(t *testing.T) {
	g := NewWithT(t)
	var hosts []v1alpha1.BareMetalHost
	for i := range 16 {
		hosts = append(hosts, host(fmt.Sprintf("h-%02d", i)))
	}
	free := func(*v1alpha1.BareMetalHost) bool { return false }
	pick := func(start string, hosts []v1alpha1.BareMetalHost) string {
		picked, _ := Pick(Each(hosts), Want{Selector: labels.Everything(), Start: start}, free)
		return picked.Name
	}
	g.Expect(pick("", hosts)).To(Equal("h-00"))
	chosen := map[string]bool{}
	for i := range 16 {
		name := fmt.Sprintf("m-%d", i)
		chosen[pick(name, hosts)] = true
		g.Expect(pick(name, hosts)).To(Equal(pick(name, hosts)))
		g.Expect(pick(name, append(slices.Clone(hosts), host("smaller", sized(1))))).To(Equal("smaller"))
	}
	g.Expect(len(chosen)).To(BeNumerically(">", 4))
}
