package v1alpha1

import "github.com/capbm-io/cluster-api-provider-baremetal/api/wire"

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

// InspectedDisk is a disk.
type InspectedDisk struct {
	// name is the kernel's name. It may change from boot to boot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// byPath is the name in /dev/disk/by-path.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ByPath string `json:"byPath,omitempty"`
	// hctl is the SCSI address host:channel:target:lun.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	HCTL string `json:"hctl,omitempty"`
	// vendor is the vendor.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Vendor string `json:"vendor,omitempty"`
	// model is the model.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name, in lower case without a prefix.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// firmwareVersion is the version of the disk's firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// sizeBytes is the size, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// logicalSectorBytes is the size of a logical sector, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LogicalSectorBytes int32 `json:"logicalSectorBytes,omitempty"`
	// physicalSectorBytes is the size of a physical sector, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	PhysicalSectorBytes int32 `json:"physicalSectorBytes,omitempty"`
	// rotational is true for a hard disk.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
	// transport is how the disk is connected: NVMe, NVMeOverFabrics, SATA, SAS, SCSI, FibreChannel, ISCSI, Virtio, USB, MMC or Other. It is absent if it is unknown.
	// +optional
	Transport wire.DiskTransport `json:"transport,omitempty"`
	// removable is true for a disk whose medium can be removed.
	// +optional
	Removable bool `json:"removable,omitempty"`
	// readOnly is true for a disk that cannot be written.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// health is OK, Warning or Critical.
	// +optional
	Health Health `json:"health,omitempty"`
	// eraseMethods are the commands that erase the disk and that it offers, such as NVMeSanitizeCrypto or ATAErase. Overwrite, by writing, is one of them. They are absent if
	// the disk did not answer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=256
	EraseMethods []string `json:"eraseMethods,omitempty"`
	// eraseClass is the strongest cleaning policy that these commands meet on this disk: Clear or Purge. It is absent if that is unknown.
	// +optional
	// +kubebuilder:validation:Enum=Clear;Purge
	EraseClass wire.ErasePolicy `json:"eraseClass,omitempty"`
	// signatures are what the disk carries: gpt, mbr, lvm2, md, ext4 and so on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=256
	Signatures []string `json:"signatures,omitempty"`
	// holders are what has the disk open, such as md127.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=256
	Holders []string `json:"holders,omitempty"`
	// protected says why no plan writes to the disk. It is absent for a disk that may be written.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Protected string `json:"protected,omitempty"`
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
