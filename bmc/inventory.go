package bmc

import "context"

// Inspector reads what a server is made of.
type Inspector interface {
	// Inspect reads the inventory and changes nothing. Parts that the BMC does not offer are no error: Inventory.Facts says so. When
	// ctx reaches its deadline, or the BMC stops to answer in time, the inventory has what was read until then, and the facts
	// that are missing are TimedOut. Without an answer for the server itself the error is returned.
	Inspect(ctx context.Context) (Inventory, error)
}

// Health is how a part is, as Redfish says it: OK, Warning or Critical; empty where it is not known.
type Health string

// The states of health.
const (
	HealthOK       Health = "OK"
	HealthWarning  Health = "Warning"
	HealthCritical Health = "Critical"
)

// Inventory is what a server is made of.
type Inventory struct {
	Manufacturer, Model, SerialNumber string
	// SystemUUID is the UUID that the server's firmware reports (SMBIOS), in lower case. Empty where it is a placeholder.
	SystemUUID                          string
	FirmwareVersion, BMCFirmwareVersion string
	CPUModel                            string
	// Architecture is that of the processors, named as Go names it; empty where it is not known.
	Architecture                     string
	CPUSockets, CPUCores, CPUThreads int
	// MemoryMiB is the volatile memory, in MiB.
	MemoryMiB int64
	// DIMMs are the memory modules that are plugged in.
	DIMMs []DIMM
	Disks []Disk
	NICs  []NIC
	// Devices are GPUs and other PCIe devices.
	Devices       []Device
	PowerSupplies []PowerSupply
	// Health is that of the whole server.
	Health Health
	// Facts report for each of FactNames whether it is known, and its source.
	Facts []Fact
}

// DIMM is a memory module.
type DIMM struct {
	Name, Manufacturer, PartNumber, SerialNumber string
	// SizeMiB is the capacity.
	SizeMiB int64
	Health  Health
}

// Disk is a drive.
type Disk struct {
	Name, Model, SerialNumber string
	// WWN is the World Wide Name (NAA, EUI), in lower case without a prefix.
	WWN string
	// SizeBytes is the capacity; zero where it is not known.
	SizeBytes int64
	// Rotational is true for a hard disk and false for a solid state drive; nil where the BMC does not report it.
	Rotational *bool
	Health     Health
}

// NIC is a network interface.
type NIC struct {
	Name string
	// MACAddress is in lower case with colons.
	MACAddress string
	// SpeedMbps is the speed of the link; zero where it is not known.
	SpeedMbps int
	// LinkUp is nil where the BMC does not report it.
	LinkUp *bool
}

// Device is a PCIe device.
type Device struct {
	// Class is what it is: GPU, NetworkController, MassStorageController, ... as Redfish names it.
	Class                             string
	Name, Manufacturer, Model, Serial string
	// Firmware is its firmware's version.
	Firmware string
	Health   Health
}

// PowerSupply is a power supply unit.
type PowerSupply struct {
	Name, Model string
	// Watts is the rated output; zero where it is not known.
	Watts  int
	Health Health
}
