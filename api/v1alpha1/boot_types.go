package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// BootFinalizer keeps a deleted BareMetalBoot until its host is deleted or no machine has the host.
const BootFinalizer = "baremetalboot.infrastructure.cluster.x-k8s.io"

// BootPurpose is the purpose of a boot.
// +kubebuilder:validation:Enum=Provision;Inspect;Clean;Configure
type BootPurpose string

const (
	// PurposeProvision boots the operating system of the machine that claimed the host.
	PurposeProvision BootPurpose = "Provision"
	// PurposeClean boots the agent, which erases what the release of a machine must not leave on the disks, or all disks for a BareMetalErasureRequest.
	PurposeClean BootPurpose = "Clean"
	// PurposeInspect boots the agent, which reads the hardware of a server that no machine has.
	PurposeInspect BootPurpose = "Inspect"
	// PurposeConfigure boots the agent in a run of a BareMetalProfile: the restart applies the firmware settings, and the agent shows that the server still boots.
	PurposeConfigure BootPurpose = "Configure"
)

// BareMetalBootSpec is the record of the last boot of a host. The provider writes it and users read it. It is in the spec because a status is lost in
// `clusterctl move`, and without it a server could get its bootstrap data twice.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.number) || has(self.number) && self.number >= oldSelf.number",message="number must not decrease: it counts the boots of the host"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.purpose) == has(oldSelf.purpose) && (!has(self.purpose) || self.purpose == oldSelf.purpose) && has(self.claimID) == has(oldSelf.claimID) && (!has(self.claimID) || self.claimID == oldSelf.claimID) && has(self.machineName) == has(oldSelf.machineName) && (!has(self.machineName) || self.machineName == oldSelf.machineName) && has(self.erasureRequest) == has(oldSelf.erasureRequest) && (!has(self.erasureRequest) || self.erasureRequest == oldSelf.erasureRequest) && has(self.cleaningPolicy) == has(oldSelf.cleaningPolicy) && (!has(self.cleaningPolicy) || self.cleaningPolicy == oldSelf.cleaningPolicy) && has(self.method) == has(oldSelf.method) && (!has(self.method) || self.method == oldSelf.method)",message="purpose, claimID, machineName, erasureRequest, cleaningPolicy and method must not change within a boot: only a new boot, with a higher number, may have other values"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || (!has(oldSelf.identity) || has(self.identity) && self.identity == oldSelf.identity) && (!has(oldSelf.scriptAddress) || has(self.scriptAddress) && self.scriptAddress == oldSelf.scriptAddress) && (!has(oldSelf.scriptMACAddress) || has(self.scriptMACAddress) && self.scriptMACAddress == oldSelf.scriptMACAddress) && (!has(oldSelf.agentKey) || has(self.agentKey) && self.agentKey == oldSelf.agentKey) && (!has(oldSelf.dataAddress) || has(self.dataAddress) && self.dataAddress == oldSelf.dataAddress) && (!has(oldSelf.dataServedTime) || has(self.dataServedTime) && self.dataServedTime == oldSelf.dataServedTime) && (!has(oldSelf.commitAllowedTime) || has(self.commitAllowedTime) && self.commitAllowedTime == oldSelf.commitAllowedTime) && (!has(oldSelf.agentDoneTime) || has(self.agentDoneTime) && self.agentDoneTime == oldSelf.agentDoneTime) && (!has(oldSelf.agentSecureBoot) || has(self.agentSecureBoot) && self.agentSecureBoot == oldSelf.agentSecureBoot) && (!has(oldSelf.agentRefusedTime) || has(self.agentRefusedTime) && self.agentRefusedTime == oldSelf.agentRefusedTime) && (!has(oldSelf.erasure) || has(self.erasure) && self.erasure == oldSelf.erasure) && (!has(oldSelf.failure) || has(self.failure) && self.failure == oldSelf.failure) && (!has(oldSelf.voidedTime) || has(self.voidedTime) && self.voidedTime == oldSelf.voidedTime)",message="identity, scriptAddress, scriptMACAddress, agentKey, dataAddress, dataServedTime, commitAllowedTime, agentDoneTime, agentSecureBoot, agentRefusedTime, erasure, failure and voidedTime are immutable once they are set: only a new boot, with a higher number, may have other values"
type BareMetalBootSpec struct {
	// number is the number of the boot. The boots of a host count from 1, and the number never decreases. It is absent before the first boot. A boot is in
	// progress only after the host's spec.providerState.boots has reached its number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`

	// attempt is the number of the boot within its claim, from 1. The provider repeats a boot whose bootstrap data was not served, up to the limit in its
	// flag --boot-attempts.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// purpose is the purpose of the boot: Provision starts the operating system of the machine that claimed the host. Clean erases the disks when that machine
	// releases the host, or for a BareMetalErasureRequest. Inspect reads the hardware of a server that no machine has.
	// Configure restarts such a server so that it applies firmware settings.
	// +optional
	Purpose BootPurpose `json:"purpose,omitempty"`

	// agent is true if the server boots the agent, which writes an image, erases disks or reads the hardware.
	// +optional
	Agent bool `json:"agent,omitempty"`

	// method is how this attempt boots the server. If it is absent, PXE.
	// +optional
	Method BootMethod `json:"method,omitempty"`

	// cleaningPolicy is how thoroughly a boot with the purpose Clean erases the disks: Metadata, Clear or Purge, of all disks. If it is absent, Metadata of the disks in
	// writtenDisks. It is recorded when the boot starts, so that a change of the host does not change an erasure that runs.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Metadata', 'Clear', 'Purge']",message="must be Metadata, Clear or Purge: the agent does nothing for the other policies"
	CleaningPolicy wire.ErasePolicy `json:"cleaningPolicy,omitempty"`

	// claimID identifies the claim that the boot is for: spec.consumerRef.claimID of the host. For a boot of a BareMetalErasureRequest it is the UID of the
	// request. A boot with the purpose Inspect has an ID of its own, and one with the purpose Configure names the run of the BareMetalSettings.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`

	// erasureRequest is the BareMetalErasureRequest that the boot carries out, of a host that no machine has. It is absent for every other boot.
	// +optional
	ErasureRequest *BootErasureRequest `json:"erasureRequest,omitempty"`

	// machineName is the name of the BareMetalMachine that claimed the host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MachineName string `json:"machineName,omitempty"`

	// identity is the identity of the server when the boot was recorded.
	// +optional
	Identity *HostIdentity `json:"identity,omitempty"`

	// startTime is the time when the boot started. The deadline of the boot counts from here.
	// +optional
	StartTime metav1.Time `json:"startTime,omitzero"`

	// poweredOffTime is the time when the server was observed to be off in this boot. Before it the provider powers the server only off, and after it only
	// on. So a restarted provider does not power-cycle a server that is booting.
	// +optional
	PoweredOffTime *metav1.Time `json:"poweredOffTime,omitempty"`

	// poweredOnTime is the time when the provider first powers the server on in this boot, or finds it on. It is written before the power command. The boot
	// server serves nothing before it.
	// +optional
	PoweredOnTime *metav1.Time `json:"poweredOnTime,omitempty"`

	// dhcpTime is the time when the boot server received the server's DHCP request of this boot. If the boot server restarted after poweredOnTime, it may be
	// the time of that restart. It is written together with scriptAddress, and absent if the boot needs no DHCP request.
	// +optional
	DHCPTime *metav1.Time `json:"dhcpTime,omitempty"`

	// scriptAddress is the IP address that the boot script was served to, together with the token of the boot. No other address gets the script.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ScriptAddress string `json:"scriptAddress,omitempty"`

	// scriptMACAddress is the MAC address of the network interface that asked for the boot script. It is written together with scriptAddress, and absent in a boot
	// from a medium.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=17
	ScriptMACAddress string `json:"scriptMACAddress,omitempty"`

	// dataAddress is the IP address that the bootstrap data was served to. No other address gets the data. An agent may move to another address that only its
	// server can have: one that this provider leased to it, or that spec.network of the host has.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DataAddress string `json:"dataAddress,omitempty"`

	// agentKey is the SHA-256 digest, in base64url without padding, of the public key (SubjectPublicKeyInfo) with which the agent of this boot authenticates
	// itself. The first request for a plan with the token of the boot sets it, and no other key is served. It is absent if the agent uses plain HTTP.
	// +optional
	// +kubebuilder:validation:MinLength=43
	// +kubebuilder:validation:MaxLength=43
	AgentKey string `json:"agentKey,omitempty"`

	// dataServedTime is the time when the bootstrap data was first served. After that a machine with spec.boot is not booted again, because a second
	// `kubeadm init` would fork a cluster. For a machine with spec.image, commitAllowedTime is that time.
	// +optional
	DataServedTime *metav1.Time `json:"dataServedTime,omitempty"`

	// commitAllowedTime is the time when the agent was allowed to make the disk with the image bootable. Before it, an attempt may be repeated. After it, the
	// bootstrap data on the disk may have been used: the agent only checks whether the disk is complete.
	// +optional
	CommitAllowedTime *metav1.Time `json:"commitAllowedTime,omitempty"`

	// committedNumber is the number of an earlier boot of the claim that has a commitAllowedTime and of which it is unknown whether the disk is complete. The agent
	// checks that before it writes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CommittedNumber int32 `json:"committedNumber,omitempty"`

	// agentDoneTime is the time when the agent completed its plan: the image is on the disk (Provision), the disks are erased (Clean), the hardware is read (Inspect),
	// or the server has booted with new firmware settings (Configure).
	// +optional
	AgentDoneTime *metav1.Time `json:"agentDoneTime,omitempty"`

	// agentSecureBoot is the state of Secure Boot that the agent found in a boot with the purpose Configure: Enabled or Disabled. The boot server writes it together with
	// agentDoneTime. It is absent for a BIOS, and if it is unknown.
	// +optional
	AgentSecureBoot wire.SecureBoot `json:"agentSecureBoot,omitempty"`

	// agentRefusedTime is the time from which the agent is refused, because a second address presented its token before the bootstrap data was served. The
	// attempt ends, and the next attempt has another token.
	// +optional
	AgentRefusedTime *metav1.Time `json:"agentRefusedTime,omitempty"`

	// writtenDisks are the disks that got bootstrap data since they were last erased, also in earlier boots. They are recorded before the data is served.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	WrittenDisks []WrittenDisk `json:"writtenDisks,omitempty"`

	// erasure is what the agent reported about the disks that it erased. The boot server writes it together with agentDoneTime.
	// +optional
	Erasure *ErasureReport `json:"erasure,omitempty"`

	// reportedTime is the time when the operating system reported that it is running, or when its Node was found. It ends the boot.
	// +optional
	ReportedTime *metav1.Time `json:"reportedTime,omitempty"`

	// reportAddress is the IP address that the operating system reported from. It differs from dataAddress if the operating system has since configured a
	// static address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ReportAddress string `json:"reportAddress,omitempty"`

	// failure is why the boot failed. It ends the boot.
	// +optional
	Failure *BootFailure `json:"failure,omitempty"`

	// voidedTime is the time when the claim of the boot ended. The provider writes it before it clears the host's spec.consumerRef. After that the tokens of
	// the boot are invalid.
	// +optional
	VoidedTime *metav1.Time `json:"voidedTime,omitempty"`
}

// BootErasureRequest is what a boot keeps of the BareMetalErasureRequest that it carries out.
type BootErasureRequest struct {
	// name is the name of the request.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// serialNumber is the serial number of the server that the request names. The boot server compares it with that of the agent's server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
}

// BootFailure is why a boot failed, was not served, or has a Node that does not match.
type BootFailure struct {
	// reason is the cause, as one word in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message describes what was observed and what to check.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// BootStage is a stage of a boot. BareMetalBootStatus.Stage describes the stages.
// +kubebuilder:validation:Enum=Started;Media;DHCP;Loader;Waiting;Script;Kernel;Agent;Data;Committed;AgentDone;ReportedIn;Node;BootstrapSucceeded;BootstrapFailed;Restarted;NodeLost
type BootStage string

// The stages of a boot, in their order. BareMetalBootStatus.Stage describes them.
const (
	StageStarted            BootStage = "Started"
	StageMedia              BootStage = "Media"
	StageDHCP               BootStage = "DHCP"
	StageLoader             BootStage = "Loader"
	StageWaiting            BootStage = "Waiting"
	StageScript             BootStage = "Script"
	StageKernel             BootStage = "Kernel"
	StageAgent              BootStage = "Agent"
	StageData               BootStage = "Data"
	StageCommitted          BootStage = "Committed"
	StageAgentDone          BootStage = "AgentDone"
	StageReportedIn         BootStage = "ReportedIn"
	StageNode               BootStage = "Node"
	StageBootstrapSucceeded BootStage = "BootstrapSucceeded"
	StageBootstrapFailed    BootStage = "BootstrapFailed"
)

// The stages that can follow a completed boot. They report a failure. BareMetalBootStatus.Stage describes them.
const (
	StageRestarted BootStage = "Restarted"
	StageNodeLost  BootStage = "NodeLost"
)

// BareMetalBoot is the record of the last boot of the BareMetalHost with the same name. The provider creates it with the host, and the garbage collector
// deletes it after the host. To follow what the provider does, run: kubectl get baremetalboots -w
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalboots,scope=Namespaced,categories=cluster-api,shortName=bmbo
// +kubebuilder:printcolumn:name="Purpose",type=string,JSONPath=`.spec.purpose`,description="Purpose of the boot"
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.machineName`,description="BareMetalMachine that the boot is for"
// +kubebuilder:printcolumn:name="Number",type=integer,JSONPath=`.spec.number`,description="Number of the boot"
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`,description="Last stage that was observed"
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`,description="What the boot waits for, or why it failed"
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.spec.startTime`,description="Time since the boot started"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Attempt",type=integer,priority=1,JSONPath=`.spec.attempt`,description="Number of the boot within its claim"
// +kubebuilder:printcolumn:name="Method",type=string,priority=1,JSONPath=`.spec.method`,description="How the attempt boots the server"
// +kubebuilder:printcolumn:name="Script",type=string,priority=1,JSONPath=`.spec.scriptAddress`,description="Address that the boot script was served to"
// +kubebuilder:printcolumn:name="MAC",type=string,priority=1,JSONPath=`.spec.scriptMACAddress`,description="MAC address that asked for the boot script"
// +kubebuilder:printcolumn:name="Data",type=string,priority=1,JSONPath=`.spec.dataAddress`,description="Address that the bootstrap data was served to"
// +kubebuilder:printcolumn:name="Voided",type=date,priority=1,JSONPath=`.spec.voidedTime`,description="Time since the claim ended"
// +kubebuilder:printcolumn:name="Failure",type=string,priority=1,JSONPath=`.spec.failure.message`,description="Why the boot failed"
type BareMetalBoot struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the record of the boot. The boot server writes dhcpTime, scriptAddress, scriptMACAddress, dataAddress, dataServedTime, commitAllowedTime, agentDoneTime, agentSecureBoot, erasure, writtenDisks and reportAddress. The boot server
	// and the controllers write reportedTime and failure. The controllers write the other fields. spec is required because the validation rules do not apply to
	// an absent spec.
	// +required
	Spec BareMetalBootSpec `json:"spec"`
	// status is the progress of the boot.
	// +optional
	Status BareMetalBootStatus `json:"status,omitzero"`
}

// BareMetalBootList is a list of BareMetalBoots.
//
// +kubebuilder:object:root=true
type BareMetalBootList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalBoot `json:"items"`
}
