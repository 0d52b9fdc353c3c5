package v1alpha1

// BootMode is the firmware interface that a server boots with.
// +kubebuilder:validation:Enum=UEFI;UEFISecureBoot;Legacy
type BootMode string

// The boot modes of a server.
const (
	// BootModeUEFI is UEFI without Secure Boot.
	BootModeUEFI BootMode = "UEFI"
	// BootModeUEFISecureBoot is UEFI with Secure Boot: the firmware runs only signed programs.
	BootModeUEFISecureBoot BootMode = "UEFISecureBoot"
	// BootModeLegacy is legacy BIOS.
	BootModeLegacy BootMode = "Legacy"
)

// BootMethod is how a server is booted. BareMetalHostSpec.BootMethods describes the methods.
// +kubebuilder:validation:Enum=PXE;UefiHttp;VirtualMedia
type BootMethod string

// The boot methods.
const (
	MethodPXE          BootMethod = "PXE"
	MethodUefiHTTP     BootMethod = "UefiHttp"
	MethodVirtualMedia BootMethod = "VirtualMedia"
)
