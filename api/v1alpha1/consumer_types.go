package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// ConsumerReference refers to the BareMetalMachine that has a host. It has no UID because UIDs change in a `clusterctl move`.
type ConsumerReference struct {
	// name is the name of the BareMetalMachine, in the host's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// namespace is the namespace of the BareMetalMachine. Defaults to the host's namespace, and must be that one: hosts for machines of other namespaces are not
	// supported yet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// claimID identifies the claim. The provider generates a random one when a machine claims the host, because a machine may be recreated with the same
	// name and UIDs change in a `clusterctl move`. A machine without a provider ID is not booted on a host whose consumerRef has no claimID.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`

	// bootsBefore is the value of spec.providerState.boots at the time of the claim. The provider writes it. It is absent if the server was
	// never booted. While both are equal, the server has not booted for this claim, and a missing BareMetalBoot is harmless.
	// +optional
	// +kubebuilder:validation:Minimum=1
	BootsBefore int32 `json:"bootsBefore,omitempty"`

	// cleaningPolicy is spec.cleaningPolicy of the machine at the time of the claim. The provider writes it, so that the release does not depend on the machine.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Metadata', 'Clear', 'Purge']",message="must be Metadata, Clear or Purge: it is that of a machine"
	CleaningPolicy wire.ErasePolicy `json:"cleaningPolicy,omitempty"`

	// disks are the disks that the agent found in the inspection before the claim. The provider writes them. A release that erases all disks fails if one of them
	// is gone. It is absent if the agent did not inspect the server.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Disks []wire.DiskIdentity `json:"disks,omitempty"`
}

// LastConsumer describes the machine that had a host last.
type LastConsumer struct {
	// name is the name of the BareMetalMachine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// owner is the owner of the machine, as kind/name of its KubeadmControlPlane, MachineDeployment or MachineSet. It is empty for a standalone Machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Owner string `json:"owner,omitempty"`
	// releaseTime is the time when the host was released.
	// +required
	ReleaseTime metav1.Time `json:"releaseTime,omitzero"`
}
