package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// ErasureReport is what an agent reported about the disks that it erased. The boot server writes it to spec.erasure of the BareMetalBoot, together with
// agentDoneTime. The provider copies it to a BareMetalErasure before it releases the host.
type ErasureReport struct {
	// policy is the cleaning policy that was carried out: Metadata, Clear or Purge.
	// +required
	Policy wire.ErasePolicy `json:"policy,omitempty"`
	// startTime is the time when the agent got its plan, by the clock of the boot server.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// endTime is the time when the agent reported that it was done, by the clock of the boot server.
	// +required
	EndTime metav1.Time `json:"endTime,omitzero"`
	// agentRelease is the release of the agent, which erased the disks.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	AgentRelease string `json:"agentRelease,omitempty"`
	// firmwareMode is how the server was booted: UEFI or BIOS.
	// +optional
	FirmwareMode wire.FirmwareMode `json:"firmwareMode,omitempty"`
	// bootMethod is how the server loaded the agent.
	// +optional
	BootMethod BootMethod `json:"bootMethod,omitempty"`
	// tls is true if the agent reached the boot server by HTTPS with a pinned certificate.
	// +optional
	TLS bool `json:"tls,omitempty"`
	// secureBoot is Enabled or Disabled, as the agent reported it. It is absent if it is unknown.
	// +optional
	SecureBoot wire.SecureBoot `json:"secureBoot,omitempty"`
	// disks are all disks of the server that the agent found, at most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Disks []ErasedDisk `json:"disks,omitempty"`
}

// ErasedDisk is what became of a disk, as the agent reported it.
type ErasedDisk struct {
	wire.DiskErasure `json:",inline"`

	// startTime is the time when the erasure of the disk started, by the clock of the server, which may be wrong. Only the difference to endTime is reliable.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is the time when the verification of the disk ended, by the clock of the server, which may be wrong.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
}
