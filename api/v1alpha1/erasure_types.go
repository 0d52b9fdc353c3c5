package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ErasureHostLabel on a BareMetalErasure is the name of the host whose disks were erased, or, for a name of more than 63 characters, a hash of it. Its purpose is
// to list the records of a host; spec.hostName is what was signed.
const ErasureHostLabel = "baremetalerasure.infrastructure.cluster.x-k8s.io/host"

// SignatureAlgorithm is the algorithm of a signature.
// +kubebuilder:validation:Enum=Ed25519
type SignatureAlgorithm string

// AlgorithmEd25519 is Ed25519 of RFC 8032, without a context and without a hash of the message before it.
const AlgorithmEd25519 SignatureAlgorithm = "Ed25519"

// BareMetalErasureSpec is a signed statement of the provider: what an agent reported about the disks of a server that it erased. It never changes.
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable: it is what was signed"
// +kubebuilder:validation:XValidation:rule="self.report.policy in ['Metadata', 'Clear', 'Purge']",message="report.policy must be Metadata, Clear or Purge: the other policies erase nothing"
// +kubebuilder:validation:XValidation:rule="!(self.report.policy in ['Clear', 'Purge']) || has(self.report.disks) && size(self.report.disks) > 0",message="an erasure with the policy Clear or Purge needs the disks that it was about"
// +kubebuilder:validation:XValidation:rule="self.report.policy != 'Purge' || !has(self.report.disks) || self.report.disks.all(d, d.outcome != 'Erased' || has(d.class) && d.class == 'Purge')",message="an erasure with the policy Purge cannot have a disk with the outcome Erased and another class"
// +kubebuilder:validation:XValidation:rule="self.report.policy != 'Clear' || !has(self.report.disks) || self.report.disks.all(d, d.outcome != 'Erased' || has(d.class) && d.class in ['Clear', 'Purge'])",message="an erasure with the policy Clear cannot have a disk with the outcome Erased and a class other than Clear or Purge"
type BareMetalErasureSpec struct {
	// namespace is the namespace of the host when the erasure was recorded. It is a part of what is signed, so the proof remains valid if a backup is restored into another
	// namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// hostName is the name of the BareMetalHost.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	HostName string `json:"hostName,omitempty"`
	// server identifies the server, as far as it was known.
	// +optional
	Server ErasedServer `json:"server,omitzero"`
	// claimID identifies the claim whose release erased the disks, or is the UID of the BareMetalErasureRequest that was carried out.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`
	// bootNumber is the number of the boot of the host in which the agent erased the disks.
	// +required
	// +kubebuilder:validation:Minimum=1
	BootNumber int32 `json:"bootNumber,omitempty"`
	// machineName is the name of the BareMetalMachine that released the host. It is empty if the disks were erased for a BareMetalErasureRequest.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	MachineName string `json:"machineName,omitempty"`
	// providerID is the provider ID of that machine on this host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ProviderID string `json:"providerID,omitempty"`
	// report is what the agent reported. The provider cannot check it further: a signature shows that this provider received this report in this boot.
	// +required
	Report ErasureReport `json:"report,omitzero"`
	// recordedTime is the time when the provider signed the record, by the clock of the controllers.
	// +required
	RecordedTime metav1.Time `json:"recordedTime,omitzero"`
	// signature is the signature over all other fields of spec.
	// +required
	Signature ErasureSignature `json:"signature,omitzero"`
}

// ErasedServer identifies a server whose disks were erased.
type ErasedServer struct {
	// manufacturer is the manufacturer, as the BMC reported it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// model is the model, as the BMC reported it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the system, as the BMC reported it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// systemUUID is the UUID of the system, as the BMC reported it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SystemUUID string `json:"systemUUID,omitempty"`
	// bootMACAddresses are the MAC addresses that the server boots from: spec.bootMACAddresses of the host.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=17
	BootMACAddresses []string `json:"bootMACAddresses,omitempty"`
}

// ErasureSignature is the signature of an erasure.
type ErasureSignature struct {
	// keyID identifies the key: the SHA-256 of the public key in the DER form of a SubjectPublicKeyInfo (RFC 5280), in hexadecimal. The ConfigMap
	// capbm-erasure-keys in the namespace of the provider has the public key under this name.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	KeyID string `json:"keyID,omitempty"`
	// algorithm is the algorithm: Ed25519.
	// +required
	Algorithm SignatureAlgorithm `json:"algorithm,omitempty"`
	// value is the signature, which has 64 bytes, in base64.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9+/]{86}==$`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=88
	Value string `json:"value,omitempty"`
}

// BareMetalErasure is the proof that an agent reported the erasure of the disks of a BareMetalHost. The provider writes and signs it before it releases the host, and
// keeps the last two of each host. It has no owner, because it outlives the host. `kubectl baremetal erasures` prints it as a certificate of sanitization.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=baremetalerasures,scope=Namespaced,shortName=bme,categories=cluster-api
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.hostName`,description="BareMetalHost whose disks were erased"
// +kubebuilder:printcolumn:name="Serial",type=string,JSONPath=`.spec.server.serialNumber`,description="Serial number of the server"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.report.policy`,description="Cleaning policy that was carried out"
// +kubebuilder:printcolumn:name="Machine",type=string,JSONPath=`.spec.machineName`,description="BareMetalMachine that released the host"
// +kubebuilder:printcolumn:name="Boot",type=integer,JSONPath=`.spec.bootNumber`,description="Number of the boot of the erasure"
// +kubebuilder:printcolumn:name="Erased",type=date,JSONPath=`.spec.report.endTime`,description="Time since the erasure"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Key",type=string,priority=1,JSONPath=`.spec.signature.keyID`,description="Key of the signature"
type BareMetalErasure struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the signed statement.
	// +required
	Spec BareMetalErasureSpec `json:"spec,omitzero"`
}

// BareMetalErasureList is a list of BareMetalErasures.
//
// +kubebuilder:object:root=true
type BareMetalErasureList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalErasure `json:"items"`
}
