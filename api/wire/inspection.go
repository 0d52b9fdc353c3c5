package wire

// Inspection is what the agent found on a server. Absent fields are unknown.
type Inspection struct {
	// agentRelease is the release of the agent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	AgentRelease string `json:"agentRelease,omitempty"`
	// system is from the tables of the firmware (SMBIOS).
	// +optional
	System InspectedSystem `json:"system,omitzero"`
	// cpu describes the processors.
	// +optional
	CPU InspectedCPU `json:"cpu,omitzero"`
	// memory describes the memory.
	// +optional
	Memory InspectedMemory `json:"memory,omitzero"`
	// disks are the disks.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Disks []InspectedDisk `json:"disks,omitempty"`
	// nics are the network interfaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	NICs []InspectedNIC `json:"nics,omitempty"`
	// devices are the GPUs and other PCI devices.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	Devices []InspectedDevice `json:"devices,omitempty"`
	// bmc is what the server's operating system knows of its BMC (IPMI).
	// +optional
	BMC *InspectedBMC `json:"bmc,omitempty"`
	// tpmVersion is the version of the trusted platform module: 1.2 or 2.0.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	TPMVersion string `json:"tpmVersion,omitempty"`
	// firmwareMode is how the server booted: UEFI or BIOS.
	// +optional
	FirmwareMode FirmwareMode `json:"firmwareMode,omitempty"`
	// secureBoot is Enabled if the firmware enforced Secure Boot, or Disabled. It is absent for a BIOS, and if it is unknown.
	// +optional
	SecureBoot SecureBoot `json:"secureBoot,omitempty"`
	// problems are what could not be read, or was left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=256
	Problems []string `json:"problems,omitempty"`
}
