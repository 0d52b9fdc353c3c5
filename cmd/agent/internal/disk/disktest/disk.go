// Package disktest has a disk for tests that behaves as disks do when their power fails: what was written is on the medium only after a flush, and before
// that any part of it may be, in any order, sector by sector. It also fails on demand. Package pxetest judges what firmware would boot.
package disktest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"syscall"
)

// Kind is what an operation does.
type Kind string

const (
	Read  Kind = "read"
	Write Kind = "write"
	Zero  Kind = "zero"
	Flush Kind = "flush"
)

// Op is an operation of a disk.
type Op struct {
	// Index counts the operations, reads included.
	Index          int
	Kind           Kind
	Offset, Length int64
}

func (o Op) String() string { return fmt.Sprintf("%d: %s %d+%d", o.Index, o.Kind, o.Offset, o.Length) }

// ErrCut is the error of all operations after the power failed.
var ErrCut = fmt.Errorf("the power failed: %w", syscall.ENXIO)

// page is the unit of storage. Pages are never changed, so that a copy of a disk is cheap.
const page = 64 << 10

// Disk is a disk in memory. It has the methods of disk.Device.
type Disk struct {
	// Hook is called before each operation. Its error is that of the operation, which does nothing then. ErrLost makes a write or zero succeed without
	// effect.
	Hook func(Op) error
	// Garble is called with what a read returns.
	Garble func(Op, []byte)

	mu      sync.Mutex
	size    int64
	sector  int
	medium  map[int64][]byte // by the number of the page: what survives
	cached  map[int64][]byte // what is read: medium with all of pending
	pending []change
	ops     []Op
	cut     bool
}

// change is a write that is not flushed. A nil content is zeros.
type change struct {
	offset, length int64
	content        []byte
}

// ErrLost makes an operation succeed without effect.
var ErrLost = errors.New("the operation is lost")

// New returns a disk of zeros.
func New(size int64, sector int) *Disk {
	return &Disk{size: size, sector: sector, medium: map[int64][]byte{}, cached: map[int64][]byte{}}
}

// Clone returns a copy of what is on the medium: a disk without pending writes, operations or hooks.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Disk{size: d.size, sector: d.sector, medium: maps.Clone(d.medium), cached: maps.Clone(d.medium)}
}

// Size is that of disk.Device.
func (d *Disk) Size() int64 { return d.size }

// SectorSize is that of disk.Device.
func (d *Disk) SectorSize() int { return d.sector }

// Close is that of disk.Device. It does nothing.
func (d *Disk) Close() error { return nil }

// Ops returns the operations so far.
func (d *Disk) Ops() []Op {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ops
}

// begin records an operation.
func (d *Disk) begin(kind Kind, offset, length int64) (Op, error) {
	d.mu.Lock()
	op := Op{Index: len(d.ops), Kind: kind, Offset: offset, Length: length}
	d.ops = append(d.ops, op)
	hook, cut := d.Hook, d.cut
	d.mu.Unlock()
	switch {
	case cut:
		return op, ErrCut
	case offset < 0 || length < 0 || offset > d.size-length:
		return op, fmt.Errorf("%s is outside of the disk of %d bytes: %w", op, d.size, syscall.EINVAL)
	case kind != Read && (offset%int64(d.sector) != 0 || length%int64(d.sector) != 0):
		return op, fmt.Errorf("%s is not in sectors of %d bytes: %w", op, d.sector, syscall.EINVAL)
	case hook != nil:
		if err := hook(op); err != nil {
			return op, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.cut { // by the hook
			return op, ErrCut
		}
	}
	return op, nil
}

// ReadAt reads what was written, flushed or not.
func (d *Disk) ReadAt(b []byte, offset int64) (int, error) {
	op, err := d.begin(Read, offset, int64(len(b)))
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	load(d.cached, b, offset)
	garble := d.Garble
	d.mu.Unlock()
	if garble != nil {
		garble(op, b)
	}
	return len(b), nil
}

// WriteAt writes into the cache of the disk.
func (d *Disk) WriteAt(b []byte, offset int64) (int, error) {
	_, err := d.begin(Write, offset, int64(len(b)))
	if errors.Is(err, ErrLost) {
		return len(b), nil
	} else if err != nil {
		return 0, err
	}
	d.add(change{offset, int64(len(b)), append([]byte(nil), b...)})
	return len(b), nil
}

// ZeroRange writes zeros into the cache of the disk.
func (d *Disk) ZeroRange(offset, length int64) error {
	_, err := d.begin(Zero, offset, length)
	if errors.Is(err, ErrLost) {
		return nil
	} else if err != nil {
		return err
	}
	d.add(change{offset, length, nil})
	return nil
}

func (d *Disk) add(c change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, c)
	store(d.cached, c.content, c.offset, c.length)
}

// Flush moves all pending writes to the medium.
func (d *Disk) Flush() error {
	if _, err := d.begin(Flush, 0, 0); errors.Is(err, ErrLost) {
		return nil
	} else if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.pending {
		store(d.medium, c.content, c.offset, c.length)
	}
	d.pending = nil
	return nil
}

// Cut is a power failure: of the pending sectors any subset, decided by seed, is on the medium, and every operation after it fails with ErrCut.
func (d *Disk) Cut(seed uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.medium = d.afterCut(seed)
	d.pending, d.cut = nil, true
}

// CutCopy returns the disk as Cut would leave it, and changes nothing.
func (d *Disk) CutCopy(seed uint64) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	medium := d.afterCut(seed)
	return &Disk{size: d.size, sector: d.sector, medium: medium, cached: maps.Clone(medium)}
}

// afterCut applies a subset of the pending changes. The seeds alternate between policies: none, all, the newest only, all but the oldest, a torn prefix, and
// random sectors. A random subset of many sectors hardly ever is one of the others, which are what goes wrong.
func (d *Disk) afterCut(seed uint64) map[int64][]byte {
	medium := maps.Clone(d.medium)
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same seed is the same failure
	policy, share, border := seed%6, random.Float64(), random.IntN(len(d.pending)+1)
	for i, c := range d.pending {
		switch {
		case policy == 0, policy == 2 && i < len(d.pending)-1, policy == 3 && i == 0, policy == 4 && i > border:
		case policy == 5, policy == 4 && i == border:
			d.tear(medium, c, random, share)
		default:
			store(medium, c.content, c.offset, c.length)
		}
	}
	return medium
}

// tear applies some sectors of a change.
func (d *Disk) tear(medium map[int64][]byte, c change, random *rand.Rand, share float64) {
	sector := int64(d.sector)
	for from := int64(0); from < c.length; {
		to := min(c.length, from+sector*(1+random.Int64N(64))) // in runs, so that large writes are quick
		if random.Float64() < share {
			var part []byte
			if c.content != nil {
				part = c.content[from:to]
			}
			store(medium, part, c.offset+from, to-from)
		}
		from = to
	}
}

// load reads from pages.
func load(pages map[int64][]byte, b []byte, offset int64) {
	for len(b) > 0 {
		number, at := offset/page, offset%page
		n := min(int64(len(b)), page-at)
		if p := pages[number]; p == nil {
			clear(b[:n])
		} else {
			copy(b[:n], p[at:])
		}
		b, offset = b[n:], offset+n
	}
}

// store writes into pages; a nil content is zeros.
func store(pages map[int64][]byte, content []byte, offset, length int64) {
	for length > 0 {
		number, at := offset/page, offset%page
		n := min(length, page-at)
		switch old := pages[number]; {
		case content == nil && (n == page || old == nil):
			delete(pages, number)
		default:
			p := make([]byte, page)
			copy(p, old)
			if content == nil {
				clear(p[at : at+n])
			} else {
				copy(p[at:], content[:n])
				content = content[n:]
			}
			pages[number] = p
		}
		offset, length = offset+n, length-n
	}
}

// Fill writes to the medium directly, as a previous owner did. It is no operation.
func (d *Disk) Fill(offset int64, content []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	store(d.medium, content, offset, int64(len(content)))
	store(d.cached, content, offset, int64(len(content)))
}

// Medium returns a reader of what is on the medium.
func (d *Disk) Medium() io.ReaderAt { return d.Clone() }

// Differ returns the first offset at which the media of two disks differ, leaving out ranges, or -1.
func Differ(a, b *Disk, except ...[2]int64) int64 {
	pa, pb := a.Clone().medium, b.Clone().medium
	if a.size != b.size {
		return min(a.size, b.size)
	}
	x, y := make([]byte, page), make([]byte, page)
	for number := int64(0); number*page < a.size; number++ {
		if pa[number] == nil && pb[number] == nil {
			continue
		}
		load(pa, x, number*page)
		load(pb, y, number*page)
		if string(x) == string(y) {
			continue
		}
		for i := range x {
			at := number*page + int64(i)
			if x[i] != y[i] && !inside(at, except) {
				return at
			}
		}
	}
	return -1
}

func inside(at int64, ranges [][2]int64) bool {
	for _, r := range ranges {
		if at >= r[0] && at < r[1] {
			return true
		}
	}
	return false
}
