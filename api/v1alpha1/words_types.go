package v1alpha1

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
