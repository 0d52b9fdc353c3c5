package image

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// judge holds the guarantee against what is on the medium of a disk after a power failure.
type judge struct {
	*setup

	before   *disktest.Disk // the previous owner's
	expected *disktest.Disk
	counts   map[string]int
}

func (c *setup) newJudge(tb testing.TB) *judge {
	tb.Helper()
	return &judge{setup: c, before: c.newDisk().Clone(), expected: c.expected(tb), counts: map[string]int{}}
}

// state checks a disk. wiped is true once the wipe was flushed, allowed once the commit was. It returns what a firmware does: nothing, boot the previous
// owner's system, or boot the new one.
func (j *judge) state(tb testing.TB, d *disktest.Disk, wiped, allowed bool) string {
	tb.Helper()
	bootable, table := pxetest.Bootable(d, j.diskSize, j.sector), pxetest.AnyTable(d, j.diskSize, j.sector)
	state := "nothing"
	switch {
	case !wiped:
		// Nothing of the image is written yet.
		if bootable {
			state = "previous"
		}
	case !allowed:
		if bootable || table {
			tb.Errorf("%s: before the permission the disk has a table (bootable: %t)", j.name, bootable)
		}
	case bootable:
		state = "complete"
		if at := disktest.Differ(d, j.expected, j.backup()); at >= 0 {
			tb.Errorf("%s: the disk is bootable, and not complete: byte %d differs", j.name, at)
		}
	case table:
		// Firmware that needs no protective MBR might boot it: all but LBA 0 is there.
		if at := disktest.Differ(d, j.expected, j.backup(), [2]int64{0, int64(j.sector)}); at >= 0 {
			tb.Errorf("%s: the disk has a GPT, and is not complete: byte %d differs", j.name, at)
		}
	}
	j.counts[state]++
	return state
}

// again runs the next attempt on a disk after a power failure, as the boot server asks for it: after a permission it looks first.
func (j *judge) again(tb testing.TB, d *disktest.Disk, allowed bool) {
	tb.Helper()
	state := Empty
	if allowed {
		var err error
		if state, err = ReadState(d, j.diskSize, j.sector, unique); err != nil {
			tb.Fatal(err)
		}
		recorded := j.source != wire.DataSourceNone || j.diskSize > j.size
		if state == Unknown && recorded {
			tb.Errorf("%s: the disk is in an unknown state", j.name)
		}
		if bootable := pxetest.Bootable(d, j.diskSize, j.sector); bootable != (state != Empty) {
			tb.Errorf("%s: look says %s, and bootable is %t", j.name, state, bootable)
		}
	}
	var except [2]int64
	if state == Empty {
		if r, err := Write(tb.Context(), j.options(d, j.newSource())); err != nil || !r.Committed {
			tb.Errorf("%s: the next attempt fails: %v", j.name, err)
			return
		}
	} else {
		except = j.backup()
	}
	if at := disktest.Differ(d, j.expected, except); at >= 0 {
		tb.Errorf("%s: after the next attempt byte %d differs", j.name, at)
	}
	j.counts["again "+string(state)]++
}

// watch calls f before each operation of a run, with what has happened until then.
func (j *judge) watch(tb testing.TB, d *disktest.Disk, f func(op disktest.Op, wiped, allowed bool)) (Result, error) {
	tb.Helper()
	s, flushed := j.newSource(), 0
	d.Hook = func(op disktest.Op) error {
		s.mu.Lock()
		allowed := s.committed
		s.mu.Unlock()
		if op.Kind == disktest.Write && flushed == 0 {
			tb.Errorf("%s: %s comes before the wipe is flushed", j.name, op)
		}
		f(op, flushed > 0, allowed)
		if op.Kind == disktest.Flush {
			flushed++
		}
		return nil
	}
	return Write(tb.Context(), j.options(d, s))
}

// policies is how many kinds of subsets a power failure chooses from, by the seed (see disktest.Disk).
const policies = 6

// TestCutEverywhere cuts the power at each operation of small images, for all kinds of tables, sector sizes and disks, and makes the next attempt.
func TestCutEverywhere(t *testing.T) {
	counts := map[string]int{}
	for _, c := range setups(4*mib + 64<<10) {
		j := c.newJudge(t)
		var next []func()
		d := j.before.Clone()
		r, err := j.watch(t, d, func(op disktest.Op, wiped, allowed bool) {
			for seed := range uint64(policies) {
				if op.Kind == disktest.Read && seed > 0 {
					continue // the next operation that is no read has the same pending writes
				}
				cut := d.CutCopy(seed + policies*uint64(op.Index))
				j.state(t, cut, wiped, allowed)
				if op.Kind != disktest.Read && (seed == uint64(op.Index)%policies || allowed) {
					next = append(next, func() { j.again(t, cut, allowed) })
				}
			}
		})
		if err != nil || !r.Committed {
			t.Fatalf("%s: %v", c.name, err)
		}
		for _, attempt := range next {
			attempt()
		}
		add(counts, j.counts)
	}
	t.Logf("after the power failures: %v", counts)
	demand(t, counts, "nothing", "previous", "complete", "again Empty", "again Complete")
}

// TestCutSeeded cuts the power at 300 points of an image of 40 MiB, and makes the next attempt after every 25th. Which states it meets depends on the seed:
// TestCutEverywhere meets all of them.
func TestCutSeeded(t *testing.T) {
	counts, made := map[string]int{}, 0
	random := rand.New(rand.NewPCG(rapidtest.Seed(t), 1))
	all := setups(40*mib, func(c *setup) bool { return c.sector == 512 && c.source == wire.DataSourceNoCloud })
	for _, c := range all {
		j := c.newJudge(t)
		whole := c.newDisk()
		if _, err := Write(t.Context(), c.options(whole, c.newSource())); err != nil {
			t.Fatal(err)
		}
		var changes []int // the operations that a power failure can come between
		for _, op := range whole.Ops() {
			if op.Kind != disktest.Read {
				changes = append(changes, op.Index)
			}
		}
		cuts := map[int]int{}
		for range 300 / len(all) {
			cuts[changes[random.IntN(len(changes))]]++
		}
		d := c.newDisk()
		var next []func()
		if _, err := j.watch(t, d, func(op disktest.Op, wiped, allowed bool) {
			for range cuts[op.Index] {
				cut := d.CutCopy(random.Uint64())
				j.state(t, cut, wiped, allowed)
				if made++; made%25 == 0 {
					next = append(next, func() { j.again(t, cut, allowed) })
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
		for _, attempt := range next {
			attempt()
		}
		add(counts, j.counts)
	}
	t.Logf("after the power failures: %v", counts)
	demand(t, counts, "nothing")
	if again := counts["again Empty"] + counts["again Complete"] + counts["again "+string(Unknown)]; again != made/25 {
		t.Errorf("%d next attempts, want %d", again, made/25)
	}
}

func add(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}

func demand(t *testing.T, counts map[string]int, states ...string) {
	t.Helper()
	for _, state := range states {
		if counts[state] == 0 {
			t.Errorf("no power failure leads to %q: the test proves nothing", state)
		}
	}
}

// fault is what happens at an operation.
type fault struct {
	name string
	// install makes the disk fail from the operation at on.
	install func(d *disktest.Disk, at int)
	// changes and reads limit it to operations that change or read the disk.
	changes, reads bool
	// passes is true if a run may succeed in spite of it.
	passes bool
	// gone is true if the disk can neither be read nor written afterwards.
	gone bool
}

const vanishes = "the disk vanishes"

var faults = []fault{
	{name: "an I/O error", install: func(d *disktest.Disk, at int) {
		d.Hook = func(op disktest.Op) error {
			if op.Index == at {
				return syscall.EIO
			}
			return nil
		}
	}},
	{name: vanishes, gone: true, install: func(d *disktest.Disk, at int) {
		d.Hook = func(op disktest.Op) error {
			if op.Index >= at {
				return syscall.ENXIO
			}
			return nil
		}
	}},
	{name: "the power fails", gone: true, install: func(d *disktest.Disk, at int) {
		d.Hook = func(op disktest.Op) error {
			if op.Index == at {
				d.Cut(uint64(at))
			}
			return nil
		}
	}},
	{name: "an operation is lost", changes: true, passes: true, install: func(d *disktest.Disk, at int) {
		d.Hook = func(op disktest.Op) error {
			if op.Index == at {
				return disktest.ErrLost
			}
			return nil
		}
	}},
	{name: "a read returns other data", reads: true, passes: true, install: func(d *disktest.Disk, at int) {
		d.Garble = func(op disktest.Op, b []byte) {
			if op.Index == at {
				b[len(b)*2/3] ^= 4
			}
		}
	}},
}

// TestFaults: a disk that fails at any operation ends in the reason DiskFailed, and is never bootable unless it is complete. Unless it is complete, it has no
// bootstrap data either, if it can still be written. Each value of a setup is in one of them: TestCutEverywhere has all combinations.
func TestFaults(t *testing.T) {
	all := setups(4*mib+64<<10, func(c *setup) bool { return (c.sector == 4096) == strings.HasSuffix(c.name, "larger=true") })
	for _, c := range all {
		j := c.newJudge(t)
		whole := c.newDisk()
		if _, err := Write(t.Context(), c.options(whole, c.newSource())); err != nil {
			t.Fatal(err)
		}
		verifying := slices.IndexFunc(whole.Ops(), func(op disktest.Op) bool { return op.Kind == disktest.Write })
		for _, f := range faults {
			for _, op := range whole.Ops() {
				switch {
				case op.Kind == disktest.Read && op.Index < verifying && op.Index%7 != 0: // there are hundreds of reads of signatures
				case f.changes && (op.Kind == disktest.Read || op.Kind == disktest.Flush):
				case f.reads && op.Kind != disktest.Read:
				default:
					j.fault(t, f, op, op.Index > verifying)
				}
			}
		}
	}
}

// fault runs an attempt with a fault. written is true for an operation after the first write.
func (j *judge) fault(t *testing.T, f fault, op disktest.Op, written bool) {
	t.Helper()
	d, s := j.before.Clone(), j.newSource()
	f.install(d, op.Index)
	r, err := Write(t.Context(), j.options(d, s))
	began := slices.ContainsFunc(d.Ops(), func(op disktest.Op) bool { return op.Kind == disktest.Write })
	medium := d.Clone()
	state := j.state(t, medium, began, s.committed)
	switch {
	case err == nil && (!f.passes || f.reads && written):
		t.Errorf("%s: %s at %s is not noticed", j.name, f.name, op)
	case err == nil && disktest.Differ(medium, j.expected) >= 0:
		t.Errorf("%s: %s at %s: the run succeeds, and the disk differs", j.name, f.name, op)
	case err != nil && !failure.HasReason(err, wire.ReasonDiskFailed):
		t.Errorf("%s: %s at %s: %v", j.name, f.name, op, err)
	case err != nil && r.Committed && state != "complete":
		t.Errorf("%s: %s at %s: the result says that the disk is complete, and it is %q", j.name, f.name, op, state)
	}
	if err != nil && !r.Committed && !f.gone {
		if err := nonZero(medium, r.DataOffset, r.DataLength); err != nil {
			t.Errorf("%s: %s at %s: the bootstrap data stays: %v", j.name, f.name, op, err)
		}
	}
	if f.name == vanishes && err != nil && !errors.Is(err, syscall.ENXIO) {
		t.Errorf("the cause is lost: %v", err)
	}
}

// nonZero is an error if a range of a disk is not zeros.
func nonZero(d *disktest.Disk, offset, length int64) error {
	b := make([]byte, length)
	if _, err := d.ReadAt(b, offset); err != nil {
		return err
	}
	if !isZero(b) {
		return fmt.Errorf("the bytes from %d to %d are not all zeros", offset, offset+length)
	}
	return nil
}

// TestEmptyIsReadBack: a failure says so if the disk takes the zeros after it, and keeps what it had. The reason is that of the failure.
func TestEmptyIsReadBack(t *testing.T) {
	c := oneSetup(4*mib+64<<10, 0)
	for _, lost := range []bool{false, true} {
		d, s := c.newDisk(), c.newSource()
		s.commit = func() error {
			if lost {
				d.Hook = func(op disktest.Op) error {
					if op.Kind == disktest.Zero {
						return disktest.ErrLost
					}
					return nil
				}
			}
			return failure.New(wire.ReasonPlanInvalid, "it is not allowed")
		}
		r, err := Write(t.Context(), c.options(d, s))
		if !failure.HasReason(err, wire.ReasonPlanInvalid) || strings.Contains(err.Error(), "could not be emptied") != lost {
			t.Errorf("zeros are lost: %t, and the error is %v", lost, err)
		}
		if stays := nonZero(d.Clone(), r.DataOffset, r.DataLength) != nil; stays != lost || r.DataLength == 0 {
			t.Errorf("zeros are lost: %t, and the bootstrap data stays: %t", lost, stays)
		}
	}
}

// TestReadBackFromMedium: all that is read back before the commit was flushed before, so it does not come from a cache of the disk.
func TestReadBackFromMedium(t *testing.T) {
	c := oneSetup(4*mib+64<<10, 0)
	d, s := c.newDisk(), c.newSource()
	var ops []disktest.Op
	s.commit = func() error {
		ops = d.Ops()
		return nil
	}
	if _, err := Write(t.Context(), c.options(d, s)); err != nil {
		t.Fatal(err)
	}
	changed, flushed := 0, 0
	for i, op := range ops {
		switch op.Kind {
		case disktest.Write, disktest.Zero:
			changed = i
		case disktest.Flush:
			flushed = i
		case disktest.Read:
		}
	}
	if flushed < changed {
		t.Fatalf("%s is not flushed before the commit", ops[changed])
	}
	if at := slices.IndexFunc(ops[changed:flushed], func(op disktest.Op) bool { return op.Kind == disktest.Read }); at >= 0 {
		t.Errorf("%s comes before the flush", ops[changed+at])
	}
}
