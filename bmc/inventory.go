package bmc

import "context"

// Inspector reads what a server is made of.
type Inspector interface {
	// Inspect reads the inventory. Parts that the BMC does not give are named in Inventory.Missing and are no error; a part that
	// did not come in time is one. It changes nothing.
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
	// SystemUUID is the UUID that the server's firmware reports (SMBIOS), in lower case.
	SystemUUID                          string
	FirmwareVersion, BMCFirmwareVersion string
	CPUModel                            string
	// Architecture is that of the processors, named as Go names it; empty where it is not known.
	Architecture                     string
	CPUSockets, CPUCores, CPUThreads int
	MemoryMiB                        int64
	Disks                            []Disk
	NICs                             []NIC
	// Devices are GPUs and other PCIe devices.
	Devices       []Device
	PowerSupplies []PowerSupply
	// Health is that of the whole server.
	Health Health
	// Missing names the parts that the BMC did not give: cpu, memory, disks, nics, devices, powerSupplies, systemUUID,
	// bmcFirmwareVersion.
	Missing []string
}

// Disk is a drive.
type Disk struct {
	Name, Model, SerialNumber string
	// WWN is the World Wide Name (NAA), in lower case without a prefix.
	WWN string
	// SizeBytes is the capacity.
	SizeBytes  int64
	Rotational bool
	Health     Health
}

// NIC is a network interface.
type NIC struct {
	Name string
	// MACAddress is in lower case with colons.
	MACAddress string
	// SpeedMbps is the speed of the link; zero where it is not known.
	SpeedMbps int
	LinkUp    bool
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
