package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Hardware is the inventory of a server that its BMC reported.
type Hardware struct {
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
	// systemUUID is the system UUID of the server (SMBIOS), in lower case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SystemUUID string `json:"systemUUID,omitempty"`
	// firmwareVersion is the version of the system firmware (UEFI or BIOS).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// bmcFirmwareVersion is the version of the BMC's firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	BMCFirmwareVersion string `json:"bmcFirmwareVersion,omitempty"`
	// cpu describes the processors.
	// +optional
	CPU CPU `json:"cpu,omitzero"`
	// memory is the size of the memory, such as 64Gi. It is absent if the BMC does not report it.
	// +optional
	Memory resource.Quantity `json:"memory,omitzero"`
	// architecture is the architecture of the processors, in the notation of Kubernetes. It is absent if the BMC does not report it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Architecture string `json:"architecture,omitempty"`
	// health is the health of the whole server: OK, Warning or Critical.
	// +optional
	Health wire.Health `json:"health,omitempty"`
	// dimms are the memory modules.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	DIMMs []DIMM `json:"dimms,omitempty"`
	// disks are the drives.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Disks []Disk `json:"disks,omitempty"`
	// nics are the network interfaces.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NICs []NIC `json:"nics,omitempty"`
	// devices are the GPUs and other PCIe devices.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Devices []Device `json:"devices,omitempty"`
	// powerSupplies are the power supplies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PowerSupplies []PowerSupply `json:"powerSupplies,omitempty"`
	// facts describe, for each part of the inventory, whether it is known and where it was read.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Facts []Fact `json:"facts,omitempty"`
}

// FactState is whether a part of the inventory is known.
// +kubebuilder:validation:Enum=Known;Absent;Unknown
type FactState string

const (
	// FactKnown means that the BMC reports the part.
	FactKnown FactState = "Known"
	// FactAbsent means that the BMC reports that the server does not have the part.
	FactAbsent FactState = "Absent"
	// FactUnknown means that the BMC does not report the part, or that it could not be read. A list may then be incomplete.
	FactUnknown FactState = "Unknown"
)

// Fact says whether a part of the inventory could be read, and from where.
type Fact struct {
	// name is the name of the part: cpu, memory, disks, nics, devices, powerSupplies, serialNumber, systemUUID, firmwareVersion or
	// bmcFirmwareVersion.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// state is Known, Absent (the BMC reports that the server does not have the part) or Unknown (the BMC does not report the part, or it could not be
	// read).
	// +required
	State FactState `json:"state,omitempty"`
	// source is where the part was read: the path of a Redfish resource, "FRU 0" or similar.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Source string `json:"source,omitempty"`
	// message is why the part is unknown, or a remark about its value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// CPU describes the processors of a server.
type CPU struct {
	// model is the model of the processors.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// sockets is the number of processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Sockets int32 `json:"sockets,omitempty"`
	// threads is the number of logical processors, which Kubernetes calls cpu.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Threads int32 `json:"threads,omitempty"`
}

// DIMM describes a memory module.
type DIMM struct {
	// name is the name of the module in the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// manufacturer is the manufacturer of the module.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// partNumber is the part number of the manufacturer.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PartNumber string `json:"partNumber,omitempty"`
	// serialNumber is the serial number of the module.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// size is the capacity, such as 32Gi.
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
	// health is OK, Warning or Critical. It is absent if the BMC does not report it.
	// +optional
	Health wire.Health `json:"health,omitempty"`
}

// Disk describes a drive.
type Disk struct {
	// name is the name of the drive in the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// size is the capacity in whole GiB, rounded down, such as 447Gi. It is absent if the BMC does not report it.
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
	// model is the model of the drive.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the drive.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the drive, in lower case without a prefix.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// rotational is true for a hard disk and false for a solid-state drive. It is absent if the BMC does not report it.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
	// health is OK, Warning or Critical. It is absent if the BMC does not report it.
	// +optional
	Health wire.Health `json:"health,omitempty"`
}

// Device describes a PCIe device.
type Device struct {
	// class is the class of the device: GPU, or the device class of Redfish.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class,omitempty"`
	// name is the name of the device in the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// manufacturer is the manufacturer of the device.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// model is the model of the device.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the device.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// firmwareVersion is the version of the device's firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// health is OK, Warning or Critical. It is absent if the BMC does not report it.
	// +optional
	Health wire.Health `json:"health,omitempty"`
}

// PowerSupply describes a power supply.
type PowerSupply struct {
	// name is the name of the power supply in the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// model is the model of the power supply.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// watts is the rated output power, in watts.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Watts int32 `json:"watts,omitempty"`
	// health is OK, Warning or Critical. It is absent if the BMC does not report it.
	// +optional
	Health wire.Health `json:"health,omitempty"`
}

// NIC describes a network interface.
type NIC struct {
	// name is the name of the interface in the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// macAddress is the MAC address of the interface, in lower case with colons.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	MACAddress string `json:"macAddress,omitempty"`
	// speedMbps is the speed of the link, in Mbit/s. It is absent if the BMC does not report it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SpeedMbps int32 `json:"speedMbps,omitempty"`
	// linkUp is true if the link is up and false if it is down. It is absent if the BMC does not report it.
	// +optional
	LinkUp *bool `json:"linkUp,omitempty"`
	// networkBoot is false if network boot is disabled for the interface in the settings of the firmware. It is absent if the BMC does not report it.
	// +optional
	NetworkBoot *bool `json:"networkBoot,omitempty"`
}
