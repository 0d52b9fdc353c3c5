package disk

import (
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/diskname"
)

// Is is true for the disk with an identity, also by another name in by-path. A disk with another size is another one.
func (d Disk) Is(id wire.DiskIdentity) bool {
	have := d.ID()
	if id.ByPath == d.ByPathAlias {
		have.ByPath = d.ByPathAlias
	}
	return (id.SizeBytes == 0 || id.SizeBytes == have.SizeBytes) && diskname.Same(id, have)
}

// findPaths finds the devices that are one disk. The kernel joins the paths of an NVMe disk itself. A SAS disk with two ports, or a LUN behind two ports of a
// storage system, is two devices, and multipathd, which would join them, is no part of the ramdisk.
func findPaths(all []Disk) {
	for i := range all {
		for j := range all {
			if i != j && samePhysical(all[i], all[j]) {
				all[i].Paths = append(all[i].Paths, all[j].Name)
			}
		}
		slices.Sort(all[i].Paths)
	}
}

// samePhysical is true for two devices that are one disk: by the WWN, by the kernel's identifier (which tells the namespaces of an NVMe disk apart), or
// otherwise by serial number, model and size. Storage systems may give one serial number to several LUNs, which have different WWNs.
func samePhysical(a, b Disk) bool {
	switch {
	case a.WWN != "" && b.WWN != "":
		return a.WWN == b.WWN
	case a.wwid != "" && b.wwid != "":
		return a.wwid == b.wwid
	default:
		return diskname.SameSerial(a.SerialNumber, b.SerialNumber) && a.Model == b.Model && a.SizeBytes == b.SizeBytes
	}
}
