// Package format reads disk images as users publish them: raw or qcow2, each also compressed with gzip, xz, zstd or bzip2. It detects the format by the
// content.
//
// The input is hostile. A reader uses a bounded amount of memory, whatever the input says, never reads another file than the one that it gets, and ends when
// its context does. The caller bounds the total output (Limits.MaxSize), and the amount of data in it: see package convert.
package format

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// Kind is a format of a file.
type Kind string

const (
	Raw   Kind = "raw"
	QCOW2 Kind = "qcow2"
	GZIP  Kind = "gzip"
	XZ    Kind = "xz"
	ZSTD  Kind = "zstd"
	BZIP2 Kind = "bzip2"
)

// Compressed is true for a kind that contains another file.
func (k Kind) Compressed() bool { return k != Raw && k != QCOW2 }

// HeadSize is how many bytes of a file Detect needs.
const HeadSize = 512

// Limits bound an image.
type Limits struct {
	// MaxSize is the size of the largest disk, in bytes.
	MaxSize int64
}

// InvalidError means that a file is damaged, or has a format that is not supported. It is permanent.
type InvalidError struct{ Message string }

func (e *InvalidError) Error() string { return e.Message }

func invalid(format string, arguments ...any) error {
	return &InvalidError{fmt.Sprintf(format, arguments...)}
}

// TooLargeError means that a disk is larger than Limits.MaxSize.
type TooLargeError struct{ Max int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the disk in the image is larger than %d bytes", e.Max)
}

// Reader reads the disk in an image in ascending order.
type Reader interface {
	// ReadChunk fills p with the next bytes of the disk, and returns their number. It is less than len(p) only at the end of the disk. After the end the error
	// is io.EOF. hole means that the bytes are zeros, and p is not changed.
	ReadChunk(ctx context.Context, p []byte) (n int, hole bool, err error)
	// Close frees the memory of the reader. It does not close the file.
	Close()
}

// qcow2Magic is the beginning of a qcow2 file.
const qcow2Magic = "QFI\xfb"

// magics are the contents by which files are recognized.
var magics = []struct {
	kind   Kind
	offset int
	magic  string
}{
	{QCOW2, 0, qcow2Magic},
	{GZIP, 0, "\x1f\x8b\x08"},        // RFC 1952, section 2.3.1, with the only method that exists
	{XZ, 0, "\xfd7zXZ\x00"},          // The .xz file format, section 2.1.1.1
	{ZSTD, 0, "\x28\xb5\x2f\xfd"},    // RFC 8878, section 3.1.1
	{ZSTD, 0, "\x50\x2a\x4d\x18"},    // RFC 8878, section 3.1.2: a skippable frame, with which the files of pzstd begin
	{BZIP2, 4, "1AY&SY"},             // the beginning of a block, after BZh and a digit
	{BZIP2, 4, "\x17rE8P\x90"},       // the end of an empty file
	{"VMDK", 0, "KDMV"},              // a sparse extent
	{"VMDK", 0, "# Disk Descriptor"}, // a descriptor file
	{"VHDX", 0, "vhdxfile"},          // MS-VHDX, section 2.2.1
	{"VHD", 0, "conectix"},           // the copy of the footer of a dynamic disk
	{"VDI", 64, "\x7f\x10\xda\xbe"},
	{"QED", 0, "QED\x00"},
	{"Parallels", 0, "WithoutFreeSpace"},
	{"Parallels", 0, "WithouFreSpacExt"},
	{"WIM", 0, "MSWIM\x00\x00\x00"},
	{"SquashFS", 0, "hsqs"},
	{"lzip", 0, "LZIP"},
	{"lzop", 0, "\x89LZO\x00\r\n\x1a\n"},
	{"compress", 0, "\x1f\x9d"},
	{"RAR", 0, "Rar!\x1a\x07"},
	{"cpio", 0, "070701"},
	{"cpio", 0, "070702"},
	{"cpio", 0, "070707"},
	{"ar", 0, "!<arch>\n"},
	{"7z", 0, "7z\xbc\xaf\x27\x1c"},
	{"ZIP", 0, "PK\x03\x04"},
	{"LZ4", 0, "\x04\x22\x4d\x18"},
	{"tar", 257, "ustar"},
}

// Detect returns the format of a file that begins with head, of which it uses at most HeadSize bytes. A file without a known beginning is raw. A known format
// that is not supported is an *InvalidError.
func Detect(head []byte) (Kind, error) {
	for _, m := range magics {
		switch {
		case len(head) < m.offset || !bytes.HasPrefix(head[m.offset:], []byte(m.magic)) || m.kind == BZIP2 && !bytes.HasPrefix(head, []byte("BZh")):
			continue
		case slices.Contains([]Kind{QCOW2, GZIP, XZ, ZSTD, BZIP2}, m.kind):
			return m.kind, nil
		default:
			return "", unsupported(m.kind)
		}
	}
	if isLZMA(head) {
		return "", unsupported("LZMA")
	}
	return Raw, nil
}

// ErrUnsupported is the error of a file with a known format that is no disk image, or not one that can be read.
var ErrUnsupported = errors.New("the format is not supported")

func unsupported(kind Kind) error {
	return fmt.Errorf("%w%w", invalid("the file has the format %s: convert it to qcow2 or raw, for example with qemu-img convert, and compress it with gzip, xz or zstd. "+
		"If it is a raw disk that begins like such a file, set format: Raw beside its url", kind), silent{ErrUnsupported})
}

// silent is an error without a text, which is found by errors.Is.
type silent struct{ error }

func (silent) Error() string { return "" }

func (s silent) Unwrap() error { return s.error }

// isLZMA is true for the header of a file of lzma(1), which has no magic: the properties that the tool writes, a dictionary whose size is a power of two or one and a half of
// it, and a size of the content that is unknown or below 256 GiB (the LZMA SDK, lzma-specification.txt).
func isLZMA(head []byte) bool {
	const unknown, most = ^uint64(0), uint64(256 << 30)
	if len(head) < 13 || head[0] != 0x5d {
		return false
	}
	dictionary, size := binary.LittleEndian.Uint32(head[1:]), binary.LittleEndian.Uint64(head[5:])
	isSize := bits.OnesCount32(dictionary) == 1 || bits.OnesCount32(dictionary) == 2 && dictionary&(dictionary>>1) != 0
	return isSize && dictionary >= 4096 && (size == unknown || size < most)
}

// VirtualSize returns the size of the disk in a qcow2 file that begins with head, or 0 for another file. It is for an early estimate: nothing is verified.
func VirtualSize(head []byte) uint64 {
	if len(head) < 32 || !bytes.HasPrefix(head, []byte(qcow2Magic)) {
		return 0
	}
	return binary.BigEndian.Uint64(head[24:])
}

// stream is a raw disk that is read from a stream.
type stream struct {
	from  io.Reader
	left  int64
	max   int64
	ended bool
	close func()
}

// NewRaw returns a Reader of a raw disk of any size up to the limit.
func NewRaw(from io.Reader, limits Limits) Reader {
	return &stream{from: from, left: limits.MaxSize, max: limits.MaxSize, close: func() {}}
}

// NewStream returns a Reader of a raw disk that Decompress returns. Close closes content.
func NewStream(from io.Reader, limits Limits, content io.Closer) Reader {
	return &stream{from: from, left: limits.MaxSize, max: limits.MaxSize, close: func() { _ = content.Close() }}
}

func (s *stream) ReadChunk(ctx context.Context, p []byte) (int, bool, error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	if s.ended {
		return 0, false, io.EOF
	}
	n, err := io.ReadFull(s.from, p)
	switch {
	case int64(n) > s.left:
		return 0, false, &TooLargeError{s.max}
	case errors.Is(err, io.EOF):
		return 0, false, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF) && n > 0:
		s.ended = true
	case err != nil:
		return 0, false, err
	}
	s.left -= int64(n)
	return n, false, nil
}

func (s *stream) Close() { s.close() }
