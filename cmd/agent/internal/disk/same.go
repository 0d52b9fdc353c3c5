package disk

import (
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/diskname"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Is is true for the disk with an ID: all that is known on both sides is the same. The path identifies a disk only if neither serial number nor WWN do, because
// cables are moved.
func (d Disk) Is(id agent.DiskID) bool { return SameID(id, d.ID(), d.ByPathAlias) }

// SameID is true if a disk with the ID have, and with another name in by-path, is the one with the ID want.
func SameID(want, have agent.DiskID, alias string) bool {
	if want.Size != 0 && have.Size != want.Size {
		return false
	}
	wantWWN, haveWWN := diskname.NormalWWN(want.WWN), diskname.NormalWWN(have.WWN)
	sameSerial, sameWWN := diskname.SameSerial(want.Serial, have.Serial), diskname.SameWWN(want.WWN, have.WWN)
	switch {
	case want.Serial == "" && wantWWN == "":
		return want.ByPath != "" && (have.ByPath == want.ByPath || alias == want.ByPath)
	case want.Serial != "" && have.Serial != "" && !sameSerial, wantWWN != "" && haveWWN != "" && !sameWWN:
		return false
	default:
		return sameSerial || sameWWN
	}
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
		return diskname.SameSerial(a.Serial, b.Serial) && a.Model == b.Model && a.Size == b.Size
	}
}
