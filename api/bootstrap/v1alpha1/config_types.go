package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Format is a format of bootstrap data.
// +kubebuilder:validation:Enum=cloud-config;ignition
type Format string

const (
	// FormatCloudConfig is user data for cloud-init.
	FormatCloudConfig Format = "cloud-config"
	// FormatIgnition is an Ignition config in JSON, of the specification 2.2 to 2.4 or 3.x.
	FormatIgnition Format = "ignition"
)

// Sentinel says what writes the sentinel file, which reports the success of the bootstrap.
// +kubebuilder:validation:Enum=Commands;UserData
type Sentinel string

// What writes the sentinel file.
const (
	// SentinelCommands means that the provider writes the file after the last command succeeded.
	SentinelCommands Sentinel = "Commands"
	// SentinelUserData means that the user data writes the file.
	SentinelUserData Sentinel = "UserData"
)

// WaitFor is a step of a Cluster that bootstrap data waits for.
// +kubebuilder:validation:Enum=Infrastructure;ControlPlane
type WaitFor string

// What bootstrap data waits for.
const (
	// WaitForInfrastructure waits until the infrastructure of the Cluster is provisioned.
	WaitForInfrastructure WaitFor = "Infrastructure"
	// WaitForControlPlane also waits until the control plane of the Cluster is initialized.
	WaitForControlPlane WaitFor = "ControlPlane"
)

// BareMetalConfigSpec describes the bootstrap data of a Machine: user data and commands, both templates. Changes after the data was rendered have no
// effect. Change the template of the Machine instead, so that Cluster API replaces the Machine.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.userData) && has(self.userDataFrom))",message="set userData or userDataFrom, not both"
// +kubebuilder:validation:XValidation:rule="self.sentinel != 'Commands' || has(self.commands)",fieldPath=".commands",message="commands are required with sentinel: Commands, because the sentinel file is written when they have succeeded. Add commands, or set sentinel: UserData if the user data writes the sentinel file"
// +kubebuilder:validation:XValidation:rule="self.sentinel != 'UserData' || !has(self.commands)",fieldPath=".commands",message="commands must be empty with sentinel: UserData, because the user data is used as it is. Remove the commands, or set sentinel: Commands"
// +kubebuilder:validation:XValidation:rule="self.sentinel != 'UserData' || has(self.userData) || has(self.userDataFrom)",fieldPath=".userData",message="userData or userDataFrom is required with sentinel: UserData"
// +kubebuilder:validation:XValidation:rule="self.format != 'ignition' || has(self.userData) || has(self.userDataFrom)",fieldPath=".userData",message="userData or userDataFrom is required with format: ignition, at least {\"ignition\":{\"version\":\"3.4.0\"}}"
type BareMetalConfigSpec struct {
	// format is the format of the user data: cloud-config for cloud-init, or ignition. Defaults to cloud-config.
	// +optional
	// +default="cloud-config"
	Format Format `json:"format,omitempty"`

	// userData is the user data, as a template.
	//
	// A template is a Go text/template (https://pkg.go.dev/text/template) with the delimiters <% and %>, so that {{ }} stays for cloud-init's Jinja and
	// [[ ]] for the shell. It may use if, else, with, range, and, or, not, eq, ne, len, index, and these functions: quote for a JSON string, which is a
	// YAML string too; shellQuote for one word of a POSIX shell; base64 (RFC 4648); and indent N, which writes N spaces before each line except the first.
	// In user data with Jinja use only quote and base64: Jinja would evaluate a {{ in an indented value.
	//
	// Its data: .Cluster.Name, .Cluster.Namespace, .Cluster.ControlPlaneEndpoint.Host, .Cluster.ControlPlaneEndpoint.Port, .Cluster.PodCIDRs,
	// .Cluster.ServiceCIDRs, .Cluster.ServiceDomain; .Machine.Name, .Machine.Version, .Machine.FailureDomain, .Machine.ControlPlane (true or false),
	// .Machine.Labels; .Values.NAME, the values in spec.values; and .Taints, which is node.cluster.x-k8s.io/uninitialized:NoSchedule for a worker and
	// nothing for a control plane machine. A range may iterate over .Cluster.PodCIDRs, .Cluster.ServiceCIDRs, .Machine.Labels and .Taints, with 64
	// elements at most, and ranges cannot be nested.
	//
	// The server is not known when the data is rendered. It gets facts about itself when it boots: {{ ds.meta_data.provider_id }} and others in user
	// data for cloud-init with the first line "## template: jinja", and the file /etc/capbm/metadata with Ignition. Commands have CAPBM_PROVIDER_ID,
	// CAPBM_HOSTNAME, CAPBM_INSTANCE_ID and CAPBM_FAILURE_DOMAIN in their environment. A fact without a value is unset with cloud-init, and empty with
	// Ignition.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	UserData string `json:"userData,omitempty"`

	// userDataFrom refers to the user data in a Secret or ConfigMap. It is a template, too.
	// +optional
	UserDataFrom *ValueSource `json:"userDataFrom,omitempty"`

	// values are values for the templates.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Values []ConfigValue `json:"values,omitempty"`

	// commands are commands of a POSIX shell, as templates (see userData). They run as root and in this order when the server first boots: with cloud-init after the
	// user data was applied, with Ignition when the network is online. They are one script with set -eu: it ends at the first command that fails,
	// except in a pipe or before &&, where the shell ignores a failure. With cloud-init the script runs once. With Ignition it runs at each boot until
	// it has succeeded. So a command must not restart the server, and for Ignition it must be repeatable. Quote values with shellQuote.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=16384
	Commands []string `json:"commands,omitempty"`

	// sentinel is what writes the file /run/cluster-api/bootstrap-success.complete, which reports the success of the bootstrap (Cluster API's
	// contract, "Sentinel file"). Commands: the provider writes it after the last command succeeded. UserData: the user data writes it. Defaults to
	// Commands.
	// +optional
	// +default="Commands"
	Sentinel Sentinel `json:"sentinel,omitempty"`

	// waitFor is what the bootstrap data waits for: Infrastructure for the infrastructure of the Cluster, ControlPlane also for its initialized
	// control plane. Defaults to ControlPlane for workers, and to Infrastructure for control plane machines.
	// +optional
	WaitFor WaitFor `json:"waitFor,omitempty"`
}

// ValueSource refers to a value in a Secret or ConfigMap in the namespace of the config.
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) != has(self.configMapKeyRef)",message="set one of secretKeyRef and configMapKeyRef"
type ValueSource struct {
	// secretKeyRef refers to a key of a Secret. The Secret must have the label baremetalconfig.bootstrap.cluster.x-k8s.io/value-secret.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
	// configMapKeyRef refers to a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
}

// KeyReference refers to a key of an object.
type KeyReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// key is the key in its data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// ConfigValue is a value for templates.
// +kubebuilder:validation:XValidation:rule="(has(self.value) ? 1 : 0) + (has(self.secretKeyRef) ? 1 : 0) + (has(self.configMapKeyRef) ? 1 : 0) == 1",message="set one of value, secretKeyRef and configMapKeyRef"
type ConfigValue struct {
	// name is the name of the value: a template has it as .Values.NAME.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name,omitempty"`
	// value is the value itself. For a secret value use secretKeyRef.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value *string `json:"value,omitempty"`
	// secretKeyRef refers to a key of a Secret. The Secret must have the label baremetalconfig.bootstrap.cluster.x-k8s.io/value-secret.
	// +optional
	SecretKeyRef *KeyReference `json:"secretKeyRef,omitempty"`
	// configMapKeyRef refers to a key of a ConfigMap.
	// +optional
	ConfigMapKeyRef *KeyReference `json:"configMapKeyRef,omitempty"`
}

// BareMetalConfigStatus is the observed state of bootstrap data. The provider writes it.
type BareMetalConfigStatus struct {
	// conditions are the conditions of the config: Ready, DataSecretAvailable and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports to Cluster API whether the bootstrap data was created.
	// +optional
	Initialization Initialization `json:"initialization,omitzero"`

	// dataSecretName is the name of the Secret with the bootstrap data. It is the name of the config.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`

	// ready is true when the bootstrap data was created. Cluster API's contract v1beta1 had this field, and Cluster API reads it until about April 2027.
	// +optional
	Ready bool `json:"ready,omitempty"`

	// failureReason is the reason of a failure that only a change by the user can end, such as an invalid template. The condition Ready has the same
	// reason. It is absent after the failure is over. Cluster API 1.14 copies it to the Machine's status.deprecated.v1beta1 and does not act on it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage describes the failure in failureReason. Cluster API copies it in the same way as failureReason.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	FailureMessage string `json:"failureMessage,omitempty"`

	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Initialization reports the progress of the bootstrap data to Cluster API.
// +kubebuilder:validation:MinProperties=1
type Initialization struct {
	// dataSecretCreated is true when the Secret with the bootstrap data was created. The field is part of the Cluster API contract.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// BareMetalConfig is the bootstrap data of one Machine, written by the user.
//
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.matches('-(kubeconfig|ca|etcd|sa|proxy|apiserver-etcd-client)$')",message="metadata.name must not end in -kubeconfig, -ca, -etcd, -sa, -proxy or -apiserver-etcd-client: the bootstrap data is written to a Secret with the name of the config, and Cluster API uses Secrets with such names for a cluster"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalconfigs,scope=Namespaced,categories=cluster-api,shortName=bmcfg
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster that this object belongs to"
// +kubebuilder:printcolumn:name="Format",type=string,JSONPath=`.spec.format`,description="Format of the bootstrap data"
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.dataSecretName`,description="Secret with the bootstrap data"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Status of the condition Ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the condition Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes the bootstrap data.
	// +required
	Spec BareMetalConfigSpec `json:"spec,omitzero"`
	// status is the observed state of the bootstrap data.
	// +optional
	Status BareMetalConfigStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the config.
func (c *BareMetalConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions of the config.
func (c *BareMetalConfig) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// BareMetalConfigList is a list of BareMetalConfigs.
//
// +kubebuilder:object:root=true
type BareMetalConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalConfig `json:"items"`
}
