package template

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// least is the minimum of each resource.
type least map[corev1.ResourceName]int64

// add counts a value of a host. An unknown value, which is zero, is ignored.
func (l least) add(name corev1.ResourceName, value int64) {
	if known, ok := l[name]; value > 0 && (!ok || value < known) {
		l[name] = value
	}
}

// capacityOf returns the minimum of each resource over the hosts: a machine has at least that much on any of them. A host of which a
// resource is unknown is ignored for it. ephemeral-storage is the smallest disk, since the disk of the operating system is not known. An operating system that
// runs from memory uses no disk.
func capacityOf(hosts []*v1alpha1.BareMetalHost, persistence v1alpha1.BootPersistence, need *v1alpha1.GPURequirement) corev1.ResourceList {
	smallest := least{}
	for _, host := range hosts {
		smallest.add(corev1.ResourceCPU, int64(claim.CPU(host)))
		smallest.add(corev1.ResourceMemory, claim.Memory(host))
		if persistence == v1alpha1.PersistenceInstalled {
			for _, size := range claim.DiskSizes(host) {
				smallest.add(corev1.ResourceEphemeralStorage, size)
			}
		}
	}
	if need != nil {
		maps.Copy(smallest, gpusOf(hosts, *need))
	}
	if len(smallest) == 0 {
		return nil
	}
	capacity := corev1.ResourceList{}
	for name, value := range smallest {
		format := resource.DecimalSI
		if name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage {
			format = resource.BinarySI
		}
		capacity[name] = *resource.NewQuantity(value, format)
	}
	return capacity
}

// gpuResources are the resources that the device plugins of the vendors of GPUs offer, by the PCI ID of the vendor.
var gpuResources = map[string]corev1.ResourceName{"10de": "nvidia.com/gpu", "1002": "amd.com/gpu", "8086": "gpu.intel.com/i915"}

// gpusOf returns the GPUs that a machine has on any of the hosts, as far as the agent found their vendor. A vendor whose GPUs are not on all hosts
// does not count: a machine may get a host with GPUs of another vendor.
func gpusOf(hosts []*v1alpha1.BareMetalHost, need v1alpha1.GPURequirement) least {
	smallest := least{}
	for vendor, name := range gpuResources {
		wanted := v1alpha1.GPURequirement{Vendor: vendor, Device: need.Device}
		lacks := func(host *v1alpha1.BareMetalHost) bool { return claim.GPUs(host, wanted) == 0 }
		if need.Vendor != "" && need.Vendor != vendor || slices.ContainsFunc(hosts, lacks) {
			continue
		}
		for _, host := range hosts {
			smallest.add(name, int64(claim.GPUs(host, wanted)))
		}
	}
	return smallest
}
