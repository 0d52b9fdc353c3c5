// Package gpt reads the partition tables of images and disks: GPT and MBR. It is their only reader, so the boot server, which refuses an image before a server
// is powered on for it, and the agent, which writes and erases disks, cannot disagree about a table.
//
// The input is hostile: each size has a bound, and no structure is followed more often than its bound says.
package gpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"unicode/utf16"
)

// The limits of what is accepted. What real tools write is far below: 128 entries of 128 bytes.
const (
	minHeader  = 92
	minEntry   = 128
	maxEntry   = 4096
	maxEntries = 512 << 10
)

// The offsets of fields in a header (UEFI specification, table 5-5).
const (
	offSize       = 12
	offCRC        = 16
	offMy         = 24
	offAlternate  = 32
	offLastUsable = 48
	offEntries    = 72
	offCount      = 80
	offEntrySize  = 84
	offEntriesCRC = 88
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

// DamagedError means that there is a table, and that it cannot be used.
type DamagedError struct{ Message string }

func (e *DamagedError) Error() string { return e.Message }

func damaged(format string, args ...any) error { return &DamagedError{fmt.Sprintf(format, args...)} }

// Table is a GPT: one of its two copies.
type Table struct {
	// MyLBA is where this header is, and AlternateLBA where the other one is.
	MyLBA, AlternateLBA uint64
	// LastUsable is the last sector that a partition may have.
	LastUsable uint64
	// EntriesLBA is where the entries begin.
	EntriesLBA uint64

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
// is ErrNoTable, and for one that is damaged a *DamagedError. Another error means that the disk cannot be read.
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
		return nil, damaged("the entries of the GPT in sector %d are outside of the disk: they begin in sector %d", lba, t.EntriesLBA)
	}
	if _, err := r.ReadAt(t.entries, int64(t.EntriesLBA)*int64(sector)); err != nil { //nolint:gosec // bounded just before
		return nil, fmt.Errorf("cannot read the entries of the GPT: %w", err)
	}
	if want, got := binary.LittleEndian.Uint32(header[offEntriesCRC:]), crc32.ChecksumIEEE(t.entries); got != want {
		return nil, damaged("the entries of the GPT have the CRC %08x, and the header says %08x", got, want)
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
		return nil, damaged("the header of the GPT in sector %d has %d bytes", lba, length)
	}
	if want, got := binary.LittleEndian.Uint32(header[offCRC:]), headerCRC(header); got != want {
		return nil, damaged("the header of the GPT in sector %d has the CRC %08x, and says %08x", lba, got, want)
	}
	count, size := uint64(binary.LittleEndian.Uint32(header[offCount:])), uint64(binary.LittleEndian.Uint32(header[offEntrySize:]))
	if size < minEntry || size > maxEntry || size&(size-1) != 0 || count == 0 || count*size > maxEntries {
		return nil, damaged("the GPT has %d entries of %d bytes", count, size)
	}
	t := &Table{
		MyLBA:        binary.LittleEndian.Uint64(header[offMy:]),
		AlternateLBA: binary.LittleEndian.Uint64(header[offAlternate:]),
		LastUsable:   binary.LittleEndian.Uint64(header[offLastUsable:]),
		EntriesLBA:   binary.LittleEndian.Uint64(header[offEntries:]),
		header:       header,
		entries:      make([]byte, count*size),
		entrySize:    int(size),
	}
	if t.MyLBA != lba {
		return nil, damaged("the header of the GPT in sector %d says that it is in sector %d", lba, t.MyLBA)
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
	for number := 1; number <= t.Len(); number++ {
		e := t.entry(number)
		p := Partition{
			Number:     number,
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

// Len is the number of entries, used or not.
func (t *Table) Len() int { return len(t.entries) / t.entrySize }

// Entries are all entries, as they are on the disk.
func (t *Table) Entries() []byte { return t.entries }

func (t *Table) entry(number int) []byte {
	return t.entries[(number-1)*t.entrySize : number*t.entrySize]
}

// Put replaces the entry of p.Number, which is from 1 to Len.
func (t *Table) Put(p Partition) {
	e := t.entry(p.Number)
	clear(e)
	copy(e[offType:], p.Type[:])
	copy(e[offUnique:], p.GUID[:])
	binary.LittleEndian.PutUint64(e[offFirst:], p.First)
	binary.LittleEndian.PutUint64(e[offLast:], p.Last)
	binary.LittleEndian.PutUint64(e[offAttributes:], p.Attributes)
	units := utf16.Encode([]rune(p.Name))
	for i, u := range units[:min(len(units), lenName/2)] {
		binary.LittleEndian.PutUint16(e[offName+2*i:], u)
	}
}

// Header returns the sector of the header, with the fields of t and the CRCs for them. All other bytes are those that were read.
func (t *Table) Header() []byte {
	header := slices.Clone(t.header)
	binary.LittleEndian.PutUint64(header[offMy:], t.MyLBA)
	binary.LittleEndian.PutUint64(header[offAlternate:], t.AlternateLBA)
	binary.LittleEndian.PutUint64(header[offLastUsable:], t.LastUsable)
	binary.LittleEndian.PutUint64(header[offEntries:], t.EntriesLBA)
	binary.LittleEndian.PutUint32(header[offEntriesCRC:], crc32.ChecksumIEEE(t.entries))
	binary.LittleEndian.PutUint32(header[offCRC:], headerCRC(header))
	return header
}

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

// Inside is true for a partition of a GPT whose sectors are in order, after the header, and in a disk with a number of sectors.
func (p Partition) Inside(sectors uint64) bool {
	return p.First <= p.Last && p.First >= 2 && p.Last < sectors
}
