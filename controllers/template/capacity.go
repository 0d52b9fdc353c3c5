package template

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// gpuResources are the resources that the device plugins of the vendors of GPUs offer, by the PCI ID of the vendor.
var gpuResources = map[string]corev1.ResourceName{"10de": "nvidia.com/gpu", "1002": "amd.com/gpu", "8086": "gpu.intel.com/i915"}

// capacityOf returns the minimum of each resource over the hosts: a machine has at least that much on any of them. A host of which a
// resource is unknown is ignored for it. ephemeral-storage is the smallest disk, since the disk of the operating system is not known. An operating system that
// runs from memory uses no disk. GPUs count for a template that requires some, as far as the agent found their vendor on all hosts.
func capacityOf(hosts []*v1alpha1.BareMetalHost, persistence v1alpha1.BootPersistence, need *v1alpha1.GPURequirement) corev1.ResourceList {
	least := map[corev1.ResourceName]int64{}
	add := func(name corev1.ResourceName, value int64) {
		if known, ok := least[name]; value > 0 && (!ok || value < known) {
			least[name] = value
		}
	}
	for _, host := range hosts {
		add(corev1.ResourceCPU, int64(claim.CPU(host)))
		add(corev1.ResourceMemory, claim.Memory(host))
		for vendor, name := range gpuResources {
			if need != nil && (need.Vendor == "" || need.Vendor == vendor) {
				add(name, int64(claim.GPUs(host, v1alpha1.GPURequirement{Vendor: vendor, Device: need.Device})))
			}
		}
		if persistence == v1alpha1.PersistenceInstalled {
			for _, size := range claim.DiskSizes(host) {
				add(corev1.ResourceEphemeralStorage, size)
			}
		}
	}
	for vendor, name := range gpuResources { // a machine may get a host with GPUs of another vendor
		has := func(host *v1alpha1.BareMetalHost) bool {
			return claim.GPUs(host, v1alpha1.GPURequirement{Vendor: vendor}) > 0
		}
		if slices.ContainsFunc(hosts, func(host *v1alpha1.BareMetalHost) bool { return !has(host) }) {
			delete(least, name)
		}
	}
	if len(least) == 0 {
		return nil
	}
	capacity := corev1.ResourceList{}
	for name, value := range least {
		format := resource.BinarySI
		if name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage {
			format = resource.DecimalSI
		}
		capacity[name] = *resource.NewQuantity(value, format)
	}
	return capacity
}
