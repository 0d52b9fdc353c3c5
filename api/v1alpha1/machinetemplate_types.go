package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// BareMetalMachineTemplateSpec holds the template.
type BareMetalMachineTemplateSpec struct {
	// template is the template that Cluster API creates BareMetalMachines from.
	// +required
	Template BareMetalMachineTemplateResource `json:"template,omitzero"`
}

// BareMetalMachineTemplateResource is the template of a BareMetalMachine.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",message="spec.providerID must not be set in a template: the provider sets it on each machine"
type BareMetalMachineTemplateResource struct {
	// metadata holds the labels and annotations of the BareMetalMachines.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the BareMetalMachines.
	// +required
	Spec BareMetalMachineSpec `json:"spec,omitzero"`
}

// BareMetalMachineTemplateStatus describes a machine of the template, so that the cluster autoscaler can scale from zero. The provider writes it.
type BareMetalMachineTemplateStatus struct {
	// conditions are the conditions of the template: Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// capacity is the minimum capacity of a machine: for each resource, the smallest value among the hosts that match the template's hostSelector,
	// hardware and tolerations. It is empty if no host matches.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo is the CPU architecture and the operating system of a machine's Node.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`

	// matchingHosts is the number of hosts in the namespace that match the template, including claimed hosts.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MatchingHosts int32 `json:"matchingHosts,omitempty"`
}

// NodeInfo describes the CPU architecture and the operating system of a Node.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture is the CPU architecture of the Node.
	// +optional
	Architecture Architecture `json:"architecture,omitempty"`
	// operatingSystem is the operating system of the Node, such as linux.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// BareMetalMachineTemplate is the template that Cluster API creates BareMetalMachines from. Its spec.template.spec is immutable.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalmachinetemplates,scope=Namespaced,categories=cluster-api,shortName=bmmt
// +kubebuilder:printcolumn:name="Hosts",type=integer,JSONPath=`.status.matchingHosts`,description="Number of hosts that match, including claimed hosts"
// +kubebuilder:printcolumn:name="Kernel",type=string,JSONPath=`.spec.template.spec.boot.kernel.url`,description="Kernel that the machines boot"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the template.
	// +required
	Spec BareMetalMachineTemplateSpec `json:"spec,omitzero"`
	// status describes the machines of the template.
	// +optional
	Status BareMetalMachineTemplateStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the template.
func (t *BareMetalMachineTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions sets the conditions of the template.
func (t *BareMetalMachineTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}

// BareMetalMachineTemplateList is a list of BareMetalMachineTemplates.
//
// +kubebuilder:object:root=true
type BareMetalMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalMachineTemplate `json:"items"`
}
