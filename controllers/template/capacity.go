package template

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// capacityOf returns the minimum of each resource over the hosts: a machine has at least that much on any of them. A host of which a
// resource is unknown is ignored for it. ephemeral-storage is the smallest disk, since the disk of the operating system is not known. An operating system that
// runs from memory uses no disk.
func capacityOf(hosts []*v1alpha1.BareMetalHost, persistence v1alpha1.BootPersistence) corev1.ResourceList {
	least := map[corev1.ResourceName]int64{}
	add := func(name corev1.ResourceName, value int64) {
		if known, ok := least[name]; value > 0 && (!ok || value < known) {
			least[name] = value
		}
	}
	for _, host := range hosts {
		add(corev1.ResourceCPU, int64(claim.CPU(host)))
		add(corev1.ResourceMemory, claim.Memory(host))
		if persistence == v1alpha1.PersistenceInstalled {
			for _, size := range claim.DiskSizes(host) {
				add(corev1.ResourceEphemeralStorage, size)
			}
		}
	}
	if len(least) == 0 {
		return nil
	}
	capacity := corev1.ResourceList{}
	for name, value := range least {
		format := resource.BinarySI
		if name == corev1.ResourceCPU {
			format = resource.DecimalSI
		}
		capacity[name] = *resource.NewQuantity(value, format)
	}
	return capacity
}
