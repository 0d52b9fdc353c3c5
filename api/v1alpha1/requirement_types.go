package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// HardwareRequirements are the minimum hardware of a host that a machine can claim. They are compared with what the BMC reports, or with what the agent found,
// as spec.inspection of the host says. A host does not match a requirement for something that is unknown.
type HardwareRequirements struct {
	// cpu is the minimum number of logical processors. Defaults to no requirement.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CPU int32 `json:"cpu,omitempty"`
	// memory is the minimum size of the memory, such as 64Gi. Defaults to no requirement.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0'))",message="must be greater than 0: remove it if any size is sufficient"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// disk is the minimum size of the largest disk, such as 400Gi. Defaults to no requirement.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0'))",message="must be greater than 0: remove it if any size is sufficient"
	Disk *resource.Quantity `json:"disk,omitempty"`
	// disks are requirements of several disks. Each one is met by disks of its own: {count: 2, minSize: 400Gi} and {count: 1, minSize: 4Ti} need three disks.
	// Defaults to no requirement.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Disks []DiskRequirement `json:"disks,omitempty"`
	// nics requires network interfaces with a link. Defaults to no requirement.
	// +optional
	NICs *NICRequirement `json:"nics,omitempty"`
	// gpus requires GPUs. Defaults to no requirement.
	// +optional
	GPUs *GPURequirement `json:"gpus,omitempty"`
	// switches are names of switches, as LLDP reports them. The host must be connected to at least one of them. Only the agent finds switches
	// (spec.inspection of the host). Defaults to no requirement.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Switches []string `json:"switches,omitempty"`
	// architecture is the required CPU architecture of the host: amd64 or arm64. Defaults to amd64.
	// +optional
	// +kubebuilder:default=amd64
	Architecture Architecture `json:"architecture,omitempty"`
}

// DiskRequirement requires a number of disks.
type DiskRequirement struct {
	// count is the number of disks. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Count int32 `json:"count,omitempty"`
	// minSize is the minimum size of each disk, such as 400Gi. Defaults to any size.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0'))",message="must be greater than 0: remove it if any size is sufficient"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// rotational is true for hard disks and false for solid-state drives. Defaults to both.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// NICRequirement requires a number of network interfaces.
type NICRequirement struct {
	// count is the number of interfaces. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Count int32 `json:"count,omitempty"`
	// minSpeedMbps is the minimum speed of the link of each interface, in Mbit/s.
	// +required
	// +kubebuilder:validation:Minimum=1
	MinSpeedMbps int32 `json:"minSpeedMbps,omitempty"`
}

// GPURequirement requires a number of GPUs.
type GPURequirement struct {
	// count is the number of GPUs. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Count int32 `json:"count,omitempty"`
	// vendor is the PCI vendor ID, such as 10de. Only the agent finds it (spec.inspection of the host). Defaults to any vendor.
	// +optional
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{4}$')",message="must be a PCI ID: 4 hexadecimal digits in lower case, like 10de"
	Vendor string `json:"vendor,omitempty"`
	// device is the PCI device ID, such as 20b5. Only the agent finds it (spec.inspection of the host). Defaults to any device.
	// +optional
	// +kubebuilder:validation:MinLength=4
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{4}$')",message="must be a PCI ID: 4 hexadecimal digits in lower case, like 20b5"
	Device string `json:"device,omitempty"`
}
