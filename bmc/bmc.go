// Package bmc speaks to baseboard management controllers. It knows nothing of Kubernetes: it speaks URLs, credentials and
// MAC addresses. Drivers stand in folders of their own and are handed to the Pool, which gives each BMC one request at a time.
package bmc

import (
	"context"
	"net/url"
)

// PowerState is the power state of a server.
type PowerState string

// The power states. A server in transition is on: only one that is off for sure is off.
const (
	PowerOn  PowerState = "On"
	PowerOff PowerState = "Off"
)

// BootMode is the firmware interface that a server boots with.
type BootMode string

// The boot modes.
const (
	BootUEFI   BootMode = "UEFI"
	BootLegacy BootMode = "Legacy"
)

// Power switches a server. The methods return when the BMC accepted the command, not when it took effect: read the state back.
// All are idempotent: on for a server that is on is no error, also where the BMC calls it one.
type Power interface {
	// PowerState reads the power state.
	PowerState(ctx context.Context) (PowerState, error)
	// PowerOn switches the server on.
	PowerOn(ctx context.Context) error
	// ShutDown asks the operating system to shut down. The error is Unsupported where the BMC cannot ask.
	ShutDown(ctx context.Context) error
	// ForceOff switches the server off at once.
	ForceOff(ctx context.Context) error
	// Cycle switches a running server off and on. It switches a server that is off on.
	Cycle(ctx context.Context) error
}

// BootOverrider picks what a server boots next.
type BootOverrider interface {
	// SetNetworkBoot makes the network the boot device of the next boot only. A BMC's word that it did is a hint: the proof
	// is the server's own request.
	SetNetworkBoot(ctx context.Context, mode BootMode) error
}

// Inspector reads what a server is made of.
type Inspector interface {
	// Inspect reads the inventory. Parts that the BMC does not give are named in Inventory.Missing and are no error.
	Inspect(ctx context.Context) (Inventory, error)
}

// Client is a connection to one server's BMC. It is not safe for concurrent use.
type Client interface {
	Power
	BootOverrider
	Inspector
	// Close ends the connection and, where there is one, the session on the BMC.
	Close(ctx context.Context) error
}

// Endpoint is what a driver needs to reach a BMC.
type Endpoint struct {
	// URL is the address. Its scheme picks the driver.
	URL *url.URL
	// Username and Password are the credentials.
	Username, Password string
	// CA holds PEM certificates that the BMC's certificate is verified with. Without it the system's roots are used.
	CA []byte
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
}

// OpenFunc opens a connection to a BMC.
type OpenFunc func(context.Context, Endpoint) (Client, error)

// Inventory is what a server is made of.
type Inventory struct {
	Manufacturer, Model, SerialNumber string
	// SystemUUID is in lower case.
	SystemUUID                          string
	FirmwareVersion, BMCFirmwareVersion string
	CPUModel                            string
	CPUSockets, CPUThreads              int
	MemoryMiB                           int64
	Disks                               []Disk
	NICs                                []NIC
	// Missing names the parts that the BMC did not give.
	Missing []string
}

// Disk is a drive.
type Disk struct {
	Name, Model, SerialNumber string
	// SizeBytes is the capacity.
	SizeBytes  int64
	Rotational bool
}

// NIC is a network interface.
type NIC struct {
	Name string
	// MACAddress is in lower case with colons.
	MACAddress string
	LinkUp     bool
}
