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
	"io"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
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

// ReadAt reads all of p, or returns an error: an io.ReaderAt may return io.EOF with the last bytes.
func (d *disk) ReadAt(p []byte, offset int64) (int, error) {
	if err := d.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := d.from.ReadAt(p, offset)
	if n == len(p) {
		err = nil
	}
	return n, err
}

func (d *disk) read(offset, length int64) ([]byte, error) {
	if offset < 0 || length < 0 || offset > d.size || length > d.size-offset {
		return nil, io.ErrUnexpectedEOF
	}
	p := make([]byte, length)
	if _, err := d.ReadAt(p, offset); err != nil {
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

// tableEnd bounds the primary GPT: the agent reads it from the first MiB of the image.
const tableEnd = 1 << 20

// partitions returns the EFI system partitions, and sets the kind of the table and the sector size. A protective MBR without a valid primary GPT is an error:
// firmware and the agent would take the backup, or nothing. So is a GPT without a protective MBR.
func (d *disk) partitions(header *manifest.Header, first []byte) ([]partition, error) {
	mbr, _ := gpt.ParseMBR(first) // its only error means that there is none
	for _, sector := range []int{512, 4096} {
		table, err := gpt.Read(d, 1, min(d.size, tableEnd), sector)
		switch {
		case errors.Is(err, gpt.ErrNoTable), errors.As(err, new(*gpt.DamagedError)):
			continue
		case err != nil:
			return nil, err
		case !slices.ContainsFunc(mbr, gpt.Partition.ProtectsGPT):
			return nil, &InvalidError{"the image has a GPT without a protective MBR: firmware ignores its partitions. Repair the image with gdisk, which writes one"}
		}
		header.Table, header.SectorSize = manifest.GPT, sector
		return d.gptSystems(table, int64(sector))
	}
	if len(mbr) > 0 {
		header.Table = manifest.MBR
	}
	var systems []partition
	for _, p := range mbr {
		switch {
		case p.Protective():
			return nil, &InvalidError{"the image has a protective MBR, but no valid GPT header at 512 or 4096 bytes: its partition table is damaged"}
		case p.EFISystem():
			systems = d.add(systems, p, 512)
		}
	}
	return systems, nil
}

// maxSystems is how many EFI system partitions are read. Firmware uses the first ones.
const maxSystems = 8

// gptSystems returns the EFI system partitions of a GPT. Every partition must be in the image: the agent writes no other one.
func (d *disk) gptSystems(table *gpt.Table, sector int64) ([]partition, error) {
	var systems []partition
	sectors := uint64((d.size + sector - 1) / sector) //nolint:gosec // positive
	for _, p := range table.Partitions() {
		if !p.Inside(sectors) {
			return nil, &InvalidError{fmt.Sprintf("partition %d of the image has the sectors %d to %d, and the image has %d", p.Number, p.First, p.Last, sectors)}
		}
		if p.EFISystem() && len(systems) < maxSystems {
			systems = d.add(systems, p, sector)
		}
	}
	return systems, nil
}

// add appends a partition if it begins in the disk.
func (d *disk) add(to []partition, p gpt.Partition, sector int64) []partition {
	sectors := uint64(d.size / sector) //nolint:gosec // positive
	if p.First == 0 || p.Last < p.First || p.First >= sectors {
		return to
	}
	last := min(p.Last, sectors-1)
	return append(to, partition{int64(p.First) * sector, int64(last-p.First+1) * sector}) //nolint:gosec // in the disk
}

// The first sector of a disk with an MBR, or of a file system (UEFI specification 2.10, section 5.2.1).
const (
	bootCodeSize = 440
	signatureAt  = 510
	signature    = 0xaa55
)

func hasSignature(first []byte) bool {
	return binary.LittleEndian.Uint16(first[signatureAt:]) == signature
}
