package redfish

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// maxDrives limits the virtual drives, because BMCs are not trusted. XCC has ten.
const maxDrives = 32

// media inserts images into the virtual drives of the system and of its BMC.
type media struct {
	service *service
	system  *system
	// timeout is Driver.MediaTimeout.
	timeout time.Duration
}

var _ bmc.VirtualMedia = &media{}

// drives reads the virtual drives of the system (Redfish 1.12 and later) or, without an optical one, also those of its managers.
func (m *media) drives(ctx context.Context) ([]resource, error) {
	drives := m.service.members(ctx, m.system.link("VirtualMedia"))
	if !slices.ContainsFunc(drives, isOptical) {
		for _, manager := range m.system.ownManagers(ctx) {
			drives = append(drives, m.service.members(ctx, manager.link("VirtualMedia"))...)
		}
	}
	return drives[:min(len(drives), maxDrives)], wrap("List the virtual drives", m.service.unavailable(ctx))
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
func (m *media) bootDrives(drives []resource) []resource {
	var named, withAction, others []resource
	for _, drive := range drives {
		if !isOptical(drive) {
			continue
		}
		if m.system.quirk.drive != nil && m.system.quirk.drive.MatchString(drive.id()) {
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
func (m *media) Media(ctx context.Context) ([]bmc.Media, error) {
	drives, err := m.readDrives(ctx)
	if err != nil {
		return nil, err
	}
	media := make([]bmc.Media, len(drives))
	for i, d := range drives {
		media[i] = bmc.Media{Name: d.id(), Types: d.texts("MediaTypes"), Inserted: isInserted(d), Image: d.text("Image")}
	}
	return media, nil
}

func (m *media) readDrives(ctx context.Context) ([]resource, error) {
	if err := m.system.refresh(ctx); err != nil {
		return nil, err
	}
	return m.drives(ctx)
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
func (m *media) EjectMedia(ctx context.Context) error {
	drives, err := m.readDrives(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, drive := range drives {
		errs = append(errs, m.eject(ctx, drive))
	}
	return errors.Join(errs...)
}
