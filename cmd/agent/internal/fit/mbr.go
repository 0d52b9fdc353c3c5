package fit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
)

// typeFAT32LBA is the type of the data partition in an MBR.
const typeFAT32LBA = 0x0c

// MBR computes the table of an image with an MBR. The data partition gets a free primary slot with the type 0x0C (FAT32 with LBA): it has a FAT file
// system. An MBR has no GUIDs: the attempt is known by a record in the sector Spare.
func MBR(r Request) (*Layout, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	parts, err := gpt.ParseMBR(r.Head)
	if err != nil {
		return nil, fmt.Errorf("the image has no valid MBR: %w", err)
	}
	used := map[int]bool{}
	for _, p := range parts {
		if p.Last >= uint64(r.ImageSize)/uint64(r.Sector) { //nolint:gosec // positive
			return nil, fmt.Errorf("partition %d has the sectors %d to %d, and the image has %d", p.Number, p.First, p.Last, r.ImageSize/int64(r.Sector))
		}
		used[p.Number] = true
	}
	layout := &Layout{Head: padded(r.Head), BackupOffset: r.DiskSize, Stale: -1, Spare: -1}
	if spare := r.DiskSize - int64(r.Sector); spare >= max(r.ImageSize, Align) {
		layout.Spare = spare
	}
	if r.DataSize == 0 {
		return layout, nil
	}
	// A sector number has 32 bits.
	limit := min(r.DiskSize-int64(r.Sector), (math.MaxUint32+1)*int64(r.Sector))
	if err := layout.place(r, limit); err != nil {
		return nil, err
	}
	for number := 1; number <= gpt.MBREntries; number++ {
		e := gpt.MBREntry(layout.Head, number)
		if used[number] || e[4] != 0 {
			continue
		}
		clear(e)
		e[4] = typeFAT32LBA
		// The CHS addresses are the maximum, which means that they are not valid (as in a protective MBR).
		copy(e[1:], []byte{0xfe, 0xff, 0xff})
		copy(e[5:], []byte{0xfe, 0xff, 0xff})
		binary.LittleEndian.PutUint32(e[8:], uint32(layout.DataOffset/int64(r.Sector)))  //nolint:gosec // limit has 32 bits
		binary.LittleEndian.PutUint32(e[12:], uint32(layout.DataLength/int64(r.Sector))) //nolint:gosec // limit has 32 bits
		layout.Number = number
		return layout, nil
	}
	return nil, errors.New("all four primary partitions of the MBR are in use: the data partition needs one (make the image with a GPT)")
}

// None computes the layout of an image without a partition table: it stays as it is, and no data partition can be added.
func None(r Request) (*Layout, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if r.DataSize != 0 {
		return nil, errors.New("the image has no partition table: a data partition cannot be added (use the data source None, or an image with a GPT)")
	}
	layout := &Layout{Head: padded(r.Head), BackupOffset: r.DiskSize, Stale: -1, Spare: -1}
	if spare := r.DiskSize - int64(r.Sector); spare >= max(r.ImageSize, Align) {
		layout.Spare = spare
	}
	return layout, nil
}

// protect sets the size of the protective MBR to that of the disk. last is the last sector. A hybrid MBR stays as it is.
func (l *Layout) protect(last uint64) error {
	parts, err := gpt.ParseMBR(l.Head)
	if err != nil {
		return fmt.Errorf("the image has a GPT without a protective MBR: %w", err)
	}
	protective := 0
	for _, p := range parts {
		if p.ProtectsGPT() {
			protective = p.Number
		}
	}
	switch {
	case protective == 0:
		return errors.New("the image has a GPT without a protective MBR: firmware ignores its partitions")
	case len(parts) > 1:
		l.Warnings = append(l.Warnings, "the image has a hybrid MBR: it stays as it is, without the data partition")
		return nil
	}
	e := gpt.MBREntry(l.Head, protective)
	if binary.LittleEndian.Uint32(e[12:]) != math.MaxUint32 { // which stands for any size
		binary.LittleEndian.PutUint32(e[12:], uint32(min(last, math.MaxUint32))) //nolint:gosec // bounded
	}
	return nil
}
