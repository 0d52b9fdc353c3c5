package template

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestGPUCapacity: GPUs are a capacity if the template requires some and all its hosts have them, by the resource of their vendor's device plugin.
func TestGPUCapacity(t *testing.T) {
	with := func(groups ...v1alpha1.GPUGroup) *v1alpha1.BareMetalHost {
		return &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{Inspection: v1alpha1.InspectionAgent}, Status: v1alpha1.BareMetalHostStatus{Inspection: &v1alpha1.InspectionSummary{GPUs: groups}}}
	}
	nvidia := func(n int32) v1alpha1.GPUGroup { return v1alpha1.GPUGroup{Count: n, Vendor: "10de", Device: "20b5"} }
	amd := v1alpha1.GPUGroup{Count: 2, Vendor: "1002", Device: "74a1"}
	some := &v1alpha1.GPURequirement{Count: 1}
	for name, test := range map[string]struct {
		hosts []*v1alpha1.BareMetalHost
		need  *v1alpha1.GPURequirement
		want  map[corev1.ResourceName]int64
	}{
		"none required":            {[]*v1alpha1.BareMetalHost{with(nvidia(8))}, nil, nil},
		"the fewest":               {[]*v1alpha1.BareMetalHost{with(nvidia(8)), with(nvidia(4))}, some, map[corev1.ResourceName]int64{"nvidia.com/gpu": 4}},
		"of the vendor":            {[]*v1alpha1.BareMetalHost{with(nvidia(8), amd)}, &v1alpha1.GPURequirement{Count: 1, Vendor: "1002"}, map[corev1.ResourceName]int64{"amd.com/gpu": 2}},
		"of both vendors":          {[]*v1alpha1.BareMetalHost{with(nvidia(8), amd)}, some, map[corev1.ResourceName]int64{"amd.com/gpu": 2, "nvidia.com/gpu": 8}},
		"of one vendor or another": {[]*v1alpha1.BareMetalHost{with(nvidia(8)), with(amd)}, some, nil},
		"of the device":            {[]*v1alpha1.BareMetalHost{with(nvidia(8), v1alpha1.GPUGroup{Count: 1, Vendor: "10de", Device: "1eb8"})}, &v1alpha1.GPURequirement{Count: 1, Device: "1eb8"}, map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[corev1.ResourceName]int64{}
			for name, quantity := range capacityOf(test.hosts, v1alpha1.PersistenceInstalled, test.need) {
				got[name] = quantity.Value()
			}
			if test.want == nil {
				test.want = map[corev1.ResourceName]int64{}
			}
			NewWithT(t).Expect(got).To(Equal(test.want))
		})
	}
}
