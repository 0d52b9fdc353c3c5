package erase

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
)

// metadata is the method of the policy Metadata. It is no command of a drive: zeros are written to the bootstrap data of the machine that had the server, and to what makes
// its disks bootable or readable as its disks. It does not erase the data of a machine, and claims nothing about it.
const metadata drive.Command = "Metadata"

// metadataMethod is the only method of the policy Metadata.
var metadataMethod = Method{
	Command: metadata, Name: "Overwrite of partition tables, signatures and bootstrap data", Class: wire.PolicyMetadata,
	Basis: "none: no standard calls it a sanitization; the data of the machine stays on the disk", Expect: Zeros,
}

const (
	// edge is how much is overwritten at both ends of a disk, and at the start of each partition. A GPT has 17 KiB at each end with 512 byte sectors and the usual 128
	// entries, boot loaders of BIOS systems have up to 1 MiB.
	edge = mib
	// maxAreas is the maximum number of partitions and signatures: a table of more entries is damaged or hostile.
	maxAreas = 16 << 10
)

// eraseMetadata erases the metadata of a disk, in an order that survives a power cut at any moment: a second run finds everything that the first one did not reach.
//
//  1. The ranges of the plan, which are known without the disk's help. They are the only secret.
//  2. The starts of partitions, and signatures. The partition tables say where they are, so the tables are still there.
//  3. The backup of the partition table with the end of the disk, and tables between the ends.
//  4. The partition table with the start of the disk.
//
// Each step is flushed and read back before the next one begins. It returns how many bytes were overwritten and read back.
func (u *unit) eraseMetadata(ctx context.Context, device disk.Device, ranges []area) (bytes int64, err error) {
	count := func(what string, areas []area) error {
		areas = inSectors(areas, device)
		if err := u.overwrite(ctx, device, areas, func(int64) {}); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for _, a := range areas {
			bytes += a.length
		}
		return nil
	}
	if err := count("the bootstrap data", ranges); err != nil {
		return bytes, err
	}
	u.extendDeadline(ioTimeout)
	found, err := contentsOf(device)
	if err != nil {
		return bytes, err
	}
	if err := count("the starts of partitions", found.starts()); err != nil {
		return bytes, err
	}
	last := area{offset: found.lastEdge(), length: found.size - found.lastEdge()}
	if err := count("the backup of the partition table", append(found.tables(), last)); err != nil {
		return bytes, err
	}
	return bytes, count("the partition table", []area{{0, min(edge, found.size)}})
}

// contents are the areas that the tables and signatures of a disk name. Tables may be damaged or hostile, so an area may have any offset and length.
type contents struct {
	size, sector int64
	// parts are the partitions and signatures, chain the parts of a partition table between the ends of the disk, such as the chain of logical partitions in an MBR.
	parts, chain []area
}

// contentsOf reads the tables and signatures of a disk. What is damaged is left out; an error means that the disk cannot be read.
func contentsOf(device disk.Device) (contents, error) {
	c := contents{size: device.Size(), sector: int64(device.SectorSize())}
	sectors := uint64(c.size / c.sector) //nolint:gosec // a size
	for _, p := range partitionsOf(device, c.size, device.SectorSize()) {
		if p.First >= sectors || p.Last < p.First {
			continue
		}
		a := area{int64(p.First) * c.sector, int64(min(p.Last-p.First+1, sectors-p.First)) * c.sector} //nolint:gosec // on the disk
		if p.Extended() {
			c.chain = append(c.chain, a)
		} else {
			c.parts = append(c.parts, a)
		}
	}
	signatures, err := disk.Signatures(device, c.size, device.SectorSize())
	if err != nil {
		return c, fmt.Errorf("the signatures cannot be read: %w", err)
	}
	for _, s := range signatures {
		c.parts = append(c.parts, area{s.Offset, s.Length})
	}
	if n := len(c.parts) + len(c.chain); n > maxAreas {
		return c, fmt.Errorf("it has %d partitions and signatures: erase its partition table", n)
	}
	return c, nil
}

// partitionsOf returns the partitions of a disk, from each table that is not damaged: the GPT, its backup, and the MBR.
func partitionsOf(r io.ReaderAt, size int64, sector int) []gpt.Partition {
	var out []gpt.Partition
	for _, lba := range []uint64{1, uint64(size)/uint64(sector) - 1} { //nolint:gosec // a disk has sectors
		if table, err := gpt.Read(r, lba, size, sector); err == nil {
			out = append(out, table.Partitions()...)
		}
	}
	if parts, err := gpt.ReadMBR(r, size, sector); err == nil {
		out = append(out, parts...)
	}
	return out
}

// lastEdge is the offset of the last MiB.
func (c contents) lastEdge() int64 { return max(0, (c.size-edge)/c.sector*c.sector) }

// starts returns the first MiB of each partition, and the signatures, without the tables between the ends.
func (c contents) starts() []area { return without(c.clip(c.parts), c.tables()) }

// tables returns the parts of tables between the ends.
func (c contents) tables() []area { return c.clip(c.chain) }

// clip cuts areas to their first MiB, extends them to whole sectors, and cuts them to what is between the ends of the disk: the ends are overwritten last. It leaves out
// areas that are elsewhere.
func (c contents) clip(areas []area) []area {
	var out []area
	for _, a := range areas {
		if a.offset < 0 || a.length <= 0 || a.offset >= c.size {
			continue
		}
		start := max(a.offset/c.sector*c.sector, min(edge, c.size))
		end := a.offset + min(a.length, edge, c.size-a.offset)
		end = min((end+c.sector-1)/c.sector*c.sector, c.lastEdge())
		if start < end {
			out = append(out, area{start, end - start})
		}
	}
	return merge(out)
}

// merge sorts areas and joins those that touch.
func merge(areas []area) []area {
	areas = slices.Clone(areas)
	slices.SortFunc(areas, func(a, b area) int { return cmp.Compare(a.offset, b.offset) })
	var out []area
	for _, a := range areas {
		if n := len(out) - 1; n >= 0 && a.offset <= out[n].end() {
			out[n].length = max(out[n].length, a.end()-out[n].offset)
			continue
		}
		out = append(out, a)
	}
	return out
}

// without removes areas from others. Both are merged.
func without(areas, removed []area) []area {
	var out []area
	for _, a := range areas {
		start := a.offset
		for _, r := range removed {
			if r.end() <= start || r.offset >= a.end() {
				continue
			}
			if r.offset > start {
				out = append(out, area{start, r.offset - start})
			}
			start = r.end()
		}
		if start < a.end() {
			out = append(out, area{start, a.end() - start})
		}
	}
	return out
}
