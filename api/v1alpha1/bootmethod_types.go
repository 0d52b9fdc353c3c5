package v1alpha1

// BootMode is the firmware interface that a server boots with.
// +kubebuilder:validation:Enum=UEFI;UEFISecureBoot;BIOS
type BootMode string

const (
	// BootModeUEFI is UEFI without Secure Boot.
	BootModeUEFI BootMode = "UEFI"
	// BootModeUEFISecureBoot is UEFI with Secure Boot: the firmware runs only signed programs.
	BootModeUEFISecureBoot BootMode = "UEFISecureBoot"
	// BootModeBIOS is the boot by a BIOS, or by the compatibility support module (CSM) of UEFI.
	BootModeBIOS BootMode = "BIOS"
)

// BootMethod is how a server is booted. BareMetalHostSpec.BootMethods describes the methods.
// +kubebuilder:validation:Enum=PXE;UefiHttp;VirtualMedia
type BootMethod string

const (
	MethodPXE          BootMethod = "PXE"
	MethodUefiHTTP     BootMethod = "UefiHttp"
	MethodVirtualMedia BootMethod = "VirtualMedia"
)
