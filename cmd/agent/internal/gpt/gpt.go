// Package gpt reads the partition tables of images and disks (GPT and MBR), and computes the table that an image gets on a disk: with the data partition,
// and with the backup GPT at the end of the disk. It computes bytes and writes nothing: the order in which they are written is what package image guarantees.
//
// Every byte of an image that need not change stays: boot code, attributes, the order of entries, reserved fields.
package gpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"unicode/utf16"
)

// The limits of what is accepted. Input is hostile, and what real tools write is far below: 128 entries of 128 bytes.
const (
	minHeader  = 92
	minEntry   = 128
	maxEntry   = 4096
	maxEntries = 512 << 10
)

// The offsets of fields in a header (UEFI specification, table 5-5).
const (
	offSize        = 12
	offCRC         = 16
	offMy          = 24
	offAlternate   = 32
	offFirstUsable = 40
	offLastUsable  = 48
	offDisk        = 56
	offEntries     = 72
	offCount       = 80
	offEntrySize   = 84
	offEntriesCRC  = 88
)

// The offsets of fields in an entry (table 5-6).
const (
	offType       = 0
	offUnique     = 16
	offFirst      = 32
	offLast       = 40
	offAttributes = 48
	offName       = 56
	lenName       = 72
)

const signature = "EFI PART"

// ErrNoTable means that there is no table.
var ErrNoTable = errors.New("there is no partition table")

// Table is a GPT: one of its two copies.
type Table struct {
	// MyLBA is where this header is, and AlternateLBA where the other one is.
	MyLBA, AlternateLBA uint64
	// FirstUsable and LastUsable are the first and the last sector that a partition may have.
	FirstUsable, LastUsable uint64
	// EntriesLBA is where the entries begin.
	EntriesLBA uint64
	Disk       GUID

	sector    int
	header    []byte // the whole sector
	entries   []byte
	entrySize int
}

// Partition is a partition of a GPT or an MBR.
type Partition struct {
	// Number is that of the kernel: the entry, counted from 1.
	Number int
	// Type and GUID are of a GPT.
	Type, GUID GUID
	// MBRType is of an MBR.
	MBRType byte
	// First and Last are sectors.
	First, Last uint64
	Attributes  uint64
	Name        string
}

// Read reads the GPT with the header in the sector lba. size is that of the disk or image in bytes, and sector its sector size. Without a header the error
// is ErrNoTable. Another error means that there is one which is damaged.
func Read(r io.ReaderAt, lba uint64, size int64, sector int) (*Table, error) {
	if sector < 512 || size < int64(sector) || lba >= uint64(size)/uint64(sector) { //nolint:gosec // positive
		return nil, ErrNoTable
	}
	header := make([]byte, sector)
	if _, err := r.ReadAt(header, int64(lba)*int64(sector)); err != nil { //nolint:gosec // lba is below size/sector
		return nil, fmt.Errorf("cannot read sector %d: %w", lba, err)
	}
	t, err := parseHeader(header, lba)
	if err != nil {
		return nil, err
	}
	length, sectors := int64(len(t.entries)), uint64(size)/uint64(sector)                              //nolint:gosec // positive
	if t.EntriesLBA < 2 || t.EntriesLBA > sectors || int64(t.EntriesLBA)*int64(sector) > size-length { //nolint:gosec // bounded just before
		return nil, fmt.Errorf("the entries of the GPT in sector %d are outside of the disk: they begin in sector %d", lba, t.EntriesLBA)
	}
	if _, err := r.ReadAt(t.entries, int64(t.EntriesLBA)*int64(sector)); err != nil { //nolint:gosec // bounded just before
		return nil, fmt.Errorf("cannot read the entries of the GPT: %w", err)
	}
	if want, got := binary.LittleEndian.Uint32(header[offEntriesCRC:]), crc32.ChecksumIEEE(t.entries); got != want {
		return nil, fmt.Errorf("the entries of the GPT have the CRC %08x, and the header says %08x", got, want)
	}
	return t, nil
}

// parseHeader reads a header. The entries have their size, and no content.
func parseHeader(header []byte, lba uint64) (*Table, error) {
	if string(header[:len(signature)]) != signature {
		return nil, ErrNoTable
	}
	length := binary.LittleEndian.Uint32(header[offSize:])
	if length < minHeader || int(length) > len(header) {
		return nil, fmt.Errorf("the header of the GPT in sector %d has %d bytes", lba, length)
	}
	if want, got := binary.LittleEndian.Uint32(header[offCRC:]), headerCRC(header); got != want {
		return nil, fmt.Errorf("the header of the GPT in sector %d has the CRC %08x, and says %08x", lba, got, want)
	}
	count, size := uint64(binary.LittleEndian.Uint32(header[offCount:])), uint64(binary.LittleEndian.Uint32(header[offEntrySize:]))
	if size < minEntry || size > maxEntry || size&(size-1) != 0 || count == 0 || count*size > maxEntries {
		return nil, fmt.Errorf("the GPT has %d entries of %d bytes", count, size)
	}
	t := &Table{
		MyLBA:        binary.LittleEndian.Uint64(header[offMy:]),
		AlternateLBA: binary.LittleEndian.Uint64(header[offAlternate:]),
		FirstUsable:  binary.LittleEndian.Uint64(header[offFirstUsable:]),
		LastUsable:   binary.LittleEndian.Uint64(header[offLastUsable:]),
		EntriesLBA:   binary.LittleEndian.Uint64(header[offEntries:]),
		Disk:         GUID(header[offDisk : offDisk+16]),
		sector:       len(header),
		header:       header,
		entries:      make([]byte, count*size),
		entrySize:    int(size),
	}
	if t.MyLBA != lba {
		return nil, fmt.Errorf("the header of the GPT in sector %d says that it is in sector %d", lba, t.MyLBA)
	}
	return t, nil
}

// headerCRC computes the CRC of a header, with the field for it as zeros.
func headerCRC(header []byte) uint32 {
	length := binary.LittleEndian.Uint32(header[offSize:])
	crc := crc32.ChecksumIEEE(header[:offCRC])
	crc = crc32.Update(crc, crc32.IEEETable, make([]byte, 4))
	return crc32.Update(crc, crc32.IEEETable, header[offCRC+4:length])
}

// Partitions returns the partitions in the order of their entries.
func (t *Table) Partitions() []Partition {
	var all []Partition
	for i := range t.count() {
		e := t.entry(i)
		p := Partition{
			Number:     i + 1,
			Type:       GUID(e[offType : offType+16]),
			GUID:       GUID(e[offUnique : offUnique+16]),
			First:      binary.LittleEndian.Uint64(e[offFirst:]),
			Last:       binary.LittleEndian.Uint64(e[offLast:]),
			Attributes: binary.LittleEndian.Uint64(e[offAttributes:]),
			Name:       name(e[offName : offName+lenName]),
		}
		if p.Type != (GUID{}) {
			all = append(all, p)
		}
	}
	return all
}

// Find returns the partition with the unique GUID.
func (t *Table) Find(unique GUID) (Partition, bool) {
	for _, p := range t.Partitions() {
		if p.GUID == unique {
			return p, true
		}
	}
	return Partition{}, false
}

// EntriesLength is the size of the entries in bytes.
func (t *Table) EntriesLength() int64 { return int64(len(t.entries)) }

func (t *Table) count() int { return len(t.entries) / t.entrySize }

func (t *Table) entry(i int) []byte { return t.entries[i*t.entrySize : (i+1)*t.entrySize] }

func name(field []byte) string {
	var units []uint16
	for i := 0; i < len(field); i += 2 {
		u := binary.LittleEndian.Uint16(field[i:])
		if u == 0 {
			break
		}
		units = append(units, u)
	}
	return string(utf16.Decode(units))
}
