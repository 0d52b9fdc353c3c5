package gpt

import (
	"encoding/binary"
	"fmt"
	"io"
)

// MBREntries is the number of entries of an MBR: those of its primary partitions.
const MBREntries = 4

// The parts of an MBR (UEFI specification, 5.2.1).
const (
	mbrSize      = 512
	mbrEntries   = 446
	mbrEntry     = 16
	mbrSignature = 510
)

const (
	typeProtective = 0xee // UEFI specification, 5.2.3
	typeEFISystem  = 0xef
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

// readMBR reads the entries of the MBR in a sector.
func readMBR(r io.ReaderAt, lba uint64, size int64, sector int) ([]Partition, error) {
	if sector < mbrSize || lba >= uint64(max(size, 0))/uint64(sector) {
		return nil, ErrNoTable
	}
	b := make([]byte, mbrSize)
	if _, err := r.ReadAt(b, int64(lba)*int64(sector)); err != nil { //nolint:gosec // lba is below size/sector
		return nil, fmt.Errorf("cannot read sector %d: %w", lba, err)
	}
	return ParseMBR(b)
}

// ParseMBR returns the primary partitions of the MBR with which a disk begins. Its only error is ErrNoTable. The boot sector of a file system has the signature
// of an MBR too, but code where an MBR has the status of a partition.
func ParseMBR(head []byte) ([]Partition, error) {
	if len(head) < mbrSize || head[mbrSignature] != 0x55 || head[mbrSignature+1] != 0xaa {
		return nil, ErrNoTable
	}
	var all []Partition
	for number := 1; number <= MBREntries; number++ {
		e := MBREntry(head, number)
		p := Partition{Number: number, MBRType: e[4], First: uint64(binary.LittleEndian.Uint32(e[8:])), Attributes: uint64(e[0])}
		sectors := uint64(binary.LittleEndian.Uint32(e[12:]))
		if e[0]&^0x80 != 0 { // the status is 0x00 or 0x80
			return nil, ErrNoTable
		}
		if p.MBRType != 0 && sectors != 0 {
			p.Last = p.First + sectors - 1
			all = append(all, p)
		}
	}
	return all, nil
}

// MBREntry returns the bytes of an entry, counted from 1, of the MBR with which a disk begins.
func MBREntry(head []byte, number int) []byte {
	return head[mbrEntries+(number-1)*mbrEntry:][:mbrEntry]
}

// Shared is vmfs for a partition of VMware in an MBR or a GPT, gpfs for one of IBM, and otherwise empty.
func (p Partition) Shared() string {
	if p.MBRType == typeVMFS {
		return "vmfs"
	}
	return p.Type.shared()
}

// EFISystem is true for an EFI system partition, in an MBR or a GPT.
func (p Partition) EFISystem() bool { return p.Type == systemType || p.MBRType == typeEFISystem }

// Extended is true for the partition of an MBR that begins with the chain of logical partitions.
func (p Partition) Extended() bool {
	return p.MBRType == 0x05 || p.MBRType == 0x0f || p.MBRType == 0x85
}

// Protective is true for the entry of an MBR that stands for a GPT.
func (p Partition) Protective() bool { return p.MBRType == typeProtective }

// ProtectsGPT is true for the entry of a protective MBR that begins at the header of the GPT. Without one, firmware ignores the GPT (UEFI specification, 5.2.3).
func (p Partition) ProtectsGPT() bool { return p.Protective() && p.First == 1 }
