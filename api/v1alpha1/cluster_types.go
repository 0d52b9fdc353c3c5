package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// FailureDomainsReadyCondition is True when every failure domain that a BareMetalCluster's spec names has hosts, and Cluster API takes all that
// the hosts have. It does not count for Ready: machines of the other failure domains are not held up.
const FailureDomainsReadyCondition = "FailureDomainsReady"

// Reasons of FailureDomainsReady.
const (
	// ReasonFailureDomainsFound means that the hosts have failure domains, and that those of the spec are among them.
	ReasonFailureDomainsFound = "FailureDomainsFound"
	// ReasonNoFailureDomains means that neither a host nor the spec names a failure domain.
	ReasonNoFailureDomains = "NoFailureDomains"
	// ReasonFailureDomainWithoutHosts means that the spec names a failure domain that no host has; the message names those that hosts have.
	ReasonFailureDomainWithoutHosts = "FailureDomainWithoutHosts"
	// ReasonTooManyFailureDomains means that the hosts have more failure domains than Cluster API takes; the message tells what was left out.
	ReasonTooManyFailureDomains = "TooManyFailureDomains"
)

// KubeconfigAcceptedCondition is False when the kubeconfig Secret of the cluster is refused: the provider does not look at the cluster's Nodes then. It is
// absent otherwise, and does not count for Ready.
const KubeconfigAcceptedCondition = "KubeconfigAccepted"

// Reasons of KubeconfigAccepted.
const (
	// ReasonKubeconfigRefused means that the kubeconfig names a file, a program or another identity; the message names the field.
	ReasonKubeconfigRefused = "KubeconfigRefused"
)

// Reasons of ControlPlaneEndpointSet, besides EndpointSet and EndpointMissing.
const (
	// ReasonEndpointInvalid means that the endpoint of the Cluster has a host that is neither a hostname nor an IP address.
	ReasonEndpointInvalid = "EndpointInvalid"
	// ReasonEndpointMismatch means that the Cluster and the BareMetalCluster name different endpoints.
	ReasonEndpointMismatch = "EndpointMismatch"
)

// BareMetalClusterSpec describes what the machines of a cluster share.
type BareMetalClusterSpec struct {
	// controlPlaneEndpoint is where the cluster's API server is reached: an address that a load balancer or kube-vip holds.
	// The cluster waits until it is set here or in the Cluster's spec.controlPlaneEndpoint; what is set there is copied to here.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// failureDomains add to the failure domains that are found on the hosts of the namespace, and override those of the same name. One that is
	// found is for workers only: set controlPlane: true here to let control plane machines be spread over it too.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// APIEndpoint is where an API server is reached.
// +kubebuilder:validation:XValidation:rule="has(self.host) == has(self.port)",message="set both host and port"
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// host is the hostname or the IP address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isIP(self) || self.matches('^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$')",message="must be a hostname or an IP address, not a URL and without a port"
	Host string `json:"host,omitempty"`
	// port is the TCP port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// BareMetalClusterStatus is what is known of a cluster's infrastructure.
type BareMetalClusterStatus struct {
	// initialization tells Cluster API that the cluster's infrastructure is provisioned.
	// +optional
	Initialization Initialization `json:"initialization,omitzero"`

	// failureDomains are the failure domains that Cluster API may place machines in.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// conditions say what is well and what is wrong: Ready, ControlPlaneEndpointSet, FailureDomainsReady, KubeconfigAccepted and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// That the endpoint stays is a rule of the whole BareMetalCluster: a rule of the spec is not asked when the spec is taken away, nor when it is
// given anew after that.

// BareMetalCluster is the infrastructure that the machines of a Cluster API Cluster share.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.controlPlaneEndpoint) || has(self.spec) && has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint",fieldPath=".spec",message="controlPlaneEndpoint cannot be changed once it is set: the certificates and kubeconfigs of the cluster name it. Make a new Cluster"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalclusters,scope=Namespaced,categories=cluster-api,shortName=bmcl
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster that this object belongs to"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`,description="Host of the control plane endpoint"
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`,description="Whether machines can be made"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all is well"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is not"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes what the machines share.
	// +optional
	Spec BareMetalClusterSpec `json:"spec,omitzero"`
	// status is what is known of the infrastructure.
	// +optional
	Status BareMetalClusterStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the cluster.
func (c *BareMetalCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions sets the conditions of the cluster.
func (c *BareMetalCluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// BareMetalClusterList is a list of BareMetalClusters.
//
// +kubebuilder:object:root=true
type BareMetalClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalCluster `json:"items"`
}

// BareMetalClusterTemplateSpec holds the template.
type BareMetalClusterTemplateSpec struct {
	// template is what BareMetalClusters are made from.
	// +required
	Template BareMetalClusterTemplateResource `json:"template,omitzero"`
}

// BareMetalClusterTemplateResource is what BareMetalClusters are made from.
type BareMetalClusterTemplateResource struct {
	// metadata is the metadata that the clusters get.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec that the clusters get.
	// +optional
	Spec BareMetalClusterSpec `json:"spec,omitzero"`
}

// BareMetalClusterTemplate is what Cluster API makes BareMetalClusters from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=baremetalclustertemplates,scope=Namespaced,categories=cluster-api,shortName=bmct
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the template.
	// +required
	Spec BareMetalClusterTemplateSpec `json:"spec,omitzero"`
}

// BareMetalClusterTemplateList is a list of BareMetalClusterTemplates.
//
// +kubebuilder:object:root=true
type BareMetalClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalClusterTemplate `json:"items"`
}
