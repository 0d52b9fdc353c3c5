package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// BootFinalizer keeps a BareMetalBoot that is being deleted until its host is gone, or has no machine.
const BootFinalizer = "baremetalboot.infrastructure.cluster.x-k8s.io"

// BootPurpose is what a boot is for.
// +kubebuilder:validation:Enum=Provision;Inspect;Clean
type BootPurpose string

// The purposes of boots.
const (
	// PurposeProvision boots the machine that claimed the host.
	PurposeProvision BootPurpose = "Provision"
	// PurposeInspect and PurposeClean are reserved for boots of the agent: nothing starts one yet.
	PurposeInspect BootPurpose = "Inspect"
	PurposeClean   BootPurpose = "Clean"
)

// BareMetalBootSpec is the record of the last boot of a host. Controllers write it and people read it. It is in the spec because a status is lost in
// `clusterctl move`, and this record keeps a server from being given its bootstrap data twice.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.number) || has(self.number) && self.number >= oldSelf.number",message="number must not fall: it counts the boots of the host"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.purpose) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.purpose) && self.purpose == oldSelf.purpose",message="purpose must not change within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.claimID) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.claimID) && self.claimID == oldSelf.claimID",message="claimID must not change within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.machineName) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.machineName) && self.machineName == oldSelf.machineName",message="machineName must not change within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.identity) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.identity) && self.identity == oldSelf.identity",message="identity must not change within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.scriptAddress) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.scriptAddress) && self.scriptAddress == oldSelf.scriptAddress",message="scriptAddress is written once within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.dataAddress) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.dataAddress) && self.dataAddress == oldSelf.dataAddress",message="dataAddress is written once within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.dataServedAt) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.dataServedAt) && self.dataServedAt == oldSelf.dataServedAt",message="dataServedAt is written once within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.commitAllowedAt) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.commitAllowedAt) && self.commitAllowedAt == oldSelf.commitAllowedAt",message="commitAllowedAt is written once within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.failure) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.failure) && self.failure == oldSelf.failure",message="failure is written once within a boot; only a new boot, with a higher number, may have another"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.voidedAt) || !has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || has(self.voidedAt) && self.voidedAt == oldSelf.voidedAt",message="voidedAt is written once within a boot; only a new boot, with a higher number, may have another"
type BareMetalBootSpec struct {
	// number counts the boots of the host, from 1. It never falls. It is absent before the first boot. A boot is under way only once the host's
	// spec.boots has reached its number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`

	// attempt counts the boots for the claim, from 1. A boot whose bootstrap data was not served is repeated a few times.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// purpose is what the boot is for.
	// +optional
	Purpose BootPurpose `json:"purpose,omitempty"`

	// claimID is the claim that the boot is for: the host's spec.consumerRef.claimID.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`

	// machineName is the name of the BareMetalMachine that made the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MachineName string `json:"machineName,omitempty"`

	// identity is what identified the server when the boot was recorded.
	// +optional
	Identity *HostIdentity `json:"identity,omitempty"`

	// startedAt is when the boot started. Its deadline counts from here.
	// +optional
	StartedAt metav1.Time `json:"startedAt,omitzero"`

	// poweredOffAt is when the server was read as powered off in this boot. Before it the server is powered off, after it powered on: so a provider
	// that restarts in between does not power-cycle a server that boots.
	// +optional
	PoweredOffAt *metav1.Time `json:"poweredOffAt,omitempty"`

	// poweredOnAt is written before the server is first powered on in this boot, or when it is found on. Nothing is served to the server before it.
	// +optional
	PoweredOnAt *metav1.Time `json:"poweredOnAt,omitempty"`

	// dhcpAt is when the server's DHCP request of this boot was received, or when the boot server started, if that was after poweredOnAt. It is written
	// together with scriptAddress, and is absent where no DHCP request is needed.
	// +optional
	DHCPAt *metav1.Time `json:"dhcpAt,omitempty"`

	// scriptAddress is the IP address that the boot script was served to, and with it the token of the boot. No other address gets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ScriptAddress string `json:"scriptAddress,omitempty"`

	// dataAddress is the IP address that the bootstrap data was served to. No other address gets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DataAddress string `json:"dataAddress,omitempty"`

	// dataServedAt is when the bootstrap data was first served. From then on the claim is not booted again: a second `kubeadm init` would fork a
	// cluster.
	// +optional
	DataServedAt *metav1.Time `json:"dataServedAt,omitempty"`

	// commitAllowedAt is when the agent was allowed to make the disk bootable. It is reserved for boots that write an image: nothing writes it yet.
	// +optional
	CommitAllowedAt *metav1.Time `json:"commitAllowedAt,omitempty"`

	// reportedAt is when the operating system reported in, or its Node was found. It ends the boot.
	// +optional
	ReportedAt *metav1.Time `json:"reportedAt,omitempty"`

	// reportAddress is the IP address that the operating system reported in from. It differs from dataAddress where the operating system gave itself
	// a static address in between.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ReportAddress string `json:"reportAddress,omitempty"`

	// failure is why the boot failed. It ends the boot.
	// +optional
	Failure *BootFailure `json:"failure,omitempty"`

	// voidedAt is when the claim of the boot ended. It is written before the host's spec.consumerRef is cleared: from then on the tokens of the boot
	// open nothing.
	// +optional
	VoidedAt *metav1.Time `json:"voidedAt,omitempty"`
}

// BootFailure is why a boot failed.
type BootFailure struct {
	// reason is a word in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message says what was observed, and what to check.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// BootStage names how far a boot came.
// +kubebuilder:validation:Enum=Started;DHCP;Loader;Waiting;Script;Kernel;Data;ReportedIn;Node;BootstrapSucceeded;BootstrapFailed;Restarted;NodeLost
type BootStage string

// The stages of a boot, in their order.
const (
	// StageStarted means that the boot started: the server is powered off, told to boot from the network, and powered on.
	StageStarted BootStage = "Started"
	// StageDHCP means that the firmware asked for an address or a boot file.
	StageDHCP BootStage = "DHCP"
	// StageLoader means that the firmware fetched the boot loader.
	StageLoader BootStage = "Loader"
	// StageWaiting means that the boot loader asked for the script, and waits until fewer servers of its network boot.
	StageWaiting BootStage = "Waiting"
	// StageScript means that the boot loader fetched the script.
	StageScript BootStage = "Script"
	// StageKernel means that the boot loader fetched the kernel.
	StageKernel BootStage = "Kernel"
	// StageData means that the operating system fetched the bootstrap data.
	StageData BootStage = "Data"
	// StageReportedIn means that the operating system reported in.
	StageReportedIn BootStage = "ReportedIn"
	// StageNode means that the server's Node appeared in the workload cluster.
	StageNode BootStage = "Node"
	// StageBootstrapSucceeded means that the operating system reported that its bootstrap data was carried out.
	StageBootstrapSucceeded BootStage = "BootstrapSucceeded"
	// StageBootstrapFailed means that the operating system reported that its bootstrap data could not be carried out.
	StageBootstrapFailed BootStage = "BootstrapFailed"
)

// What may be observed of a server after its boot.
const (
	// StageRestarted means that firmware asked for a network boot although the machine runs from memory and got its bootstrap data: the
	// server restarted, or another client on its network asked with its MAC address.
	StageRestarted BootStage = "Restarted"
	// StageNodeLost means that, as the firmware asked, the server's Node was not Ready and did not become so: the server did restart.
	StageNodeLost BootStage = "NodeLost"
)

// BareMetalBootStatus is how far the boot came. What is lost with it is observed again, or costs a boot attempt at most.
type BareMetalBootStatus struct {
	// stage is the last stage that was observed.
	// +optional
	Stage BootStage `json:"stage,omitempty"`

	// progress is what is awaited after the stage, in a few words; or that the boot is done, or why it failed.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Progress string `json:"progress,omitempty"`

	// stages are the stages that were observed, each when it was first observed. Those with the number of another boot are of an earlier one.
	// +optional
	// +listType=map
	// +listMapKey=stage
	Stages []ObservedStage `json:"stages,omitempty"`

	// node is the Node of the workload cluster that the server runs, also where it does not match the machine. The node controller writes it.
	// +optional
	Node *ObservedNode `json:"node,omitempty"`

	// problem is what last kept the boot server from serving the boot. It is over where a stage has a later time, or number is that of an earlier boot.
	// +optional
	Problem *BootProblem `json:"problem,omitempty"`
}

// ObservedNode is a Node that a server runs.
type ObservedNode struct {
	// name is the name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// number is the boot that it was observed in.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// kubeletVersion is the version that the kubelet reports.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	// mismatch is why Cluster API does not find the Node for the Machine, or must not; absent for the machine's Node.
	// +optional
	Mismatch *BootFailure `json:"mismatch,omitempty"`
}

// BootProblem is what keeps the boot server from serving a boot.
type BootProblem struct {
	BootFailure `json:",inline"`
	// number is the boot that it kept from being served.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// time is when it was recorded.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}

// ObservedStage is a stage of a boot that was observed.
type ObservedStage struct {
	// stage is what was observed.
	// +required
	Stage BootStage `json:"stage,omitempty"`
	// number is the boot that it was observed in.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// time is when it was first observed. Restarted and Waiting say when it was last observed.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// address is the IP address of the client, where it had one. For the stage DHCP it is the address that the server was given.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Address string `json:"address,omitempty"`
	// client is what the client said it is: the firmware and its architecture, the user agent, or the kubelet. Waiting has the position in the queue.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Client string `json:"client,omitempty"`
	// addresses are those that the Node says it has. They are kept up to date; other stages have none.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`
}

// BareMetalBoot is the last boot of the BareMetalHost of its name, and how far it came. The provider creates it with the host; the garbage
// collector deletes it after the host. Watch it to see what the provider does: kubectl get baremetalboots -w.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalboots,scope=Namespaced,categories=cluster-api
// +kubebuilder:printcolumn:name="Purpose",type=string,JSONPath=`.spec.purpose`,description="What the boot is for"
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.machineName`,description="BareMetalMachine that the boot is for"
// +kubebuilder:printcolumn:name="Number",type=integer,JSONPath=`.spec.number`,description="How many boots the host has had"
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`,description="Last stage that was observed"
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`,description="What is awaited, or why the boot failed"
// +kubebuilder:printcolumn:name="Started",type=date,JSONPath=`.spec.startedAt`,description="Time since the boot started"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Attempt",type=integer,priority=1,JSONPath=`.spec.attempt`,description="Attempt for the machine"
// +kubebuilder:printcolumn:name="Script",type=string,priority=1,JSONPath=`.spec.scriptAddress`,description="Address that the boot script was served to"
// +kubebuilder:printcolumn:name="Data",type=string,priority=1,JSONPath=`.spec.dataAddress`,description="Address that the bootstrap data was served to"
// +kubebuilder:printcolumn:name="Voided",type=date,priority=1,JSONPath=`.spec.voidedAt`,description="Time since the claim ended"
// +kubebuilder:printcolumn:name="Failure",type=string,priority=1,JSONPath=`.spec.failure.message`,description="Why the boot failed"
type BareMetalBoot struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the record of the boot. It is required: the validation rules would not hold for an absent spec.
	// +required
	Spec BareMetalBootSpec `json:"spec"`
	// status is how far the boot came.
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
