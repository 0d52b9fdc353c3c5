package wire

// ErasureOutcome is what became of a disk in an erasure that succeeded.
// +kubebuilder:validation:Enum=Erased;LeftOut
type ErasureOutcome string

const (
	// Erased means that the disk was erased and that the verification passed.
	Erased ErasureOutcome = "Erased"
	// LeftOut means that the disk was not touched: spec.storage.keep names it, or it is no disk of the server, such as virtual media.
	LeftOut ErasureOutcome = "LeftOut"
)

// VerificationKind is what a verification of an erasure compared.
// +kubebuilder:validation:Enum=ReadBack;Samples;DriveStatus
type VerificationKind string

const (
	// ReadBack means that everything that was overwritten was read, and is zero.
	ReadBack VerificationKind = "ReadBack"
	// Samples means that samples were read before and after.
	Samples VerificationKind = "Samples"
	// DriveStatus means that the drive reports success, and that samples cannot be judged.
	DriveStatus VerificationKind = "DriveStatus"
)

// DiskErasure is what became of a disk, as the agent reported it. The API and the protocol add times to it.
// +kubebuilder:validation:XValidation:rule="self.outcome != 'Erased' || has(self.verification) && has(self.verification.passed) && self.verification.passed",message="a disk with the outcome Erased needs a verification that passed"
// +kubebuilder:validation:XValidation:rule="self.outcome != 'Erased' || has(self.method) && has(self.class)",message="a disk with the outcome Erased needs method and class"
type DiskErasure struct {
	// disk identifies the disk.
	// +required
	Disk DiskIdentity `json:"disk,omitzero"`
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
	Class ErasePolicy `json:"class,omitempty"`
	// basis is the clause of a standard that the class rests on.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Basis string `json:"basis,omitempty"`
	// verification is how the erasure was verified.
	// +optional
	Verification *ErasureVerification `json:"verification,omitempty"`
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

// DiskProgress is how far the erasure of a disk is, as the agent reports it.
type DiskProgress struct {
	// name is the kernel's name of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
	// serialNumber is the serial number of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// method is how the disk is erased.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Method string `json:"method,omitempty"`
	// percent is how much is done.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent,omitempty"`
	// secondsLeft is the estimated time until the disk is erased. It is absent if it is unknown.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SecondsLeft int64 `json:"secondsLeft,omitempty"`
}
