package template

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// capacityOf returns the least of each resource that one of the hosts has: whichever of them a machine gets, it has that much. A host whose
// BMC does not tell of a resource has no say in it. ephemeral-storage is the smallest disk, for which one the operating system
// puts itself on is not known; one that runs from memory puts itself on none.
func capacityOf(hosts []*v1alpha1.BareMetalHost, persistence v1alpha1.BootPersistence) corev1.ResourceList {
	least := map[corev1.ResourceName]int64{}
	note := func(name corev1.ResourceName, value int64) {
		if known, ok := least[name]; value > 0 && (!ok || value < known) {
			least[name] = value
		}
	}
	for _, host := range hosts {
		hardware := host.Status.Hardware
		if hardware == nil {
			continue
		}
		note(corev1.ResourceCPU, int64(hardware.CPU.Threads))
		note(corev1.ResourceMemory, hardware.Memory.Value())
		if persistence == v1alpha1.PersistenceInstalled {
			for i := range hardware.Disks {
				note(corev1.ResourceEphemeralStorage, hardware.Disks[i].Size.Value())
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
