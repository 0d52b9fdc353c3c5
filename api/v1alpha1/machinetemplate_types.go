package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

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

// BareMetalMachineTemplateStatus tells the cluster autoscaler what a machine of the template would be, so that it can scale from zero.
type BareMetalMachineTemplateStatus struct {
	// capacity is what a machine has at least: of each resource the least of the hosts that the template's hostSelector, hardware and
	// tolerations match. It is empty when none does.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo says which architecture and operating system the machine's Node has.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`

	// matchingHosts is how many hosts of the namespace match, claimed ones among them.
	// +optional
	MatchingHosts int32 `json:"matchingHosts,omitempty"`

	// conditions say what is well and what is wrong: Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeInfo says which architecture and operating system a Node has.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture is the CPU architecture of the Node.
	// +optional
	Architecture Architecture `json:"architecture,omitempty"`
	// operatingSystem is the operating system of the Node, like linux.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// BareMetalMachineTemplate is what Cluster API makes BareMetalMachines from.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalmachinetemplates,scope=Namespaced,categories=cluster-api,shortName=bmmt
// +kubebuilder:printcolumn:name="Hosts",type=integer,JSONPath=`.status.matchingHosts`,description="Hosts that the machines can have, claimed ones among them"
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
	// status tells what a machine of the template would be.
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
