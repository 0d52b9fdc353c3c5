package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// AgentProgress is what the agent does in a boot.
type AgentProgress struct {
	// number is the number of the boot.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// step is what the agent does: Reading, Selecting, Wiping, Writing, Data, Verifying, Committing, BootEntry or Erasing.
	// +optional
	Step wire.AgentStep `json:"step,omitempty"`
	// percent is how much of the step is done.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Percent int32 `json:"percent,omitempty"`
	// doneBytes and totalBytes are the bytes of the step. They are absent for a step that does not count bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	DoneBytes int64 `json:"doneBytes,omitempty"`
	// totalBytes is the number of bytes that the step has to process.
	// +optional
	// +kubebuilder:validation:Minimum=1
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// bytesPerSecond is the rate over the last seconds.
	// +optional
	// +kubebuilder:validation:Minimum=1
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	// secondsLeft is the estimated time until the end of the step.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SecondsLeft int64 `json:"secondsLeft,omitempty"`
	// disk is the disk that is written.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Disk string `json:"disk,omitempty"`
	// disks are the disks that are erased.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Disks []wire.DiskProgress `json:"disks,omitempty"`
	// time is when the agent reported this.
	// +optional
	Time metav1.Time `json:"time,omitzero"`
}

// ImageStatus is the state of a machine's image at the boot server, which downloads, verifies and converts it before the first boot.
type ImageStatus struct {
	// claimID is the claim of the host for which the image was prepared. A status for an earlier
	// claim proves nothing, because the boot server may have deleted the image since then.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ClaimID string `json:"claimID,omitempty"`
	// checksum is the checksum of the image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=135
	Checksum string `json:"checksum,omitempty"`
	// ready is true when the image can be written to disks.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// reason and message say what the image waits for, or why it cannot be used.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
	// message is a sentence for people.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// sizeBytes is the size of the image on a disk, and dataBytes how much of that is not zero.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// dataBytes is how much of the image has data: the rest is zeros, which are not sent.
	// +optional
	// +kubebuilder:validation:Minimum=1
	DataBytes int64 `json:"dataBytes,omitempty"`
}
