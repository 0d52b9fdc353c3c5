package claim

import (
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// The facts of a host that requirements are compared with come from the BMC (status.hardware), or from the agent (status.inspection). spec.inspection decides:
// with Both a fact that the agent did not find comes from the BMC. An unknown fact is zero, and meets no requirement.

// reported returns what the BMC reports; nil if it does not count, or is unknown.
func reported(host *v1alpha1.BareMetalHost) *v1alpha1.Hardware {
	if host.Spec.Inspection == v1alpha1.InspectionAgent {
		return nil
	}
	return host.Status.Hardware
}

// found returns what the agent found; nil if it does not count, or is unknown.
func found(host *v1alpha1.BareMetalHost) *v1alpha1.InspectionSummary {
	if host.Spec.Inspection == v1alpha1.InspectionAgent || host.Spec.Inspection == v1alpha1.InspectionBoth {
		return host.Status.Inspection
	}
	return nil
}

// CPU returns the number of logical processors.
func CPU(host *v1alpha1.BareMetalHost) int32 {
	if f := found(host); f != nil && f.CPU > 0 {
		return f.CPU
	}
	if r := reported(host); r != nil {
		return r.CPU.Threads
	}
	return 0
}

// Memory returns the size of the memory, in bytes.
func Memory(host *v1alpha1.BareMetalHost) int64 {
	if f := found(host); f != nil && f.MemoryBytes > 0 {
		return f.MemoryBytes
	}
	if r := reported(host); r != nil {
		return r.Memory.Value()
	}
	return 0
}

// DiskSizes returns the sizes of the disks, in bytes, once for each kind of disk.
func DiskSizes(host *v1alpha1.BareMetalHost) []int64 {
	var sizes []int64
	if f := found(host); f != nil && len(f.Disks) > 0 {
		for _, group := range f.Disks {
			sizes = append(sizes, group.SizeBytes)
		}
		return sizes
	}
	if r := reported(host); r != nil {
		for i := range r.Disks {
			sizes = append(sizes, r.Disks[i].Size.Value())
		}
	}
	return sizes
}

// largestDisk returns the size of the largest disk, in bytes. It is called for each host of each claim, and allocates nothing.
func largestDisk(host *v1alpha1.BareMetalHost) int64 {
	var largest int64
	if f := found(host); f != nil && len(f.Disks) > 0 {
		for i := range f.Disks {
			largest = max(largest, f.Disks[i].SizeBytes)
		}
		return largest
	}
	if r := reported(host); r != nil {
		for i := range r.Disks {
			largest = max(largest, r.Disks[i].Size.Value())
		}
	}
	return largest
}

// nics returns the number of network interfaces whose link is not down and has at least a speed.
func nics(host *v1alpha1.BareMetalHost, minSpeedMbps int32) int32 {
	var count int32
	if f := found(host); f != nil && len(f.NICs) > 0 {
		for _, group := range f.NICs {
			if group.SpeedMbps >= minSpeedMbps {
				count += group.Count
			}
		}
		return count
	}
	if r := reported(host); r != nil {
		for i := range r.NICs {
			if n := &r.NICs[i]; n.SpeedMbps >= minSpeedMbps && (n.LinkUp == nil || *n.LinkUp) {
				count++
			}
		}
	}
	return count
}

// classGPU is the class of GPUs, of BMCs and of agents.
const classGPU = "GPU"

// GPUs returns the number of GPUs that a requirement is for. A BMC does not report their PCI IDs.
func GPUs(host *v1alpha1.BareMetalHost, need v1alpha1.GPURequirement) int32 {
	var count int32
	if f := found(host); f != nil && len(f.GPUs) > 0 {
		for _, group := range f.GPUs {
			if (need.Vendor == "" || group.Vendor == need.Vendor) && (need.Device == "" || group.Device == need.Device) {
				count += group.Count
			}
		}
		return count
	}
	if r := reported(host); r != nil && need.Vendor == "" && need.Device == "" {
		for i := range r.Devices {
			if r.Devices[i].Class == classGPU {
				count++
			}
		}
	}
	return count
}

// connected is true for a host that is connected to one of the switches. A BMC does not report them.
func connected(host *v1alpha1.BareMetalHost, switches []string) bool {
	f := found(host)
	return f != nil && slices.ContainsFunc(f.Switches, func(name string) bool { return slices.Contains(switches, name) })
}
