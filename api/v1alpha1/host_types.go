package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// HostFinalizer keeps a BareMetalHost until its machine has released it.
const HostFinalizer = "baremetalhost.infrastructure.cluster.x-k8s.io"

// Architecture is a CPU architecture that the provider can boot, in the notation of Kubernetes.
// +kubebuilder:validation:Enum=amd64;arm64
type Architecture string

const (
	ArchitectureAMD64 Architecture = "amd64"
	ArchitectureARM64 Architecture = "arm64"
)

// BareMetalHostSpec describes a server and the machine that has it. The provider writes consumerRef and providerState. The provider sets quarantine, and a user
// removes it. Users write the other fields; remediations write powerHolds too.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerState) || !has(oldSelf.providerState.boots) || has(self.providerState) && has(self.providerState.boots) && self.providerState.boots >= oldSelf.providerState.boots",message="providerState.boots must not decrease or disappear: a server could get bootstrap data twice. Remove providerState from the manifest that is applied"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerState) || !has(oldSelf.providerState.settingsRuns) || has(self.providerState) && has(self.providerState.settingsRuns) && self.providerState.settingsRuns >= oldSelf.providerState.settingsRuns",message="providerState.settingsRuns must not decrease or disappear: a server could be restarted twice. Remove providerState from the manifest that is applied"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerState) || !has(oldSelf.providerState.settingsRunsEnded) || has(self.providerState) && has(self.providerState.settingsRunsEnded) && self.providerState.settingsRunsEnded >= oldSelf.providerState.settingsRunsEnded",message="providerState.settingsRunsEnded must not decrease or disappear: a run that has ended would count as open. Remove providerState from the manifest that is applied"
// +kubebuilder:validation:XValidation:rule="!has(self.bootMethods) || !('UefiHttp' in self.bootMethods) || !has(self.bootMode) || self.bootMode != 'BIOS'",message="bootMethods must not contain UefiHttp with the bootMode BIOS: only UEFI firmware boots from a URL"
// +kubebuilder:validation:XValidation:rule="!has(self.bootMethods) || 'PXE' in self.bootMethods || self.bmc.address.startsWith('redfish')",message="bootMethods must contain PXE unless bmc.address is a Redfish address: no other protocol can set a URL or insert virtual media"
// +kubebuilder:validation:XValidation:rule="!has(self.cleaningPolicy) || self.cleaningPolicy != 'Purge' || has(self.inspection) && self.inspection in ['Agent', 'Both']",message="cleaningPolicy must not be Purge unless inspection is Agent or Both: only the agent finds out whether the disks can be purged"
// +kubebuilder:validation:XValidation:rule="!has(self.whenPoweredOff) || self.whenPoweredOff != 'PowerOn' || has(self.failureDomain)",message="whenPoweredOff must not be PowerOn without failureDomain: a server is powered on only if its failure domain lost its power"
type BareMetalHostSpec struct {
	// Users write the following fields.

	// bmc is the connection to the server's baseboard management controller (BMC).
	// +required
	BMC BMC `json:"bmc,omitzero"`

	// bootMACAddresses are the MAC addresses of the network interfaces that the server may boot from, in lower case with colons: one, or those of up to four
	// interfaces, such as the links of a bond. They identify the server in a network boot, so each must be unique among all hosts. Their order is that of bootAddresses. The BareMetalBoot shows which one
	// a boot used (spec.scriptMACAddress).
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a == b))",message="must not have an address twice"
	// +kubebuilder:validation:items:MinLength=17
	// +kubebuilder:validation:items:MaxLength=17
	// +kubebuilder:validation:items:XValidation:rule="self.matches('^[0-9a-f]{2}(:[0-9a-f]{2}){5}$')",message="must be a MAC address in lower case with colons, like 52:54:00:12:34:56"
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('^[0-9a-f][13579bdf]') && self != '00:00:00:00:00:00'",message="must be a unicast MAC address: this one is a multicast address or all zeros"
	BootMACAddresses []string `json:"bootMACAddresses,omitempty"`

	// systemUUID is the system UUID that the firmware of the server reports (SMBIOS, DSP0134 section 7.2), in either byte order. By default it is what the BMC
	// reports. Set it where a BMC reports another one. An agent that finds another UUID writes to no disk.
	// +optional
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$') && !self.matches('^[0-]+$') && !self.matches('^[Ff-]+$')",message="must be the UUID of a server, like 4c4c4544-0034-4b10-8057-b4c04f4d5031: it is neither all zeros nor all ones"
	SystemUUID string `json:"systemUUID,omitempty"`

	// bootAddresses are the IP addresses that DHCP gives the server during its boot: in each network the first one for the first of bootMACAddresses, the second
	// one for the second, and so on. They do not need to be in one of the network's ranges. In a network without one of them, the server gets an address from the network's ranges. A change takes effect at the next boot:
	// a running server keeps its address. The field has an effect only in networks whose DHCP mode is authoritative.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a == b))",message="must not have an address twice"
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip.isCanonical(self)",message="must be an IP address in canonical form without a prefix length, like 192.0.2.10 or 2001:db8::10"
	BootAddresses []string `json:"bootAddresses,omitempty"`

	// bootMode is the firmware interface that the server boots with: UEFI, UEFISecureBoot or BIOS. With UEFISecureBoot the server boots the
	// signed shim and GRUB instead of iPXE, because its firmware runs only signed programs. Only a BareMetalProfile enables Secure Boot in the firmware.
	// Defaults to UEFI.
	// +optional
	// +kubebuilder:default=UEFI
	BootMode BootMode `json:"bootMode,omitempty"`

	// architecture is the CPU architecture of the server: amd64 or arm64. Defaults to amd64.
	// +optional
	// +kubebuilder:default=amd64
	Architecture Architecture `json:"architecture,omitempty"`

	// failureDomain is the name of the server's failure domain, such as a rack, a row or a power feed. It must be a valid label value because images label
	// Nodes with it. Defaults to none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
	FailureDomain string `json:"failureDomain,omitempty"`

	// network is the network configuration of the operating system that the host runs: addresses, bonds, VLANs and DNS. Without it the operating system uses
	// the configuration of its image, which is usually DHCP.
	// +optional
	Network *HostNetwork `json:"network,omitempty"`

	// storage describes how the provider may use the disks of the server.
	// +optional
	Storage *HostStorage `json:"storage,omitempty"`

	// inspection says where the facts come from that requirements of machines are compared with: BMC, Agent or Both. Defaults to BMC.
	//
	// - BMC reads what the BMC reports.
	// - Agent boots the agent on the server, which reads the hardware and writes
	//   nothing, before the server is first offered to machines. Requirements count
	//   what the agent found. A host whose inspection fails is not available.
	// - Both is Agent, and takes from the BMC what the agent did not find. A host
	//   whose inspection fails is available with what the BMC reports.
	//
	// The agent boots only on a server that is off and that no machine has. It boots again if its report is missing, or if the annotation
	// baremetalhost.infrastructure.cluster.x-k8s.io/inspect requests that.
	// +optional
	Inspection InspectionPolicy `json:"inspection,omitempty"`

	// bootMethods are the methods by which the server is booted, in the order in which they are tried:
	//
	// - PXE: the firmware boots from the network by PXE, or by the HTTP boot that
	//   DHCP offers.
	// - UefiHttp: the firmware fetches a boot medium from a URL that is set
	//   through the BMC. The firmware gets its address by DHCP from any server,
	//   or from its own settings.
	// - VirtualMedia: the BMC fetches the boot medium and shows it to the server
	//   as a CD. The server needs no DHCP.
	//
	// If the server does not make the request that is expected of a method, the next attempt uses the next method. A method that has worked comes first in the
	// next boot. If the field is not set, the methods that the BMC offers are tried, PXE first. UefiHttp and VirtualMedia need the flag --boot-media-url of the
	// provider.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	BootMethods []BootMethod `json:"bootMethods,omitempty"`

	// power is the desired power state of the server while no machine has it: On or Off. A server that is powered on boots from its disk, which may still
	// hold the data of its last machine. Set On only if a person wipes the disks (cleaningPolicy: Manual) or the server has no disks. If the field is not set,
	// the provider does not change the power state, and a server that is on is not available to machines, because it may have been registered by mistake.
	// +kubebuilder:validation:XValidation:rule="self in ['On', 'Off']",message="must be On or Off: PoweringOn and PoweringOff occur only in a status"
	// +optional
	Power PowerState `json:"power,omitempty"`

	// whenPoweredOff is what the provider does about the server of a machine on disk that lost its power: Report or PowerOn. Defaults to Report.
	//
	// - Report makes host and machine not Ready (reason PoweredOff).
	// - PowerOn does that too, and powers the server on if its failure domain lost
	//   its power together: other servers of failureDomain with machines are off
	//   since the same time, and none of them is on. Only hosts of the same
	//   namespace count. It waits 5 minutes, and for a boot slot
	//   (--boot-concurrency), and tries twice at most.
	//
	// Prefer to set the firmware to the last state (AC power recovery): it powers servers on without the provider. status.bmc.powerRestorePolicy shows its setting.
	// Nothing is powered on in maintenance, detached, in quarantine, paused, during a power hold, with critical health, or a machine that ran from memory.
	// +optional
	WhenPoweredOff WhenPoweredOff `json:"whenPoweredOff,omitempty"`

	// maintenance takes the server out of service while a person works on it. The host cannot be claimed, and the provider sends no power or boot commands, except
	// for a settings run that drainedBy permits. A machine that has the host keeps running. Users set and remove it.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`

	// externallyProvisioned declares that something other than this provider installed the server and runs it. The provider reads its inventory and its
	// power state, but the host cannot be claimed and gets no power or boot commands. Defaults to false.
	// +optional
	ExternallyProvisioned bool `json:"externallyProvisioned,omitempty"`

	// taints repel machines that do not tolerate them.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Taints []HostTaint `json:"taints,omitempty"`

	// powerHolds request that the server of a provisioned machine stays powered off. Each holder, such as a remediation, adds and removes its own entry. Users
	// request it with an annotation instead. The provider powers the server off for the first hold, and on again after the last one.
	// +optional
	// +listType=map
	// +listMapKey=holder
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	PowerHolds []PowerHold `json:"powerHolds,omitempty"`

	// cleaningPolicy is what happens to the disks after a machine has released the server: None, Metadata, Clear, Purge or Manual. In all cases the provider
	// powers the server off, clears its boot override and ejects its virtual media. If it is not set, the bootstrap data, the partition tables and the
	// signatures of the disks that the provider wrote are erased, and a machine without spec.image leaves its disks as they are.
	//
	// - None wipes no disk: the next machine finds the data of the last one.
	// - Metadata boots the agent, which overwrites the bootstrap data and erases
	//   the partition tables and the signatures of all disks. Other data can be
	//   recovered.
	// - Clear boots the agent, which erases all disks so that their data cannot
	//   be read through the interface of the drives (Clear of NIST SP 800-88
	//   Rev. 2). Hours may pass on large hard disks.
	// - Purge boots the agent, which erases all disks with commands of the drives
	//   so that their data cannot be recovered in a laboratory either (Purge of
	//   NIST SP 800-88 Rev. 2). It needs the inspection Agent or Both: a host with
	//   a disk that offers no such command is not available.
	// - Manual wipes no disk. It puts the host into quarantine until a person has
	//   wiped the disks and removed spec.quarantine.
	//
	// Metadata, Clear and Purge erase after each machine for which the server was booted, and leave out the disks in storage.keep. If they fail, or if a disk that
	// the server had at the claim is gone, the host goes into quarantine. spec.cleaningPolicy of the machine and the flag --minimum-cleaning-policy of the
	// provider can ask for more than this field, and never for less. Neither changes Manual.
	// +optional
	CleaningPolicy wire.ErasePolicy `json:"cleaningPolicy,omitempty"`

	// releaseUnfencedAfterSeconds is the time, in seconds, that the deletion of the host's machine waits for the server to be powered off and cleaned. Then
	// the host is force-released without fencing and put into quarantine: the server may still run the machine. The minimum is 60. If it is not set,
	// the release waits until the BMC answers or a user sets the annotation baremetalhost.infrastructure.cluster.x-k8s.io/release-unfenced.
	// +optional
	// +kubebuilder:validation:Minimum=60
	ReleaseUnfencedAfterSeconds *int32 `json:"releaseUnfencedAfterSeconds,omitempty"`

	// The provider writes the following fields. They are in the spec because a status is lost in `clusterctl move`. Users write consumerRef and quarantine only
	// where a condition asks for it, and providerState never.

	// consumerRef refers to the BareMetalMachine that has this host, in the host's namespace. The provider sets it when the machine claims the host,
	// and clears it after the server was powered off and cleaned.
	// +optional
	ConsumerRef *ConsumerReference `json:"consumerRef,omitempty"`

	// quarantine makes the host unavailable to machines after a failure. The provider sets it. A user removes it when the server works again.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`

	// providerState is what the provider must not forget of the host. It writes these fields; an admission policy refuses other writers.
	// +optional
	ProviderState HostProviderState `json:"providerState,omitzero"`
}

// HostProviderState is the provider's memory of a host. It is in the spec because a status is lost in `clusterctl move`, and in a restore that leaves it out.
// Only an account with the verb record on baremetalhosts can create a host that has it, and only the provider can change it in a host that exists.
type HostProviderState struct {
	// boots counts the boots of the server and never decreases. The provider increments it for each boot, after it has recorded the boot in the
	// BareMetalBoot with the host's name. A BareMetalBoot with a lower number is out of date.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Boots int32 `json:"boots,omitempty"`

	// settingsRuns counts the runs that changed the firmware settings of the server, and never decreases. The provider increments it for each run, after it has recorded
	// the run in the BareMetalSettings with the host's name. While it is greater than settingsRunsEnded, a run is in progress: no machine claims the host.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SettingsRuns int32 `json:"settingsRuns,omitempty"`

	// settingsRunsEnded is the number of the last run that has ended.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SettingsRunsEnded int32 `json:"settingsRunsEnded,omitempty"`

	// powerHoldStartTime is the time when the provider started to act on a power hold (powerHolds or an annotation), or on a request to power the server on.
	// The provider writes it before its first command, and removes it when no hold is left and the server is on. From it a restarted provider knows that it
	// must power the server on again.
	// +optional
	PowerHoldStartTime *metav1.Time `json:"powerHoldStartTime,omitempty"`

	// powerHoldOffTime is the time when the server was confirmed to be off because of a power hold. The provider removes it before it powers the server on
	// again, or when something else powered the server on.
	// +optional
	PowerHoldOffTime *metav1.Time `json:"powerHoldOffTime,omitempty"`

	// cleaningStartTime is the time when a server that is being released was confirmed to be off and its cleaning started. The provider removes it when the
	// host is released, or when something powered the server on in between.
	// +optional
	CleaningStartTime *metav1.Time `json:"cleaningStartTime,omitempty"`

	// lastConsumer is the machine that had the server last. The provider writes it when the host is released. A machine with reuseHost prefers the hosts
	// whose last machine had the same owner.
	// +optional
	LastConsumer *LastConsumer `json:"lastConsumer,omitempty"`
}

// TaintEffect is the effect of a host's taint on machines that do not tolerate it.
// +kubebuilder:validation:Enum=NoClaim;PreferNoClaim
type TaintEffect string

const (
	// TaintNoClaim prevents machines from claiming the host.
	TaintNoClaim TaintEffect = "NoClaim"
	// TaintPreferNoClaim lets machines claim the host only if no other host fits.
	TaintPreferNoClaim TaintEffect = "PreferNoClaim"
)

// HostTaint repels machines that do not tolerate it. A machine that has the host keeps it.
type HostTaint struct {
	// key is the key of the taint. It must be a valid label key, such as gpu or example.com/gpu.
	// +required
	Key LabelKey `json:"key,omitempty"`
	// value is the value of the taint. A toleration with the operator Equal must have the same value. Defaults to the empty string.
	// +optional
	Value LabelValue `json:"value,omitempty"`
	// effect is NoClaim (machines that do not tolerate the taint never claim the host) or PreferNoClaim (they claim it only if no other host fits). Defaults
	// to NoClaim.
	// +optional
	// +kubebuilder:default=NoClaim
	Effect TaintEffect `json:"effect,omitempty"`
}

// BareMetalHost is a physical server of the inventory. Machines claim hosts, boot them over the network and release them.
//
// There are five ways to take a host out of service:
//
// | set on the host       | claimed | powered    | released  | deleted   |
// | --------------------- | ------- | ---------- | --------- | --------- |
// | paused (annotation)   | no      | no         | waits     | waits     |
// | detached (annotation) | no      | no         | waits     | at once   |
// | maintenance           | no      | no         | waits     | when free |
// | quarantine            | no      | if claimed | yes       | when free |
// | externallyProvisioned | no      | no         | untouched | when free |
//
// The columns are:
//
//   - claimed: whether a machine can claim the host.
//   - powered: whether the server gets power and boot commands.
//     "if claimed" means only while a machine has the host.
//   - released: what the deletion of the host's machine does.
//     "yes" powers the server off and cleans it, then releases the host.
//     "untouched" releases the host and leaves the server as it is.
//     "waits" does nothing until the field or the annotation is removed.
//   - deleted: when a deleted host object goes away.
//     "at once" means even while a machine has the host.
//     "when free" means after the host's machine has released it, if any.
//     "waits" means after the annotation is removed.
//
// When to use them:
//
//   - paused (cluster.x-k8s.io/paused): a backup, or a `clusterctl move`,
//     which sets it. A boot in progress continues. The BMC gets no requests.
//   - detached (baremetalhost.infrastructure.cluster.x-k8s.io/detached):
//     work on the host object that must not affect its server, such as a new
//     BMC address. The BMC gets no requests.
//   - maintenance: work on the server.
//   - quarantine: the provider sets it after a failure. Remove it when the
//     server works again.
//   - externallyProvisioned: something other than this provider installed the
//     server and runs it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalhosts,scope=Namespaced,categories=cluster-api,shortName=bmho
// +kubebuilder:selectablefield:JSONPath=`.spec.consumerRef.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Phase of the host"
// +kubebuilder:printcolumn:name="Power",type=string,JSONPath=`.status.power`,description="Power state reported by the BMC"
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.consumerRef.name`,description="BareMetalMachine that has the host"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Status of the condition Ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the condition Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="BMC",type=string,priority=1,JSONPath=`.spec.bmc.address`,description="Address of the BMC"
// +kubebuilder:printcolumn:name="MAC",type=string,priority=1,JSONPath=`.spec.bootMACAddresses`,description="MAC addresses that the host boots from"
// +kubebuilder:printcolumn:name="Domain",type=string,priority=1,JSONPath=`.spec.failureDomain`,description="Failure domain"
// +kubebuilder:printcolumn:name="Model",type=string,priority=1,JSONPath=`.status.hardware.model`,description="Model of the server"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Message of the condition Ready"
// +kubebuilder:printcolumn:name="Boot",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="BootProgress")].message`,description="Progress of the boot, and what it waits for"
type BareMetalHost struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes the server and the machine that has it. The description of a field that the provider writes says so. Users write all others. The
	// provider's fields are in the spec because `clusterctl move` does not preserve the status.
	// +required
	Spec BareMetalHostSpec `json:"spec,omitzero"`
	// status is the observed state of the server.
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
