package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

const (
	// perExtent is how many chunks one request asks for: the latency of a request is small against the time of 16 MiB.
	perExtent = 16
	// readAhead is how many chunks are fetched and not yet written: 32 MiB.
	readAhead = 32
	// maxZero is how much is zeroed at once, so that the progress moves and a cancellation is seen.
	maxZero = 64 << 20
	// maxCorrupt is how often a chunk is fetched again after a wrong digest.
	maxCorrupt = 3
	// stalledAfter is the time in which a request must deliver a chunk. The slowest accepted rate is 17 KiB/s.
	stalledAfter = time.Minute
)

// item is a part of the image: a chunk that is verified, or a hole.
type item struct {
	offset, length int64
	content        []byte // nil for a hole
}

// fetcher fetches chunks in their order.
type fetcher struct {
	source  Source
	free    chan []byte
	out     chan item
	backoff retry.Backoff
}

// writeImage writes all chunks but the first. It reads ahead while it writes.
func (w *writer) writeImage(ctx context.Context) error {
	w.meter.step(wire.StepWriting, w.m.DataBytes())
	f := &fetcher{source: w.Source, free: make(chan []byte, readAhead), out: make(chan item, readAhead)}
	for range readAhead {
		f.free <- nil // allocated when it is needed
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(f.out)
		return f.all(ctx, w.m)
	})
	group.Go(func() error {
		for i := range f.out {
			if err := w.writeItem(ctx, i); err != nil {
				return err
			}
			if i.content != nil {
				f.free <- i.content
			}
		}
		return nil
	})
	return group.Wait()
}

func (w *writer) writeItem(ctx context.Context, i item) error {
	if i.content == nil {
		return w.zero(ctx, span{i.offset, i.length})
	}
	part := i.content[:i.length]
	for _, h := range w.withheld {
		h.capture(i.offset, part)
	}
	if _, err := w.Device.WriteAt(part, i.offset); err != nil {
		return w.diskFailed("write", i.offset, err)
	}
	w.result.ImageBytes += i.length
	w.meter.add(i.length)
	return nil
}

// zero zeros a range in parts.
func (w *writer) zero(ctx context.Context, s span) error {
	for s.length > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(s.length, maxZero)
		if err := w.Device.ZeroRange(s.offset, n); err != nil {
			return w.diskFailed("zero", s.offset, err)
		}
		w.meter.add(0)
		s.offset, s.length = s.offset+n, s.length-n
	}
	return nil
}

// all sends all parts of the image behind the first chunk.
func (f *fetcher) all(ctx context.Context, m *manifest.Manifest) error {
	var run []manifest.Chunk // consecutive chunks with data
	var hole span
	finish := func() error {
		defer func() { run, hole = run[:0], span{} }()
		if hole.length > 0 {
			return f.send(ctx, item{offset: hole.offset, length: hole.length})
		}
		return f.fetch(ctx, run)
	}
	for c := range m.All() {
		if c.Index == 0 {
			continue
		}
		if c.Hole && len(run) > 0 || !c.Hole && hole.length > 0 || len(run) == perExtent {
			if err := finish(); err != nil {
				return err
			}
		}
		switch {
		case !c.Hole:
			run = append(run, c)
		case hole.length == 0:
			hole = span{c.Offset, c.Length}
		default:
			hole.length += c.Length
		}
	}
	return finish()
}

func (f *fetcher) send(ctx context.Context, i item) error {
	select {
	case f.out <- i:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// corruptError is a chunk with a wrong digest.
type corruptError struct {
	chunk manifest.Chunk
	got   manifest.Digest
}

func (e *corruptError) Error() string {
	return fmt.Sprintf("chunk %d (byte %d) has the digest sha256:%x, and the manifest says sha256:%x", e.chunk.Index, e.chunk.Offset, e.got, e.chunk.Digest)
}

// fetch sends consecutive chunks. After an error it goes on at the chunk where it stopped.
func (f *fetcher) fetch(ctx context.Context, run []manifest.Chunk) error {
	bad := 0
	for len(run) > 0 {
		sent, err := f.extent(ctx, run)
		run = run[sent:]
		if sent > 0 {
			bad = 0
			f.backoff.Succeeded()
		}
		if err == nil {
			continue
		}
		if corrupt, ok := errors.AsType[*corruptError](err); ok {
			if bad++; bad > maxCorrupt {
				return failure.New(wire.ReasonImageCorrupt, "%w, after %d attempts (check the memory and the network of the server, and the boot server's disk)", corrupt, bad)
			}
		}
		if err := f.backoff.Wait(ctx, err); err != nil {
			return err
		}
	}
	return nil
}

var errStalled = errors.New("the boot server sends nothing")

// extent fetches a run of chunks with one request, and returns how many it sent.
func (f *fetcher) extent(ctx context.Context, run []manifest.Chunk) (sent int, err error) {
	request, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stalledAfter, func() { cancel(errStalled) })
	defer stalled.Stop()

	last := run[len(run)-1]
	body, err := f.source.Extent(request, run[0].Offset, last.Offset+last.Length-run[0].Offset)
	if err != nil {
		return 0, cause(request, err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	for _, c := range run {
		stalled.Stop() // a slow disk is no slow network
		var b []byte
		select {
		case b = <-f.free:
		case <-ctx.Done():
			return sent, context.Cause(ctx)
		}
		if b == nil {
			b = make([]byte, manifest.ChunkSize)
		}
		stalled.Reset(stalledAfter)
		if _, err := io.ReadFull(body, b[:c.Length]); err != nil {
			f.free <- b
			return sent, cause(request, fmt.Errorf("chunk %d: %w", c.Index, err))
		}
		if got := manifest.Digest(sha256.Sum256(b[:c.Length])); got != c.Digest {
			f.free <- b
			return sent, &corruptError{c, got}
		}
		if err := f.send(ctx, item{offset: c.Offset, length: c.Length, content: b}); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// cause adds why a request was cancelled.
func cause(request context.Context, err error) error {
	if reason := context.Cause(request); errors.Is(reason, errStalled) {
		return fmt.Errorf("%w: %w", reason, err)
	}
	return err
}
