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
	FirmwareMode FirmwareMode `json:"firmwareMode,omitempty"`
	// bootMethod is how the server loaded the agent.
	// +optional
	BootMethod BootMethod `json:"bootMethod,omitempty"`
	// tls is true if the agent reached the boot server by HTTPS with a pinned certificate.
	// +optional
	TLS bool `json:"tls,omitempty"`
	// secureBoot is Enabled or Disabled, as the agent reported it. It is absent if it is unknown.
	// +optional
	SecureBoot SecureBoot `json:"secureBoot,omitempty"`
	// disks are all disks of the server that the agent found, at most 64.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Disks []ErasedDisk `json:"disks,omitempty"`
}

// ErasureOutcome is what became of a disk in an erasure that succeeded.
// +kubebuilder:validation:Enum=Erased;LeftOut
type ErasureOutcome string

const (
	// ErasureErased means that the disk was erased and that the verification passed.
	ErasureErased ErasureOutcome = "Erased"
	// ErasureLeftOut means that the disk was not touched: spec.storage.keep names it, or it is no disk of the server, such as virtual media.
	ErasureLeftOut ErasureOutcome = "LeftOut"
)

// VerificationKind is what a verification of an erasure compared.
// +kubebuilder:validation:Enum=ReadBack;Samples;DriveStatus
type VerificationKind string

// ErasedDisk is what became of a disk, as the agent reported it.
// +kubebuilder:validation:XValidation:rule="self.outcome != 'Erased' || has(self.verification) && has(self.verification.passed) && self.verification.passed",message="a disk with the outcome Erased needs a verification that passed"
// +kubebuilder:validation:XValidation:rule="self.outcome != 'Erased' || has(self.method) && has(self.class)",message="a disk with the outcome Erased needs method and class"
type ErasedDisk struct {
	// disk identifies the disk.
	// +required
	Disk wire.DiskIdentity `json:"disk,omitzero"`
	// name is the name that the kernel of the agent gave to the disk, such as nvme0n1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// model is the model, as the drive reports it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// vendor is the manufacturer, as the drive reports it. Many drives report it only as a part of the model.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// firmwareVersion is the version of the drive's firmware, as the drive reports it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// transport is how the disk is connected, as in a BareMetalInspection.
	// +optional
	Transport DiskTransport `json:"transport,omitempty"`
	// outcome is Erased or LeftOut.
	// +required
	Outcome ErasureOutcome `json:"outcome,omitempty"`
	// method is the command or the technique, such as "NVMe sanitize, crypto erase".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Method string `json:"method,omitempty"`
	// class is the policy that the method meets on this disk: Metadata, Clear or Purge (NIST SP 800-88 Rev. 2).
	// +optional
	Class wire.ErasePolicy `json:"class,omitempty"`
	// basis is the clause of a standard that the class rests on.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Basis string `json:"basis,omitempty"`
	// verification is how the erasure was verified.
	// +optional
	Verification *ErasureVerification `json:"verification,omitempty"`
	// startTime is the time when the erasure of the disk started, by the clock of the server, which may be wrong. Only the difference to endTime is reliable.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime is the time when the verification of the disk ended, by the clock of the server, which may be wrong.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// message is why the disk was left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
	// warnings are what the erasure did not reach on an erased disk, such as a protected memory block, and what the next system may find on a disk that was left out.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=192
	// +listType=atomic
	Warnings []string `json:"warnings,omitempty"`
}

// ErasureVerification is how an erasure was verified.
type ErasureVerification struct {
	// kind is what was compared: ReadBack (all that was overwritten was read and is zero), Samples (samples were read before and after) or
	// DriveStatus (the drive reports success, and samples cannot be judged).
	// +required
	Kind VerificationKind `json:"kind,omitempty"`
	// passed is true if the verification found nothing that contradicts the erasure.
	// +optional
	Passed bool `json:"passed,omitempty"`
	// samples is the number of samples that were read after the erasure.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Samples int32 `json:"samples,omitempty"`
	// bytes is the number of bytes that were read after the erasure.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Bytes int64 `json:"bytes,omitempty"`
	// changed is the number of samples that have other content than before the erasure.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Changed int32 `json:"changed,omitempty"`
	// blank is the number of samples that have only zeros or only ones.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Blank int32 `json:"blank,omitempty"`
	// unreadable is the number of samples that cannot be read because the drive has no data there any more.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Unreadable int32 `json:"unreadable,omitempty"`
}
