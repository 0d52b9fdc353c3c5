package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf16"
)

const (
	// entries is the number of entries of a GPT, and entrySize their size in bytes (UEFI specification, 5.3).
	entries, entrySize = 128, 128
	// partitionTable is where the entries of an MBR are, and partitionTableEnd where its signature is.
	partitionTable, partitionTableEnd = 446, 510
)

// types are the GUID of each type in the byte order of a GPT, and its number in an MBR.
var types = map[Type]struct {
	guid [16]byte
	mbr  byte
}{
	// 21686148-6449-6E6F-744E-656564454649, which is text.
	BIOSBoot: {guid: [16]byte([]byte("Hah!IdontNeedEFI"))},
	// C12A7328-F81F-11D2-BA4B-00A0C93EC93B
	ESP: {guid: [16]byte{0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b}, mbr: 0xef},
	// 0FC63DAF-8483-4772-8E79-3D69D8477DE4
	Linux: {guid: [16]byte{0xaf, 0x3d, 0xc6, 0x0f, 0x83, 0x84, 0x72, 0x47, 0x8e, 0x79, 0x3d, 0x69, 0xd8, 0x47, 0x7d, 0xe4}, mbr: 0x83},
}

// gptHeader is the header of a GPT (UEFI specification, 5.3.2).
type gptHeader struct {
	Signature             [8]byte
	Revision, HeaderSize  uint32
	HeaderCRC, Reserved   uint32
	Here, Other           uint64
	FirstUsable, LastUsed uint64
	Disk                  [16]byte
	EntriesAt             uint64
	Entries, EntrySize    uint32
	EntriesCRC            uint32
}

// gptEntry is an entry of a GPT (UEFI specification, 5.3.3).
type gptEntry struct {
	Type, Unique [16]byte
	First, Last  uint64
	Attributes   uint64
	Name         [36]uint16
}

// guid is an identifier that is the same in every build of an image: version 8 of RFC 9562, with the version and the variant at their places in
// the byte order of a GPT.
func (i *Image) guid(of string) [16]byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", of, i.Size, i.SectorSize))
	id := [16]byte(sum[:16])
	id[7] = id[7]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}

// writeGPT writes a protective MBR, whose code first has, and both copies of the GPT.
func (i *Image) writeGPT(to io.WriterAt, first []byte) error {
	sectors := uint64(i.Size / i.SectorSize)                 //nolint:gosec // positive
	table := uint64(entries * entrySize / int(i.SectorSize)) //nolint:gosec // 4 or 32
	list := make([]gptEntry, entries)
	for _, p := range i.Partitions {
		e := &list[p.Number-1]
		e.Type, e.Unique = types[p.Type].guid, i.guid(fmt.Sprintf("partition %d", p.Number))
		e.First, e.Last = uint64(p.start/i.SectorSize), uint64((p.start+p.size)/i.SectorSize)-1 //nolint:gosec // positive
		copy(e.Name[:], utf16.Encode([]rune(p.Type)))
	}
	var encoded bytes.Buffer
	if err := binary.Write(&encoded, binary.LittleEndian, list); err != nil {
		return err
	}
	header := gptHeader{
		Signature: [8]byte([]byte("EFI PART")), Revision: 0x10000, HeaderSize: 92, Here: 1, Other: sectors - 1,
		FirstUsable: 2 + table, LastUsed: sectors - table - 2, Disk: i.guid("disk"), EntriesAt: 2, Entries: entries, EntrySize: entrySize,
		EntriesCRC: crc32.ChecksumIEEE(encoded.Bytes()),
	}
	backup := header
	backup.Here, backup.Other, backup.EntriesAt = header.Other, header.Here, sectors-1-table
	for _, h := range []gptHeader{header, backup} {
		content, err := h.encode()
		if err != nil {
			return err
		}
		if _, err := to.WriteAt(content, int64(h.Here)*i.SectorSize); err != nil { //nolint:gosec // within the image
			return err
		}
		if _, err := to.WriteAt(encoded.Bytes(), int64(h.EntriesAt)*i.SectorSize); err != nil { //nolint:gosec // within the image
			return err
		}
	}
	// One partition of the type EE protects the disk (UEFI specification, 5.2.3).
	setMBREntry(first, 0, 0xee, 1, min(sectors-1, 0xffffffff), false)
	_, err := to.WriteAt(first, 0)
	return err
}

func (h gptHeader) encode() ([]byte, error) {
	for {
		var out bytes.Buffer
		if err := binary.Write(&out, binary.LittleEndian, h); err != nil {
			return nil, err
		}
		if h.HeaderCRC != 0 {
			return out.Bytes(), nil
		}
		// The checksum is over the header with a checksum of zero.
		h.HeaderCRC = crc32.ChecksumIEEE(out.Bytes())
	}
}

// writeMBR writes an MBR, whose code first has. The first partition is the active one.
func (i *Image) writeMBR(to io.WriterAt, first []byte) error {
	if i.SectorSize != 512 {
		return errors.New("an MBR is only written for sectors of 512 bytes: no BIOS boots another")
	}
	id := i.guid("disk")
	copy(first[440:444], id[:]) // the signature of the disk
	for n, p := range i.Partitions {
		if p.Number > 4 || types[p.Type].mbr == 0 {
			return fmt.Errorf("partition %d of the type %s cannot be in an MBR", p.Number, p.Type)
		}
		setMBREntry(first, p.Number-1, types[p.Type].mbr, uint64(p.start/512), uint64(p.size/512), n == 0) //nolint:gosec // positive
	}
	_, err := to.WriteAt(first, 0)
	return err
}

// setMBREntry writes an entry. The addresses in cylinders, heads and sectors are those of a sector that they cannot express, except for the
// first, 0/0/2, which a protective MBR has.
func setMBREntry(mbr []byte, number int, kind byte, start, size uint64, active bool) {
	entry := mbr[partitionTable+16*number:][:16]
	if active {
		entry[0] = 0x80
	}
	copy(entry[1:], []byte{0xfe, 0xff, 0xff, kind, 0xff, 0xff, 0xff})
	if kind == 0xee {
		copy(entry[1:4], []byte{0, 2, 0})
	}
	binary.LittleEndian.PutUint32(entry[8:], uint32(start)) //nolint:gosec // images have at most some GiB
	binary.LittleEndian.PutUint32(entry[12:], uint32(size)) //nolint:gosec // bounded by the caller
	mbr[partitionTableEnd], mbr[partitionTableEnd+1] = 0x55, 0xaa
}
