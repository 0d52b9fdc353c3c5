package claim

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// BenchmarkPick picks one of 10,000 hosts in 40 failure domains. Half of the hosts are claimed.
func BenchmarkPick(b *testing.B) {
	hosts := make([]v1alpha1.BareMetalHost, 10_000)
	for i := range hosts {
		hosts[i] = host(fmt.Sprintf("h-%05d", i), sized(int64(16+i%4*16)<<10), domain(fmt.Sprintf("rack-%02d", i%40)))
		if i%2 == 0 {
			hosts[i].Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
		}
	}
	want := Want{Selector: labels.SelectorFromSet(labels.Set{"rack": "a"}), Preferences: []Preference{prefer("rack", "a", 1)}}
	b.ReportAllocs()
	for b.Loop() {
		if picked, diagnosis := Pick(Each(hosts), want, func(*v1alpha1.BareMetalHost) bool { return false }); picked == nil {
			b.Fatal(diagnosis)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(hosts)), "ns/host")
}
