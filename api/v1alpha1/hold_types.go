package v1alpha1

// ReasonPowerHold means that power holds keep the server that runs a machine switched off, or kept it so until a moment ago. It is a reason of
// Booted.
const ReasonPowerHold = "PowerHold"

// PowerHold keeps a server switched off for its holder. It is a matter of the machine that has the server: when the server is released its
// holds are gone.
type PowerHold struct {
	// holder is who wants the server off: each adds and removes its own.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	Holder string `json:"holder,omitempty"`
	// reason is for people: why the server is to be off.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// force switches the server off at once. Without it the operating system is asked to shut down first. One hold with force is enough.
	// +optional
	Force bool `json:"force,omitempty"`
}

// The prefixes of annotations with which people and their tools change the power of a server that runs a machine. What follows the slash is
// the key of whoever wants it, so that several don't undo each other; the value says why.
const (
	// PowerHoldPrefix keeps the server off, after its operating system was asked to shut down, until the annotation is removed.
	PowerHoldPrefix = "power-hold.baremetalhost.infrastructure.cluster.x-k8s.io/"
	// ForcePowerHoldPrefix is PowerHoldPrefix without asking the operating system.
	ForcePowerHoldPrefix = "force-power-hold.baremetalhost.infrastructure.cluster.x-k8s.io/"
	// PowerCyclePrefix switches the server off and on again, once. The provider removes the annotation when the server was off.
	PowerCyclePrefix = "power-cycle.baremetalhost.infrastructure.cluster.x-k8s.io/"
	// PowerOnPrefix switches the server on, if nobody holds it off. The provider removes the annotation when the server is on.
	PowerOnPrefix = "power-on.baremetalhost.infrastructure.cluster.x-k8s.io/"
)
