// Package fit computes the partition table that an image gets on a disk: with the data partition, and with the backup GPT at the end of the disk. It computes
// bytes and writes nothing: the order in which they are written is what package image guarantees.
//
// Every byte of an image that need not change stays: boot code, attributes, the order of entries, reserved fields.
package fit

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
)

// Align is the alignment of the data partition, and the size of what is held back at the beginning of a disk, in bytes.
const Align = 1 << 20

// ErrTooSmall means that the image and the data partition do not fit the disk.
var ErrTooSmall = errors.New("the disk is too small")

// Request is what GPT, MBR and None need to know.
type Request struct {
	// Head is the first MiB of the image, or the whole image if it is smaller.
	Head []byte
	// ImageSize and DiskSize are in bytes, Sector is the sector size of both.
	ImageSize, DiskSize int64
	Sector              int
	// DataSize is the size of the data partition in bytes, 0 for none. Unique is its unique GUID.
	DataSize int64
	Unique   gpt.GUID
}

// Layout is what an image becomes on a disk.
type Layout struct {
	// Head is the first MiB of the disk.
	Head []byte
	// Backup is the backup GPT with which the disk ends, and BackupOffset where it begins: the entries, and then a sector with the header. It is empty on
	// a disk without GPT, and BackupOffset is the size of the disk then.
	Backup       []byte
	BackupOffset int64
	// DataOffset and DataLength are the data partition in bytes, Number is its number. All are 0 without one.
	DataOffset, DataLength int64
	Number                 int
	// Stale is the offset of the header of the image's own backup GPT, or -1. On the disk it is in no place where a backup GPT may be.
	Stale int64
	// Spare is the offset of a sector which neither the image, nor a partition, nor the table uses, or -1.
	Spare int64
	// Warnings are for a person.
	Warnings []string
}

// GPT computes the table of an image with a GPT.
func GPT(r Request) (*Layout, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	t, err := gpt.Read(bytes.NewReader(r.Head), 1, int64(len(r.Head)), r.Sector)
	if err != nil {
		return nil, fmt.Errorf("the image has no valid GPT in its first MiB: %w", err)
	}
	sector := uint64(r.Sector)                                 //nolint:gosec // 512 or 4096
	end, err := endOfPartitions(t, uint64(r.ImageSize)/sector) //nolint:gosec // positive
	if err != nil {
		return nil, err
	}
	last := uint64(r.DiskSize)/sector - 1 //nolint:gosec // positive
	length := (uint64(len(t.Entries())) + sector - 1) / sector
	if last < length+2 || end > last-length {
		return nil, fmt.Errorf("%w for the backup GPT: the last partition ends at byte %d of %d", ErrTooSmall, end*sector, r.DiskSize)
	}
	layout := &Layout{Head: padded(r.Head), BackupOffset: int64((last - length) * sector), Spare: -1, Stale: -1} //nolint:gosec // below the disk's size
	if alternate := t.AlternateLBA; alternate > 1 && alternate < uint64(r.ImageSize)/sector {                    //nolint:gosec // positive
		for _, p := range t.Partitions() {
			if p.First <= alternate && alternate <= p.Last {
				return nil, fmt.Errorf("the GPT of the image has its backup header at sector %d, which is in partition %d: repair the image with sgdisk -e", alternate, p.Number)
			}
		}
		layout.Stale = int64(alternate * sector) //nolint:gosec // below the image's size
	}
	t.LastUsable = last - length - 1
	if r.DataSize == 0 {
		layout.leaveSpare(t, r)
	} else if err := layout.addPartition(t, r); err != nil {
		return nil, err
	}
	t.AlternateLBA = last
	if err := layout.protect(last); err != nil {
		return nil, err
	}
	layout.encode(t, r.Sector)
	return layout, nil
}

func (r Request) check() error {
	sector := int64(r.Sector)
	switch {
	case sector != 512 && sector != 4096:
		return fmt.Errorf("the sector size is %d, and not 512 or 4096", r.Sector)
	case r.ImageSize <= 0 || r.ImageSize%sector != 0 || int64(len(r.Head)) != min(r.ImageSize, Align):
		return fmt.Errorf("the image has %d bytes, %d of them in its head", r.ImageSize, len(r.Head))
	case r.DiskSize%sector != 0 || r.DiskSize > math.MaxInt64/2 || r.DataSize < 0 || r.DataSize > math.MaxInt64/2:
		return fmt.Errorf("the disk has %d bytes, and the data partition %d", r.DiskSize, r.DataSize)
	case r.DiskSize < max(r.ImageSize, 4*Align):
		return fmt.Errorf("%w: it has %d bytes, and the image %d", ErrTooSmall, r.DiskSize, r.ImageSize)
	default:
		return nil
	}
}

// endOfPartitions returns the first sector after all partitions.
func endOfPartitions(t *gpt.Table, sectors uint64) (uint64, error) {
	end := t.EntriesLBA
	for _, p := range t.Partitions() {
		if !p.Inside(sectors) {
			return 0, fmt.Errorf("partition %d has the sectors %d to %d, and the image has %d", p.Number, p.First, p.Last, sectors)
		}
		end = max(end, p.Last+1)
	}
	return end, nil
}

// leaveSpare leaves a sector before the backup GPT free, where the image leaves one.
func (l *Layout) leaveSpare(t *gpt.Table, r Request) {
	offset := int64(t.LastUsable) * int64(r.Sector) //nolint:gosec // below the disk's size
	if offset >= max(r.ImageSize, Align) {
		l.Spare = offset
		t.LastUsable--
	}
}

// addPartition adds the data partition, at the end of the disk.
func (l *Layout) addPartition(t *gpt.Table, r Request) error {
	limit := int64(t.LastUsable+1) * int64(r.Sector) //nolint:gosec // below the disk's size
	if err := l.place(r, limit); err != nil {
		return err
	}
	l.Number = freeNumber(t)
	if l.Number == 0 {
		return fmt.Errorf("all %d entries of the GPT are in use: the data partition needs one", t.Len())
	}
	if _, twice := t.Find(r.Unique); twice {
		return fmt.Errorf("the image has a partition with the GUID %s of the data partition", r.Unique)
	}
	first, sectors := uint64(l.DataOffset)/uint64(r.Sector), uint64(l.DataLength)/uint64(r.Sector) //nolint:gosec // positive
	t.Put(gpt.Partition{Number: l.Number, Type: gpt.DataType, GUID: r.Unique, First: first, Last: first + sectors - 1, Name: gpt.DataName})
	return nil
}

// freeNumber returns the number of the entry after the last partition, so that the number of no partition changes when tools sort entries. If the last entry is
// used, it returns the first unused one, or 0.
func freeNumber(t *gpt.Table) int {
	parts := t.Partitions()
	if len(parts) == 0 {
		return 1
	}
	if last := parts[len(parts)-1].Number; last < t.Len() {
		return last + 1
	}
	for i, p := range parts {
		if p.Number != i+1 {
			return i + 1
		}
	}
	return 0
}

// place computes where the data partition is: it ends at or before limit.
func (l *Layout) place(r Request, limit int64) error {
	sector := int64(r.Sector)
	length := (r.DataSize + sector - 1) / sector * sector
	offset := (limit - length) &^ (Align - 1)
	if length > limit || offset < max(r.ImageSize, Align) {
		return fmt.Errorf("%w: it has %d bytes, the image %d, and the data partition %d at the end of the disk", ErrTooSmall, r.DiskSize, r.ImageSize, length)
	}
	l.DataOffset, l.DataLength = offset, length
	return nil
}

// encode writes the table into the layout's head and backup.
func (l *Layout) encode(t *gpt.Table, sector int) {
	copy(l.Head[sector:2*sector], t.Header())
	copy(l.Head[int(t.EntriesLBA)*sector:], t.Entries()) //nolint:gosec // Read found them in the head

	backup := *t
	backup.MyLBA, backup.AlternateLBA, backup.EntriesLBA = t.AlternateLBA, t.MyLBA, uint64(l.BackupOffset)/uint64(sector) //nolint:gosec // positive
	sectors := (len(t.Entries()) + sector - 1) / sector
	l.Backup = make([]byte, sectors*sector, (sectors+1)*sector)
	copy(l.Backup, t.Entries())
	l.Backup = append(l.Backup, backup.Header()...)
}

// padded returns the head with the size of a disk's head.
func padded(head []byte) []byte {
	full := make([]byte, Align)
	copy(full, head)
	return full
}
