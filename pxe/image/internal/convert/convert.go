// Package convert makes of a disk image, as it was published, what the boot server serves: a sparse raw file, and the manifest.
//
// The result depends on the content of the disk alone: a raw, a qcow2 and a compressed image of one disk have the same result.
//
// A small file may contain a huge disk. Three bounds keep that from being an attack. The disk has at most Options.MaxSize bytes. Zeros are legitimate and
// cost no space, so only blocks of 4 KiB that are not all zeros count as data. The data is limited to MaxRatio times the size of the source, plus
// dataAllowance. And each chunk with data is counted against the caller's disk space before it is written (Options.Reservation). What is left is time, which
// the context bounds.
package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/internal/format"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/internal/layout"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

const (
	// MaxRatio is how many bytes of data a source may have for each of its own bytes. Operating systems compress to a third or a tenth; text to a
	// hundredth.
	MaxRatio = 256
	// dataAllowance is how much data any source may have.
	dataAllowance = 64 << 20
	// dataBlock is the unit in which data is counted: the block size of usual file systems.
	dataBlock = 4 << 10
	// consumedStep is how much of a source is read before its space is freed.
	consumedStep = 16 << 20
)

// Reservation counts disk space before it is used. *space.Reservation is one.
type Reservation interface {
	// Add counts n bytes before they are written. An error means that there is no space.
	Add(n int64) error
	// Sub counts n bytes that were deleted.
	Sub(n int64)
}

// Options are those of a conversion.
type Options struct {
	// MaxSize is the size of the largest disk, in bytes.
	MaxSize int64
	// Raw takes the content of the source as a raw disk, whatever it begins with. It may be compressed.
	Raw bool
	// Reservation counts the bytes of all files that the conversion writes.
	Reservation Reservation
	// Temporary is where the content of a compressed qcow2 file is stored while it is read, which is not in ascending order.
	Temporary *os.File
	// Progress gets what was read of the source, or of the disk in a qcow2 file, and the size of that, in bytes. It may be nil.
	Progress func(done, total int64)
}

// Convert reads a source, whose checksum was verified, and writes its disk to data, an empty file. It frees the space of the source while it reads, so the source
// is lost. The space of data is its chunks with data: chunks of zeros are holes. An error that the content causes is a *format.InvalidError, a
// *format.TooLargeError or a *layout.InvalidError.
func Convert(ctx context.Context, source, data *os.File, opts Options) (made *manifest.Manifest, err error) {
	// A defect of a decoder must not let one image end the process, and with it the images of all namespaces.
	defer func() {
		if cause := recover(); cause != nil {
			made, err = nil, &format.InvalidError{Message: fmt.Sprintf("the file makes its decoder fail: %.200v", cause)}
		}
	}()
	info, err := source.Stat()
	if err != nil {
		return nil, err
	}
	c := &conversion{Options: opts, sourceSize: info.Size(), dataLeft: info.Size()*MaxRatio + dataAllowance}
	reader, err := c.open(ctx, source)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if err := c.copy(ctx, reader, data); err != nil {
		return nil, err
	}
	return c.describe(ctx, data)
}

// conversion is the state of one conversion.
type conversion struct {
	Options

	sourceSize int64
	dataLeft   int64
	diskSize   int64 // 0 if it is not known before the end

	size    int64 // of the disk, so far
	chunks  []int64
	digests []manifest.Digest
}

// open returns a reader of the disk in a source.
func (c *conversion) open(ctx context.Context, source *os.File) (format.Reader, error) {
	limits := format.Limits{MaxSize: c.MaxSize}
	kind, err := c.detect(source)
	if err != nil {
		return nil, err
	}
	switch kind {
	case format.QCOW2:
		return c.openQCOW2(source, c.sourceSize)
	case format.Raw:
		return format.NewRaw(c.consume(source), limits), nil
	default:
	}
	content, err := format.Decompress(ctx, kind, c.consume(source))
	if err != nil {
		return nil, err
	}
	head := make([]byte, format.HeadSize)
	n, err := io.ReadFull(content, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.Join(err, content.Close())
	}
	inner, err := c.kindOf(head[:n])
	if err == nil && inner.Compressed() {
		err = &format.InvalidError{Message: fmt.Sprintf("the file is compressed twice, with %s and %s: compress it once", kind, inner)}
	}
	if err != nil {
		return nil, errors.Join(err, content.Close())
	}
	whole := io.MultiReader(bytes.NewReader(head[:n]), content)
	if inner == format.Raw {
		return format.NewStream(whole, limits, content), nil
	}
	size, err := c.unpack(ctx, whole)
	if err := errors.Join(err, content.Close()); err != nil {
		return nil, err
	}
	return c.openQCOW2(c.Temporary, size)
}

func (c *conversion) openQCOW2(file io.ReaderAt, size int64) (format.Reader, error) {
	reader, diskSize, err := format.NewQCOW2(file, size, format.Limits{MaxSize: c.MaxSize})
	if err != nil {
		return nil, err
	}
	c.diskSize = diskSize
	return reader, nil
}

// detect returns the format of a source.
func (c *conversion) detect(source io.ReaderAt) (format.Kind, error) {
	head := make([]byte, format.HeadSize)
	n, err := source.ReadAt(head, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return "", err
	case n == 0:
		return "", &format.InvalidError{Message: "the file is empty"}
	}
	return c.kindOf(head[:n])
}

// kindOf returns the format of a file that begins with head. A file that must be a raw disk is no qcow2 file: the same file would be two images.
func (c *conversion) kindOf(head []byte) (format.Kind, error) {
	kind, err := format.Detect(head)
	switch {
	case c.Raw && kind == format.QCOW2:
		return "", &format.InvalidError{Message: "the file is a qcow2 file, and format is Raw: remove format"}
	case c.Raw && errors.Is(err, format.ErrUnsupported):
		return format.Raw, nil
	default:
		return kind, err
	}
}

// unpack writes the content of a compressed qcow2 file to the temporary file, with holes for zeros, and returns its size. Its tables make it a little larger
// than the disk.
func (c *conversion) unpack(ctx context.Context, content io.Reader) (int64, error) {
	limits := format.Limits{MaxSize: c.MaxSize + c.MaxSize/64 + dataAllowance}
	stream := format.NewStream(content, limits, io.NopCloser(nil))
	size, left := int64(0), c.dataLeft
	chunk := make([]byte, manifest.ChunkSize)
	for {
		n, _, err := stream.ReadChunk(ctx, chunk)
		switch {
		case errors.Is(err, io.EOF):
			return size, c.Temporary.Truncate(size)
		case err != nil:
			return 0, err
		}
		if used := dataBytes(chunk[:n]); used > 0 {
			if left -= used; left < 0 {
				return 0, c.bombError()
			}
			if err := c.write(c.Temporary, chunk[:n], size); err != nil {
				return 0, err
			}
		}
		size += int64(n)
	}
}

// write writes a chunk and counts it first.
func (c *conversion) write(to io.WriterAt, p []byte, offset int64) error {
	if err := c.Reservation.Add(int64(len(p))); err != nil {
		return err
	}
	_, err := to.WriteAt(p, offset)
	return err
}

func (c *conversion) bombError() error {
	return &format.InvalidError{Message: fmt.Sprintf(
		"the file has %d bytes and contains more than %d times as much data: this is no operating system, or publish it with less compression", c.sourceSize, MaxRatio)}
}

// copy writes the chunks with data to data, and remembers their digests.
func (c *conversion) copy(ctx context.Context, reader format.Reader, data *os.File) error {
	chunk := make([]byte, manifest.ChunkSize)
	for {
		n, hole, err := reader.ReadChunk(ctx, chunk)
		if errors.Is(err, io.EOF) {
			return data.Truncate(c.size)
		}
		if err != nil {
			return err
		}
		if !hole {
			if err := c.copyChunk(data, chunk[:n]); err != nil {
				return err
			}
		}
		c.size += int64(n)
		if c.Progress != nil && c.diskSize > 0 {
			c.Progress(c.size, c.diskSize)
		}
	}
}

func (c *conversion) copyChunk(data io.WriterAt, p []byte) error {
	used := dataBytes(p)
	if used == 0 {
		return nil
	}
	if c.dataLeft -= used; c.dataLeft < 0 {
		return c.bombError()
	}
	c.chunks = append(c.chunks, c.size/manifest.ChunkSize)
	c.digests = append(c.digests, sha256.Sum256(p))
	return c.write(data, p, c.size)
}

var zeros [dataBlock]byte

// dataBytes is the size of the blocks that are not all zeros.
func dataBytes(p []byte) int64 {
	var n int64
	for len(p) > 0 {
		block := p[:min(dataBlock, len(p))]
		if !bytes.Equal(block, zeros[:len(block)]) {
			n += int64(len(block))
		}
		p = p[len(block):]
	}
	return n
}

// describe makes the manifest, and pads the disk with zeros to whole sectors.
func (c *conversion) describe(ctx context.Context, data *os.File) (*manifest.Manifest, error) {
	if c.size == 0 {
		return nil, &format.InvalidError{Message: "the disk in the image is empty"}
	}
	header, err := layout.Scan(ctx, data, c.size)
	if err != nil {
		return nil, err
	}
	m, err := manifest.New(header)
	if err != nil {
		return nil, err
	}
	if err := data.Truncate(header.Size); err != nil {
		return nil, err
	}
	for i, index := range c.chunks {
		digest := c.digests[i]
		if header.Size != c.size && index == m.Chunks()-1 {
			padded := make([]byte, header.Size-index*manifest.ChunkSize)
			if _, err := data.ReadAt(padded, index*manifest.ChunkSize); err != nil {
				return nil, err
			}
			if err := c.Reservation.Add(header.Size - c.size); err != nil {
				return nil, err
			}
			digest = sha256.Sum256(padded)
		}
		m.SetData(index, digest)
	}
	return m, nil
}

// consume returns a reader of a source that frees the space of what was read, so that a source and its disk are not both on the disk.
func (c *conversion) consume(source *os.File) io.Reader {
	return &consumer{conversion: c, file: source, reader: io.NewSectionReader(source, 0, c.sourceSize)}
}

type consumer struct {
	*conversion

	file        *os.File
	reader      io.Reader
	read, freed int64
	kept        bool // the file system cannot free a part of a file
}

func (c *consumer) Read(p []byte) (int, error) {
	n, err := c.reader.Read(p)
	c.read += int64(n)
	if c.Progress != nil {
		c.Progress(c.read, c.sourceSize)
	}
	if step := c.read - c.freed; step >= consumedStep && !c.kept {
		// fallocate(2): not all file systems support this. Then the space is freed at the end.
		if err := unix.Fallocate(int(c.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, c.freed, step); err != nil {
			c.kept = true
		} else {
			c.Reservation.Sub(step)
			c.freed = c.read
		}
	}
	return n, err
}
