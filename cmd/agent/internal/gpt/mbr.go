package gpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// The parts of an MBR.
const (
	mbrEntries   = 446
	mbrEntry     = 16
	mbrSlots     = 4
	mbrSignature = 510
)

// The types of partitions in an MBR.
const (
	typeProtective = 0xee // a protective MBR (UEFI specification, 5.2.3)
	typeFAT32LBA   = 0x0c
	typeVMFS       = 0xfb
)

// maxLogical bounds the logical partitions of an MBR that are read.
const maxLogical = 128

// ReadMBR reads the partitions of an MBR, the logical ones included. For a disk without one the error is ErrNoTable. A damaged chain of logical partitions
// ends early.
func ReadMBR(r io.ReaderAt, size int64, sector int) ([]Partition, error) {
	first, err := readMBR(r, 0, size, sector)
	if err != nil {
		return nil, err
	}
	all := first
	for _, p := range first {
		if !p.Extended() {
			continue
		}
		seen := map[uint64]bool{}
		for at := p.First; !seen[at] && len(seen) < maxLogical; {
			seen[at] = true
			link, err := readMBR(r, at, size, sector)
			if err != nil {
				break
			}
			next := at
			for _, l := range link {
				switch l.Number {
				case 1:
					all = append(all, Partition{Number: 4 + len(seen), MBRType: l.MBRType, First: at + l.First, Last: at + l.Last})
				case 2:
					next = p.First + l.First
				}
			}
			at = next
		}
	}
	return all, nil
}

// readMBR reads the four entries of the MBR in a sector.
func readMBR(r io.ReaderAt, lba uint64, size int64, sector int) ([]Partition, error) {
	if sector < 512 || lba >= uint64(max(size, 0))/uint64(sector) {
		return nil, ErrNoTable
	}
	b := make([]byte, 512)
	if _, err := r.ReadAt(b, int64(lba)*int64(sector)); err != nil { //nolint:gosec // lba is below size/sector
		return nil, fmt.Errorf("cannot read sector %d: %w", lba, err)
	}
	if b[mbrSignature] != 0x55 || b[mbrSignature+1] != 0xaa {
		return nil, ErrNoTable
	}
	var all []Partition
	for i := range mbrSlots {
		e := b[mbrEntries+i*mbrEntry:][:mbrEntry]
		p := Partition{Number: i + 1, MBRType: e[4], First: uint64(binary.LittleEndian.Uint32(e[8:])), Attributes: uint64(e[0])}
		sectors := uint64(binary.LittleEndian.Uint32(e[12:]))
		if e[0]&^0x80 != 0 { // the status is 0x00 or 0x80: this is the boot sector of a file system
			return nil, ErrNoTable
		}
		if p.MBRType != 0 && sectors != 0 {
			p.Last = p.First + sectors - 1
			all = append(all, p)
		}
	}
	return all, nil
}

// Shared is vmfs for a partition of VMware in an MBR or a GPT, gpfs for one of IBM, and otherwise empty.
func (p Partition) Shared() string {
	if p.MBRType == typeVMFS {
		return "vmfs"
	}
	return p.Type.Shared()
}

// Extended is true for the partition of an MBR that begins with the chain of logical partitions.
func (p Partition) Extended() bool {
	return p.MBRType == 0x05 || p.MBRType == 0x0f || p.MBRType == 0x85
}

// Protective is true for the entry of an MBR that stands for a GPT.
func (p Partition) Protective() bool { return p.MBRType == typeProtective }

// FitMBR computes the table of an image with an MBR. The data partition gets a free primary slot with the type 0x0C (FAT32 with LBA): it has a FAT file
// system. An MBR has no GUIDs: the attempt is known by a record in the sector Spare.
func FitMBR(r Request) (*Layout, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	head := &memory{r.Head}
	parts, err := readMBR(head, 0, r.ImageSize, r.Sector)
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
	for slot := range mbrSlots {
		e := layout.Head[mbrEntries+slot*mbrEntry:][:mbrEntry]
		if used[slot+1] || e[4] != 0 {
			continue
		}
		clear(e)
		e[4] = typeFAT32LBA
		// The CHS addresses are the maximum, which means that they are not valid (as in a protective MBR).
		copy(e[1:], []byte{0xfe, 0xff, 0xff})
		copy(e[5:], []byte{0xfe, 0xff, 0xff})
		binary.LittleEndian.PutUint32(e[8:], uint32(layout.DataOffset/int64(r.Sector)))  //nolint:gosec // limit has 32 bits
		binary.LittleEndian.PutUint32(e[12:], uint32(layout.DataLength/int64(r.Sector))) //nolint:gosec // limit has 32 bits
		layout.Number = slot + 1
		return layout, nil
	}
	return nil, errors.New("all four primary partitions of the MBR are in use: the data partition needs one (make the image with a GPT)")
}

// FitNone computes the layout of an image without a partition table: it stays as it is, and no data partition can be added.
func FitNone(r Request) (*Layout, error) {
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
func protect(layout *Layout, last uint64) error {
	parts, err := readMBR(&memory{layout.Head}, 0, int64(len(layout.Head)), 512)
	if err != nil {
		return fmt.Errorf("the image has a GPT without a protective MBR: %w", err)
	}
	found := -1
	for _, p := range parts {
		if p.Protective() && p.First == 1 {
			found = p.Number - 1
		}
	}
	switch {
	case found < 0:
		return errors.New("the image has a GPT without a protective MBR: firmware ignores its partitions")
	case len(parts) > 1:
		layout.Warnings = append(layout.Warnings, "the image has a hybrid MBR: it stays as it is, without the data partition")
		return nil
	}
	e := layout.Head[mbrEntries+found*mbrEntry:][:mbrEntry]
	if binary.LittleEndian.Uint32(e[12:]) != math.MaxUint32 { // which stands for any size
		binary.LittleEndian.PutUint32(e[12:], uint32(min(last, math.MaxUint32))) //nolint:gosec // bounded
	}
	return nil
}

// memory reads from bytes. Unlike a bytes.Reader it is as large as it is asked to be: what is not there is zeros.
type memory struct{ content []byte }

func (m *memory) ReadAt(b []byte, off int64) (int, error) {
	clear(b)
	if off < int64(len(m.content)) {
		copy(b, m.content[off:])
	}
	return len(b), nil
}
