package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MachineFinalizer keeps a BareMetalMachine until its host is released.
const MachineFinalizer = "baremetalmachine.infrastructure.cluster.x-k8s.io"

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

	// boot is what the host boots over the network.
	// +required
	Boot BootSource `json:"boot,omitzero"`
}

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

// HardwareRequirements are the least that a host must have to be claimed. A host whose BMC does not tell is not claimed for
// what it does not tell.
type HardwareRequirements struct {
	// cpu is the least number of logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CPU int32 `json:"cpu,omitempty"`
	// memory is the least memory, like 64Gi.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// disk is the least size of the largest disk, like 400Gi.
	// +optional
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
type BootSource struct {
	// kernel is the kernel.
	// +required
	Kernel Artifact `json:"kernel,omitzero"`

	// initrds are the initial RAM disks, in the order in which they are loaded.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Initrds []Artifact `json:"initrds,omitempty"`

	// commandLine is the kernel command line. The provider adds where the bootstrap data is: ds=nocloud;s=URL.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1536
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ -~]*$')",message="must be one line of printable ASCII characters"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[$][{]')",message="must not hold a dollar sign before a brace: the boot loader would replace it"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^| )(#|(;|&&|[|][|])( |$))')",message="must not hold the words ; && || nor one that begins with #: the boot loader would end the command there"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^| )ds=')",message="must not hold ds=...: the provider sets it"
	CommandLine string `json:"commandLine,omitempty"`

	// persistence says what a later reboot means: Installed (the operating system puts itself on the disk) or Ephemeral (it
	// runs from memory; once powered off, the machine is lost and must be replaced).
	// +required
	Persistence BootPersistence `json:"persistence,omitempty"`
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

	// ready mirrors initialization.provisioned for readers of the v1beta1 contract.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// addresses are the addresses of the running machine.
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

	// failureReason mirrors a failure that only a replacement mends, for readers of the v1beta1 contract.
	// +optional
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage mirrors a failure that only a replacement mends, for readers of the v1beta1 contract.
	// +optional
	FailureMessage string `json:"failureMessage,omitempty"`

	// conditions say what is well and what is wrong: Ready, HostClaimed, HostBooted, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

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
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`,description="Whether the host has booted"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is well"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
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

// BareMetalMachineTemplateSpec holds the template.
type BareMetalMachineTemplateSpec struct {
	// template is what BareMetalMachines are made from.
	// +required
	Template BareMetalMachineTemplateResource `json:"template,omitzero"`
}

// BareMetalMachineTemplateResource is what BareMetalMachines are made from.
type BareMetalMachineTemplateResource struct {
	// metadata is the metadata that the machines get.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec that the machines get.
	// +required
	Spec BareMetalMachineSpec `json:"spec,omitzero"`
}

// BareMetalMachineTemplate is what Cluster API makes BareMetalMachines from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=baremetalmachinetemplates,scope=Namespaced,categories=cluster-api,shortName=bmmt
// +kubebuilder:printcolumn:name="Kernel",type=string,JSONPath=`.spec.template.spec.boot.kernel.url`,description="Kernel that the machines boot"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the template.
	// +required
	Spec BareMetalMachineTemplateSpec `json:"spec,omitzero"`
}

// BareMetalMachineTemplateList is a list of BareMetalMachineTemplates.
//
// +kubebuilder:object:root=true
type BareMetalMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalMachineTemplate `json:"items"`
}
