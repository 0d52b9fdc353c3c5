package v1alpha1

// Health is the health of a server or of a part, as Redfish reports it (Health of DSP0268, Status). It is absent if it is unknown.
// +kubebuilder:validation:Enum=OK;Warning;Critical
type Health string

const (
	HealthOK       Health = "OK"
	HealthWarning  Health = "Warning"
	HealthCritical Health = "Critical"
)

// FirmwareMode is how the firmware started a server.
// +kubebuilder:validation:Enum=UEFI;BIOS
type FirmwareMode string

const (
	FirmwareUEFI FirmwareMode = "UEFI"
	FirmwareBIOS FirmwareMode = "BIOS"
)

// SecureBoot is whether the firmware runs only signed programs. It is absent for a BIOS, and if it is unknown.
// +kubebuilder:validation:Enum=Enabled;Disabled
type SecureBoot string

const (
	SecureBootEnabled  SecureBoot = "Enabled"
	SecureBootDisabled SecureBoot = "Disabled"
)

// AgentStep is what an agent does.
// +kubebuilder:validation:Enum=Reading;Selecting;Wiping;Writing;Data;Verifying;Committing;BootEntry;Erasing
type AgentStep string

// OverrideTarget is the boot source of a boot override.
// +kubebuilder:validation:Enum=PXE;HTTP;CD
type OverrideTarget string

const (
	TargetPXE  OverrideTarget = "PXE"
	TargetHTTP OverrideTarget = "HTTP"
	TargetCD   OverrideTarget = "CD"
)

// PowerRestorePolicy is what the firmware does when the power returns (PowerRestorePolicy of DSP0268, ComputerSystem).
// +kubebuilder:validation:Enum=AlwaysOn;AlwaysOff;LastState
type PowerRestorePolicy string

const (
	RestoreAlwaysOn  PowerRestorePolicy = "AlwaysOn"
	RestoreAlwaysOff PowerRestorePolicy = "AlwaysOff"
	RestoreLastState PowerRestorePolicy = "LastState"
)
