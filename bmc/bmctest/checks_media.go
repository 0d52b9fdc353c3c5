package bmctest

import (
	"context"
	"errors"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// bootMediaCheck is the check that boots the server from Subject.BootMedia.
const bootMediaCheck = "the server boots from virtual media"

var mediaChecks = []check{
	{"an image can be inserted and ejected", bmc.CanVirtualMedia, withMedia(func(ctx context.Context, r *round, media bmc.VirtualMedia) error {
		for range 2 {
			if err := r.insert(ctx, media); err != nil {
				return err
			}
		}
		for range 2 {
			if err := r.ejectNow(ctx, media); err != nil {
				return err
			}
		}
		return nil
	})},
	{"an ejected image can be inserted again at once", bmc.CanVirtualMedia, withMedia(func(ctx context.Context, r *round, media bmc.VirtualMedia) error {
		for range 2 {
			if err := r.insert(ctx, media); err != nil {
				return err
			}
			if err := r.ejectNow(ctx, media); err != nil {
				return err
			}
		}
		return nil
	})},
	{bootMediaCheck, bmc.CanVirtualMedia, func(ctx context.Context, r *round) error {
		if r.BootMedia == nil {
			r.notef("not checked: no image to boot from was given")
			return nil
		}
		return r.bootFromMedia(ctx, *r.BootMedia)
	}},
}

// withMedia returns a check of the virtual media. Without Subject.Image it only lists the drives.
func withMedia(do func(context.Context, *round, bmc.VirtualMedia) error) func(context.Context, *round) error {
	return func(ctx context.Context, r *round) error {
		media, err := bmc.As[bmc.VirtualMedia](r.client, "Insert media")
		if err != nil {
			return err
		}
		if r.Image == "" {
			r.notef("no image was given: the drives are only listed")
			_, err := media.Media(ctx)
			return err
		}
		return do(ctx, r, media)
	}
}

// insert inserts Subject.Image. The driver returns after the BMC has reported it, so the drives are read once.
func (r *round) insert(ctx context.Context, media bmc.VirtualMedia) error {
	if err := media.InsertMedia(ctx, r.Image); err != nil {
		return err
	}
	return r.expectMedia(ctx, media, r.Image)
}

func (r *round) ejectNow(ctx context.Context, media bmc.VirtualMedia) error {
	if err := media.EjectMedia(ctx); err != nil {
		return err
	}
	return r.expectMedia(ctx, media, "")
}

// expectMedia is an error unless the drives contain the image, or no image if it is empty. That the BMC reports another URL is a note.
func (r *round) expectMedia(ctx context.Context, media bmc.VirtualMedia, image string) error {
	drives, err := media.Media(ctx)
	if err != nil {
		return err
	}
	inserted := 0
	for _, d := range drives {
		if d.Inserted {
			inserted++
		}
	}
	switch doubt := bmc.MediaDoubt(drives, image); {
	case image == "" && inserted > 0:
		return fmt.Errorf("the image was ejected, and %d virtual drives contain one", inserted)
	case image == "":
		return nil
	case inserted != 1:
		return errors.New("the image was inserted, and " + doubt)
	case doubt != "":
		r.notef("%s", doubt)
	}
	return nil
}

// bootFromMedia boots the server from virtual media in the order of the provider: power off, eject, insert, read back, override for one boot, power on. The
// proof is that the BMC reads the image after the power-on.
func (r *round) bootFromMedia(ctx context.Context, image BootMedia) error {
	media, err := bmc.As[bmc.VirtualMedia](r.client, "Insert media")
	if err != nil {
		return err
	}
	if err := r.setPower(ctx, bmc.PowerOff, r.client.ForceOff); err != nil {
		return err
	}
	if err := r.ejectNow(ctx, media); err != nil {
		return err
	}
	if err := media.InsertMedia(ctx, image.URL); err != nil {
		return err
	}
	if err := r.expectMedia(ctx, media, image.URL); err != nil {
		return err
	}
	result, err := r.setBoot(ctx, bmc.BootOverride{Target: bmc.BootCD, Mode: bmc.BootUEFI})
	if err != nil {
		return err
	}
	r.notef("method %q, doubt %q", result.Method, result.Doubt)
	before := r.settledBytes(ctx, image)
	r.runsMedia = true
	if err := r.setPower(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
		return err
	}
	bootErr := r.awaitMediaBoot(ctx, image, before, result)
	if err := r.setPower(ctx, bmc.PowerOff, r.client.ForceOff); err != nil {
		return errors.Join(bootErr, err)
	}
	r.runsMedia = false
	return errors.Join(bootErr, r.ejectNow(ctx, media))
}

// settledBytes returns how many bytes the BMC has read, after it has paused: many read a part of the image when it is inserted.
func (r *round) settledBytes(ctx context.Context, image BootMedia) int64 {
	const pause = 3 // polls
	ctx, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	last := readBytes(image)
	for same := 0; same < pause && image.Read != nil && sleep(ctx, r.Poll); same++ {
		if now := readBytes(image); now != last {
			last, same = now, -1
		}
	}
	return last
}

func readBytes(image BootMedia) int64 {
	if image.Read == nil {
		return 0
	}
	return image.Read()
}

// awaitMediaBoot waits until the BMC has read the image after the power-on. If that cannot be observed, it waits until the override has been used.
func (r *round) awaitMediaBoot(ctx context.Context, image BootMedia, before int64, set bmc.BootResult) error {
	ctx, cancel := context.WithTimeout(ctx, image.Timeout)
	defer cancel()
	for {
		override, err := r.client.BootOverride(ctx)
		used := err == nil && override.Target == bmc.BootNone
		read := readBytes(image) - before
		switch {
		case read > 0:
			r.notef("the BMC read the image after the power-on; the override was used: %t", used)
			return nil
		case image.Read == nil && used && set.Doubt == "" && set.ReadBack != nil:
			r.unverified = "the BMC reports that the override was used; whether the server read the image cannot be observed"
			return nil
		case image.Read != nil && before >= image.Size && used && set.Doubt == "" && set.ReadBack != nil:
			r.unverified = "the BMC read the whole image before the power-on, and reports that the override was used"
			return nil
		}
		if !sleep(ctx, r.Poll) {
			break
		}
	}
	if image.Read == nil {
		return fmt.Errorf("the BMC does not report within %s that the boot override was used", image.Timeout)
	}
	return fmt.Errorf("the BMC did not read the image within %s after the power-on; it read %d of %d bytes before", image.Timeout, before, image.Size)
}
