package sanitize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/method"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// area is a part of a disk, in bytes.
type area struct{ offset, length int64 }

// part is how much is written or read in one call. All disks have a buffer of that size at the same time.
const part = mib

// zeros is what is written. It is never changed.
var zeros = make([]byte, part)

// removeBootstrapData overwrites the ranges of the plan. One that fails is a warning: what follows erases them too, or the disk fails.
func (u *unit) removeBootstrapData(ctx context.Context) {
	for _, t := range u.open() {
		if len(t.ranges) == 0 {
			continue
		}
		device := u.openBefore(t)
		if device == nil {
			continue
		}
		var err error
		sector := int64(device.SectorSize())
		for _, r := range t.ranges {
			start := r.offset / sector * sector
			end := min((r.offset+r.length+sector-1)/sector*sector, device.Size())
			if start < end {
				err = errors.Join(err, u.overwrite(ctx, device, area{start, end - start}, func(int64) {}))
			}
		}
		if err = errors.Join(err, device.Close()); err != nil {
			t.warnf("the bootstrap data could not be overwritten before the erase: %v", err)
		}
	}
}

// overwriteAll overwrites each open target.
func (u *unit) overwriteAll(ctx context.Context, c method.Candidate) {
	for _, t := range u.open() {
		size, err := u.overwriteDisk(ctx, t, c)
		switch {
		case errors.Is(err, errReadBack):
			t.erased(c, agent.Verification{Kind: agent.ReadBack}, err)
		case errors.Is(err, disk.ErrBusy):
			t.fail(err)
		case err != nil:
			t.failedBy(c, err)
		default:
			t.erased(c, agent.Verification{Kind: agent.ReadBack, Passed: true, Bytes: size}, nil)
		}
	}
}

func (u *unit) overwriteDisk(ctx context.Context, t *target, c method.Candidate) (size int64, err error) {
	device, err := u.o.Open(t.disk)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	size = device.Size()
	if size <= 0 || size != t.disk.Size {
		return 0, fmt.Errorf("it has %d bytes now, and had %d bytes", size, t.disk.Size)
	}
	started, last := time.Now(), time.Time{}
	return size, u.overwrite(ctx, device, area{0, size}, func(done int64) {
		if now := time.Now(); now.Sub(last) >= reportInterval {
			last = now
			u.board.set(progressOf(t.disk, c.Name, int(done/2*100/size), started))
		}
	})
}

// reportInterval is between two reports of an overwrite.
const reportInterval = time.Second

// flushInterval is how much is written between two flushes: a flush of all that fits into the memory of a server takes longer than a disk may take to answer.
const flushInterval = 1 << 30

// errReadBack means that a disk returns other data than the zeros that were written.
var errReadBack = errors.New("it returns other data than the zeros that were written: replace it")

// overwrite writes zeros, flushes, and reads them back from the medium. It does not use the drive's command that zeroes, which may be a discard: that proves what the
// drive returns, and not what is on its medium. done counts the bytes that were written and those that were read.
func (u *unit) overwrite(ctx context.Context, device disk.Device, a area, done func(int64)) error {
	err := u.parts(ctx, a, func(offset, length int64) error {
		if _, err := device.WriteAt(zeros[:length], offset); err != nil {
			return fmt.Errorf("cannot write at %d: %w", offset, err)
		}
		end := offset - a.offset + length
		if end%flushInterval < length || end == a.length {
			u.beat(ioPatience)
			if err := device.Flush(); err != nil {
				return fmt.Errorf("cannot flush: %w", err)
			}
		}
		done(end)
		return nil
	})
	if err != nil {
		return err
	}
	buffer := make([]byte, part)
	return u.parts(ctx, a, func(offset, length int64) error {
		if n, err := device.ReadAt(buffer[:length], offset); int64(n) < length {
			return fmt.Errorf("cannot read back at %d: %w", offset, err)
		}
		if at := slices.IndexFunc(buffer[:length], func(b byte) bool { return b != 0 }); at >= 0 {
			return fmt.Errorf("at %d: %w", offset+int64(at), errReadBack)
		}
		done(a.length + offset - a.offset + length)
		return nil
	})
}

// parts calls a function for each part of an area.
func (u *unit) parts(ctx context.Context, a area, do func(offset, length int64) error) error {
	for at := int64(0); at < a.length; at += part {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		u.beat(ioPatience)
		if err := do(a.offset+at, min(part, a.length-at)); err != nil {
			return err
		}
	}
	return nil
}
