package rules

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// autoscaling shows what a cluster autoscaler reads from the template of a MachineDeployment without Machines: the minimum of the matching hosts.
func (s *suite) autoscaling(t *testing.T) {
	g := NewWithT(t)
	var hosts v1alpha1.BareMetalHostList
	g.Expect(s.plane.Client.List(t.Context(), &hosts, client.InNamespace(site.Namespace))).To(Succeed())
	eventually(t, func(g Gomega) {
		var template v1alpha1.BareMetalMachineTemplate
		g.Expect(s.plane.Client.Get(t.Context(), client.ObjectKey{Namespace: site.Namespace, Name: site.ClusterName + "-workers"}, &template)).To(Succeed())
		g.Expect(template.Status.MatchingHosts).To(BeEquivalentTo(len(hosts.Items)))
		g.Expect(template.Status.NodeInfo).To(Equal(v1alpha1.NodeInfo{Architecture: "amd64", OperatingSystem: "linux"}))
		for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			g.Expect(template.Status.Capacity).To(HaveKey(resource))
		}
		var told []int32 // BMCs with IPMI do not report processors
		for _, h := range hosts.Items {
			if n := h.Status.Hardware.CPU.Threads; n > 0 {
				told = append(told, n)
			}
		}
		least := slices.Min(told)
		g.Expect(template.Status.Capacity.Cpu().Value()).To(BeEquivalentTo(least))
	})
}
