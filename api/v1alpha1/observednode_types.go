package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ObservedNode is a Node that runs on a server.
type ObservedNode struct {
	// name is the name of the Node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// number is the number of the boot in which the Node was observed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// kubeletVersion is the version that the kubelet reports, such as v1.34.1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	KubeletVersion string `json:"kubeletVersion,omitempty"`
	// mismatch is why this Node is not the Machine's Node, or why Cluster API cannot match it. It is absent if the Node matches.
	// +optional
	Mismatch *BootFailure `json:"mismatch,omitempty"`
	// readiness is what the Node says about a server that may be off: Ready, NotReady or Unreadable. It is absent until the Node was once not Ready for a minute, or
	// the BMC reported that the server is off.
	// +optional
	Readiness NodeReadiness `json:"readiness,omitempty"`
	// readinessTime is the time when readiness was first observed.
	// +optional
	ReadinessTime *metav1.Time `json:"readinessTime,omitempty"`
}

// NodeReadiness is what a Node says about its server.
// +kubebuilder:validation:Enum=Ready;NotReady;Unreadable
type NodeReadiness string

const (
	// NodeReady means that the condition Ready of the Node is True.
	NodeReady NodeReadiness = "Ready"
	// NodeNotReady means that the condition Ready of the Node is not True.
	NodeNotReady NodeReadiness = "NotReady"
	// NodeUnreadable means that the Node does not exist, or that its cluster does not answer.
	NodeUnreadable NodeReadiness = "Unreadable"
)
