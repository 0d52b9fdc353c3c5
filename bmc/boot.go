package bmc

import "context"

// BootMode is the firmware interface that a server boots with.
type BootMode string

const (
	BootUEFI   BootMode = "UEFI"
	BootLegacy BootMode = "Legacy"
)

// BootTarget is what a server boots from.
type BootTarget string

const (
	// BootNone is no override: the firmware's boot order applies.
	BootNone BootTarget = "None"
	// BootPXE is the network, by PXE.
	BootPXE BootTarget = "PXE"
	// BootHTTP is the network, by UEFI HTTP boot.
	BootHTTP BootTarget = "HTTP"
	// BootDisk is the first disk.
	BootDisk BootTarget = "Disk"
	// BootCD is the optical drive, which includes virtual media.
	BootCD BootTarget = "CD"
)

// BootOverride replaces the firmware's boot order.
type BootOverride struct {
	Target BootTarget
	// Mode is the firmware interface. If it is empty, the mode is not changed.
	Mode BootMode
	// Continuous overrides every boot. Otherwise the override applies to the next boot only.
	Continuous bool
	// URI is the file that UEFI HTTP boot fetches, if the BMC accepts one. If it is empty, DHCP supplies it.
	URI string
}

// BootMethod is a driver's name for a method to set a boot override. With an empty method the driver chooses.
type BootMethod string

// BootResult is the result of setting a boot override.
type BootResult struct {
	// Method is the method that set it.
	Method BootMethod
	// ReadBack is the override that the BMC reports afterwards; nil if it cannot be read.
	ReadBack *BootOverride
	// Doubt describes how ReadBack differs from the requested override; empty if it does not.
	Doubt string
	// Lasts is true when an override that was requested for one boot applies until it is removed.
	Lasts bool
}

// BootOverrider sets what a server boots next. The BMC's confirmation is a hint: the proof is the server's own boot request.
type BootOverrider interface {
	// BootOverride reads the override. The target is BootNone if no override is set.
	BootOverride(ctx context.Context) (BootOverride, error)
	// SetBootOverride sets the override with the method given or, if the BMC refuses or ignores that one, with the driver's next
	// method. It is idempotent. The error is Unsupported if the BMC does not have the target.
	SetBootOverride(ctx context.Context, override BootOverride, method BootMethod) (BootResult, error)
	// BootMethods lists the driver's methods, the one most likely to work first. If a server did not boot as set, the caller
	// tries the next method.
	BootMethods() []BootMethod
}
