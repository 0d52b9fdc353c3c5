package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Hardware is what a BMC told of its server.
type Hardware struct {
	// manufacturer is the maker of the server.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// model is the model of the server.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the server.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// systemUUID is the UUID that the server's firmware reports, in lower case.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SystemUUID string `json:"systemUUID,omitempty"`
	// firmwareVersion is the version of the system firmware (BIOS).
	// +optional
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// bmcFirmwareVersion is the version of the BMC's firmware.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	BMCFirmwareVersion string `json:"bmcFirmwareVersion,omitempty"`
	// cpu describes the processors.
	// +optional
	CPU CPU `json:"cpu,omitzero"`
	// memory is the size of the memory, like 64Gi. It is absent where the BMC does not report it.
	// +optional
	Memory resource.Quantity `json:"memory,omitzero"`
	// architecture is that of the processors, named as Kubernetes names it, where the BMC tells.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Architecture string `json:"architecture,omitempty"`
	// health is that of the whole server: OK, Warning or Critical.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Health string `json:"health,omitempty"`
	// dimms are the memory modules found.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	DIMMs []DIMM `json:"dimms,omitempty"`
	// disks are the drives found.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Disks []Disk `json:"disks,omitempty"`
	// nics are the network interfaces found.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	NICs []NIC `json:"nics,omitempty"`
	// devices are the GPUs and other PCIe devices found.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Devices []Device `json:"devices,omitempty"`
	// powerSupplies are the power supplies found.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	PowerSupplies []PowerSupply `json:"powerSupplies,omitempty"`
	// facts report for each part of the inventory whether it is known, and its source.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Facts []Fact `json:"facts,omitempty"`
}

// FactState says what is known of a part of the inventory.
// +kubebuilder:validation:Enum=Known;Absent;Unknown
type FactState string

// The states of facts.
const (
	// FactKnown means that the BMC reports it.
	FactKnown FactState = "Known"
	// FactAbsent means that the BMC reports that there is none.
	FactAbsent FactState = "Absent"
	// FactUnknown means that the BMC does not offer it, or that it could not be read. A list may be incomplete then.
	FactUnknown FactState = "Unknown"
)

// Fact says what is known of a part of the inventory.
type Fact struct {
	// name is the part: cpu, memory, disks, nics, devices, powerSupplies, serialNumber, systemUUID, firmwareVersion or bmcFirmwareVersion.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name"`
	// state is Known, Absent (the BMC reports that there is none) or Unknown (the BMC does not offer it, or it could not be read).
	// +required
	State FactState `json:"state"`
	// source is where it was read, such as the path of a Redfish resource, or "FRU 0".
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Source string `json:"source,omitempty"`
	// message is the reason why it is unknown, or a remark on what is known.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}

// CPU describes the processors of a server.
type CPU struct {
	// model is the model of the processors.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// sockets counts the processors.
	// +optional
	Sockets int32 `json:"sockets,omitempty"`
	// threads counts the logical processors: what Kubernetes calls cpu.
	// +optional
	Threads int32 `json:"threads,omitempty"`
}

// DIMM describes a memory module.
type DIMM struct {
	// name is the BMC's name of the module.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// manufacturer is the maker of the module.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// partNumber is the maker's number for modules of this kind.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	PartNumber string `json:"partNumber,omitempty"`
	// serialNumber is the serial number of the module.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// size is the capacity, like 32Gi.
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
	// health is OK, Warning or Critical, where the BMC tells.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Health string `json:"health,omitempty"`
}

// Disk describes a drive.
type Disk struct {
	// name is the BMC's name of the drive.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// size is the capacity, rounded down to whole GiB, like 447Gi. It is absent where the BMC does not report it.
	// +optional
	Size resource.Quantity `json:"size,omitzero"`
	// model is the model of the drive.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the drive.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the drive, in lower case without a prefix.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// rotational is true for a hard disk and false for a solid state drive. It is absent where the BMC does not report it.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
	// health is OK, Warning or Critical, where the BMC tells.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Health string `json:"health,omitempty"`
}

// Device describes a PCIe device.
type Device struct {
	// class is what the device is: GPU, or the class as Redfish names it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Class string `json:"class,omitempty"`
	// name is the BMC's name of the device.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// manufacturer is the maker of the device.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// model is the model of the device.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the device.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// firmwareVersion is the version of the device's firmware.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// health is OK, Warning or Critical, where the BMC tells.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Health string `json:"health,omitempty"`
}

// PowerSupply describes a power supply.
type PowerSupply struct {
	// name is the BMC's name of the power supply.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// model is the model of the power supply.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// watts is the rated output.
	// +optional
	Watts int32 `json:"watts,omitempty"`
	// health is OK, Warning or Critical, where the BMC tells.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Health string `json:"health,omitempty"`
}

// NIC describes a network interface.
type NIC struct {
	// name is the BMC's name of the interface.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// macAddress is the interface's MAC address, in lower case with colons.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	MACAddress string `json:"macAddress,omitempty"`
	// speedMbps is the speed of the link, where the BMC tells.
	// +optional
	SpeedMbps int32 `json:"speedMbps,omitempty"`
	// linkUp is true for a link that is up and false for one that is down. It is absent where the BMC does not report it.
	// +optional
	LinkUp *bool `json:"linkUp,omitempty"`
}
