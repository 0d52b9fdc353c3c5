package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostFinalizer keeps a BareMetalHost until the machine that has it released it.
const HostFinalizer = "baremetalhost.infrastructure.cluster.x-k8s.io"

// BootMode is the firmware interface that a server boots with.
// +kubebuilder:validation:Enum=UEFI;UEFISecureBoot;Legacy
type BootMode string

// The boot modes of a server.
const (
	// BootModeUEFI is UEFI without Secure Boot.
	BootModeUEFI BootMode = "UEFI"
	// BootModeUEFISecureBoot is UEFI with Secure Boot: the firmware runs signed programs only.
	BootModeUEFISecureBoot BootMode = "UEFISecureBoot"
	// BootModeLegacy is the BIOS interface.
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

// BareMetalHostSpec describes a server and who has it. The provider writes consumerRef, boots, powerHoldSince, powerHoldOffAt, cleaningStartedAt, quarantine and
// lastConsumer. Users write the other fields, and remediations write powerHolds too.
type BareMetalHostSpec struct {
	// What users write.

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

	// bootAddresses are the addresses that DHCP gives the server while it boots, one a network; without one it gets one of the
	// network's ranges. They need not lie in a range. A change counts from the next boot on: a running server keeps the
	// address that it has. Only a boot server in the mode authoritative gives addresses.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:XValidation:rule="isIP(self) && ip.isCanonical(self)",message="must be an IP address in its usual form and without a prefix length, like 192.0.2.10 or 2001:db8::10"
	BootAddresses []string `json:"bootAddresses,omitempty"`

	// bootMode is the firmware interface that the server boots with: UEFI, UEFISecureBoot or Legacy (BIOS). UEFISecureBoot means that the
	// firmware runs signed programs only: the server gets shim and GRUB, which are signed, in place of iPXE. The provider does not switch
	// Secure Boot on. Defaults to UEFI.
	// +optional
	// +kubebuilder:default=UEFI
	BootMode BootMode `json:"bootMode,omitempty"`

	// architecture is the server's CPU architecture. Defaults to amd64.
	// +optional
	// +kubebuilder:default=amd64
	Architecture Architecture `json:"architecture,omitempty"`

	// failureDomain names the failure domain (a rack, a row, a power feed) of the server. It is a label value: images label Nodes with it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",message="must have the form of a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
	FailureDomain string `json:"failureDomain,omitempty"`

	// network is the network of the operating system that the host runs: addresses, bonds, VLANs, DNS. Without it the operating
	// system does as its image says, which is DHCP as a rule.
	// +optional
	Network *HostNetwork `json:"network,omitempty"`

	// power is what the power of the server shall be while no machine has it. A server that is on then boots its disk, with what the last
	// machine left on it: set On only where disks are wiped (cleaningPolicy: Manual) or there are none. Without it the power is left as it is found,
	// and a server that is found running is not offered to machines: it may be registered by mistake.
	// +kubebuilder:validation:XValidation:rule="self in ['On', 'Off']",message="a server is powering on or off for a moment only: set On or Off"
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

	// taints keep machines off the server that do not tolerate them.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Taints []HostTaint `json:"taints,omitempty"`

	// powerHolds keep a server that runs a machine switched off, each for its holder, as a remediation does. The provider switches
	// the server off while there is one, and on again when the last one is removed.
	// +optional
	// +listType=map
	// +listMapKey=holder
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	PowerHolds []PowerHold `json:"powerHolds,omitempty"`

	// cleaningPolicy says who cleans the disks before the server is offered again after a machine had it. None wipes no disk: the next machine
	// finds what the last one wrote. Manual puts the host into quarantine until a person wiped the disks and removed the quarantine. With both
	// the server is powered off, its boot override is cleared and its virtual media are ejected. Defaults to None.
	// +optional
	// +kubebuilder:default=None
	CleaningPolicy CleaningPolicy `json:"cleaningPolicy,omitempty"`

	// releaseUnfencedAfterSeconds is how long, in seconds, the deletion of the machine that has the server waits for the server to be powered
	// off and cleaned. After that the host is force-released without fencing, and put into quarantine: the server may still run the machine.
	// At least 60. Without it, which is the default, the release waits until the BMC answers, or a person sets the annotation
	// baremetalhost.infrastructure.cluster.x-k8s.io/release-unfenced.
	// +optional
	// +kubebuilder:validation:Minimum=60
	ReleaseUnfencedAfterSeconds *int32 `json:"releaseUnfencedAfterSeconds,omitempty"`

	// What the provider writes: who has the server, and what is owed to it. It is in the spec because a status is lost in `clusterctl move`. People write
	// there only where a condition asks for it.

	// consumerRef names the BareMetalMachine, in the host's namespace, that has this host. The provider sets and clears it;
	// it is cleared only after the server was powered off and cleaned.
	// +optional
	ConsumerRef *ConsumerReference `json:"consumerRef,omitempty"`

	// boots counts the boots of the server. The provider raises it for each boot, after it recorded the boot in the BareMetalBoot of the host's name. A
	// BareMetalBoot with a lower number is older than the host. boots never falls.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Boots int32 `json:"boots,omitempty"`

	// powerHoldSince is when the provider began to switch the server off because of powerHolds. The provider writes it before the first command,
	// and removes it when no hold is left and the server was seen on again: so it knows after a restart of its own what it owes the server.
	// +optional
	PowerHoldSince *metav1.Time `json:"powerHoldSince,omitempty"`

	// powerHoldOffAt is when the server was confirmed to be off because of powerHolds. It stands as long as that holds: the provider removes it
	// before it switches the server on again, and when somebody else did.
	// +optional
	PowerHoldOffAt *metav1.Time `json:"powerHoldOffAt,omitempty"`

	// cleaningStartedAt is when the server, which is being released, was confirmed to be off and its cleaning began. The provider writes it,
	// and removes it when the host is released, or the server was switched on meanwhile.
	// +optional
	CleaningStartedAt *metav1.Time `json:"cleaningStartedAt,omitempty"`

	// quarantine keeps the server from being offered to machines after something went wrong with it. The provider sets it,
	// and a person removes it when the server is well again.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`

	// lastConsumer says whose machine had the server last. The provider writes it when it releases the server, and gives the server to
	// machines of the same owner that ask for it (reuseHost).
	// +optional
	LastConsumer *LastConsumer `json:"lastConsumer,omitempty"`
}

// BMC tells how to reach a server's baseboard management controller.
// +kubebuilder:validation:XValidation:rule="!(has(self.caSecretName) && has(self.insecureSkipTLSVerify) && self.insecureSkipTLSVerify)",message="set caSecretName or insecureSkipTLSVerify, not both"
type BMC struct {
	// address is the URL of the BMC. Its scheme picks the protocol:
	//
	//   redfish://host[:port][/redfish/v1/Systems/ID]       Redfish over HTTPS
	//   redfish+http://host[:port][/redfish/v1/Systems/ID]  Redfish over plain HTTP: the credentials cross the wire unprotected
	//   ipmi://host[:port][?cipherSuite=17&privilege=operator]  IPMI 2.0 (RMCP+)
	//   ipmitool://host[:port][?cipherSuite=17]             IPMI by the program ipmitool, for BMCs that know no other
	//   amt://host[:port], amt+http://host[:port]           Intel AMT, with TLS and without
	//   rpc+https://host[:port]/path, rpc+http://...        a webhook of your own that switches the server
	//
	// Without a path, a Redfish BMC must manage exactly one system. Each request carries HTTP basic authentication; with
	// "?auth=session" a Redfish session is opened instead.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != ''",message="must be a URL with a host, like redfish://192.0.2.10 or redfish://192.0.2.10/redfish/v1/Systems/1"
	// +kubebuilder:validation:XValidation:rule="!isURL(self) || url(self).getScheme() in ['redfish', 'redfish+http', 'ipmi', 'ipmitool', 'amt', 'amt+http', 'rpc+https', 'rpc+http']",message="has an unknown scheme: use redfish://, ipmi://, amt://, rpc+https:// or ipmitool://; redfish+http://, amt+http:// and rpc+http:// do without TLS"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="must not hold credentials: put username and password into the Secret that credentialsSecretName names"
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="must not hold a fragment (#...)"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^redfish([+]http)?:') || self.matches('^[^?]*([?]auth=(session|basic))?$')",message="has a parameter that Redfish does not have: it takes ?auth=session, or ?auth=basic, which is the default"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^ipmi:') || self.matches('^ipmi://[^/?]*/?([?](cipherSuite=(17|3)|privilege=(user|operator|administrator))(&(cipherSuite=(17|3)|privilege=(user|operator|administrator)))?)?$')",message="is no address for IPMI: it has no path, and takes cipherSuite (17 or 3) and privilege (user, operator or administrator), like ipmi://192.0.2.10?cipherSuite=17&privilege=operator"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(ipmitool|amt|amt[+]http):') || self.matches('^ipmitool://[^/?]*/?([?]cipherSuite=(17|3))?$') || self.matches('^amt([+]http)?://[^/?]*/?$')",message="has a path or a parameter that is not known: ipmitool takes cipherSuite (17 or 3), like ipmitool://192.0.2.10?cipherSuite=17, and AMT none"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^rpc[+]') || self.matches('[?&]host=[^&]')",message="names no BMC to the webhook: append ?host=NAME"
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

	// claimID identifies the claim: a machine may be recreated under its name, and UIDs change in a `clusterctl move`. The provider makes a random one
	// when a machine claims the host. A machine that has no provider ID yet is not booted on a host whose consumerRef has none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`

	// bootsBefore is what boots was when the machine claimed the host. The provider writes it. As long as boots is not above it the server was booted for
	// nobody since, and a BareMetalBoot that is missing or older than the host leaves nothing unknown.
	// +optional
	// +kubebuilder:validation:Minimum=0
	BootsBefore int32 `json:"bootsBefore,omitempty"`
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

// TaintEffect says what a taint of a host does to machines that do not tolerate it.
// +kubebuilder:validation:Enum=NoClaim;PreferNoClaim
type TaintEffect string

// The effects of taints.
const (
	// TaintNoClaim keeps machines from claiming the host.
	TaintNoClaim TaintEffect = "NoClaim"
	// TaintPreferNoClaim lets machines claim the host only where no other fits.
	TaintPreferNoClaim TaintEffect = "PreferNoClaim"
)

// HostTaint keeps machines off a host that do not tolerate it. A machine that has the host keeps it.
type HostTaint struct {
	// key names the taint, as a label key: gpu or example.com/gpu.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.indexOf('/') <= 253",message="a taint key has at most 253 characters before the slash"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a label key, like gpu or example.com/gpu, with at most 63 characters after the slash"
	Key string `json:"key,omitempty"`
	// value is compared with that of a toleration.
	// +optional
	Value LabelValue `json:"value,omitempty"`
	// effect is NoClaim (machines that do not tolerate the taint never claim the host) or PreferNoClaim (only where no other fits).
	// Defaults to NoClaim.
	// +optional
	// +kubebuilder:default=NoClaim
	Effect TaintEffect `json:"effect,omitempty"`
}

// LastConsumer says whose machine had a host last.
type LastConsumer struct {
	// name is the name of the BareMetalMachine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// owner is who the machine belonged to, as kind/name of the KubeadmControlPlane, MachineDeployment or MachineSet; empty for a Machine that
	// stood alone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Owner string `json:"owner,omitempty"`
	// releasedAt is when the host was released.
	// +required
	ReleasedAt metav1.Time `json:"releasedAt,omitzero"`
}

// BareMetalHost is a physical server of the inventory.
//
// Five ways take a host out of service:
//
// | set on the host       | claimed | powered | released | deleted   |
// | --------------------- | ------- | ------- | -------- | --------- |
// | paused (annotation)   | no      | no      | waits    | waits     |
// | detached (annotation) | no      | no      | waits    | at once   |
// | maintenance           | no      | no      | waits    | when free |
// | quarantine            | no      | claimed | yes      | when free |
// | externallyProvisioned | no      | no      | as it is | when free |
//
// claimed: may a machine claim the host?
// powered: does its server get power and boot commands? "claimed": only while
// a machine has it. A pause lets a boot that is under way end.
// released: what does the deletion of the machine that has it do? "yes": the
// server is powered off and cleaned. "as it is": neither. "waits": nothing,
// until the field or the annotation is removed.
// deleted: when does its object go? "when free": at once where no machine has
// it, and otherwise after its machine released it.
//
// The BMC of a host that is paused or detached is not asked. The annotations
// are cluster.x-k8s.io/paused and
// baremetalhost.infrastructure.cluster.x-k8s.io/detached.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalhosts,scope=Namespaced,categories=cluster-api
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
// +kubebuilder:printcolumn:name="Boot",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="BootProgress")].message`,description="How far the boot is, and what is awaited"
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
