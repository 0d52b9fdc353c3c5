package image

import (
	"errors"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
)

// commit makes the disk bootable. It takes no context: after the permission it is finished, or it fails. LBA 0 is written when everything else is on the
// medium, and the backup GPT after it.
func (w *writer) commit() error {
	sector := int64(w.Device.SectorSize())
	head := w.layout.Head
	first := []part{{2 * sector, head[2*sector:]}}
	if len(w.layout.Backup) == 0 && len(w.tail) > 0 {
		first = append(first, part{w.tailAt, w.tail}) // the end of an image without a GPT
	}
	for _, parts := range [][]part{first, {{sector, head[sector : 2*sector]}}, {{0, head[:sector]}}} {
		if err := w.writeFlushed(parts); err != nil {
			return w.uncommitted(err)
		}
	}
	w.result.Committed = true
	if backup := w.layout.Backup; len(backup) > 0 {
		header := int64(len(backup)) - sector
		if err := w.writeFlushed([]part{{w.tailAt, backup[:header]}, {w.tailAt + header, backup[header:]}}); err != nil {
			return failure.New(wire.ReasonDiskFailed, "the disk boots, and its backup GPT could not be written: %w", err)
		}
	}
	return nil
}

// part is what is written to a place.
type part struct {
	offset  int64
	content []byte
}

// writeFlushed writes parts, flushes, and reads them back.
func (w *writer) writeFlushed(parts []part) error {
	for _, p := range parts {
		if _, err := w.Device.WriteAt(p.content, p.offset); err != nil {
			return w.diskFailed("write", p.offset, err)
		}
	}
	if err := w.Device.Flush(); err != nil {
		return w.diskFailed("flush", parts[0].offset, err)
	}
	for _, p := range parts { // a disk that loses a write must not get the next one
		if err := w.expect(p.content, p.offset); err != nil {
			return err
		}
	}
	return nil
}

// uncommitted is a failure before LBA 0 is known to be on the medium. It tries to make LBA 0 empty, and says what is known. Only a disk that does not boot loses
// the rest too: one that may boot needs its bootstrap data.
func (w *writer) uncommitted(err error) error {
	sector := w.Device.SectorSize()
	first := make([]byte, sector)
	known := w.Device.ZeroRange(0, int64(sector)) == nil && w.Device.Flush() == nil && w.readDisk(first, 0) == nil && isZero(first)
	if known {
		return errors.Join(failure.New(wire.ReasonDiskFailed, "the commit was allowed, and the disk does not boot: its first sector is empty: %w", err), w.empty())
	}
	return failure.New(wire.ReasonDiskFailed, "the commit was allowed, and it is unknown whether the disk boots: %w", err)
}
