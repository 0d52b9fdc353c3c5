package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// BareMetalConfigTemplateSpec holds the template.
type BareMetalConfigTemplateSpec struct {
	// template is the template that Cluster API creates BareMetalConfigs from.
	// +required
	Template BareMetalConfigTemplateResource `json:"template,omitzero"`
}

// BareMetalConfigTemplateResource is the template of a BareMetalConfig.
type BareMetalConfigTemplateResource struct {
	// metadata holds the labels and annotations of the BareMetalConfigs.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the BareMetalConfigs.
	// +required
	Spec BareMetalConfigSpec `json:"spec,omitzero"`
}

// BareMetalConfigTemplate is the template that Cluster API creates BareMetalConfigs from, for a MachineDeployment or a ClusterClass. Its
// spec.template.spec is immutable.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=baremetalconfigtemplates,scope=Namespaced,categories=cluster-api,shortName=bmcfgt
// +kubebuilder:printcolumn:name="Format",type=string,JSONPath=`.spec.template.spec.format`,description="Format of the bootstrap data"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalConfigTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the template.
	// +required
	Spec BareMetalConfigTemplateSpec `json:"spec,omitzero"`
}

// BareMetalConfigTemplateList is a list of BareMetalConfigTemplates.
//
// +kubebuilder:object:root=true
type BareMetalConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalConfigTemplate `json:"items"`
}
