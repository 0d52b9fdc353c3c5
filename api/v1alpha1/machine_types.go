package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// MachineFinalizer keeps a BareMetalMachine until its host is released.
const MachineFinalizer = "baremetalmachine.infrastructure.cluster.x-k8s.io"

// ChosenHostAnnotation on a BareMetalMachine is the BareMetalHost that the machine claims, as NAME/UID/RESOURCEVERSION of the version that was chosen.
// The provider writes it before the claim and does not remove it.
const ChosenHostAnnotation = "baremetalmachine.infrastructure.cluster.x-k8s.io/chosen-host"

// BareMetalMachineSpec describes the host that a machine needs and what the host boots.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || has(self.providerID) && self.providerID == oldSelf.providerID",message="providerID cannot be changed: replace the Machine"
// +kubebuilder:validation:XValidation:rule="has(self.boot) != has(self.image)",message="exactly one of image (an operating system is written to a disk) and boot (an operating system is booted over the network) is required"
type BareMetalMachineSpec struct {
	// providerID identifies the machine to Cluster API: baremetal://<namespace>/<host>/<machine>. The provider sets it when the
	// host has booted. It is immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// hostSelector selects the hosts that the machine can claim by their labels. Without it the machine can claim any host. A change after the claim has no
	// effect.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`

	// hardware is the minimum hardware of a host that the machine can claim. A change after the claim has no effect.
	// +optional
	Hardware HardwareRequirements `json:"hardware,omitzero"`

	// preferences rank the hosts that fit. The provider adds up the weights of the preferences that a host matches, and claims the host with the greatest
	// sum. A change after the claim has no effect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Preferences []HostPreference `json:"preferences,omitempty"`

	// tolerations let the machine claim hosts with matching taints. A change after the claim has no effect.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Tolerations []HostToleration `json:"tolerations,omitempty"`

	// reuseHost makes the machine prefer hosts that a machine of the same owner had last. The owner is the control plane, the MachineDeployment or a
	// standalone MachineSet. While another Machine of the owner is being deleted, this machine waits for the host of that Machine, unless that host is in
	// maintenance, quarantined, does not fit, or its BMC is not ready for too long. A change after the claim has no effect. Defaults to false.
	// +optional
	ReuseHost bool `json:"reuseHost,omitempty"`

	// cleaningPolicy is how thoroughly the disks of the host are erased after this machine: Metadata, Clear or Purge (kubectl explain
	// baremetalhost.spec.cleaningPolicy). It can ask for more than spec.cleaningPolicy of the host, and never for less. A machine with Purge does not claim a host
	// with a disk that cannot be purged, as far as an inspection by the agent shows that. A change after the claim has no effect.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Metadata', 'Clear', 'Purge']",message="must be Metadata, Clear or Purge: a machine can ask for an erasure, and a host decides about None and Manual"
	CleaningPolicy wire.ErasePolicy `json:"cleaningPolicy,omitempty"`

	// profile is the name of a BareMetalProfile in the namespace of the machine. The machine claims only hosts that have the firmware settings of that profile
	// (status.settingsProfile of the host). No host is changed for it: the rollout of the profile does that. A change after the claim has no effect. Defaults
	// to no requirement.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Profile string `json:"profile,omitempty"`

	// image is the operating system image that the provider writes to a disk of the host, together with the bootstrap data. The host then boots from that
	// disk. Exactly one of image and boot is required.
	// +optional
	Image *Image `json:"image,omitempty"`

	// boot is what the host boots over the network. Exactly one of image and boot is required.
	// +optional
	Boot BootSource `json:"boot,omitzero"`
}

// Persistence returns whether the machine survives a reboot of its host. An image is on a disk.
func (s *BareMetalMachineSpec) Persistence() BootPersistence {
	if s.Image != nil {
		return PersistenceInstalled
	}
	return s.Boot.Persistence
}

// ReportsBootstrap is true if the operating system reports whether it applied its bootstrap data.
func (s *BareMetalMachineSpec) ReportsBootstrap() bool {
	if s.Image != nil {
		return s.Image.ReportBootstrap
	}
	return s.Boot.ReportBootstrap
}

// The provider has its own selector type because CEL can check a selector only if its sizes are bounded, which those of metav1.LabelSelector are not.

// HostSelector selects hosts by their labels. A host must match all labels and all expressions.
// +kubebuilder:validation:MinProperties=1
type HostSelector struct {
	// matchLabels are the labels that a host must have, with their values, such as rack: a-1.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && k.substring(0, size(k) < 317 ? size(k) : 317).indexOf('/') <= 253)",message="a label key has at most 317 characters, 253 of them before the slash"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.substring(0, size(k) < 317 ? size(k) : 317).matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="keys must be label keys, like gpu or example.com/gpu, with at most 63 characters after the slash"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements for the labels of a host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelKey is the key of a label or a taint.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=317
// +kubebuilder:validation:XValidation:rule="self.indexOf('/') <= 253",message="a key has at most 253 characters before the slash"
// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be a label key, like gpu or example.com/gpu, with at most 63 characters after the slash"
type LabelKey string

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"
type LabelValue string

// HostSelectorRequirement is a requirement for one label of a host.
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",message="In and NotIn require values, Exists and DoesNotExist must not have values"
type HostSelectorRequirement struct {
	// key is the key of the label.
	// +required
	Key LabelKey `json:"key,omitempty"`
	// operator is the relation of the label to values: In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`
	// values are the values for the operators In and NotIn. The operators Exists and DoesNotExist take no values.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// HostPreference ranks the hosts that its hostSelector matches above others.
type HostPreference struct {
	// weight is added to the score of each host that hostSelector matches, from 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight,omitempty"`
	// hostSelector selects the preferred hosts by their labels.
	// +required
	HostSelector HostSelector `json:"hostSelector,omitzero"`
}

// HostToleration lets a machine claim hosts with a matching taint.
// +kubebuilder:validation:XValidation:rule="!(has(self.operator) && self.operator == 'Exists' && has(self.value) && size(self.value) > 0)",message="value has no effect with operator Exists: remove it, or set operator: Equal"
type HostToleration struct {
	// key is the key of the taint.
	// +required
	Key LabelKey `json:"key,omitempty"`
	// operator is Equal (the value of the taint must equal value) or Exists (any value matches). Defaults to Equal.
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	// +kubebuilder:default=Equal
	Operator corev1.TolerationOperator `json:"operator,omitempty"`
	// value is the value of the taint, for the operator Equal. Defaults to the empty string.
	// +optional
	Value LabelValue `json:"value,omitempty"`
}

// BootPersistence is whether a machine survives a reboot of its host.
// +kubebuilder:validation:Enum=Installed;Ephemeral
type BootPersistence string

const (
	// PersistenceInstalled means that the operating system installs itself on the disk and later boots from there.
	PersistenceInstalled BootPersistence = "Installed"
	// PersistenceEphemeral means that the operating system runs from memory: a power-off or a restart destroys the machine.
	PersistenceEphemeral BootPersistence = "Ephemeral"
)

// BootSource is what a host boots over the network.
// +kubebuilder:validation:XValidation:rule="has(self.kernel) || has(self.ipxeTemplate)",message="kernel or ipxeTemplate is required"
// +kubebuilder:validation:XValidation:rule="has(self.kernel) || !has(self.initrds) || size(self.initrds) == 0",message="initrds require a kernel"
type BootSource struct {
	// kernel is the kernel file. It is required unless ipxeTemplate is set.
	// +optional
	Kernel Artifact `json:"kernel,omitzero"`

	// ipxeTemplate is an iPXE script, as a Go text/template, for a system that needs a boot script of its own. Its first line is #!ipxe. Hosts with Secure
	// Boot cannot run it. The template may use these values:
	//
	// - .Kernel, .Initrds: the URLs of the provider's verified copies
	// - .CommandLine: commandLine with the location of the bootstrap data
	// - .SeedURL: the URL of the folder with the bootstrap data; with user-data
	//   appended, the URL of the data itself
	// - .Hostname, .MAC, .Title: the name of the machine, the boot MAC address,
	//   and a title for the boot
	// - .SelfURL: the URL of this script
	//
	// It may use the actions if, with, and range over .Initrds, and the functions and, or, not, eq, ne, len and index.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +kubebuilder:validation:XValidation:rule="self.matches('^#!ipxe\\r?\\n')",message="the first line must be #!ipxe"
	IPXETemplate string `json:"ipxeTemplate,omitempty"`

	// initrds are the initial RAM disks, in the order in which the kernel loads them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Initrds []Artifact `json:"initrds,omitempty"`

	// commandLine is the kernel command line. The provider appends the location of the bootstrap data (ds=nocloud;... or ignition.config.url=...) and the
	// network configuration of hosts with a spec.network.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1536
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ -~]*$')",message="must be one line of printable ASCII characters"
	// +kubebuilder:validation:XValidation:rule="!self.matches('[$][{]')",message="must not contain a dollar sign before a brace: the boot loader would expand it"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^| )(#|(;|&&|[|][|])( |$))')",message="must not contain the words ; && || or a word that starts with #: the boot loader would end the command there"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^| )ds=')",message="must not contain ds=...: the provider sets it"
	// +kubebuilder:validation:XValidation:rule="!self.matches('(^| )(ignition[.]config[.]url|network-config)=')",message="must not contain ignition.config.url=... or network-config=...: the provider sets them"
	CommandLine string `json:"commandLine,omitempty"`

	// persistence is whether the machine survives a reboot of its host: Installed or Ephemeral.
	//
	// - Installed: the operating system installs itself on the disk and later
	//   boots from there.
	// - Ephemeral: the operating system runs from memory. A power-off or a restart
	//   destroys the machine, and it must be replaced.
	// +required
	Persistence BootPersistence `json:"persistence,omitempty"`

	// reportBootstrap makes the operating system report whether it applied its bootstrap data. Success means that
	// /run/cluster-api/bootstrap-success.complete exists, which the bootstrap providers of Cluster API create. The image needs curl, wget or python3. Defaults to false.
	// +optional
	ReportBootstrap bool `json:"reportBootstrap,omitempty"`
}

// Artifact is a file and its checksum.
type Artifact struct {
	// url is the http:// or https:// URL that the provider downloads the file from. The provider refuses loopback and link-local addresses.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getHostname() != '' && self.matches('^https?://[^/?#@ ]+([/?#][^ ]*)?$')",message="must be an http:// or https:// URL with a host and without credentials"
	URL string `json:"url,omitempty"`

	// checksum is the SHA-256 or SHA-512 checksum of the file in hexadecimal: sha256:... or sha512:...
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=135
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$')",message="must be sha256: with 64 or sha512: with 128 hexadecimal digits in lower case, as sha256sum and sha512sum print them"
	Checksum string `json:"checksum,omitempty"`
}

// BareMetalMachineStatus is the observed state of a machine. The provider writes it.
type BareMetalMachineStatus struct {
	// conditions are the conditions of the machine: Ready, HostClaimed, HostBooted, NodeMatched, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports to Cluster API whether the machine's infrastructure is provisioned.
	// +optional
	Initialization Initialization `json:"initialization,omitzero"`

	// addresses are the addresses of the running machine: its name, the IP address that it reported from (or otherwise fetched its bootstrap data
	// from), and the addresses of its Node.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`

	// failureDomain is the failure domain of the machine's host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostRef refers to the BareMetalHost that the machine has, in the machine's namespace.
	// +optional
	HostRef *HostReference `json:"hostRef,omitempty"`

	// failureReason is the reason of a failure that usually requires a replacement of the machine. The condition Ready has the same reason. It is
	// absent after the failure is over. Cluster API 1.14 copies it to the Machine's status.deprecated.v1beta1, even for providers of the contract
	// v1beta2, and does not remove it there. Nothing in Cluster API acts on it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage describes the failure in failureReason. Cluster API copies it in the same way as failureReason.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	FailureMessage string `json:"failureMessage,omitempty"`

	// phase summarises the state of the machine: Pending without a host, HostLost when its host does not exist any more, and otherwise the phase of its host
	// (kubectl explain baremetalhost.status.phase).
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Phase string `json:"phase,omitempty"`

	// nodeName is the name of the machine's Node in the workload cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// lastOperation is status.lastOperation of the machine's host, if it failed.
	// +optional
	// +structType=atomic
	LastOperation *Operation `json:"lastOperation,omitempty"`
}

// The phases of a machine without a host. A machine with a host has the HostPhase of its host.
const (
	// MachinePending means that the machine has no host yet.
	MachinePending = "Pending"
	// MachineHostLost means that the host that the machine ran on does not exist any more.
	MachineHostLost = "HostLost"
)

// Initialization reports the progress of the initial provisioning to Cluster API.
// +kubebuilder:validation:MinProperties=1
type Initialization struct {
	// provisioned is true when the infrastructure is fully provisioned. The field is part of the Cluster API contract.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// HostReference refers to a BareMetalHost in the same namespace.
type HostReference struct {
	// name is the name of the BareMetalHost.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// BareMetalMachine is the infrastructure of a Cluster API Machine: it claims a BareMetalHost and boots it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalmachines,scope=Namespaced,categories=cluster-api,shortName=bmm
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster that the machine belongs to"
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.hostRef.name`,description="BareMetalHost that the machine has"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Phase of the machine"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Status of the condition Ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the condition Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Node",type=string,priority=1,JSONPath=`.status.nodeName`,description="Node of the machine"
// +kubebuilder:printcolumn:name="Machine",type=string,priority=1,JSONPath=`.metadata.ownerReferences[?(@.kind=="Machine")].name`,description="Machine that owns this object"
// +kubebuilder:printcolumn:name="ProviderID",type=string,priority=1,JSONPath=`.spec.providerID`,description="Provider ID of the machine"
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Message of the condition Ready"
type BareMetalMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes the host that the machine needs and what the host boots.
	// +required
	Spec BareMetalMachineSpec `json:"spec,omitzero"`
	// status is the observed state of the machine.
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
