package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// ErasedCondition of a BareMetalErasureRequest is True when the request was carried out: the BareMetalErasure with its UID as the claimID exists. It is False
// before that, and when the request cannot be carried out any more.
const ErasedCondition = "Erased"

// RequestedByAnnotation on a BareMetalErasureRequest is who asks for the erasure, and why. kubectl baremetal erase sets it. Nothing depends on it.
const RequestedByAnnotation = "baremetalerasurerequest.infrastructure.cluster.x-k8s.io/requested-by"

// Reasons of the condition Erased.
const (
	// ReasonErased means that the request was carried out.
	ReasonErased = "Erased"
	// ReasonHostNotFound means that the namespace has no BareMetalHost of that name.
	ReasonHostNotFound = "HostNotFound"
	// ReasonHostRecreated means that the host has another UID: it was created again, restored or moved since the request was made.
	ReasonHostRecreated = "HostRecreated"
	// ReasonHostBooted means that the server was booted since the request was made, and that no record shows that this was for the request.
	ReasonHostBooted = "HostBooted"
	// ReasonOtherSerialNumber means that the request names another serial number than that of the server.
	ReasonOtherSerialNumber = "OtherSerialNumber"
	// ReasonRequestExpired means that expireTime has passed.
	ReasonRequestExpired = "RequestExpired"
	// ReasonHostWaits means that the request fits and its host is not ready for it. The message is that of the host's condition Available.
	ReasonHostWaits = "HostWaits"
)

// BareMetalErasureRequestSpec is a request to erase all disks of one server once, except those in spec.storage.keep of its host. It is carried out only if
// everything in it is still so: a request that comes back from a repository or a backup erases nothing.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: delete this BareMetalErasureRequest and create another one"
type BareMetalErasureRequestSpec struct {
	// hostName is the name of the BareMetalHost, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HostName string `json:"hostName,omitempty"`
	// hostUID is metadata.uid of the host. A host that was created again, restored into another cluster, or moved with `clusterctl move`, has another one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	HostUID string `json:"hostUID,omitempty"`
	// serialNumber is the serial number of the server: the one that the BMC reports (status.hardware.serialNumber of the host), or if it reports none, the one
	// that an inspection by the agent found.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// bootsBefore is spec.providerState.boots of the host when the request is made, or 0 if the host has no such field. The erasure is a boot and raises it, and so does every
	// other boot.
	// +required
	// +kubebuilder:validation:Minimum=0
	BootsBefore *int32 `json:"bootsBefore,omitempty"`
	// policy is how thoroughly the disks are erased: Metadata, Clear or Purge, as spec.cleaningPolicy of a host describes them. The flag
	// --minimum-cleaning-policy of the provider can ask for more.
	// +required
	// +kubebuilder:validation:XValidation:rule="self in ['Metadata', 'Clear', 'Purge']",message="must be Metadata, Clear or Purge: the other policies erase nothing"
	Policy wire.ErasePolicy `json:"policy,omitempty"`
	// expireTime is the time after which the erasure does not begin any more. The provider then deletes the request. It is at most 7 days after the creation of
	// the request. An erasure that has begun is finished.
	// +required
	ExpireTime metav1.Time `json:"expireTime,omitzero"`
}

// BareMetalErasureRequestStatus is what became of a request. The provider writes it.
type BareMetalErasureRequestStatus struct {
	// conditions are the current conditions. The condition is Erased.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BareMetalErasureRequest requests the erasure of all disks of a server that no machine has, such as one that was bought used. `kubectl baremetal erase HOST` creates one.
//
// It begins when the server is off and nothing else needs the host. The host is not Available until it is over. The outcome is a BareMetalErasure with the UID of
// the request as its claimID, or the quarantine of the host. The provider deletes the request at its expireTime. Delete it before that to withdraw it: an
// attempt that runs is finished.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalerasurerequests,scope=Namespaced,shortName=bmer,categories=cluster-api
// +kubebuilder:selectablefield:JSONPath=`.spec.hostName`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.hostName`,description="BareMetalHost whose disks are to be erased"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`,description="How thoroughly the disks are to be erased"
// +kubebuilder:printcolumn:name="Erased",type=string,JSONPath=`.status.conditions[?(@.type=="Erased")].status`,description="Whether the request was carried out"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Erased")].reason`,description="Reason of the condition Erased"
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expireTime`,description="Time after which the erasure does not begin"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Erased")].message`,description="Message of the condition Erased"
type BareMetalErasureRequest struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the request. It never changes.
	// +required
	Spec BareMetalErasureRequestSpec `json:"spec,omitzero"`
	// status is what became of the request.
	// +optional
	Status BareMetalErasureRequestStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the request.
func (r *BareMetalErasureRequest) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions sets the conditions of the request.
func (r *BareMetalErasureRequest) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// BareMetalErasureRequestList is a list of BareMetalErasureRequests.
//
// +kubebuilder:object:root=true
type BareMetalErasureRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalErasureRequest `json:"items"`
}
