package claim

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestNearestMiss: the nearest miss is the free host that the fewest things keep from the machine, and everything that does is named.
func TestNearestMiss(t *testing.T) {
	claimed := func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} }
	maintained := func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{} }
	nineCPUs := func(w *Want) { w.Hardware.CPU = 9 }
	for name, test := range map[string]struct {
		hosts []v1alpha1.BareMetalHost
		want  func(*Want)
		miss  *Miss
	}{
		"no host":         {nil, nineCPUs, nil},
		"all are claimed": {[]v1alpha1.BareMetalHost{host("a", claimed)}, nineCPUs, nil},
		"one fits":        {[]v1alpha1.BareMetalHost{host("a")}, func(*Want) {}, nil},
		"fewer obstacles": {[]v1alpha1.BareMetalHost{host("a", maintained), host("b")}, nineCPUs, &Miss{Host: "b", Reasons: []string{"with less than 9 CPUs"}}},
		"a state before a requirement": {
			[]v1alpha1.BareMetalHost{host("a"), host("b", maintained, domain("r1"))}, func(w *Want) { w.FailureDomain = "r1" },
			&Miss{Host: "b", Reasons: []string{"in maintenance"}},
		},
		"everything is named": {
			[]v1alpha1.BareMetalHost{host("a", maintained)}, func(w *Want) {
				nineCPUs(w)
				w.Selector = labels.SelectorFromSet(labels.Set{"rack": "z"})
			},
			&Miss{Host: "a", Reasons: []string{"in maintenance", `not matched by hostSelector "rack=z"`, "with less than 9 CPUs"}},
		},
		"then the name": {[]v1alpha1.BareMetalHost{host("b"), host("a")}, nineCPUs, &Miss{Host: "a", Reasons: []string{"with less than 9 CPUs"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := anything()
			test.want(&w)
			diagnosis := Diagnose(Each(test.hosts), w)
			g := NewWithT(t)
			g.Expect(diagnosis.Nearest).To(Equal(test.miss))
			if test.miss != nil {
				g.Expect(diagnosis.String()).To(HaveSuffix(fmt.Sprintf(". The nearest is %q: %s", test.miss.Host, strings.Join(test.miss.Reasons, ", "))))
			}
		})
	}
}

// TestMissAgreesWithPick: the first reason of a free host is the one that Pick counts, and a host without a reason is one that Pick could have picked.
func TestMissAgreesWithPick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHost(t, "a")
		h.Spec.ConsumerRef = nil
		w := drawWant(t)
		reasons, reason := missReasons(&h, &w), exclusionReason(&h, &w)
		if reason == "" && len(reasons) > 0 || reason != "" && (len(reasons) == 0 || reasons[0] != withSelector(reason, &w)) {
			t.Fatalf("Pick says %q, and the miss %q", reason, reasons)
		}
		if o := obstaclesOf(&h, &w); o.all != len(reasons) {
			t.Fatalf("%d obstacles, and the reasons %q", o.all, reasons)
		}
	})
}
