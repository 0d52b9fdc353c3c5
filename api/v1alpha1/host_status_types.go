package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// HostPhase summarises the state of a host. BareMetalHostStatus.Phase describes the phases.
// +kubebuilder:validation:Enum=Registering;Inspecting;Configuring;Available;Unavailable;Claimed;Booting;Provisioned;PowerHold;BootFailed;BootUnknown;StateLost;Releasing;Cleaning;ExternallyProvisioned;Maintenance;Quarantined;Orphaned;Detached;Deleting
type HostPhase string

// The phases of a host. BareMetalHostStatus.Phase describes them.
const (
	PhaseRegistering           HostPhase = "Registering"
	PhaseInspecting            HostPhase = "Inspecting"
	PhaseConfiguring           HostPhase = "Configuring"
	PhaseAvailable             HostPhase = "Available"
	PhaseUnavailable           HostPhase = "Unavailable"
	PhaseClaimed               HostPhase = "Claimed"
	PhaseBooting               HostPhase = "Booting"
	PhaseProvisioned           HostPhase = "Provisioned"
	PhasePowerHold             HostPhase = "PowerHold"
	PhaseBootFailed            HostPhase = "BootFailed"
	PhaseStateLost             HostPhase = "StateLost"
	PhaseReleasing             HostPhase = "Releasing"
	PhaseCleaning              HostPhase = "Cleaning"
	PhaseExternallyProvisioned HostPhase = "ExternallyProvisioned"
	PhaseMaintenance           HostPhase = "Maintenance"
	PhaseQuarantined           HostPhase = "Quarantined"
	PhaseBootUnknown           HostPhase = "BootUnknown"
	PhaseOrphaned              HostPhase = "Orphaned"
	PhaseDetached              HostPhase = "Detached"
	PhaseDeleting              HostPhase = "Deleting"
)

// BareMetalHostStatus is the observed state of a server. The provider writes it, and restores all of it when it is lost.
type BareMetalHostStatus struct {
	// conditions are the conditions of the host: Ready, BMCReady, Verified, Available, Booted, BootProgress, HardwareHealthy, PreflightPassed, SettingsConform,
	// InspectionConsistent, NodeMatched, RunsProvider and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// settingsProfile is the name of the BareMetalProfile whose firmware settings the server had when they were read last. It is absent if they differ, are
	// not known, or no profile selects the host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SettingsProfile string `json:"settingsProfile,omitempty"`

	// phase summarises the state of the host. The provider sends no power or boot command in the phases BootUnknown,
	// Orphaned, Detached, Maintenance and ExternallyProvisioned, except for a settings run that spec.maintenance.drainedBy permits.
	//
	// - Registering: the host is not verified yet (BMC login, inventory, MAC
	//   address, power).
	// - Inspecting: the agent reads the hardware of the server (spec.inspection).
	// - Configuring: a run of a BareMetalProfile changes the firmware settings of
	//   the server. No machine can claim the host.
	// - Available: machines can claim the host.
	// - Unavailable: the host is verified but machines cannot claim it. The
	//   condition Available has the reason.
	// - Claimed: a machine has the host, and the host is not booting yet.
	// - Booting: the host is booting for its machine.
	// - Provisioned: the host runs its machine.
	// - PowerHold: the host runs a machine and power holds keep it powered off, or
	//   it is being powered on again.
	// - BootFailed: the host did not boot for its machine. There are no more
	//   attempts.
	// - BootUnknown: a machine has the host, but its BareMetalBoot is missing or
	//   belongs to another claim.
	// - StateLost: the machine runs from memory (Ephemeral), and its server was
	//   powered off or restarted: the machine is lost.
	// - Releasing: the machine is being deleted, and the server is being powered
	//   off.
	// - Cleaning: the machine is being deleted, the server is off, and what the
	//   machine left behind is being removed.
	// - ExternallyProvisioned: something other than this provider runs the server.
	// - Maintenance: a person works on the server.
	// - Quarantined: something went wrong with the server. spec.quarantine has the
	//   reason.
	// - Orphaned: the host's machine or its Cluster does not exist.
	// - Detached: a user detached the host.
	// - Deleting: the host object is being deleted.
	// +optional
	Phase HostPhase `json:"phase,omitempty"`

	// power is the last power state that the BMC reported: On, Off, PoweringOn or PoweringOff.
	// +optional
	Power PowerState `json:"power,omitempty"`

	// poweredOffTime is the time since which the server of a machine on disk is off although the provider did not power it off. It is absent
	// unless the condition Booted has the reason PoweredOff.
	// +optional
	PoweredOffTime *metav1.Time `json:"poweredOffTime,omitempty"`

	// powerRestore is how the provider powered the server on after the last loss of power. It stays until the next one, or until the machine releases the host.
	// +optional
	// +structType=atomic
	PowerRestore *PowerRestore `json:"powerRestore,omitempty"`

	// bmc is what the BMC reported about itself, and the last boot override.
	// +optional
	// +structType=atomic
	BMC *BMCStatus `json:"bmc,omitempty"`

	// hardware is the inventory of the server that its BMC reported.
	// +optional
	// +structType=atomic
	Hardware *Hardware `json:"hardware,omitempty"`

	// health is what the BMC reports about the health of the server over time. It is absent if there is nothing to report. The condition HardwareHealthy summarises it.
	// +optional
	// +structType=atomic
	Health *HealthStatus `json:"health,omitempty"`

	// inspection summarises what the agent found on the server, for a host whose spec.inspection is Agent or Both.
	// +optional
	// +structType=atomic
	Inspection *InspectionSummary `json:"inspection,omitempty"`

	// identity is the identity of the server that the provider accepted for this host. If several hosts have the same identity, one keeps it and the others
	// are not booted. The host that was booted with it for its current machine keeps it, then the host whose status.identity has it, then the oldest.
	// +optional
	// +structType=atomic
	Identity *HostIdentity `json:"identity,omitempty"`

	// addresses are the addresses of the running server that the provider observed.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`

	// lastOperation is the operation that the provider performs on the server through its BMC, or the last one that it performed.
	// +optional
	// +structType=atomic
	LastOperation *Operation `json:"lastOperation,omitempty"`

	// observedGeneration is the generation of the host that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// HostIdentity identifies the server of a host.
type HostIdentity struct {
	// bootMACAddresses are the MAC addresses that the server boots from.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=17
	BootMACAddresses []string `json:"bootMACAddresses,omitempty"`
	// bmc identifies the BMC: its hostname or IP address, its port unless it is the default of the protocol, and the path of the system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	BMC string `json:"bmc,omitempty"`
	// hardware is a hash of the system UUID and the serial number that the BMC reported. It is absent until both are known.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Hardware string `json:"hardware,omitempty"`
}

// BMCStatus is what a BMC reported about itself, and the last boot override.
type BMCStatus struct {
	// protocol is the management protocol of the BMC and its version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Protocol string `json:"protocol,omitempty"`
	// capabilities are those that the BMC reports.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=256
	Capabilities []string `json:"capabilities,omitempty"`
	// quirks are the names of the known deviations of this BMC model that the provider works around.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=256
	Quirks []string `json:"quirks,omitempty"`
	// warnings are what to correct at the BMC before its server gets work, found when the inventory was read. The condition PreflightPassed shows them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=512
	Warnings []string `json:"warnings,omitempty"`
	// secureBoot says whether Secure Boot was enabled for the next boot when the inventory was read. It is present only for a host with spec.bootMode:
	// UEFISecureBoot whose BMC reports it.
	// +optional
	SecureBoot wire.SecureBoot `json:"secureBoot,omitempty"`
	// powerRestorePolicy is what the firmware does when the power returns, as the BMC reports it: AlwaysOn, AlwaysOff or LastState (PowerRestorePolicy of
	// DSP0268, ComputerSystem). It is absent if the BMC does not report it.
	// +optional
	PowerRestorePolicy PowerRestorePolicy `json:"powerRestorePolicy,omitempty"`
	// bootOverride is the last boot override: how the BMC was instructed to boot the server from the network.
	// +optional
	BootOverride *BootOverrideStatus `json:"bootOverride,omitempty"`
	// inspectedTime is the time when the provider read the inventory in status.hardware. A restarted provider reads it again only if it is older
	// than the flag --inspect-interval allows.
	// +optional
	InspectedTime *metav1.Time `json:"inspectedTime,omitempty"`
}

// BootOverrideStatus is how a BMC was instructed to boot a server from the network. The provider uses a method that worked again.
type BootOverrideStatus struct {
	// boot is the number of the boot that the override was set for.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Boot int32 `json:"boot,omitempty"`
	// bootMethod is the boot method that the override served: UefiHttp or VirtualMedia. If it is absent, PXE.
	// +optional
	BootMethod BootMethod `json:"bootMethod,omitempty"`
	// target is the boot source of the override: PXE, HTTP or CD.
	// +optional
	Target OverrideTarget `json:"target,omitempty"`
	// method is how the override was set. The methods depend on the protocol of the BMC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Method string `json:"method,omitempty"`
	// warning is why the override may have no effect: the BMC refused it, or reported something else when it was read back.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Warning string `json:"warning,omitempty"`
	// persistent is true while the override applies to every boot instead of only the next one.
	// +optional
	Persistent bool `json:"persistent,omitempty"`
	// worked is true if the server booted by the method after the override was set. The next boot tries such a method and override first.
	// +optional
	Worked bool `json:"worked,omitempty"`
}

// OperationOutcome is the outcome of an operation.
// +kubebuilder:validation:Enum=Succeeded;Failed
type OperationOutcome string

const (
	OperationSucceeded OperationOutcome = "Succeeded"
	OperationFailed    OperationOutcome = "Failed"
)

// Operation is an operation on a server through its BMC.
type Operation struct {
	// name is the name of the operation, such as PowerOn, Inspect or SetNetworkBoot.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// startTime is the time when the operation started.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// endTime is the time when the operation ended. It is absent while the operation is in progress.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// outcome is Succeeded or Failed. It is absent while the operation is in progress.
	// +optional
	Outcome OperationOutcome `json:"outcome,omitempty"`
	// message is the error of the operation. While the operation is in progress, it is the error of the last attempt.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}
