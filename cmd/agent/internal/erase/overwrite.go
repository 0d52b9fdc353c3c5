package erase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
)

// area is a part of a disk, in bytes.
type area struct{ offset, length int64 }

func (a area) end() int64 { return a.offset + a.length }

// ioSize is how much is written or read in one call. All disks have a buffer of that size at the same time.
const ioSize = mib

// zeros is what is written. It is never changed.
var zeros = make([]byte, ioSize)

// removeBootstrapData overwrites the ranges of the plan. One that fails is a warning: what follows erases them too, or the disk fails.
func (u *unit) removeBootstrapData(ctx context.Context) {
	for _, t := range u.pending() {
		if len(t.ranges) == 0 {
			continue
		}
		device := u.openBefore(t)
		if device == nil {
			continue
		}
		var err error
		for _, a := range inSectors(t.ranges, device) { // one after another: a bad sector in one must not save the others
			err = errors.Join(err, u.overwrite(ctx, device, []area{a}, func(int64) {}))
		}
		if err = errors.Join(err, device.Close()); err != nil {
			t.warnf("the bootstrap data could not be overwritten before the erase: %v", err)
		}
	}
}

// overwriteAll overwrites each pending target: all of it, or with the method Metadata what makes it bootable or readable.
func (u *unit) overwriteAll(ctx context.Context, m Method) {
	for _, t := range u.pending() {
		bytes, err := u.overwriteTarget(ctx, t, m)
		switch {
		case errors.Is(err, errReadBack):
			t.erased(m, wire.ErasureVerification{Kind: wire.ReadBack}, err)
		case errors.Is(err, disk.ErrBusy):
			t.fail(err)
		case err != nil:
			t.failedBy(m, err)
		default:
			t.erased(m, wire.ErasureVerification{Kind: wire.ReadBack, Passed: true, Bytes: bytes}, nil)
		}
	}
}

// overwriteTarget returns how many bytes were overwritten and read back.
func (u *unit) overwriteTarget(ctx context.Context, t *target, m Method) (bytes int64, err error) {
	device, err := u.o.Open(t.disk)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	if size := device.Size(); size < int64(device.SectorSize()) || size != t.disk.SizeBytes {
		return 0, fmt.Errorf("it has %d bytes now, and had %d bytes", size, t.disk.SizeBytes)
	}
	if m.Command == metadata {
		return u.eraseMetadata(ctx, device, t.ranges)
	}
	size, started, last := device.Size(), time.Now(), time.Time{}
	return size, u.overwrite(ctx, device, []area{{0, size}}, func(done int64) {
		if now := time.Now(); now.Sub(last) >= reportInterval {
			last = now
			u.progress.set(progressOf(t.disk, m.Name, int(done/2*100/size), started))
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
func (u *unit) overwrite(ctx context.Context, device disk.Device, areas []area, done func(int64)) error {
	var written, read, unflushed int64
	err := u.parts(ctx, areas, func(offset, length int64) error {
		if _, err := device.WriteAt(zeros[:length], offset); err != nil {
			return fmt.Errorf("cannot write at %d: %w", offset, err)
		}
		if unflushed += length; unflushed >= flushInterval {
			unflushed = 0
			if err := u.flush(device); err != nil {
				return err
			}
		}
		written += length
		done(written)
		return nil
	})
	if err != nil || written == 0 {
		return err
	}
	if err := u.flush(device); err != nil {
		return err
	}
	buffer := make([]byte, ioSize)
	return u.parts(ctx, areas, func(offset, length int64) error {
		if n, err := device.ReadAt(buffer[:length], offset); int64(n) < length {
			return fmt.Errorf("cannot read back at %d: %w", offset, err)
		}
		if at := slices.IndexFunc(buffer[:length], func(b byte) bool { return b != 0 }); at >= 0 {
			return fmt.Errorf("at %d: %w", offset+int64(at), errReadBack)
		}
		read += length
		done(written + read)
		return nil
	})
}

func (u *unit) flush(device disk.Device) error {
	u.extendDeadline(ioTimeout)
	if err := device.Flush(); err != nil {
		return fmt.Errorf("cannot flush: %w", err)
	}
	return nil
}

// parts calls a function for each part of areas.
func (u *unit) parts(ctx context.Context, areas []area, do func(offset, length int64) error) error {
	for _, a := range areas {
		for at := int64(0); at < a.length; at += ioSize {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			u.extendDeadline(ioTimeout)
			if err := do(a.offset+at, min(ioSize, a.length-at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// inSectors extends areas to whole sectors of a device, sorts them and joins those that touch.
func inSectors(areas []area, device disk.Device) []area {
	sector, out := int64(device.SectorSize()), make([]area, 0, len(areas))
	for _, a := range areas {
		start := a.offset / sector * sector
		end := min((a.end()+sector-1)/sector*sector, device.Size())
		if a.length > 0 && start < end {
			out = append(out, area{start, end - start})
		}
	}
	return merge(out)
}
