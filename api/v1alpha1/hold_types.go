package v1alpha1

// ReasonPowerHold means that power holds keep a server that runs a machine powered off, or did so a moment ago. It is a reason of Booted.
const ReasonPowerHold = "PowerHold"

// RemediationHolderPrefix is the prefix of the holder of the power hold of a BareMetalRemediation. The rest is the name of the remediation.
const RemediationHolderPrefix = "BareMetalRemediation/"

// SkipRemediationValuePrefix is the prefix of the value of Cluster API's annotation cluster.x-k8s.io/skip-remediation that the provider sets on a Machine while a power hold
// or a maintenance of its host exists, and until its Node is Ready after that. The rest is the name of the host, and after that the time of its end.
const SkipRemediationValuePrefix = "baremetalhost.infrastructure.cluster.x-k8s.io/"

// PowerHold keeps a server powered off for its holder. The release of the server removes its power holds.
type PowerHold struct {
	// holder identifies who wants the server to be off. Each holder adds and removes only its own entry.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=300
	Holder string `json:"holder,omitempty"`
	// reason is a text for users: why the server must be off.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// force powers the server off immediately. Without it the provider first asks the operating system to shut down. One power hold with force is enough.
	// Defaults to false.
	// +optional
	Force bool `json:"force,omitempty"`
}

// The prefixes of the annotations with which users and their tools control the power of a server that runs a machine. The part after the slash is the key
// of the requester, so that several requesters do not undo each other's requests. The value is the reason. Metal3 has a similar annotation,
// reboot.metal3.io/KEY.
const (
	// PowerHoldPrefix shuts the operating system down and keeps the server off until the annotation is removed.
	PowerHoldPrefix = "power-hold.baremetalhost.infrastructure.cluster.x-k8s.io/"
	// ForcePowerHoldPrefix is PowerHoldPrefix without the shutdown of the operating system.
	ForcePowerHoldPrefix = "force-power-hold.baremetalhost.infrastructure.cluster.x-k8s.io/"
	// PowerCyclePrefix powers the server off and on again, once. The provider removes the annotation when the server was off.
	PowerCyclePrefix = "power-cycle.baremetalhost.infrastructure.cluster.x-k8s.io/"
	// PowerOnPrefix powers the server on, unless a power hold keeps it off. The provider removes the annotation when the server is on.
	PowerOnPrefix = "power-on.baremetalhost.infrastructure.cluster.x-k8s.io/"
)
