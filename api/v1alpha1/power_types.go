package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// WhenPoweredOff is what the provider does about the server of a machine that lost its power.
// +kubebuilder:validation:Enum=Report;PowerOn
type WhenPoweredOff string

// What the provider does about the server of a machine that lost its power.
const (
	// WhenPoweredOffReport reports it.
	WhenPoweredOffReport WhenPoweredOff = "Report"
	// WhenPoweredOffPowerOn reports it, and powers the server on if its failure domain lost its power.
	WhenPoweredOffPowerOn WhenPoweredOff = "PowerOn"
)

// PowerRestore is how the provider powered a server on after its failure domain lost its power (spec.whenPoweredOff: PowerOn).
type PowerRestore struct {
	// lostTime is the time since which the server was off.
	// +required
	LostTime metav1.Time `json:"lostTime,omitzero"`
	// servers is how many servers of the failure domain lost their power together, this one included.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Servers int32 `json:"servers,omitempty"`
	// powerOns is how often the provider powered the server on after this loss of power. It does that twice at most.
	// +required
	// +kubebuilder:validation:Minimum=1
	PowerOns int32 `json:"powerOns,omitempty"`
	// lastPowerOnTime is the time when it did that last.
	// +required
	LastPowerOnTime metav1.Time `json:"lastPowerOnTime,omitzero"`
	// endTime is the time when the Node was observed to be Ready again. It is absent before.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}
