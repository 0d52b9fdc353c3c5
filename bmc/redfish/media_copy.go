package redfish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// awaitImage waits until the drive reports an image that is not a previous one. While the BMC copies the image, it waits up to maxCopyWaits times as long.
func (m *media) awaitImage(ctx context.Context, drive resource, image, task string, previous []string) error {
	for waits := 1; ; waits++ {
		stale, last := false, drive
		err := m.awaitDrive(ctx, drive, func(now resource) bool {
			// A URL that is shorter than the wanted one may be a shortened form, which is the same for all images.
			reported := now.text("Image")
			stale = isInserted(now) && reported != image && len(reported) >= len(image) && slices.Contains(previous, reported)
			last = now
			return isInserted(now) && !stale
		})
		switch {
		case !errors.Is(err, errUnchanged):
			return err
		case stale:
			return fmt.Errorf("%w: it still reports the previous image", err)
		}
		runs, failure := m.service.readTask(ctx, task)
		switch {
		case failure != nil:
			return failure
		case !runs && !isCopied(last, image):
			return fmt.Errorf("%w: it is empty. Check that the BMC reaches the address of the image from its network", err)
		case waits == maxCopyWaits:
			return fmt.Errorf("the BMC accepted the request, and still copies the image after %s. Check how fast the BMC reads from the address of the image",
				time.Duration(waits)*m.timeout)
		}
	}
}

// isCopied is true for a drive that has the image and reports that it is not inserted yet.
func isCopied(drive resource, image string) bool {
	return mayBeCopied(drive) && drive.text("Image") == image
}

// mayBeCopied is true for a drive that has an image and reports that it is not inserted: the BMC still copies the image, or keeps the text after an eject.
func mayBeCopied(drive resource) bool {
	return drive.has("Inserted") && !drive.boolean("Inserted") && drive.text("Image") != "" && !notConnected(drive)
}
