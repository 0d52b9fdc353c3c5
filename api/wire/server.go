package wire

// InspectedSystem identifies a server and its firmware.
type InspectedSystem struct {
	// manufacturer is the manufacturer of the server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// model is the model of the server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// systemUUID is the system UUID of the server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SystemUUID string `json:"systemUUID,omitempty"`
	// boardSerialNumber is the serial number of the main board.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	BoardSerialNumber string `json:"boardSerialNumber,omitempty"`
	// firmwareVendor is the vendor of the system firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareVendor string `json:"firmwareVendor,omitempty"`
	// firmwareVersion is the version of the system firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// firmwareDate is the date of the system firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareDate string `json:"firmwareDate,omitempty"`
}

// InspectedCPU describes the processors.
type InspectedCPU struct {
	// architecture is the architecture, in the notation of Kubernetes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Architecture string `json:"architecture,omitempty"`
	// model is the model.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// sockets is the number of processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Sockets int32 `json:"sockets,omitempty"`
	// cores is the number of cores of all processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Cores int32 `json:"cores,omitempty"`
	// threads is the number of logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Threads int32 `json:"threads,omitempty"`
	// numaNodes is the number of NUMA nodes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	NUMANodes int32 `json:"numaNodes,omitempty"`
	// features are instructions that operators select servers by, in the kernel's notation.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=256
	Features []string `json:"features,omitempty"`
}

// InspectedMemory describes the memory.
type InspectedMemory struct {
	// bytes is the size, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Bytes int64 `json:"bytes,omitempty"`
	// dimms are the memory modules.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	DIMMs []InspectedDIMM `json:"dimms,omitempty"`
}

// InspectedDIMM is a memory module.
type InspectedDIMM struct {
	// slot is the name of its slot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Slot string `json:"slot,omitempty"`
	// bytes is its size, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Bytes int64 `json:"bytes,omitempty"`
	// type is its type, such as DDR5.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Type string `json:"type,omitempty"`
	// speedMTs is its speed, in megatransfers per second.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SpeedMTs int32 `json:"speedMTs,omitempty"`
	// manufacturer is its manufacturer.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// partNumber is the part number of the manufacturer.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PartNumber string `json:"partNumber,omitempty"`
	// serialNumber is its serial number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
}

// InspectedNIC is a network interface.
type InspectedNIC struct {
	// name is the kernel's name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// macAddress is the permanent MAC address, in lower case with colons.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	MACAddress string `json:"macAddress,omitempty"`
	// pciAddress is the address of the PCI device.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PCIAddress string `json:"pciAddress,omitempty"`
	// vendor is the PCI vendor ID, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Vendor string `json:"vendor,omitempty"`
	// device is the PCI device ID, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Device string `json:"device,omitempty"`
	// driver is the kernel's driver.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Driver string `json:"driver,omitempty"`
	// firmwareVersion is the version of the interface's firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// speedMbps is the speed of the link, in Mbit/s.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SpeedMbps int32 `json:"speedMbps,omitempty"`
	// linkUp is true if the link is up.
	// +optional
	LinkUp bool `json:"linkUp,omitempty"`
	// numaNode is the NUMA node of the interface.
	// +optional
	NUMANode *int32 `json:"numaNode,omitempty"`
	// neighbor is the switch port at the other end of the cable, as LLDP reports it (IEEE 802.1AB).
	// +optional
	Neighbor *InspectedNeighbor `json:"neighbor,omitempty"`
}

// InspectedNeighbor is a switch port.
type InspectedNeighbor struct {
	// chassisID identifies the switch.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ChassisID string `json:"chassisID,omitempty"`
	// systemName is the name of the switch.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SystemName string `json:"systemName,omitempty"`
	// systemDescription describes the switch.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SystemDescription string `json:"systemDescription,omitempty"`
	// portID identifies the port.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PortID string `json:"portID,omitempty"`
	// portDescription describes the port.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PortDescription string `json:"portDescription,omitempty"`
	// managementAddress is the address at which the switch is managed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ManagementAddress string `json:"managementAddress,omitempty"`
	// vlan is the VLAN of untagged frames.
	// +optional
	// +kubebuilder:validation:Minimum=1
	VLAN int32 `json:"vlan,omitempty"`
}

// InspectedDevice is a PCI device that is neither a disk controller, a bridge nor a network interface.
type InspectedDevice struct {
	// pciAddress is its address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PCIAddress string `json:"pciAddress,omitempty"`
	// class is GPU, Accelerator or the class code in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class,omitempty"`
	// vendor is the PCI vendor ID, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Vendor string `json:"vendor,omitempty"`
	// device is the PCI device ID, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Device string `json:"device,omitempty"`
}

// InspectedBMC is what a server knows of its BMC.
type InspectedBMC struct {
	// address is the IPv4 address of the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Address string `json:"address,omitempty"`
	// address6 is the IPv6 address of the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Address6 string `json:"address6,omitempty"`
	// macAddress is the MAC address of the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	MACAddress string `json:"macAddress,omitempty"`
	// firmwareVersion is the version of the BMC's firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
}
