package bmc

import "context"

// Inspector reads a server's hardware inventory.
type Inspector interface {
	// Inspect reads the inventory and changes nothing. Parts that the BMC does not offer are not an error: Inventory.Facts reports them.
	// When ctx reaches its deadline, or the BMC stops answering, the inventory contains the parts read so far, and the missing
	// facts are TimedOut. Inspect returns an error only if the server resource itself cannot be read.
	Inspect(ctx context.Context) (Inventory, error)
}

// Health is the health of a part, as in Redfish: OK, Warning or Critical; empty if it is unknown.
type Health string

const (
	HealthOK       Health = "OK"
	HealthWarning  Health = "Warning"
	HealthCritical Health = "Critical"
)

// Inventory is a server's hardware.
type Inventory struct {
	Manufacturer, Model, SerialNumber string
	// SystemUUID is the UUID that the server's firmware reports (SMBIOS), in lower case. It is empty if the UUID is a placeholder.
	SystemUUID                          string
	FirmwareVersion, BMCFirmwareVersion string
	CPUModel                            string
	// Architecture is that of the processors, by its Go name (GOARCH); empty if it is unknown.
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
	// Health is the health of the whole server.
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
	// SizeBytes is the capacity; zero if it is unknown.
	SizeBytes int64
	// Rotational is true for a hard disk and false for a solid state drive; nil if the BMC does not report it.
	Rotational *bool
	Health     Health
}

// NIC is a network interface.
type NIC struct {
	Name string
	// MACAddress is in lower case with colons.
	MACAddress string
	// SpeedMbps is the speed of the link; zero if it is unknown.
	SpeedMbps int
	// LinkUp is nil if the BMC does not report it.
	LinkUp *bool
	// NetworkBoot is false if the firmware does not boot from the interface; nil if the BMC does not report it.
	NetworkBoot *bool
}

// Device is a PCIe device.
type Device struct {
	// Class is the device class as in Redfish: GPU, NetworkController, MassStorageController, ...
	Class                             string
	Name, Manufacturer, Model, Serial string
	// Firmware is the firmware version.
	Firmware string
	Health   Health
}

// PowerSupply is a power supply unit.
type PowerSupply struct {
	Name, Model string
	// Watts is the rated output; zero if it is unknown.
	Watts  int
	Health Health
}
