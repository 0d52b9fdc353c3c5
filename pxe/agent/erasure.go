package agent

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// DiskProgress is how far the erasure of a disk is.
type DiskProgress struct {
	// Name is the kernel's name, and SerialNumber the serial number.
	Name         string `json:"name"`
	SerialNumber string `json:"serialNumber,omitempty"`
	// Method is the Method of ErasedDisk.
	Method string `json:"method,omitempty"`
	// Percent is from 0 to 100, as the drive reports it, or of the bytes that are overwritten.
	Percent int `json:"percent"`
	// RemainingSeconds is an estimate, 0 where there is none.
	RemainingSeconds int64 `json:"remainingSeconds,omitempty"`
}

// Outcome is what became of a disk in a CleanPlan.
type Outcome string

// The outcomes.
const (
	// Erased means that the disk was erased and that the verification passed.
	Erased Outcome = "Erased"
	// LeftOut means that the plan does not touch the disk: it is kept, or it is no disk of the server.
	LeftOut Outcome = "LeftOut"
	// Failed means that the disk was not erased, or that the verification did not pass.
	Failed Outcome = "Failed"
)

// ErasedDisk is what became of a disk.
type ErasedDisk struct {
	Disk wire.DiskIdentity `json:"disk"`
	// Name is the kernel's name. Model, Vendor and Firmware are as the drive reports them. Transport is as in Disk.
	Name      string `json:"name"`
	Model     string `json:"model,omitempty"`
	Vendor    string `json:"vendor,omitempty"`
	Firmware  string `json:"firmware,omitempty"`
	Transport string `json:"transport,omitempty"`

	Outcome Outcome `json:"outcome"`
	// Method is the command or the technique, such as "NVMe sanitize, crypto erase". Class is the policy that the method meets on this disk, and Basis the
	// clause of the standard that this rests on. All are empty for a disk that was left out.
	Method string           `json:"method,omitempty"`
	Class  wire.ErasePolicy `json:"class,omitempty"`
	Basis  string           `json:"basis,omitempty"`
	// Verification is how the erasure was verified. It is nil if nothing was verified.
	Verification *Verification `json:"verification,omitempty"`
	StartedAt    time.Time     `json:"startedAt,omitzero"`
	EndedAt      time.Time     `json:"endedAt,omitzero"`
	// Message says why the disk was left out or failed, and what to do. Warnings do not change the outcome.
	Message  string   `json:"message,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Verification is how an erasure was verified.
type Verification struct {
	// Kind is what was compared: ReadBack (everything that was overwritten was read and is zero), Samples (samples were read before and after), or
	// DriveStatus (the drive reports success, and samples cannot be judged).
	Kind VerificationKind `json:"kind"`
	// Passed is the result.
	Passed bool `json:"passed"`
	// Samples is how many samples were read after the erasure, and Bytes how many bytes. Changed, Blank and Unreadable are how many of the samples have other
	// content than before, are zeros or ones, and cannot be read because the drive has no data there any more.
	Samples    int   `json:"samples,omitempty"`
	Bytes      int64 `json:"bytes,omitempty"`
	Changed    int   `json:"changed,omitempty"`
	Blank      int   `json:"blank,omitempty"`
	Unreadable int   `json:"unreadable,omitempty"`
}

// VerificationKind is what a verification compares.
type VerificationKind string

// The kinds of verification.
const (
	ReadBack    VerificationKind = "ReadBack"
	Samples     VerificationKind = "Samples"
	DriveStatus VerificationKind = "DriveStatus"
)
