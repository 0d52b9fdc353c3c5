package erase

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
)

const (
	// samples is how many samples are read before and after an erase, and sampleSize how many bytes each has, at least a sector.
	samples    = 256
	sampleSize = 4096
	mib        = 1 << 20
)

// sample is a part of a disk.
type sample struct {
	offset int64
	// read is true if it could be read.
	read bool
	// blank is true if all bytes are zeros, or all are ones.
	blank  bool
	digest [sha256.Size]byte
}

// positions returns where samples are, in ascending order: at both ends of the disk, where tables and their backups are, in the middle, and elsewhere by random
// numbers that are the same for a disk in each run.
func positions(id wire.DiskIdentity, size int64, length int64) []int64 {
	last := (size - length) / length * length
	if last <= 0 {
		return []int64{0}
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s %s %s %d", id.SerialNumber, id.WWN, id.ByPath, id.SizeBytes) // a hash does not fail
	random := rand.New(rand.NewPCG(h.Sum64(), uint64(size)))                               //nolint:gosec // no secret: the positions are to be the same again
	out := []int64{0, length, mib, size / 2, size - mib, size - 34*512, size - 34*4096, last}
	for len(out) < samples {
		out = append(out, random.Int64N(last+length))
	}
	for i, at := range out {
		out[i] = max(0, min(at, last)) / length * length
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readSamples reads the samples of a disk.
func (u *unit) readSamples(ctx context.Context, t *target, device disk.Device) ([]sample, error) {
	length := max(int64(sampleSize), int64(device.SectorSize()))
	if device.Size() < length {
		length = int64(device.SectorSize())
	}
	buffer := make([]byte, length)
	var out []sample
	for _, at := range positions(t.disk.ID(), device.Size(), length) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		u.extendDeadline(ioTimeout)
		s := sample{offset: at}
		if n, _ := device.ReadAt(buffer, at); int64(n) == length { // a sample that cannot be read is one of the outcomes
			s.read, s.blank, s.digest = true, isBlank(buffer), sha256.Sum256(buffer)
		}
		out = append(out, s)
	}
	return out, nil
}

// isBlank is true for zeros only, and for ones only.
func isBlank(b []byte) bool {
	return (b[0] == 0 || b[0] == 0xff) && !slices.ContainsFunc(b, func(c byte) bool { return c != b[0] })
}

// sample reads the samples before the erase. A disk on which that is not possible fails: a drive that lies would be called erased without them.
func (u *unit) sample(ctx context.Context) {
	for _, t := range u.pending() {
		device := u.openBefore(t)
		if device == nil {
			continue
		}
		found, err := u.readSamples(ctx, t, device)
		if err = errors.Join(err, device.Close()); err != nil {
			t.fail(fmt.Errorf("no samples can be read before the erase: %w", err))
			continue
		}
		t.before = found
	}
}

// openBefore opens a disk before its erase, if necessary in a second attempt. It returns nil for a disk that cannot be opened, and that has failed. One that something
// holds is not erased behind its back.
func (u *unit) openBefore(t *target) disk.Device {
	device, err := u.o.Open(t.disk)
	if err != nil && !errors.Is(err, disk.ErrBusy) {
		device, err = u.o.Open(t.disk)
	}
	if err != nil {
		t.fail(fmt.Errorf("it cannot be opened before the erase: %w", err))
		return nil
	}
	return device
}

// verify reads the samples after an erase, and sets the results.
func (u *unit) verify(ctx context.Context, m Method) {
	for _, t := range u.pending() {
		after, size, err := u.samplesAfter(ctx, t)
		if err != nil {
			t.erased(m, wire.ErasureVerification{Kind: wire.Samples}, err)
			continue
		}
		v, err := judge(m.Expect, t.before, after, u.facts.MayNotRead)
		v.Bytes = int64(v.Samples-v.Unreadable) * size
		t.erased(m, v, err)
	}
}

// samplesAfter reads the samples from the medium, and returns their size.
func (u *unit) samplesAfter(ctx context.Context, t *target) ([]sample, int64, error) {
	device, err := u.o.Open(t.disk)
	if err != nil {
		return nil, 0, fmt.Errorf("it cannot be opened after the erase: %w", err)
	}
	err = device.Flush() // drops what the kernel has of it
	var after []sample
	if err == nil {
		after, err = u.readSamples(ctx, t, device)
	}
	length := max(int64(sampleSize), int64(device.SectorSize()))
	return after, length, errors.Join(err, device.Close())
}

// judge compares samples. mayNotRead is true if samples that cannot be read are no error: the drive has no data there any more. An error says why the
// verification did not pass.
func judge(expect Expectation, before, after []sample, mayNotRead bool) (wire.ErasureVerification, error) {
	v := wire.ErasureVerification{Kind: wire.DriveStatus, Samples: int32(len(after))} //nolint:gosec // there are few
	was := map[int64]sample{}
	for _, s := range before {
		was[s.offset] = s
	}
	var problems []error
	for _, s := range after {
		old := was[s.offset]
		known := old.read && !old.blank
		switch {
		case !s.read:
			v.Unreadable++
			if !mayNotRead {
				problems = append(problems, fmt.Errorf("the sample at %d cannot be read", s.offset))
			}
		case known && s.digest == old.digest:
			problems = append(problems, fmt.Errorf("the sample at %d has the content that it had before", s.offset))
		case s.blank:
			v.Blank++
		}
		if s.read && known && s.digest != old.digest {
			v.Changed++
		}
		if s.read && !s.blank && expect == Blank {
			problems = append(problems, fmt.Errorf("the sample at %d is neither zeros nor ones", s.offset))
		}
	}
	// Content that is other than before proves that something was erased. So do blanks where the method must leave them. Otherwise only the drive says it.
	if v.Changed > 0 || expect == Blank && v.Blank == v.Samples {
		v.Kind = wire.Samples
	}
	if len(after) == 0 {
		problems = append(problems, errors.New("there are no samples"))
	}
	v.Passed = len(problems) == 0
	if len(problems) > 3 {
		problems = append(problems[:3], fmt.Errorf("and %d more", len(problems)-3))
	}
	return v, errors.Join(problems...)
}
