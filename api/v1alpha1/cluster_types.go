package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// FailureDomainsReadyCondition is True when every failure domain in a BareMetalCluster's spec has hosts, and Cluster API accepts all failure
// domains of the hosts. Ready does not depend on it, because machines in the other failure domains are not affected.
const FailureDomainsReadyCondition = "FailureDomainsReady"

// Reasons of FailureDomainsReady.
const (
	// ReasonFailureDomainsFound means that the hosts have failure domains, including all those in the spec.
	ReasonFailureDomainsFound = "FailureDomainsFound"
	// ReasonNoFailureDomains means that neither the hosts nor the spec have a failure domain.
	ReasonNoFailureDomains = "NoFailureDomains"
	// ReasonFailureDomainWithoutHosts means that no host has one of the failure domains in the spec. The message lists those of the hosts.
	ReasonFailureDomainWithoutHosts = "FailureDomainWithoutHosts"
	// ReasonTooManyFailureDomains means that the hosts have more failure domains than Cluster API accepts. The message lists those that were left out.
	ReasonTooManyFailureDomains = "TooManyFailureDomains"
)

// KubeconfigAcceptedCondition is False while the provider refuses the kubeconfig Secret of the cluster, and so does not read the cluster's Nodes.
// Otherwise it is absent. Ready does not depend on it.
const KubeconfigAcceptedCondition = "KubeconfigAccepted"

// Reasons of KubeconfigAccepted.
const (
	// ReasonKubeconfigRefused means that the kubeconfig refers to a file, a program or another identity. The message has the field.
	ReasonKubeconfigRefused = "KubeconfigRefused"
)

// Reasons of ControlPlaneEndpointSet, besides EndpointSet and EndpointMissing.
const (
	// ReasonEndpointInvalid means that the host of the Cluster's endpoint is neither a hostname nor an IP address.
	ReasonEndpointInvalid = "EndpointInvalid"
	// ReasonEndpointMismatch means that the Cluster and the BareMetalCluster have different endpoints.
	ReasonEndpointMismatch = "EndpointMismatch"
)

// BareMetalClusterSpec describes what the machines of a cluster share.
type BareMetalClusterSpec struct {
	// controlPlaneEndpoint is the address of the cluster's API server: an address of a load balancer or of kube-vip. The cluster is not provisioned until the
	// endpoint is set here or in the Cluster's spec.controlPlaneEndpoint; the provider copies it from there. It is immutable once set.
	// +optional
	ControlPlaneEndpoint APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// failureDomains add to the failure domains of the hosts in the namespace, and override those with the same name. Failure domains of hosts are for
	// workers only. Set controlPlane: true here to also spread control plane machines over a failure domain.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// nodeLabelPrefixes are the beginnings of keys of labels that Nodes get from their hosts, and that follow the hosts: a DNS name and a slash, such as
	// example.com/. With topology.kubernetes.io/ a Node gets the labels zone and region with this prefix, and zone is spec.failureDomain of the host if the host has no such label.
	// A label of the host replaces the same label of the Node. A Node gets at most 32 labels, the first by their keys. Defaults to none. Other labels of Kubernetes and Cluster API
	// are refused: the kubelet or Cluster API writes them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=254
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/$`
	// +kubebuilder:validation:XValidation:rule="self.all(p, p == 'topology.kubernetes.io/' || !p.matches('(^|[.])(kubernetes|k8s|x-k8s)[.]io/$'))",message="of the labels of Kubernetes and Cluster API, only topology.kubernetes.io/ can follow the host: remove the others"
	NodeLabelPrefixes []string `json:"nodeLabelPrefixes,omitempty"`
}

// NodeLabelsAnnotation on a Node of a workload cluster lists the keys of the labels that the Node got from its host, separated by commas. Only these are removed again.
const NodeLabelsAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/node-labels"

// APIEndpoint is the address of an API server.
// +kubebuilder:validation:XValidation:rule="has(self.host) == has(self.port)",message="set both host and port"
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// host is the hostname or IP address of the API server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isIP(self) || self.matches('^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$')",message="must be a hostname or an IP address, not a URL and without a port"
	Host string `json:"host,omitempty"`
	// port is the TCP port of the API server.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// BareMetalClusterStatus is the observed state of a cluster's infrastructure. The provider writes it.
type BareMetalClusterStatus struct {
	// conditions are the conditions of the cluster: Ready, ControlPlaneEndpointSet, FailureDomainsReady, KubeconfigAccepted and
	// Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization reports to Cluster API whether the cluster's infrastructure is provisioned.
	// +optional
	Initialization Initialization `json:"initialization,omitzero"`

	// failureDomains are the failure domains that Cluster API can place machines in.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// The rule that the endpoint is immutable is a rule of the whole BareMetalCluster. The API server does not evaluate a transition rule of the spec when the
// spec is removed, nor when it is added again after that.

// BareMetalCluster is the infrastructure that the machines of a Cluster API Cluster share.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.controlPlaneEndpoint) || has(self.spec) && has(self.spec.controlPlaneEndpoint) && self.spec.controlPlaneEndpoint == oldSelf.spec.controlPlaneEndpoint",fieldPath=".spec",message="controlPlaneEndpoint cannot be changed once it is set, because the certificates and kubeconfigs of the cluster contain it. Create a new Cluster instead"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalclusters,scope=Namespaced,categories=cluster-api,shortName=bmcl
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`,description="Cluster that this object belongs to"
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.controlPlaneEndpoint.host`,description="Host of the control plane endpoint"
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`,description="Whether machines can be created"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Status of the condition Ready"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Reason of the condition Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec describes what the machines of the cluster share.
	// +optional
	Spec BareMetalClusterSpec `json:"spec,omitzero"`
	// status is the observed state of the infrastructure.
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
	// template is the template that Cluster API creates BareMetalClusters from.
	// +required
	Template BareMetalClusterTemplateResource `json:"template,omitzero"`
}

// BareMetalClusterTemplateResource is the template of a BareMetalCluster.
type BareMetalClusterTemplateResource struct {
	// metadata holds the labels and annotations of the BareMetalClusters.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the BareMetalClusters.
	// +optional
	Spec BareMetalClusterSpec `json:"spec,omitzero"`
}

// BareMetalClusterTemplate is the template that Cluster API creates BareMetalClusters from. A ClusterClass refers to it. Its spec.template.spec
// is immutable.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=baremetalclustertemplates,scope=Namespaced,categories=cluster-api,shortName=bmct
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
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
