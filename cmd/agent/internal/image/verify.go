package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/fit"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// inFlight is how many chunks are read and not yet checked.
const inFlight = 4

// verify flushes, and reads back what was written: the image, the bootstrap data, the record, and the zeros where the partition tables will be.
func (w *writer) verify(ctx context.Context) error {
	if err := w.Device.Flush(); err != nil {
		return w.diskFailed("flush", 0, err)
	}
	w.meter.step(wire.StepVerifying, w.m.Size)
	if err := w.verifyImage(ctx); err != nil {
		return err
	}
	if w.hasData() {
		content := w.paddedContent()
		if err := w.expect(content, w.layout.DataOffset); err != nil {
			return err
		}
		rest := int64(len(content))
		if err := w.expectZeros(ctx, span{w.layout.DataOffset + rest, w.layout.DataLength - rest}); err != nil {
			return err
		}
	}
	if w.layout.Spare >= 0 {
		if err := w.expect(record(w.unique, w.Device.SectorSize()), w.layout.Spare); err != nil {
			return err
		}
	}
	if len(w.tail) > 0 {
		return w.expectZeros(ctx, span{w.tailAt, int64(len(w.tail))})
	}
	return nil
}

// verifyImage reads the image back. One goroutine reads, the other computes digests.
func (w *writer) verifyImage(ctx context.Context) error {
	type part struct {
		manifest.Chunk

		content []byte
	}
	free, read := make(chan []byte, inFlight), make(chan part, inFlight)
	for range inFlight {
		free <- make([]byte, manifest.ChunkSize)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(read)
		for c := range w.m.All() {
			select {
			case b := <-free:
				if err := w.readDisk(b[:c.Length], c.Offset); err != nil {
					return err
				}
				read <- part{c, b} // has space for all buffers
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	group.Go(func() error {
		for p := range read {
			if err := w.verifyChunk(p.Chunk, p.content[:p.Length]); err != nil {
				return err
			}
			w.meter.add(p.Length)
			free <- p.content
		}
		return nil
	})
	return group.Wait()
}

// verifyChunk checks what the disk has of a chunk. The withheld bytes must be zeros on the disk. They are put into the chunk for its digest.
func (w *writer) verifyChunk(c manifest.Chunk, content []byte) error {
	if c.Index == 0 || c.Hole {
		return w.zeroPart(span{c.Offset, c.Length}, content)
	}
	for _, h := range w.withheld {
		if !h.overlay(c.Offset, content) {
			return w.otherData(h.offset, "the bytes that are withheld until the commit are not zeros")
		}
	}
	if got := manifest.Digest(sha256.Sum256(content)); got != c.Digest {
		return w.otherData(c.Offset, fmt.Sprintf("chunk %d has the digest sha256:%x, and sha256:%x was written", c.Index, got, c.Digest))
	}
	return nil
}

func (w *writer) zeroPart(s span, content []byte) error {
	if isZero(content) {
		return nil
	}
	at := bytes.IndexFunc(content, func(r rune) bool { return r != 0 })
	return w.otherData(s.offset+int64(max(at, 0)), "zeros were written")
}

// otherData is the failure of a disk that does not return what was written.
func (w *writer) otherData(offset int64, what string) error {
	return failure.New(wire.ReasonDiskFailed, "the disk %s (%s) returns other data than was written at byte %d: %s (replace the disk, or check its cable and controller)",
		w.Disk.Name, describe(w.Disk), offset, what)
}

// expect reads a range of the disk and compares it.
func (w *writer) expect(content []byte, offset int64) error {
	b := make([]byte, len(content))
	if err := w.readDisk(b, offset); err != nil {
		return err
	}
	if !bytes.Equal(b, content) {
		return w.otherData(offset, "the content differs")
	}
	return nil
}

func (w *writer) expectZeros(ctx context.Context, s span) error {
	b := make([]byte, min(s.length, fit.Align))
	for s.length > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := b[:min(s.length, int64(len(b)))]
		if err := w.readDisk(part, s.offset); err != nil {
			return err
		}
		if err := w.zeroPart(s, part); err != nil {
			return err
		}
		s.offset, s.length = s.offset+int64(len(part)), s.length-int64(len(part))
	}
	return nil
}
