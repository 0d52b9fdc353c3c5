// Package erasure has the rules of BareMetalErasures, the signed records of erasures: which erasure may be recorded, what is signed, and which records are
// superseded. It does no I/O.
//
// # What is signed
//
// The signature is Ed25519 (RFC 8032) over the bytes that Canonical returns. These are a JSON object with two fields: "format" has the value of Format, and "erasure"
// has all fields of the spec except the signature. Its form is that of the JSON Canonicalization Scheme (RFC 8785): UTF-8 without white space, the fields of each
// object sorted by their names, and only the escapes that JSON needs. In one point it differs: integers are written with all digits, also above 2^53. Fields
// without a value are absent. Times are RFC 3339 in UTC, to the second.
//
// Nothing of metadata is signed. Therefore the signature remains valid when `clusterctl move` or a backup creates the object again with another UID.
//
// A field that a later release adds is absent from older records, so it does not change their bytes. A release that changes the bytes of existing records must
// use another Format.
package erasure

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// kept is how many records of a host are kept.
const kept = 2

// The lengths of parts of names, in characters. A name of an object has at most 253: host, hash, a number of at most 10 digits, and two hyphens.
const (
	hashLength     = 10
	maxHostInNames = 253 - hashLength - 10 - 2
)

// UnprovenError is why an erasure must not be recorded: what the agent reported does not prove it. To try again does not help.
type UnprovenError struct {
	// Disk identifies the disk that is not proven to be erased. It is empty if the error is not about one disk.
	Disk string
	// Reason is what the proof lacks.
	Reason string
}

// Error implements error.
func (e *UnprovenError) Error() string {
	if e.Disk == "" {
		return "the erasure is not proven: " + e.Reason
	}
	return fmt.Sprintf("the erasure of the disk %s is not proven: %s", e.Disk, e.Reason)
}

// Check returns an UnprovenError if a report does not prove an erasure: Unproven says something of a disk, or an erasure of all disks names no disk. The CRD has the
// same rules.
func Check(report *v1alpha1.ErasureReport) error {
	switch {
	case !report.Policy.Reaches(wire.PolicyMetadata):
		return &UnprovenError{Reason: fmt.Sprintf("the policy %q erases nothing", report.Policy)}
	case report.Policy.Reaches(wire.PolicyClear) && len(report.Disks) == 0:
		return &UnprovenError{Reason: fmt.Sprintf("the agent reported no disk for the policy %s", report.Policy)}
	}
	for i := range report.Disks {
		if reason := Unproven(&report.Disks[i].DiskErasure, report.Policy); reason != "" {
			return &UnprovenError{Disk: diskName(&report.Disks[i]), Reason: reason}
		}
	}
	return nil
}

// Unproven returns what a disk in the report of an erasure lacks; empty if it was erased, or left out. It is the only judge of a disk: the boot server asks it about what
// an agent reports, and the recorder about what it signs.
func Unproven(d *wire.DiskErasure, policy wire.ErasePolicy) string {
	switch {
	case d.Disk == wire.DiskIdentity{}:
		return "it cannot be identified"
	case d.Outcome == wire.LeftOut:
		return ""
	case d.Outcome != wire.Erased:
		return fmt.Sprintf("its outcome is %q", d.Outcome)
	case d.Verification == nil:
		return "it was not verified"
	case !d.Verification.Passed:
		return "its verification did not pass"
	case !slices.Contains([]wire.VerificationKind{wire.ReadBack, wire.Samples, wire.DriveStatus}, d.Verification.Kind):
		return fmt.Sprintf("its verification has the unknown kind %q", d.Verification.Kind)
	case d.Method == "":
		return "the agent did not report the method"
	case !d.Class.Reaches(policy):
		return fmt.Sprintf("its class is %q, which is below the policy %s", d.Class, policy)
	case d.Disk.SerialNumber == "" && d.Disk.WWN == "" && d.Disk.ByPath == "":
		return "it cannot be identified"
	}
	return ""
}

// diskName identifies a disk for people: by its serial number, or otherwise by what is known.
func diskName(d *v1alpha1.ErasedDisk) string {
	switch {
	case d.Disk.SerialNumber != "":
		return fmt.Sprintf("with the serial number %q", d.Disk.SerialNumber)
	case d.Disk.WWN != "":
		return fmt.Sprintf("with the WWN %q", d.Disk.WWN)
	default:
		return fmt.Sprintf("%q", cmp.Or(d.Disk.ByPath, d.Name, "without a name"))
	}
}

// Name returns the name of the record of an erasure: the host, a hash of host and claim, and the number of the boot. An erasure has one name, so it is recorded
// once.
func Name(host, claimID string, bootNumber int32) string {
	hash := sha256.Sum256([]byte(host + "\x00" + claimID))
	prefix := host[:min(len(host), maxHostInNames)]
	return fmt.Sprintf("%s-%s-%d", strings.TrimRight(prefix, ".-"), hex.EncodeToString(hash[:])[:hashLength], bootNumber)
}

// HostLabel returns the value of v1alpha1.ErasureHostLabel for a host: its name, or a hash of a name that is too long for a label.
func HostLabel(host string) string {
	if len(host) <= validation.LabelValueMaxLength {
		return host
	}
	hash := sha256.Sum256([]byte(host))
	return hex.EncodeToString(hash[:])[:validation.LabelValueMaxLength]
}

// Superseded returns the records of a host that may be deleted: all but the current one and the one before it. They are ordered by recordedTime and not by number: a
// host that is deleted and registered again counts its boots from 1. Records of other hosts are never returned.
func Superseded(records []v1alpha1.BareMetalErasure, current *v1alpha1.BareMetalErasure) []v1alpha1.BareMetalErasure {
	others := slices.DeleteFunc(slices.Clone(records), func(r v1alpha1.BareMetalErasure) bool {
		return r.Namespace != current.Namespace || r.Spec.HostName != current.Spec.HostName || r.Name == current.Name
	})
	SortNewestFirst(others)
	return others[min(len(others), kept-1):]
}

// SortNewestFirst sorts records of a host: the one that was recorded last is the first.
func SortNewestFirst(records []v1alpha1.BareMetalErasure) {
	slices.SortFunc(records, func(a, b v1alpha1.BareMetalErasure) int {
		return cmp.Or(b.Spec.RecordedTime.Compare(a.Spec.RecordedTime.Time), cmp.Compare(b.Spec.BootNumber, a.Spec.BootNumber), cmp.Compare(a.Name, b.Name))
	})
}
