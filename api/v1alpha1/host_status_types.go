package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HostPhase is a summary of where a host stands.
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
	// PhaseBootFailed means that the host did not boot for its machine, and is not tried again.
	PhaseBootFailed HostPhase = "BootFailed"
	// PhaseStateLost means that the host ran its machine from memory and was powered off or restarted: what it was is gone.
	PhaseStateLost HostPhase = "StateLost"
	// PhaseReleasing means that the machine is being deleted, and the host is powered off and cleaned.
	PhaseReleasing HostPhase = "Releasing"
	// PhaseExternallyProvisioned means that something else runs the host.
	PhaseExternallyProvisioned HostPhase = "ExternallyProvisioned"
	// PhaseMaintenance means that a person works on the host.
	PhaseMaintenance HostPhase = "Maintenance"
	// PhaseQuarantined means that something went wrong with the host.
	PhaseQuarantined HostPhase = "Quarantined"
	// PhaseOrphaned means that the machine that has the host, or its Cluster, cannot be found: nothing is done.
	PhaseOrphaned HostPhase = "Orphaned"
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

	// boot is how far the current or the last boot came.
	// +optional
	Boot *BootStatus `json:"boot,omitempty"`

	// addresses are the addresses that the running server was seen with.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`

	// lastOperation is the last thing done to the server through its BMC.
	// +optional
	LastOperation *Operation `json:"lastOperation,omitempty"`

	// conditions say what is well and what is wrong: Ready, BMCReady, Verified, Available, Booted, BootProgress
	// and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the host that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
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
	// attempt is the boot attempt that it was for.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// target is what the server was told to boot from: PXE or HTTP.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Target string `json:"target,omitempty"`
	// way is how the BMC was told; what there is depends on the protocol.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Way string `json:"way,omitempty"`
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

// BootStage names how far a boot came.
// +kubebuilder:validation:Enum=DHCP;Loader;Waiting;Script;Kernel;Seed;ReportedIn;Node;BootstrapSucceeded;BootstrapFailed;Restarted;NodeLost
type BootStage string

// The stages of a boot, in their order.
const (
	// StageDHCP means that the firmware asked for an address or a boot file.
	StageDHCP BootStage = "DHCP"
	// StageLoader means that the firmware fetched the boot loader.
	StageLoader BootStage = "Loader"
	// StageWaiting means that the boot loader asked for the host's script, and waits until fewer servers of its network boot.
	StageWaiting BootStage = "Waiting"
	// StageScript means that the boot loader fetched the host's script.
	StageScript BootStage = "Script"
	// StageKernel means that the boot loader fetched the kernel.
	StageKernel BootStage = "Kernel"
	// StageSeed means that the operating system fetched the bootstrap data.
	StageSeed BootStage = "Seed"
	// StageReportedIn means that the operating system reported in.
	StageReportedIn BootStage = "ReportedIn"
	// StageNode means that the server's Node appeared in the workload cluster.
	StageNode BootStage = "Node"
	// StageBootstrapSucceeded means that the operating system told that its bootstrap data was carried out.
	StageBootstrapSucceeded BootStage = "BootstrapSucceeded"
	// StageBootstrapFailed means that the operating system told that its bootstrap data could not be carried out.
	StageBootstrapFailed BootStage = "BootstrapFailed"
)

// What may be seen of a server after its boot.
const (
	// StageRestarted means that firmware asked for a network boot although the machine runs from memory and got its bootstrap data: the
	// server restarted, or somebody else on its network asked with its MAC address.
	StageRestarted BootStage = "Restarted"
	// StageNodeLost means that, as the firmware asked, the server's Node was not Ready and did not become so: the server did restart.
	StageNodeLost BootStage = "NodeLost"
)

// BootStatus is how far a boot came.
type BootStatus struct {
	// attempt is the number of the boot attempt.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// sightings are the stages that were seen, each when it was first seen. Those with the number of another attempt, or from before
	// the attempt began, are of an earlier one.
	// +optional
	// +listType=map
	// +listMapKey=stage
	Sightings []Sighting `json:"sightings,omitempty"`

	// problem is what kept the boot server from serving this attempt.
	// +optional
	Problem *BootProblem `json:"problem,omitempty"`
}

// BootProblem is what kept the boot server from serving a boot.
type BootProblem struct {
	BootFailure `json:",inline"`
	// time is when it was last seen.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}

// Sighting is a stage of a boot that was seen.
type Sighting struct {
	// stage is what was seen.
	// +required
	Stage BootStage `json:"stage,omitempty"`
	// attempt is the number of the boot attempt that it was seen in.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
	// time is when it was first seen. Restarted and Waiting say when it was last seen.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// address is the IP address of the client, where it had one.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Address string `json:"address,omitempty"`
	// client is what the client said it is: the firmware and its architecture, the user agent, or the kubelet. Waiting has the place in line.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Client string `json:"client,omitempty"`
	// addresses are those that the Node says it has. They are kept up to date; other stages have none.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`
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
	// endedAt is when it ended.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// outcome is how it went.
	// +optional
	Outcome OperationOutcome `json:"outcome,omitempty"`
	// message says what went wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
