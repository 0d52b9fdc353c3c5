// Package layout reads what a disk image has for firmware: the partition table, the sector size that the image was made for, and the boot loaders.
//
// The input is hostile. Each read is bounded, and no structure is followed more often than its bound says.
package layout

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// InvalidError means that an image is not that of a disk that the agent would write: its partition table is damaged, or firmware would not use it. It is
// permanent.
type InvalidError struct{ Message string }

func (e *InvalidError) Error() string { return e.Message }

// disk is the image. A read after its end is an error.
type disk struct {
	ctx  context.Context //nolint:containedctx // of one Scan
	from io.ReaderAt
	size int64
}

func (d *disk) read(offset, length int64) ([]byte, error) {
	if err := d.ctx.Err(); err != nil {
		return nil, err
	}
	if offset < 0 || length < 0 || offset > d.size || length > d.size-offset {
		return nil, io.ErrUnexpectedEOF
	}
	p := make([]byte, length)
	if n, err := d.from.ReadAt(p, offset); n < len(p) {
		return nil, err
	}
	return p, nil
}

// partition is a partition that may have EFI boot loaders.
type partition struct{ offset, size int64 }

// Scan returns the header of the manifest of a disk of size bytes. Its Size is size, rounded up to sectors. An ISO 9660 image, and a disk whose
// GPT is not usable, are an *InvalidError: the agent refuses them as well, but only after a server was powered on for them.
func Scan(ctx context.Context, from io.ReaderAt, size int64) (manifest.Header, error) {
	d := &disk{ctx: ctx, from: from, size: size}
	header := manifest.Header{SectorSize: 512, Table: manifest.NoTable}
	if size <= 0 || size > manifest.MaxSize {
		return header, &InvalidError{fmt.Sprintf("the disk in the image has %d bytes", size)}
	}
	first, err := d.read(0, min(512, size))
	if err != nil {
		return header, err
	}
	first = append(first, make([]byte, 512-len(first))...)
	iso, err := d.isISO()
	switch {
	case err != nil:
		return header, err
	case iso:
		return header, &InvalidError{"the image is an ISO 9660 image, and not that of a disk: use the raw or qcow2 image of the operating system"}
	}
	header.BIOSLoader = hasSignature(first) && len(bytes.Trim(first[:bootCodeSize], "\x00")) > 0
	systems, err := d.partitions(&header, first)
	if err != nil {
		return header, err
	}
	sector := int64(header.SectorSize)
	header.Size = (size + sector - 1) / sector * sector
	for _, p := range systems {
		loaders, err := d.loaders(p)
		if err := ignoreDamage(err); err != nil {
			return header, err
		}
		header.EFILoaders = append(header.EFILoaders, loaders...)
	}
	header.EFILoaders = sorted(header.EFILoaders)
	return header, nil
}

// ignoreDamage returns an error that the content of the disk does not cause. A damaged file system has no boot loaders.
func ignoreDamage(err error) error {
	if errors.Is(err, errNoFAT) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// The identifier of the first volume descriptor, in sector 16 of 2048 bytes (ECMA-119, sections 6.2.1 and 8.1.2).
const (
	isoIdentifierAt = 16*2048 + 1
	isoIdentifier   = "CD001"
)

// isISO is true for an ISO 9660 image. A hybrid one has a partition table as well, and the agent refuses it too: firmware may boot the
// El Torito catalogue, so that the agent could not make the disk bootable with the first sector alone.
func (d *disk) isISO() (bool, error) {
	identifier, err := d.read(isoIdentifierAt, int64(len(isoIdentifier)))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil // the disk ends before
	}
	return string(identifier) == isoIdentifier, err
}

// partitions returns the EFI system partitions, and sets the kind of the table and the sector size. A protective MBR without a valid primary GPT is an error:
// firmware and the agent would take the backup, or nothing. So is a GPT without a protective MBR.
func (d *disk) partitions(header *manifest.Header, first []byte) ([]partition, error) {
	table := mbrPartitions(first)
	for _, sector := range []int64{512, 4096} {
		entries, err := d.gpt(sector)
		if err != nil {
			return nil, err
		}
		if entries != nil {
			if !slices.ContainsFunc(table, mbrPartition.protects) {
				return nil, &InvalidError{"the image has a GPT without a protective MBR: firmware ignores its partitions. Repair the image with gdisk, which writes one"}
			}
			header.Table, header.SectorSize = manifest.GPT, int(sector)
			return d.gptSystems(entries, sector)
		}
	}
	if len(table) > 0 {
		header.Table = manifest.MBR
	}
	var systems []partition
	for _, p := range table {
		switch p.kind {
		case mbrTypeGPT:
			return nil, &InvalidError{"the image has a protective MBR, but no valid GPT header at 512 or 4096 bytes: its partition table is damaged"}
		case mbrTypeSystem:
			systems = d.add(systems, p.start, p.start+p.sectors-1, 512)
		}
	}
	return systems, nil
}

// GPT: UEFI specification 2.10, sections 5.3.2 and 5.3.3.
const (
	gptSignature = "EFI PART"
	gptHeader    = 92
	gptEntry     = 128
	// maxGPTEnd bounds the partition entries: the agent reads them from the first MiB. Usual tables have 128 entries of 128 bytes.
	maxGPTEnd   = 1 << 20
	maxGPTBytes = 512 << 10
	maxGPTEntry = 4096
)

// systemGUID is the partition type of EFI system partitions, C12A7328-F81F-11D2-BA4B-00A0C93EC93B, as it is in a partition entry.
var systemGUID = []byte("\x28\x73\x2a\xc1\x1f\xf8\xd2\x11\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b")

// gptEntries are the partition entries of a valid table.
type gptEntries struct {
	raw  []byte
	size int
}

// gpt returns the entries of the primary GPT, or nil if there is no valid one for this sector size.
func (d *disk) gpt(sector int64) (*gptEntries, error) {
	raw, err := d.read(sector, sector)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil //nolint:nilnil // the disk ends before
	}
	if err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(raw[12:])
	if string(raw[:8]) != gptSignature || length < gptHeader || int64(length) > sector || binary.LittleEndian.Uint64(raw[24:]) != 1 {
		return nil, nil //nolint:nilnil // as above
	}
	sum := binary.LittleEndian.Uint32(raw[16:])
	clear(raw[16:20])
	at, count, size := binary.LittleEndian.Uint64(raw[72:]), uint64(binary.LittleEndian.Uint32(raw[80:])), uint64(binary.LittleEndian.Uint32(raw[84:]))
	if crc32.ChecksumIEEE(raw[:length]) != sum || size < gptEntry || size > maxGPTEntry || size&(size-1) != 0 || count == 0 || count*size > maxGPTBytes || at < 2 ||
		at > maxGPTEnd || at*uint64(sector)+count*size > maxGPTEnd { //nolint:gosec // positive
		return nil, nil //nolint:nilnil // as above
	}
	entries, err := d.read(int64(at)*sector, int64(count*size)) //nolint:gosec // bounded
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, nil //nolint:nilnil // as above
	}
	if err != nil {
		return nil, err
	}
	if crc32.ChecksumIEEE(entries) != binary.LittleEndian.Uint32(raw[88:]) {
		return nil, nil //nolint:nilnil // as above
	}
	return &gptEntries{raw: entries, size: int(size)}, nil
}

// maxSystems is how many EFI system partitions are read. Firmware uses the first ones.
const maxSystems = 8

// gptSystems returns the EFI system partitions of a GPT. Every partition must be in the image: the agent writes no other one.
func (d *disk) gptSystems(entries *gptEntries, sector int64) ([]partition, error) {
	var systems []partition
	sectors := uint64((d.size + sector - 1) / sector) //nolint:gosec // positive
	for at := 0; at+entries.size <= len(entries.raw); at += entries.size {
		e := entries.raw[at:]
		first, last := binary.LittleEndian.Uint64(e[32:]), binary.LittleEndian.Uint64(e[40:])
		switch {
		case bytes.Equal(e[:16], make([]byte, 16)): // an entry that is not used
		case first > last || first < 2 || last >= sectors:
			return nil, &InvalidError{fmt.Sprintf("partition %d of the image has the sectors %d to %d, and the image has %d", at/entries.size+1, first, last, sectors)}
		case bytes.Equal(e[:16], systemGUID) && len(systems) < maxSystems:
			systems = d.add(systems, first, last, sector)
		}
	}
	return systems, nil
}

// add appends a partition from a first to a last sector if it begins in the disk.
func (d *disk) add(to []partition, first, last uint64, sector int64) []partition {
	sectors := uint64(d.size / sector) //nolint:gosec // positive
	if first == 0 || last < first || first >= sectors {
		return to
	}
	last = min(last, sectors-1)
	return append(to, partition{int64(first) * sector, int64(last-first+1) * sector}) //nolint:gosec // in the disk
}

// MBR: UEFI specification 2.10, section 5.2.
const (
	bootCodeSize     = 440
	mbrEntries       = 446
	mbrEntry         = 16
	mbrTypeSystem    = 0xef
	mbrTypeGPT       = 0xee
	mbrStatusActive  = 0x80
	mbrSignatureAt   = 510
	mbrSignature     = 0xaa55
	mbrTypeUndefined = 0
	// gptHeaderSector is where the entry of a protective MBR starts.
	gptHeaderSector = 1
)

func hasSignature(first []byte) bool {
	return binary.LittleEndian.Uint16(first[mbrSignatureAt:]) == mbrSignature
}

// mbrPartition is an entry of an MBR that is in use.
type mbrPartition struct {
	kind           byte
	start, sectors uint64
}

// protects is true for the entry of a protective MBR, without which firmware ignores a GPT (UEFI specification 2.10, section 5.2.3).
func (p mbrPartition) protects() bool { return p.kind == mbrTypeGPT && p.start == gptHeaderSector }

// mbrPartitions returns the entries of an MBR that are in use, and none if there is no valid table. A file system's boot sector has the same signature, but its
// code is where a table has the status of a partition.
func mbrPartitions(first []byte) []mbrPartition {
	if !hasSignature(first) {
		return nil
	}
	var used []mbrPartition
	for at := mbrEntries; at < mbrSignatureAt; at += mbrEntry {
		e := first[at : at+mbrEntry]
		if e[0] != 0 && e[0] != mbrStatusActive {
			return nil
		}
		p := mbrPartition{e[4], uint64(binary.LittleEndian.Uint32(e[8:])), uint64(binary.LittleEndian.Uint32(e[12:]))}
		if p.kind != mbrTypeUndefined && p.sectors > 0 {
			used = append(used, p)
		}
	}
	return used
}
