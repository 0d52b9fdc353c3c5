package v1alpha1

// PowerState is the power state of a server.
// +kubebuilder:validation:Enum=On;Off;PoweringOn;PoweringOff
type PowerState string

// The power states of a server. PoweringOn and PoweringOff occur only in a status: such a server counts neither as on nor as off.
const (
	PowerOn     PowerState = "On"
	PowerOff    PowerState = "Off"
	PoweringOn  PowerState = "PoweringOn"
	PoweringOff PowerState = "PoweringOff"
)
