package redfish

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// maxDrives limits the virtual drives, because BMCs are not trusted. XCC has ten.
const maxDrives = 32

// drives reads the virtual drives of the system (Redfish 1.12 and later) or, without an optical one, also those of its managers.
func (c *conn) drives(ctx context.Context) ([]resource, error) {
	drives := c.members(ctx, c.system.link("VirtualMedia"))
	if !slices.ContainsFunc(drives, isOptical) {
		for _, manager := range c.ownManagers(ctx) {
			drives = append(drives, c.members(ctx, manager.link("VirtualMedia"))...)
		}
	}
	return drives[:min(len(drives), maxDrives)], wrap("List the virtual drives", c.unavailable(ctx))
}

// isOptical is true for a drive that images can boot from: a CD, or a DVD, which Cisco has alone. A drive without media types is recognized by its name.
func isOptical(drive resource) bool {
	types := drive.texts("MediaTypes")
	name := strings.ToUpper(drive.id() + " " + drive.text("Name"))
	return slices.Contains(types, "CD") || slices.Contains(types, "DVD") ||
		len(types) == 0 && (strings.Contains(name, "CD") || strings.Contains(name, "DVD"))
}

// insertAction returns the path of a drive's action that inserts an image, or "".
func insertAction(drive resource) string {
	return drive.link("Actions", "#VirtualMedia.InsertMedia", "target")
}

// bootDrives returns the drives that an image may be inserted into, the most likely one first: drives without the action follow, because they take no
// image (OpenBMC's slots of its web console; openstack/ironic cisco-c845a-vmedia-fix) or take it by a change of their properties (old versions of XCC).
// If the quirks name drives and there are such drives, the others are left out: a BMC may take an image into a drive that does not boot.
func (c *conn) bootDrives(drives []resource) []resource {
	var named, withAction, others []resource
	for _, drive := range drives {
		if !isOptical(drive) {
			continue
		}
		if c.quirk.drive != nil && c.quirk.drive.MatchString(drive.id()) {
			named = append(named, drive)
		}
		if insertAction(drive) != "" {
			withAction = append(withAction, drive)
		} else {
			others = append(others, drive)
		}
	}
	if len(named) > 0 {
		return named
	}
	return slices.Concat(withAction, others)
}

// Media lists the virtual drives.
func (c *conn) Media(ctx context.Context) ([]bmc.Media, error) {
	drives, err := c.readDrives(ctx)
	if err != nil {
		return nil, err
	}
	media := make([]bmc.Media, len(drives))
	for i, d := range drives {
		media[i] = bmc.Media{Name: d.id(), Types: d.texts("MediaTypes"), Inserted: isInserted(d), Image: d.text("Image")}
	}
	return media, nil
}

func (c *conn) readDrives(ctx context.Context) ([]resource, error) {
	if err := c.refresh(ctx); err != nil {
		return nil, err
	}
	return c.drives(ctx)
}

// isInserted is true if a drive contains an image. NotConnected means that it is empty, although Supermicro keeps Image after an eject
// (ansible-collections/community.general#4839). Old services do not have Inserted.
func isInserted(drive resource) bool {
	return claimsImage(drive) && !notConnected(drive)
}

func notConnected(drive resource) bool {
	return strings.EqualFold(drive.text("ConnectedVia"), "NotConnected")
}

// claimsImage is true if a drive contains an image, or properties of it contradict each other.
func claimsImage(drive resource) bool {
	if drive.has("Inserted") {
		return drive.boolean("Inserted")
	}
	return drive.text("Image") != ""
}

// EjectMedia empties every drive.
func (c *conn) EjectMedia(ctx context.Context) error {
	drives, err := c.readDrives(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, drive := range drives {
		errs = append(errs, c.eject(ctx, drive))
	}
	return errors.Join(errs...)
}
