// Package disk knows the disks of a server: which there are, what they carry, which of them a plan may touch, which one it means, and how one is written.
//
// Reading facts and writing go through parameters (a sysfs tree, an io.ReaderAt, the interface Device), so that tests use trees and disks of their own.
package disk

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Disk is a disk, with what it takes to decide about it.
type Disk struct {
	// InspectedDisk are the facts that an inspection shows. Its Signatures are types, its Protected is empty until Select or Protected decides.
	wire.InspectedDisk

	// Node is the device node, such as /dev/sda.
	Node string
	// ByPathAlias is another name that udev gives in /dev/disk/by-path: of ATA disks the one without the target (pci-0000:00:1f.2-ata-1 for ...-ata-1.0),
	// of virtio disks the one with the prefix virtio-. Empty for none.
	ByPathAlias string
	// Mounted are the mount points of the disk, its partitions and what holds them. A swap area has the name [swap].
	Mounted []string
	// VirtualMedia is true for a disk that a BMC emulates.
	VirtualMedia bool
	// Zoned is true for a host-managed zoned disk, which takes no random writes.
	Zoned bool
	// Found are the signatures. Unreadable is why they are unknown, or only known in part: a disk that cannot be read is not one without signatures.
	Found      []Signature
	Unreadable string
	// PartitionNames are the labels of the partitions of a GPT.
	PartitionNames []string
	// Paths are the names of other devices that are the same disk, reached by another path.
	Paths []string

	// wwid is the identifier by which the kernel tells disks apart, also where it is no WWN.
	wwid string
}

// ID identifies the disk across boots.
func (d Disk) ID() wire.DiskIdentity {
	return wire.DiskIdentity{SerialNumber: d.SerialNumber, WWN: d.WWN, ByPath: d.ByPath, SizeBytes: d.SizeBytes}
}

// Remote is true for a disk that is reached over a network: a LUN of a storage system, which other servers may use.
func (d Disk) Remote() bool {
	return slices.Contains([]wire.DiskTransport{wire.TransportFibreChannel, wire.TransportISCSI, wire.TransportNVMeOverFabrics}, d.Transport)
}

// DataLabels are the labels of the file systems with bootstrap data: of NoCloud and of a configuration drive, in lower case.
var DataLabels = []string{"cidata", "config-2"}

// HasData is true for a disk on which the file system with the bootstrap data is where a range says, in a partition, which in a GPT has the GUID that was made for this server.
func (d Disk) HasData(r agent.DiskRange) bool {
	return r.Length > 0 && slices.ContainsFunc(d.Found, func(s Signature) bool {
		ours := s.PartitionGUID == "" || strings.EqualFold(s.PartitionGUID, r.PartitionGUID)
		return s.Type == "vfat" && s.Partition > 0 && ours && slices.Contains(DataLabels, strings.ToLower(s.Label)) && r.Offset <= s.Offset && s.Offset < r.Offset+512
	})
}

// Sector is the size of a logical sector in bytes, 512 where it is unknown.
func (d Disk) Sector() int { return max(int(d.LogicalSectorBytes), 512) }

// Device is a disk that is open for writing. Offsets and lengths are multiples of SectorSize. After an error of Flush it is unknown what of the writes
// before it is on the medium.
type Device interface {
	io.ReaderAt
	io.WriterAt
	// ZeroRange writes zeros. It may take long: callers ask for parts.
	ZeroRange(offset, length int64) error
	// Flush returns when all that was written is on the medium, and drops caches: a read after it comes from the medium.
	Flush() error
	Size() int64
	SectorSize() int
	Close() error
}

// ErrBusy means that something else holds a device.
var ErrBusy = errors.New("the device is busy")

// zeros is what is written where a device has no command that zeroes.
var zeros = make([]byte, 1<<20)

// writeZeros writes zeros with WriteAt.
func writeZeros(w io.WriterAt, offset, length int64) error {
	for length > 0 {
		n := min(length, int64(len(zeros)))
		if _, err := w.WriteAt(zeros[:n], offset); err != nil {
			return err
		}
		offset, length = offset+n, length-n
	}
	return nil
}
