package redfish

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// readDisks reads the drives of the system's storage and, in services older than Redfish 1.4, its simple storage.
func (n *inspection) readDisks(ctx context.Context) bmc.Fact {
	storage := n.service.list(ctx, n.system.link("Storage"))
	simple := n.system.link("SimpleStorage")
	if simple != "" && (storage.source == "" || storage.err != nil && !errors.Is(storage.err, errNoMembers)) && n.service.unavailable(ctx) == nil {
		if fact := n.readSimpleStorage(ctx, simple); fact.State == bmc.FactKnown || storage.source == "" {
			return fact
		}
	}
	drives := listing{source: storage.source, err: storage.err}
	drives.total = storage.total - len(storage.members) // a controller that could not be read may have any number of drives
	for _, controller := range storage.members {
		of := n.drivesOf(ctx, controller)
		drives.members, drives.total, drives.err = append(drives.members, of.members...), drives.total+of.total, cmp.Or(drives.err, of.err)
		// A controller that lists no drive and no empty slot may have drives that the BMC cannot see.
		drives.inconclusive = drives.inconclusive || of.total == 0 && strings.EqualFold(controller.text("Status", "State"), "Enabled")
	}
	sortByPath(drives.members)
	n.drives = drives
	serials, paths := map[string]bool{}, map[string]bool{}
	for _, d := range drives.members {
		disk := diskOf(d)
		disk.SizeBytes = n.diskSize(disk.SizeBytes)
		path := d.link("@odata.id")
		if isAbsent(d) || paths[path] || serials[disk.SerialNumber] {
			continue
		}
		paths[path], serials[disk.SerialNumber] = true, disk.SerialNumber != ""
		n.inventory.Disks = append(n.inventory.Disks, disk)
	}
	fact := drives.fact(len(n.inventory.Disks))
	if fact.State == bmc.FactAbsent && n.chassisHasDrive(ctx) {
		fact.State, fact.Message = bmc.FactUnknown, "the storage of the system has no drive, but its chassis has"
	}
	return fact
}

// chassisHasDrive is true if a chassis of the system lists a drive that is present.
func (n *inspection) chassisHasDrive(ctx context.Context) bool {
	for _, box := range n.ownership.readOwnChassis(ctx) {
		drives := n.service.list(ctx, box.link("Drives"))
		drives.members = append(drives.members, n.service.readAll(ctx, box.links("Links", "Drives"))...)
		if slices.ContainsFunc(drives.members, func(d resource) bool { return !isAbsent(d) }) {
			return true
		}
	}
	return false
}

// drivesOf reads the drives of a storage resource, which contains their links or the link to a collection.
func (n *inspection) drivesOf(ctx context.Context, storage resource) listing {
	paths := unique(storage.links("Drives"))
	if len(paths) == 0 {
		if collection := storage.link("Drives"); collection != "" {
			return n.service.list(ctx, collection)
		}
	}
	if len(paths) > 1 {
		_, _ = n.service.getExpanded(ctx, storage.link("@odata.id"), false) // after an error, they are read one by one
	}
	return listing{source: storage.link("@odata.id"), members: n.service.readAll(ctx, paths), total: len(paths)}
}

// minDiskBytes is less than any drive has.
const minDiskBytes = 1 << 30

// diskSize returns the size of a drive in bytes. A size that no drive has is unknown, unless the BMC is known to write MiB.
func (n *inspection) diskSize(size int64) int64 {
	switch {
	case size >= minDiskBytes:
		return size
	case n.system.quirk.mebibytes && size > 0:
		return size << 20
	default:
		return 0
	}
}

func diskOf(d resource) bmc.Disk {
	disk := bmc.Disk{
		Name: d.id(), Model: dropPlaceholder(d.text("Model")), SerialNumber: serialNumber(d.text("SerialNumber")), WWN: wwnOf(d), SizeBytes: d.count("CapacityBytes"),
		Health: healthOf(d),
	}
	switch media := strings.ToUpper(d.text("MediaType")); {
	case media == "SSD":
		disk.Rotational = new(false)
	case media == "HDD", media == "SMR", media == "SSHD", d.count("RotationSpeedRPM") > 0: // magnetic, shingled, and magnetic with a cache
		disk.Rotational = new(true)
	case strings.HasPrefix(strings.ToUpper(d.text("Protocol")), "NVME"):
		disk.Rotational = new(false)
	}
	return disk
}

// readSimpleStorage reads the devices of the simple storage, which also contains backplanes and empty bays.
func (n *inspection) readSimpleStorage(ctx context.Context, path string) bmc.Fact {
	controllers := n.service.list(ctx, path)
	devices := listing{source: path, err: controllers.err, total: controllers.total - len(controllers.members)}
	for _, controller := range controllers.members {
		devices.members = append(devices.members, controller.list("Devices")...)
	}
	devices.total += len(devices.members)
	n.drives = devices
	for _, d := range devices.members {
		if size := n.diskSize(d.count("CapacityBytes")); !isAbsent(d) && size > 0 {
			n.inventory.Disks = append(n.inventory.Disks, bmc.Disk{Name: d.text("Name"), Model: dropPlaceholder(d.text("Model")), SizeBytes: size, Health: healthOf(d)})
		}
	}
	return devices.fact(len(n.inventory.Disks))
}

// wwnOf returns the World Wide Name from the durable names of a drive (DSP0268, Resource.Identifier).
func wwnOf(drive resource) string {
	for _, identifier := range drive.list("Identifiers") {
		format := identifier.text("DurableNameFormat")
		if format == "NAA" || format == "EUI" {
			name := strings.ToLower(identifier.text("DurableName"))
			for _, prefix := range []string{"0x", "naa.", "eui."} {
				name = strings.TrimPrefix(name, prefix)
			}
			if name = strings.NewReplacer(":", "", "-", "", " ", "").Replace(name); name != "" {
				return name
			}
		}
	}
	return ""
}
