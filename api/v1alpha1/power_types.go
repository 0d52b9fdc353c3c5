package v1alpha1

// PowerState is the power state of a server.
// +kubebuilder:validation:Enum=On;Off;PoweringOn;PoweringOff
type PowerState string

// The power states of a server. A server that is powering on or off is neither on nor off; only a status has these two.
const (
	PowerOn     PowerState = "On"
	PowerOff    PowerState = "Off"
	PoweringOn  PowerState = "PoweringOn"
	PoweringOff PowerState = "PoweringOff"
)
