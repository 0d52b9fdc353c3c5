package erase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
)

const (
	// edge is how much is overwritten at both ends of a disk, and at the beginning of each partition. A GPT has 17 KiB at each end with 512 byte sectors and
	// the usual 128 entries, boot loaders of BIOS systems have up to 1 MiB.
	edge = 1 << 20
	// part is how much is overwritten or read in one call, so that the end of a context is noticed.
	part = 4 << 20
	// maxAreas is the maximum number of areas that a table or signatures may have: a table of more entries is damaged or hostile.
	maxAreas = 16 << 10
)

// erase erases a disk. It returns how many bytes were overwritten and read back.
func (t *task) erase(ctx context.Context, find Finder) (bytes int64, err error) {
	defer failure.Recover(&err)
	device, err := t.disk.Open()
	if err != nil {
		return 0, fmt.Errorf("it cannot be opened for writing: %w", err)
	}
	defer func() { err = errors.Join(err, device.Close()) }()
	e := &eraser{device: device, size: device.Size(), sector: int64(device.SectorSize())}
	err = t.inOrder(ctx, e, find)
	return e.done, err
}

// inOrder erases a disk in the order of the package comment.
func (t *task) inOrder(ctx context.Context, e *eraser, find Finder) error {
	if e.sector < 512 || e.size < e.sector || t.disk.ID.Size != 0 && e.size != t.disk.ID.Size {
		return fmt.Errorf("it has %d bytes in sectors of %d bytes now, and had %d bytes", e.size, e.sector, t.disk.ID.Size)
	}
	if err := e.overwrite(ctx, t.ranges); err != nil {
		return fmt.Errorf("the bootstrap data: %w", err)
	}
	heads, tables, err := e.contents(find)
	if err != nil {
		return err
	}
	if err := e.overwrite(ctx, heads); err != nil {
		return fmt.Errorf("the beginnings of partitions: %w", err)
	}
	if err := e.overwrite(ctx, append(tables, Area{Offset: e.end(), Length: e.size - e.end()})); err != nil {
		return fmt.Errorf("the backup of the partition table: %w", err)
	}
	if err := e.overwrite(ctx, []Area{{Offset: 0, Length: min(edge, e.size)}}); err != nil {
		return fmt.Errorf("the partition table: %w", err)
	}
	return nil
}

// eraser erases one disk.
type eraser struct {
	device       Device
	size, sector int64
	// done is how many bytes were overwritten and read back.
	done int64
}

// end is where the last MiB begins.
func (e *eraser) end() int64 { return max(0, (e.size-edge)/e.sector*e.sector) }

// contents returns the beginnings of partitions and the signatures, and the parts of tables between the ends of the disk. What is at the ends is left out: it
// is overwritten with them, and tables may be there.
func (e *eraser) contents(find Finder) (heads, tables []Area, err error) {
	partitions, err := find.Partitions(e.device, e.size, int(e.sector))
	if err != nil {
		return nil, nil, fmt.Errorf("the partition tables cannot be read: %w", err)
	}
	signatures, err := find.Signatures(e.device, e.size, int(e.sector))
	if err != nil {
		return nil, nil, fmt.Errorf("the signatures cannot be read: %w", err)
	}
	if len(partitions)+len(signatures) > maxAreas {
		return nil, nil, fmt.Errorf("it has %d partitions and %d signatures: wipe its partition table", len(partitions), len(signatures))
	}
	for _, p := range partitions {
		if p.Table {
			tables = append(tables, e.clip(p)...)
			continue
		}
		heads = append(heads, e.clip(p)...)
	}
	for _, s := range signatures {
		heads = append(heads, e.clip(s)...)
	}
	return without(merge(heads), merge(tables)), tables, nil
}

// clip cuts an area to its first MiB, extends it to whole sectors, and cuts it to what is between the ends of the disk. It returns nothing for an area outside
// of that.
func (e *eraser) clip(a Area) []Area {
	if a.Offset < 0 || a.Length <= 0 || a.Offset >= e.size {
		return nil
	}
	end := a.Offset + min(a.Length, edge, e.size-a.Offset)
	start := max(a.Offset/e.sector*e.sector, min(edge, e.size))
	end = min((end+e.sector-1)/e.sector*e.sector, e.end())
	if start >= end {
		return nil
	}
	return []Area{{Offset: start, Length: end - start, Table: a.Table}}
}

// merge sorts areas and joins those that touch.
func merge(areas []Area) []Area {
	areas = slices.Clone(areas)
	slices.SortFunc(areas, func(a, b Area) int { return cmp.Compare(a.Offset, b.Offset) })
	var out []Area
	for _, a := range areas {
		if n := len(out) - 1; n >= 0 && a.Offset <= out[n].Offset+out[n].Length {
			out[n].Length = max(out[n].Length, a.Offset+a.Length-out[n].Offset)
			continue
		}
		out = append(out, a)
	}
	return out
}

// without removes areas from others. Both are merged.
func without(areas, removed []Area) []Area {
	var out []Area
	for _, a := range areas {
		start, end := a.Offset, a.Offset+a.Length
		for _, r := range removed {
			if r.Offset+r.Length <= start || r.Offset >= end {
				continue
			}
			if r.Offset > start {
				out = append(out, Area{Offset: start, Length: r.Offset - start})
			}
			start = r.Offset + r.Length
		}
		if start < end {
			out = append(out, Area{Offset: start, Length: end - start})
		}
	}
	return out
}

// overwrite overwrites areas with zeros, flushes, and reads them back.
func (e *eraser) overwrite(ctx context.Context, areas []Area) error {
	for i, a := range areas {
		start := a.Offset / e.sector * e.sector
		end := min((a.Offset+a.Length+e.sector-1)/e.sector*e.sector, e.size)
		areas[i] = Area{Offset: start, Length: end - start}
	}
	areas = merge(areas)
	err := e.parts(ctx, areas, func(offset, length int64) error {
		if err := e.device.ZeroRange(offset, length); err != nil {
			return fmt.Errorf("cannot write %d bytes at %d: %w", length, offset, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.device.Flush(); err != nil {
		return fmt.Errorf("cannot flush: %w", err)
	}
	buffer := make([]byte, part)
	return e.parts(ctx, areas, func(offset, length int64) error {
		if n, err := e.device.ReadAt(buffer[:length], offset); int64(n) < length {
			return fmt.Errorf("cannot read back %d bytes at %d: %w", length, offset, err)
		}
		for i, b := range buffer[:length] {
			if b != 0 {
				return fmt.Errorf("it returns other data than the zeros that were written, at %d: replace it", offset+int64(i))
			}
		}
		e.done += length
		return nil
	})
}

// parts calls a function for each part of areas.
func (e *eraser) parts(ctx context.Context, areas []Area, do func(offset, length int64) error) error {
	for _, a := range areas {
		for done := int64(0); done < a.Length; done += part {
			if err := ctx.Err(); err != nil {
				return context.Cause(ctx)
			}
			if err := do(a.Offset+done, min(part, a.Length-done)); err != nil {
				return err
			}
		}
	}
	return nil
}
