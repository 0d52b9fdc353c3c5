package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// drives reads the virtual drives of the system (Redfish 1.12 and later) or, without an optical one, also those of its managers.
func (c *conn) drives(ctx context.Context) ([]resource, error) {
	drives := c.members(ctx, c.system.link("VirtualMedia"))
	if !slices.ContainsFunc(drives, c.isOptical) {
		for _, manager := range c.ownManagers(ctx) {
			drives = append(drives, c.members(ctx, manager.link("VirtualMedia"))...)
		}
	}
	return drives, wrap("List the virtual drives", c.unavailable(ctx))
}

// isOptical is true for a drive that can boot images. A drive without media types is recognized by its name.
func (c *conn) isOptical(drive resource) bool {
	if c.quirk.drive != nil && !c.quirk.drive.MatchString(drive.id()) {
		return false
	}
	types := drive.texts("MediaTypes")
	name := strings.ToUpper(drive.id() + " " + drive.text("Name"))
	return slices.Contains(types, "CD") || slices.Contains(types, "DVD") ||
		len(types) == 0 && (strings.Contains(name, "CD") || strings.Contains(name, "DVD"))
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

// isInserted is true if a drive contains an image. Old services do not have Inserted, and some keep the image's name after an eject.
func isInserted(drive resource) bool {
	if drive.has("Inserted") {
		return drive.boolean("Inserted")
	}
	return drive.text("Image") != ""
}

// InsertMedia puts an image into the first optical drive.
func (c *conn) InsertMedia(ctx context.Context, image string) error {
	const op = "Insert the image"
	drives, err := c.readDrives(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(drives, c.isOptical)
	if i < 0 {
		return &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New("the BMC has no virtual optical drive")}
	}
	drive := drives[i]
	if isInserted(drive) {
		if drive.text("Image") == image {
			return nil
		}
		if err := c.eject(ctx, drive); err != nil {
			return wrap("Eject the image that is in the drive", err)
		}
	}
	if err := c.insert(ctx, drive, image); err != nil {
		return wrap(op, err)
	}
	return c.awaitDrive(ctx, op, drive, true)
}

// insert tries the insert action with the parameters that BMCs require in addition to the image, the action with only the image, and a
// PATCH of the property, until the BMC accepts one.
func (c *conn) insert(ctx context.Context, drive resource, image string) error {
	c.readManager(ctx) // its firmware's version may have an entry in the table
	action := drive.link("Actions", "#VirtualMedia.InsertMedia", "target")
	bodies := []map[string]any{
		{"Image": image, "Inserted": true, "WriteProtected": true},
		{"Image": image},
		// DSP0268, VirtualMedia.InsertMedia: some services require these parameters although the URL implies them.
		{"Image": image, "TransferProtocolType": strings.ToUpper(strings.SplitN(image, ":", 2)[0]), "TransferMethod": "Stream"},
	}
	if c.quirk.imageOnly {
		bodies = bodies[1:]
	}
	if action != "" {
		for _, body := range bodies {
			_, _, err := c.request(ctx, http.MethodPost, action, body, nil)
			if err == nil || !refused(err) {
				return err
			}
		}
	}
	return c.patch(ctx, drive.link("@odata.id"), map[string]any{"Image": image, "Inserted": true})
}

// EjectMedia empties every drive.
func (c *conn) EjectMedia(ctx context.Context) error {
	drives, err := c.readDrives(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, drive := range drives {
		if !isInserted(drive) {
			continue
		}
		err := wrap("Eject the image in "+drive.id(), c.eject(ctx, drive))
		if err == nil {
			err = c.awaitDrive(ctx, "Eject the image", drive, false)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c *conn) eject(ctx context.Context, drive resource) error {
	if action := drive.link("Actions", "#VirtualMedia.EjectMedia", "target"); action != "" {
		// The body is an empty object, because some BMCs refuse a request without a body.
		_, _, err := c.request(ctx, http.MethodPost, action, map[string]any{}, nil)
		if err == nil || !refused(err) {
			return err
		}
	}
	return c.patch(ctx, drive.link("@odata.id"), map[string]any{"Image": nil, "Inserted": false})
}

// awaitDrive waits until the drive shows the change, because BMCs fetch images in the background.
func (c *conn) awaitDrive(ctx context.Context, op string, drive resource, inserted bool) error {
	const timeout = 30 * time.Second
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		now, err := c.get(ctx, drive.link("@odata.id"))
		if err == nil && isInserted(now) == inserted {
			return nil
		}
		if c.fatal != nil {
			return wrap(op, c.fatal)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if err != nil {
				return wrap(op, err)
			}
			return &bmc.Error{Kind: bmc.Failed, Op: op, Err: fmt.Errorf("the BMC accepted the request, but its drive did not change within %s", timeout)}
		}
	}
}
