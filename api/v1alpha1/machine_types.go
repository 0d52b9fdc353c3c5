package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MachineFinalizer keeps a BareMetalMachine until its host is released.
const MachineFinalizer = "baremetalmachine.infrastructure.cluster.x-k8s.io"

// ChosenHostAnnotation on a BareMetalMachine names the BareMetalHost that the machine claims, with the UID and the version of it that was chosen:
// NAME/UID/RESOURCEVERSION. The provider writes it before the claim, and leaves it there after.
const ChosenHostAnnotation = "baremetalmachine.infrastructure.cluster.x-k8s.io/chosen-host"

// BareMetalMachineSpec says which host a machine needs and what the host boots.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || has(self.providerID) && self.providerID == oldSelf.providerID",message="providerID cannot be changed: replace the Machine"
type BareMetalMachineSpec struct {
	// providerID is baremetal://<namespace>/<host>/<machine>. The provider sets it when the host has booted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// hostSelector picks the hosts that may be claimed by their labels. Without it any host may be.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`

	// hardware is the least that a host must have.
	// +optional
	Hardware HardwareRequirements `json:"hardware,omitzero"`

	// preferences choose among the hosts that fit: the one with the greatest sum of the weights of those that it meets is claimed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Preferences []HostPreference `json:"preferences,omitempty"`

	// tolerations let the machine claim hosts with the taints that they name.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Tolerations []HostToleration `json:"tolerations,omitempty"`

	// reuseHost claims a host that a machine of the same owner (control plane, MachineDeployment, or a MachineSet that stands alone) had
	// last, before any other. While a Machine of that owner is being deleted the machine waits for its host, unless the host is
	// in maintenance, quarantined, or none for the machine. Defaults to false.
	// +optional
	ReuseHost bool `json:"reuseHost,omitempty"`

	// boot is what the host boots over the network.
	// +required
	Boot BootSource `json:"boot,omitzero"`
}

// The provider has its own selector type because CEL can check a selector only if its sizes are bounded, which those of metav1.LabelSelector are not.

// HostSelector picks hosts by their labels. A host must have all the labels and meet all the expressions.
// +kubebuilder:validation:MinProperties=1
type HostSelector struct {
	// matchLabels are labels with the values that they must have, like rack: a-1.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && k.substring(0, size(k) < 317 ? size(k) : 317).indexOf('/') <= 253)",message="a label key has at most 317 characters, 253 of them before the slash"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.substring(0, size(k) < 317 ? size(k) : 317).matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="keys must be label keys, like rack or example.com/rack, with at most 63 characters after the slash"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are what the labels must meet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
type LabelValue string

// HostSelectorRequirement is what a label must meet.
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="In and NotIn need values, Exists and DoesNotExist take none"
type HostSelectorRequirement struct {
	// key is the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.indexOf('/') <= 253",message="a label key has at most 253 characters before the slash"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a label key, like rack or example.com/rack, with at most 63 characters after the slash"
	Key string `json:"key,omitempty"`
	// operator is In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`
	// values are what the label is compared with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// HostPreference makes some of the hosts that fit better than others.
type HostPreference struct {
	// weight is what a host counts for that hostSelector picks. The weights of all preferences that a host meets add up.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight,omitempty"`
	// hostSelector picks the hosts by their labels.
	// +required
	HostSelector HostSelector `json:"hostSelector,omitzero"`
}

// HostToleration lets a machine claim hosts with a taint.
// +kubebuilder:validation:XValidation:rule="!(has(self.operator) && self.operator == 'Exists' && has(self.value) && size(self.value) > 0)",message="value is not compared with operator Exists: leave it out, or set operator: Equal"
type HostToleration struct {
	// key is that of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.indexOf('/') <= 253",message="a taint key has at most 253 characters before the slash"
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a label key, like gpu or example.com/gpu, with at most 63 characters after the slash"
	Key string `json:"key,omitempty"`
	// operator is Equal (the taint's value must be value) or Exists (it may be any). Defaults to Equal.
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	// +kubebuilder:default=Equal
	Operator corev1.TolerationOperator `json:"operator,omitempty"`
	// value is compared with the taint's.
	// +optional
	Value LabelValue `json:"value,omitempty"`
}

// HardwareRequirements are the least that a host must have to be claimed. A host whose BMC does not tell is not claimed for
// what it does not tell.
type HardwareRequirements struct {
	// cpu is the least number of logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CPU int32 `json:"cpu,omitempty"`
	// memory is the least memory, like 64Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0'))",message="must be more than 0: leave it out if any size will do"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// disk is the least size of the largest disk, like 400Gi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0'))",message="must be more than 0: leave it out if any size will do"
	Disk *resource.Quantity `json:"disk,omitempty"`
	// architecture is the architecture that the host must have. Defaults to amd64.
	// +optional
	// +kubebuilder:default=amd64
	Architecture Architecture `json:"architecture,omitempty"`
}

// BootPersistence says what a later reboot of a host means.
// +kubebuilder:validation:Enum=Installed;Ephemeral
type BootPersistence string

// The kinds of boot persistence.
const (
	// PersistenceInstalled means that the operating system puts itself on the disk, and later boots from there.
	PersistenceInstalled BootPersistence = "Installed"
	// PersistenceEphemeral means that the operating system runs from memory: with a power-off the machine is lost.
	PersistenceEphemeral BootPersistence = "Ephemeral"
)

// BootSource is what a host boots over the network.
// +kubebuilder:validation:XValidation:rule="has(self.kernel) || has(self.ipxeTemplate)",message="kernel is required, or ipxeTemplate for a system that boots in its own way"
// +kubebuilder:validation:XValidation:rule="has(self.kernel) || !has(self.initrds) || size(self.initrds) == 0",message="initrds need a kernel"
type BootSource struct {
	// kernel is the kernel. It is required unless ipxeTemplate is set.
	// +optional
	Kernel Artifact `json:"kernel,omitzero"`

	// ipxeTemplate is an iPXE script for systems that boot in their own way, as a Go text/template. Its first line is #!ipxe. It may name
	// .Kernel and .Initrds (the URLs of the provider's checked copies), .CommandLine (commandLine and where the bootstrap data
	// is), .SeedURL (the folder with the bootstrap data: with user-data behind it, the URL of the data itself), .Hostname, .MAC, .Title
	// and .SelfURL (the script's own URL), and use if, with, range over .Initrds, and, or, not, eq, ne, len and index. Hosts with
	// Secure Boot cannot run it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +kubebuilder:validation:XValidation:rule="self.matches('^#!ipxe\\r?\\n')",message="the first line must be #!ipxe"
	IPXETemplate string `json:"ipxeTemplate,omitempty"`

	// initrds are the initial RAM disks, in the order in which they are loaded.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Initrds []Artifact `json:"initrds,omitempty"`

	// commandLine is the kernel command line. The provider adds where the bootstrap data is (ds=nocloud;... or
	// ignition.config.url=...) and, for hosts with a spec.network, that network.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1536
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ -~]*$')",message="must be one line of printable ASCII characters"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[$][{]')",message="must not hold a dollar sign before a brace: the boot loader would replace it"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^| )(#|(;|&&|[|][|])( |$))')",message="must not hold the words ; && || nor one that begins with #: the boot loader would end the command there"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^| )ds=')",message="must not hold ds=...: the provider sets it"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^| )(ignition[.]config[.]url|network-config)=')",message="must not hold ignition.config.url=... or network-config=...: the provider sets them"
	CommandLine string `json:"commandLine,omitempty"`

	// persistence says what a later reboot means: Installed (the operating system puts itself on the disk) or Ephemeral (it
	// runs from memory; once powered off, the machine is lost and must be replaced).
	// +required
	Persistence BootPersistence `json:"persistence,omitempty"`

	// reportBootstrap makes the operating system report whether its bootstrap data was carried out, by the file that Cluster API's
	// bootstrap providers write at their end. It needs curl, wget or python3 in the image. Defaults to false.
	// +optional
	ReportBootstrap bool `json:"reportBootstrap,omitempty"`
}

// Artifact is a file with the checksum that it must have.
type Artifact struct {
	// url is where the provider fetches the file, over HTTP or HTTPS. Loopback and link-local addresses are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != '' && self.matches('^https?://[^/?#@ ]+([/?#][^ ]*)?$')",message="must be an http:// or https:// URL with a host and without credentials"
	URL string `json:"url,omitempty"`

	// checksum is the file's SHA-256 or SHA-512 checksum in hexadecimal: sha256:... or sha512:...
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=135
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$')",message="must be sha256: with 64 or sha512: with 128 hexadecimal digits in lower case, as sha256sum prints them"
	Checksum string `json:"checksum,omitempty"`
}

// BareMetalMachineStatus is what is known of a machine.
type BareMetalMachineStatus struct {
	// initialization tells Cluster API that the machine's infrastructure is provisioned.
	// +optional
	Initialization Initialization `json:"initialization,omitzero"`

	// addresses are the addresses of the running machine: its name, the address that it reported in from (or else got its bootstrap
	// data at), and what its Node says it has.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`

	// failureDomain is the failure domain that the machine's host stands in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostRef names the BareMetalHost, in the machine's namespace, that the machine has.
	// +optional
	HostRef *HostReference `json:"hostRef,omitempty"`

	// failureReason is the reason of a failure that usually only a replacement fixes; the condition Ready has it too. It is absent when the
	// failure is over. Cluster API 1.14 copies it to the Machine's status.deprecated.v1beta1, also for providers of the contract v1beta2, and
	// does not remove it there (hack/contract/rules: TestContract, InfraMachine/terminal failures). Nothing in Cluster API acts on it.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage is the message of such a failure. Cluster API copies it as it does failureReason (the same test).
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`

	// phase summarises where the machine is: Pending without a host, HostLost when its host is gone, and otherwise the phase of its host
	// (kubectl explain baremetalhost.status.phase).
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Phase string `json:"phase,omitempty"`

	// nodeName is the name of the machine's Node in its cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// lastOperation is that of the machine's host.
	// +optional
	LastOperation *Operation `json:"lastOperation,omitempty"`

	// conditions say what is well and what is wrong: Ready, HostClaimed, HostBooted, NodeMatched, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The phases of a machine without a host. That of any other machine is the HostPhase of its host.
const (
	// MachinePending means that the machine has no host yet.
	MachinePending = "Pending"
	// MachineHostLost means that the host that the machine ran on is gone from the inventory.
	MachineHostLost = "HostLost"
)

// Initialization tells Cluster API how far the initial provisioning is.
// +kubebuilder:validation:MinProperties=1
type Initialization struct {
	// provisioned is true when the infrastructure is fully provisioned. It is part of the Cluster API contract.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// HostReference names a BareMetalHost in the same namespace.
type HostReference struct {
	// name is the name of the BareMetalHost.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// BareMetalMachine is the claim of a Cluster API Machine on a host.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalmachines,scope=Namespaced,categories=cluster-api,shortName=bmm
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster that the machine belongs to"
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.hostRef.name`,description="BareMetalHost that the machine has"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Where the machine is"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is well"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.status.nodeName`,description="Node that the machine runs"
// +kubebuilder:printcolumn:name="Machine",type=string,priority=1,JSONPath=`.metadata.ownerReferences[?(@.kind=="Machine")].name`,description="Machine that owns this object"
// +kubebuilder:printcolumn:name="ProviderID",type=string,priority=1,JSONPath=`.spec.providerID`,description="Provider ID of the node"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is wrong"
type BareMetalMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says which host the machine needs and what the host boots.
	// +required
	Spec BareMetalMachineSpec `json:"spec,omitzero"`
	// status is what is known of the machine.
	// +optional
	Status BareMetalMachineStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the machine.
func (m *BareMetalMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions sets the conditions of the machine.
func (m *BareMetalMachine) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
}

// BareMetalMachineList is a list of BareMetalMachines.
//
// +kubebuilder:object:root=true
type BareMetalMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalMachine `json:"items"`
}
