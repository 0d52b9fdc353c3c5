// Package cleaning decides how thoroughly the disks of a host are erased when a machine releases it.
package cleaning

import (
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/diskname"
)

// Effective returns the policy for the disks of a host: the strongest of that of the host, of what the machine that has it asked for (claimed), and of the
// provider's minimum. claimed and minimum may be empty or None, which ask for nothing. Manual of a host stays Manual, because a person decides then how the disks
// are wiped. The empty policy is Metadata of the disks that the provider wrote.
func Effective(host, claimed, minimum wire.ErasePolicy) wire.ErasePolicy {
	if host == wire.PolicyManual {
		return host
	}
	policy := host
	for _, asked := range []wire.ErasePolicy{claimed, minimum} {
		if asked != "" && asked.Reaches(policy) {
			policy = asked
		}
	}
	return policy
}

// Erases is true for a policy with which the agent erases disks.
func Erases(policy wire.ErasePolicy) bool { return policy.Reaches("") }

// AllDisks is true for a policy that erases all disks, also those that the provider did not write.
func AllDisks(policy wire.ErasePolicy) bool { return policy.Reaches(wire.PolicyMetadata) }

// IsMinimum is true for a policy that the provider can have as its minimum: None, Metadata, Clear or Purge.
func IsMinimum(policy wire.ErasePolicy) bool {
	return policy == wire.PolicyNone || AllDisks(policy)
}

// Kept is true for a disk that spec.storage.keep of its host names by its serial number or WWN, in the forms that the agent accepts. Labels are not compared: only the
// agent can read them.
func Kept(storage *v1alpha1.HostStorage, serial, wwn string) bool {
	return storage != nil && slices.ContainsFunc(storage.Keep, func(k wire.KeptDisk) bool {
		return diskname.IsNamed(wire.DiskIdentity{SerialNumber: serial, WWN: wwn}, k)
	})
}

// Unpurgeable are the disks of a host that cannot be purged.
type Unpurgeable struct {
	Disks []v1alpha1.NotPurgeableDisk
	// More is how many there are besides Disks. Nothing else is known of them.
	More int
}

// Any is true if there is one.
func (u Unpurgeable) Any() bool { return len(u.Disks) > 0 || u.More > 0 }

// NotPurgeable returns the disks of a host that cannot be purged, as far as the agent's inspection (found, which may be nil) shows that. Disks that
// spec.storage.keep names by serial number or WWN are not among them.
func NotPurgeable(host *v1alpha1.BareMetalHostSpec, found *v1alpha1.InspectionSummary) Unpurgeable {
	var u Unpurgeable
	if found == nil || host.Inspection != v1alpha1.InspectionAgent && host.Inspection != v1alpha1.InspectionBoth {
		return u
	}
	for _, d := range found.NotPurgeable {
		if !Kept(host.Storage, d.SerialNumber, d.WWN) {
			u.Disks = append(u.Disks, d)
		}
	}
	u.More = max(int(found.NotPurgeableCount)-len(found.NotPurgeable), 0)
	return u
}

// maxDisks is the maximum number of disks of a claim, as in the API.
const maxDisks = 64

// Disks returns the disks of a claim: those in the report of the agent that are disks of the server. Removable, read-only and USB disks may be virtual media. It is
// empty if there are more than a claim can name: an erasure then finds no disk that is missing.
func Disks(report *v1alpha1.BareMetalInspectionSpec) []wire.DiskIdentity {
	var disks []wire.DiskIdentity
	for i := range report.Disks {
		d := &report.Disks[i]
		id := wire.DiskIdentity{SerialNumber: d.SerialNumber, WWN: d.WWN, SizeBytes: d.SizeBytes}
		if d.SerialNumber == "" && d.WWN == "" {
			id.ByPath = d.ByPath
		}
		if IsServerDisk(d) && (id.SerialNumber != "" || id.WWN != "" || id.ByPath != "") {
			disks = append(disks, id)
		}
	}
	if len(disks) > maxDisks {
		return nil
	}
	return disks
}

// IsServerDisk is true for a disk in the report of the agent that is one of the server, and not virtual media or a LUN of a storage network.
func IsServerDisk(d *wire.InspectedDisk) bool {
	switch d.Transport {
	case wire.TransportUSB, wire.TransportFibreChannel, wire.TransportISCSI, wire.TransportNVMeOverFabrics:
		return false
	default:
		return d.SizeBytes > 0 && !d.Removable && !d.ReadOnly
	}
}
