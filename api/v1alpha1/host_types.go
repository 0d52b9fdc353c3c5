package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// HostFinalizer keeps a BareMetalHost until the machine that has it released it.
const HostFinalizer = "baremetalhost.infrastructure.cluster.x-k8s.io"

// PowerState is the power state of a server.
// +kubebuilder:validation:Enum=On;Off
type PowerState string

// The power states of a server.
const (
	PowerOn  PowerState = "On"
	PowerOff PowerState = "Off"
)

// BootMode is the firmware interface a server boots with.
// +kubebuilder:validation:Enum=UEFI;Legacy
type BootMode string

// The boot modes of a server.
const (
	BootModeUEFI   BootMode = "UEFI"
	BootModeLegacy BootMode = "Legacy"
)

// Architecture is a CPU architecture, named as Kubernetes names it.
// +kubebuilder:validation:Enum=amd64;arm64
type Architecture string

// The architectures that can be booted.
const (
	ArchitectureAMD64 Architecture = "amd64"
	ArchitectureARM64 Architecture = "arm64"
)

// BareMetalHostSpec describes a server and who has it.
type BareMetalHostSpec struct {
	// bmc tells how to reach the server's baseboard management controller (BMC).
	// +required
	BMC BMC `json:"bmc,omitzero"`

	// bootMACAddress is the MAC address of the network interface that the server boots from, in lower case with colons.
	// No two hosts may have the same one: the network boot recognises a server by it.
	// +required
	// +kubebuilder:validation:MinLength=17
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, like 52:54:00:12:34:56"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[0-9a-f][13579bdf]') && self != '00:00:00:00:00:00'",message="must be the address of one network interface: this one is a multicast or an empty address"
	BootMACAddress string `json:"bootMACAddress,omitempty"`

	// bootMode is the firmware interface that the server boots with. Defaults to UEFI.
	// +optional
	// +kubebuilder:default=UEFI
	BootMode BootMode `json:"bootMode,omitempty"`

	// architecture is the server's CPU architecture. Defaults to amd64.
	// +optional
	// +kubebuilder:default=amd64
	Architecture Architecture `json:"architecture,omitempty"`

	// failureDomain names the failure domain (a rack, a row, a power feed) that the server stands in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// power is what the power of the server shall be while no machine has it. Without it the power is left as it is found,
	// and a server that is found running is not offered to machines: it may be registered by mistake.
	// +optional
	Power PowerState `json:"power,omitempty"`

	// maintenance takes the server out of service for a person: it is not offered to machines and gets no power or boot
	// command. A machine that has it keeps it running.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`

	// externallyProvisioned says that something else installed the server and runs it. It is inventoried and watched, never
	// offered to machines, and gets no power or boot command.
	// +optional
	ExternallyProvisioned bool `json:"externallyProvisioned,omitempty"`

	// consumerRef names the BareMetalMachine, in the host's namespace, that has this host. The provider sets and clears it;
	// it is cleared only after the server was powered off and cleaned.
	// +optional
	ConsumerRef *ConsumerReference `json:"consumerRef,omitempty"`

	// quarantine keeps the server from being offered to machines after something went wrong with it. The provider sets it,
	// and a person removes it when the server is well again.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`

	// boot records the boot attempt that the provider began last for the machine that has this host. The provider writes it.
	// It stands in the spec because it must survive where a status does not: it keeps a server from being started or handed
	// its bootstrap data twice.
	// +optional
	Boot *BootAttempt `json:"boot,omitempty"`
}

// BMC tells how to reach a server's baseboard management controller.
// +kubebuilder:validation:XValidation:rule="!(has(self.caSecretName) && has(self.insecureSkipTLSVerify) && self.insecureSkipTLSVerify)",message="set caSecretName or insecureSkipTLSVerify, not both"
type BMC struct {
	// address is the URL of the BMC. Its scheme picks the protocol:
	//
	//   redfish://host[:port][/redfish/v1/Systems/ID]       Redfish over HTTPS
	//   redfish+http://host[:port][/redfish/v1/Systems/ID]  Redfish over plain HTTP: the credentials cross the wire unprotected
	//
	// Without a path, the BMC must manage exactly one system. Each request carries HTTP basic authentication; with
	// "?auth=session" a Redfish session is opened instead.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != ''",message="must be a URL with a host, like redfish://192.0.2.10 or redfish://192.0.2.10/redfish/v1/Systems/1"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || url(self).getScheme() in ['redfish', 'redfish+http']",message="has an unknown scheme: use redfish:// or redfish+http:// (without TLS)"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="must not hold credentials: put username and password into the Secret that credentialsSecretName names"
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="must not hold a fragment (#...)"
	Address string `json:"address,omitempty"`

	// credentialsSecretName names a Secret, in the host's namespace, with the keys "username" and "password".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Secret: lower case letters, digits, '-' and '.'"
	CredentialsSecretName string `json:"credentialsSecretName,omitempty"`

	// caSecretName names a Secret, in the host's namespace, whose key "ca.crt" holds the certificates (PEM) that the BMC's
	// certificate is verified with. Without it the system's roots are used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of a Secret: lower case letters, digits, '-' and '.'"
	CASecretName string `json:"caSecretName,omitempty"`

	// insecureSkipTLSVerify accepts any certificate. Whoever can stand in the way of the connection then reads the credentials.
	// +optional
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`
}

// Maintenance says why a person took a server out of service.
type Maintenance struct {
	// reason is for other people: who works on the server, and why.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// ConsumerReference names the BareMetalMachine that has a host. It names no UID: UIDs change in a `clusterctl move`.
type ConsumerReference struct {
	// name is the name of the BareMetalMachine, in the host's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// Quarantine says what went wrong with a server.
type Quarantine struct {
	// reason is a word in CamelCase for what went wrong.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message tells a person what went wrong and what to look at.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// since is when the quarantine began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// BootAttempt is one try to boot a server over the network for the machine that has it.
type BootAttempt struct {
	// attempt counts the attempts for this machine, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// startedAt is when the attempt began. Its deadline counts from here.
	// +required
	StartedAt metav1.Time `json:"startedAt,omitzero"`

	// poweredOffAt is when the server was seen powered off in this attempt. Before it the server is powered off, after it
	// powered on: so a provider that restarts in between does not power-cycle a server that is booting.
	// +optional
	PoweredOffAt *metav1.Time `json:"poweredOffAt,omitempty"`

	// scriptAddress is the IP address that the boot script, and with it the attempt's token, was given to. No other gets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ScriptAddress string `json:"scriptAddress,omitempty"`

	// seedAddress is the IP address that the bootstrap data was given to. No other gets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SeedAddress string `json:"seedAddress,omitempty"`

	// seededAt is when the bootstrap data was first given out. From then on the attempt is not repeated: running, say,
	// `kubeadm init` a second time would fork a cluster.
	// +optional
	SeededAt *metav1.Time `json:"seededAt,omitempty"`

	// reportedAt is when the server's operating system reported in. It ends the attempt.
	// +optional
	ReportedAt *metav1.Time `json:"reportedAt,omitempty"`

	// failure says why the attempt was given up. It ends the attempt.
	// +optional
	Failure *BootFailure `json:"failure,omitempty"`
}

// BootFailure says why a boot attempt was given up.
type BootFailure struct {
	// reason is a word in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message tells a person what was seen and what to look at.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

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
	// PhaseStateLost means that the host ran its machine from memory and was powered off: what it was is gone.
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

	// conditions say what is well and what is wrong: Ready, BMCReady, Verified, Available, Booted and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the host that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Hardware is what a BMC told of its server.
type Hardware struct {
	// manufacturer is the maker of the server.
	// +optional
	Manufacturer string `json:"manufacturer,omitempty"`
	// model is the model of the server.
	// +optional
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the server.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// systemUUID is the UUID that the server's firmware reports, in lower case.
	// +optional
	SystemUUID string `json:"systemUUID,omitempty"`
	// firmwareVersion is the version of the system firmware (BIOS).
	// +optional
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// bmcFirmwareVersion is the version of the BMC's firmware.
	// +optional
	BMCFirmwareVersion string `json:"bmcFirmwareVersion,omitempty"`
	// cpu describes the processors.
	// +optional
	CPU CPU `json:"cpu,omitzero"`
	// memoryMiB is the size of the memory in MiB.
	// +optional
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
	// disks are the drives found.
	// +optional
	// +listType=atomic
	Disks []Disk `json:"disks,omitempty"`
	// nics are the network interfaces found.
	// +optional
	// +listType=atomic
	NICs []NIC `json:"nics,omitempty"`
	// missing names the parts of the inventory that the BMC did not give.
	// +optional
	// +listType=atomic
	Missing []string `json:"missing,omitempty"`
}

// CPU describes the processors of a server.
type CPU struct {
	// model is the model of the processors.
	// +optional
	Model string `json:"model,omitempty"`
	// sockets counts the processors.
	// +optional
	Sockets int32 `json:"sockets,omitempty"`
	// threads counts the logical processors: what Kubernetes calls cpu.
	// +optional
	Threads int32 `json:"threads,omitempty"`
}

// Disk describes a drive.
type Disk struct {
	// name is the BMC's name of the drive.
	// +optional
	Name string `json:"name,omitempty"`
	// sizeGiB is the capacity in GiB, rounded down.
	// +optional
	SizeGiB int64 `json:"sizeGiB,omitempty"`
	// model is the model of the drive.
	// +optional
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the drive.
	// +optional
	SerialNumber string `json:"serialNumber,omitempty"`
	// rotational is true for a hard disk, false for a solid state drive.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
}

// NIC describes a network interface.
type NIC struct {
	// name is the BMC's name of the interface.
	// +optional
	Name string `json:"name,omitempty"`
	// macAddress is the interface's MAC address, in lower case with colons.
	// +optional
	MACAddress string `json:"macAddress,omitempty"`
	// linkUp is true where the BMC reports a link.
	// +optional
	LinkUp bool `json:"linkUp,omitempty"`
}

// BootStage names how far a boot came.
// +kubebuilder:validation:Enum=DHCP;Loader;Script;Kernel;Seed;ReportedIn
type BootStage string

// The stages of a boot, in their order.
const (
	// StageDHCP means that the firmware asked for an address or a boot file.
	StageDHCP BootStage = "DHCP"
	// StageLoader means that the firmware fetched the boot loader.
	StageLoader BootStage = "Loader"
	// StageScript means that the boot loader fetched the host's script.
	StageScript BootStage = "Script"
	// StageKernel means that the boot loader fetched the kernel.
	StageKernel BootStage = "Kernel"
	// StageSeed means that the operating system fetched the bootstrap data.
	StageSeed BootStage = "Seed"
	// StageReportedIn means that the operating system reported in.
	StageReportedIn BootStage = "ReportedIn"
)

// BootStatus is how far a boot came.
type BootStatus struct {
	// attempt is the number of the boot attempt.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// sightings are the stages that were seen, each when it was first seen. Those from before the attempt began are of an
	// earlier one.
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
	// time is when it was first seen.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// address is the IP address of the client, where it had one.
	// +optional
	Address string `json:"address,omitempty"`
	// client is what the client said it is: the firmware and its architecture, or the user agent.
	// +optional
	Client string `json:"client,omitempty"`
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
	Message string `json:"message,omitempty"`
}

// BareMetalHost is a physical server of the inventory.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalhosts,scope=Namespaced,categories=cluster-api,shortName=bmh
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the host stands"
// +kubebuilder:printcolumn:name="Power",type=string,JSONPath=`.status.power`,description="Power state reported by the BMC"
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.consumerRef.name`,description="BareMetalMachine that has the host"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is well"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="BMC",type=string,priority=1,JSONPath=`.spec.bmc.address`,description="Address of the BMC"
// +kubebuilder:printcolumn:name="MAC",type=string,priority=1,JSONPath=`.spec.bootMACAddress`,description="MAC address that the host boots from"
// +kubebuilder:printcolumn:name="Domain",type=string,priority=1,JSONPath=`.spec.failureDomain`,description="Failure domain"
// +kubebuilder:printcolumn:name="Model",type=string,priority=1,JSONPath=`.status.hardware.model`,description="Model of the server"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong"
type BareMetalHost struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes the server and who has it.
	// +required
	Spec BareMetalHostSpec `json:"spec,omitzero"`
	// status is what was last seen of the server.
	// +optional
	Status BareMetalHostStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the host.
func (h *BareMetalHost) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions sets the conditions of the host.
func (h *BareMetalHost) SetConditions(conditions []metav1.Condition) {
	h.Status.Conditions = conditions
}

// BareMetalHostList is a list of BareMetalHosts.
//
// +kubebuilder:object:root=true
type BareMetalHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalHost `json:"items"`
}
