package bmc

import "context"

// BootMode is the firmware interface that a server boots with.
type BootMode string

// The boot modes.
const (
	BootUEFI   BootMode = "UEFI"
	BootLegacy BootMode = "Legacy"
)

// BootTarget is what a server boots from.
type BootTarget string

// The boot targets.
const (
	// BootNone is no override: the firmware's own order holds.
	BootNone BootTarget = "None"
	// BootPXE is the network, by PXE.
	BootPXE BootTarget = "PXE"
	// BootHTTP is the network, by UEFI HTTP boot.
	BootHTTP BootTarget = "HTTP"
	// BootDisk is the first disk.
	BootDisk BootTarget = "Disk"
	// BootCD is the optical drive, which is where virtual media are.
	BootCD BootTarget = "CD"
)

// BootOverride says what a server boots instead of what its firmware's order says.
type BootOverride struct {
	Target BootTarget
	// Mode is the firmware interface. Empty leaves it as it is.
	Mode BootMode
	// Continuous overrides every boot; without it only the next one.
	Continuous bool
	// URI is what UEFI HTTP boot fetches, where the BMC can be told. Empty leaves it to DHCP.
	URI string
}

// BootMethod is one way to set a boot override, as drivers name them. The empty way leaves the choice to the driver.
type BootMethod string

// BootResult is what came of setting a boot override.
type BootResult struct {
	// Method is how it was set.
	Method BootMethod
	// ReadBack is what the BMC says now; nil where it cannot be read.
	ReadBack *BootOverride
	// Doubt says how ReadBack differs from what was asked for; empty where it does not.
	Doubt string
	// Lasts is true when an override that was asked for one boot holds until it is taken back.
	Lasts bool
}

// BootOverrider picks what a server boots next. A BMC's word that it did is a hint: the proof is the server's own request.
type BootOverrider interface {
	// BootOverride reads the override. The target is BootNone where there is none.
	BootOverride(ctx context.Context) (BootOverride, error)
	// SetBootOverride sets the override, in the way given or, where the BMC refuses or ignores that, in the next one it
	// knows. It is idempotent. The error is Unsupported where the BMC has no such target.
	SetBootOverride(ctx context.Context, override BootOverride, way BootMethod) (BootResult, error)
	// BootMethods lists the ways to try, the likeliest first, for a caller who saw that one did not work.
	BootMethods() []BootMethod
}
