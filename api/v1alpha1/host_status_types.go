package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HostPhase is a summary of where a host stands.
// +kubebuilder:validation:Enum=Registering;Available;Unavailable;Claimed;Booting;Provisioned;PowerHold;BootFailed;BootUnknown;StateLost;Releasing;Cleaning;ExternallyProvisioned;Maintenance;Quarantined;Orphaned;Detached;Deleting
type HostPhase string

// The phases of a host.
const (
	// PhaseRegistering means that the host is not verified yet: BMC login, inventory, MAC address, power.
	PhaseRegistering HostPhase = "Registering"
	// PhaseAvailable means that machines can claim the host.
	PhaseAvailable HostPhase = "Available"
	// PhaseUnavailable means that the host is verified but not offered; the condition Available says why.
	PhaseUnavailable HostPhase = "Unavailable"
	// PhaseClaimed means that a machine has the host, and it does not boot yet.
	PhaseClaimed HostPhase = "Claimed"
	// PhaseBooting means that the host boots for its machine.
	PhaseBooting HostPhase = "Booting"
	// PhaseProvisioned means that the host runs its machine.
	PhaseProvisioned HostPhase = "Provisioned"
	// PhasePowerHold means that the host runs a machine and power holds keep it switched off, or it is being switched on again after that.
	PhasePowerHold HostPhase = "PowerHold"
	// PhaseBootFailed means that the host did not boot for its machine, and is not tried again.
	PhaseBootFailed HostPhase = "BootFailed"
	// PhaseStateLost means that the host ran its machine from memory and was powered off or restarted: what it was is gone.
	PhaseStateLost HostPhase = "StateLost"
	// PhaseReleasing means that the machine is being deleted, and the host is powered off.
	PhaseReleasing HostPhase = "Releasing"
	// PhaseCleaning means that the machine is being deleted, the server is off, and what the machine left behind is removed.
	PhaseCleaning HostPhase = "Cleaning"
	// PhaseExternallyProvisioned means that something else runs the host.
	PhaseExternallyProvisioned HostPhase = "ExternallyProvisioned"
	// PhaseMaintenance means that a person works on the host.
	PhaseMaintenance HostPhase = "Maintenance"
	// PhaseQuarantined means that something went wrong with the host.
	PhaseQuarantined HostPhase = "Quarantined"
	// PhaseBootUnknown means that a machine has the host, and the record of what the server was given for it is missing or is another's: nothing is done.
	PhaseBootUnknown HostPhase = "BootUnknown"
	// PhaseOrphaned means that the machine that has the host, or its Cluster, cannot be found: nothing is done.
	PhaseOrphaned HostPhase = "Orphaned"
	// PhaseDetached means that a person detached the host: the provider does nothing with it.
	PhaseDetached HostPhase = "Detached"
	// PhaseDeleting means that the host object is being deleted.
	PhaseDeleting HostPhase = "Deleting"
)

// BareMetalHostStatus is what was last seen of a server. It can be deleted at any time: all of it is found again by looking.
type BareMetalHostStatus struct {
	// phase summarises where the host stands.
	// +optional
	Phase HostPhase `json:"phase,omitempty"`

	// power is the power state that the BMC reported last.
	// +optional
	Power PowerState `json:"power,omitempty"`

	// bmc is what the BMC told of itself, and how it is treated.
	// +optional
	BMC *BMCStatus `json:"bmc,omitempty"`

	// hardware is what the BMC told of the server.
	// +optional
	Hardware *Hardware `json:"hardware,omitempty"`

	// identity is what identifies the host's server: the provider accepted it as this host's own. Of several hosts with one identity, the one that was booted with it
	// for the machine that it has keeps it, then the one whose identity says so, then the oldest. The others are not booted.
	// +optional
	Identity *HostIdentity `json:"identity,omitempty"`

	// addresses are the addresses that the running server was seen with.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`

	// lastOperation is the last thing done to the server through its BMC, or what is being done now.
	// +optional
	LastOperation *Operation `json:"lastOperation,omitempty"`

	// conditions say what is well and what is wrong: Ready, BMCReady, Verified, Available, Booted, BootProgress,
	// NodeMatched, RunsProvider and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the host that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// HostIdentity is what identifies the server of a host.
type HostIdentity struct {
	// bootMACAddress is the MAC address that the server boots from.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	BootMACAddress string `json:"bootMACAddress,omitempty"`
	// bmc is the BMC: its host name or IP address, with the port where that is not the protocol's own, and the path of the system.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	BMC string `json:"bmc,omitempty"`
	// hardware stands for the system UUID and the serial number that the BMC reported. It is absent until both are known.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hardware string `json:"hardware,omitempty"`
}

// BMCStatus is what a BMC told of itself, and how it is treated.
type BMCStatus struct {
	// protocol is what is spoken with the BMC, with its version.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Protocol string `json:"protocol,omitempty"`
	// capabilities are what the BMC says it can do.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=256
	Capabilities []string `json:"capabilities,omitempty"`
	// quirks name the known deviations of this model that the provider works around.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=256
	Quirks []string `json:"quirks,omitempty"`
	// bootOverride is how the server was last told to boot from the network.
	// +optional
	BootOverride *BootOverrideStatus `json:"bootOverride,omitempty"`
	// inspectedAt is when the inventory in status.hardware was read. A restart of the provider reads it again only when it is old.
	// +optional
	InspectedAt *metav1.Time `json:"inspectedAt,omitempty"`
}

// BootOverrideStatus is how a server was told to boot from the network. What worked is used again.
type BootOverrideStatus struct {
	// boot is the number of the boot that it was for.
	// +optional
	Boot int32 `json:"boot,omitempty"`
	// target is what the server was told to boot from: PXE or HTTP.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Target string `json:"target,omitempty"`
	// method is how the BMC was told; what there is depends on the protocol.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Method string `json:"method,omitempty"`
	// doubt says how what the BMC read back differs from what it was told, or why it refused.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Doubt string `json:"doubt,omitempty"`
	// lasts is true while the override holds for every boot: from when it was set until it was taken back.
	// +optional
	Lasts bool `json:"lasts,omitempty"`
	// worked is true when the server came up on the network after it. Such an override is used first the next time.
	// +optional
	Worked bool `json:"worked,omitempty"`
}

// OperationOutcome is how an operation went.
// +kubebuilder:validation:Enum=Succeeded;Failed
type OperationOutcome string

// The outcomes of an operation.
const (
	OperationSucceeded OperationOutcome = "Succeeded"
	OperationFailed    OperationOutcome = "Failed"
)

// Operation is something done to a server through its BMC.
type Operation struct {
	// name is what was done.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// startedAt is when it was begun.
	// +required
	StartedAt metav1.Time `json:"startedAt,omitzero"`
	// endedAt is when it ended; absent while it is in progress.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// outcome is how it went; absent while it is in progress.
	// +optional
	Outcome OperationOutcome `json:"outcome,omitempty"`
	// message says what went wrong. While the operation is in progress, it says what went wrong the last time that it was tried.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
