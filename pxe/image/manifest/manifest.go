// Package manifest describes the content of a disk image in chunks on a fixed grid, with the SHA-256 digest of each chunk that has data. The boot server
// makes the manifest of an image once, and the agent verifies each chunk with it before it writes the chunk. The same image always has the same manifest,
// so that a download may continue at another replica of the boot server.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// ChunkSize is the size of a chunk in bytes. Only the last chunk of an image may be shorter.
const ChunkSize = 1 << 20

// MaxSize is the size of the largest image, in bytes: 64 TiB.
const MaxSize = 64 << 40

// version is the version of the format.
const version = 1

// magic is the beginning of a manifest.
const magic = "capbm image manifest\n"

// Digest is the SHA-256 digest of a chunk.
type Digest [sha256.Size]byte

// Table is a kind of partition table.
type Table string

const (
	GPT     Table = "gpt"
	MBR     Table = "mbr"
	NoTable Table = "none"
)

// Header describes an image.
type Header struct {
	Version int `json:"version"`
	// Size is the size of the image in bytes, a multiple of SectorSize.
	Size int64 `json:"size"`
	// SectorSize is the sector size that the image was made for, in bytes: 512 or 4096. It is where the header of the GPT is. For an image without GPT it
	// is 512.
	SectorSize int   `json:"sectorSize"`
	Table      Table `json:"table"`
	// EFILoaders are the architectures for which the image has a boot loader at the fallback path \EFI\BOOT\BOOT*.EFI (UEFI specification, 3.5.1.1), as
	// in the name of the file: x64, aa64.
	EFILoaders []string `json:"efiLoaders,omitempty"`
	// BIOSLoader is true if the first sector has boot code.
	BIOSLoader bool `json:"biosLoader,omitempty"`
}

// Manifest describes an image and its content. Chunks without a digest are holes: they are all zeros.
type Manifest struct {
	Header

	// data has a bit for each chunk, set for those with data.
	data    []byte
	digests []Digest
}

// Chunk is a chunk of an image.
type Chunk struct {
	Index  int64
	Offset int64
	Length int64
	// Hole is true for a chunk of zeros, which has no Digest.
	Hole   bool
	Digest Digest
}

// New returns the manifest of an image without chunks. SetData adds them in their order.
func New(h Header) (*Manifest, error) {
	h.Version = version
	if err := h.check(); err != nil {
		return nil, err
	}
	return &Manifest{Header: h, data: make([]byte, (h.Chunks()+7)/8)}, nil
}

func (h Header) check() error {
	switch {
	case h.Version != version:
		return fmt.Errorf("the manifest has version %d, and not %d", h.Version, version)
	case h.SectorSize != 512 && h.SectorSize != 4096:
		return fmt.Errorf("the sector size is %d, and not 512 or 4096", h.SectorSize)
	case h.Size <= 0 || h.Size > MaxSize || h.Size%int64(h.SectorSize) != 0:
		return fmt.Errorf("the size %d is not a number of sectors of %d bytes, or too large", h.Size, h.SectorSize)
	case h.Table != GPT && h.Table != MBR && h.Table != NoTable:
		return fmt.Errorf("the partition table %.20q is unknown", string(h.Table))
	default:
		return nil
	}
}

// Chunks is the number of chunks.
func (h Header) Chunks() int64 { return (h.Size + ChunkSize - 1) / ChunkSize }

// SetData sets the digest of a chunk with data. Chunks are set in ascending order.
func (m *Manifest) SetData(index int64, d Digest) {
	m.data[index/8] |= 1 << (index % 8)
	m.digests = append(m.digests, d)
}

// DataBytes is the size of all chunks with data.
func (m *Manifest) DataBytes() int64 {
	n := int64(len(m.digests)) * ChunkSize
	if last := m.Chunks() - 1; m.Size%ChunkSize != 0 && m.isData(last) {
		n -= ChunkSize - m.Size%ChunkSize
	}
	return n
}

func (m *Manifest) isData(index int64) bool { return m.data[index/8]&(1<<(index%8)) != 0 }

// All returns the chunks in their order.
func (m *Manifest) All() iter.Seq[Chunk] {
	return func(yield func(Chunk) bool) {
		next := 0
		for i := range m.Chunks() {
			offset := i * ChunkSize
			c := Chunk{Index: i, Offset: offset, Length: min(ChunkSize, m.Size-offset), Hole: !m.isData(i)}
			if !c.Hole {
				c.Digest = m.digests[next]
				next++
			}
			if !yield(c) {
				return
			}
		}
	}
}

// Encode returns the manifest as it is sent: magic, the length of the header in 4 bytes, the header as JSON, a bit for each chunk, and the digests.
func (m *Manifest) Encode() ([]byte, error) {
	header, err := json.Marshal(m.Header)
	if err != nil {
		return nil, err
	}
	out := slices.Grow([]byte(magic), len(header)+len(m.data)+len(m.digests)*sha256.Size+8)
	out = binary.BigEndian.AppendUint32(out, uint32(len(header))) //nolint:gosec // a few hundred bytes
	out = append(append(out, header...), m.data...)
	for _, d := range m.digests {
		out = append(out, d[:]...)
	}
	return out, nil
}

// maxHeader bounds the header, in bytes.
const maxHeader = 4 << 10

// errTruncated means that a manifest ends early.
var errTruncated = errors.New("the manifest is truncated")

// Decode reads an encoded manifest. It accepts only what Encode writes.
func Decode(encoded []byte) (*Manifest, error) {
	rest, ok := bytes.CutPrefix(encoded, []byte(magic))
	if !ok || len(rest) < 4 {
		return nil, errors.New("this is no manifest of an image")
	}
	length := binary.BigEndian.Uint32(rest)
	if rest = rest[4:]; length > maxHeader || int(length) > len(rest) {
		return nil, errTruncated
	}
	var h Header
	if err := json.Unmarshal(rest[:length], &h); err != nil {
		return nil, fmt.Errorf("the header of the manifest is invalid: %w", err)
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	rest = rest[length:]
	bits := (h.Chunks() + 7) / 8
	if int64(len(rest)) < bits {
		return nil, errTruncated
	}
	m := &Manifest{Header: h, data: slices.Clone(rest[:bits])}
	rest = rest[bits:]
	if len(rest)%sha256.Size != 0 {
		return nil, errTruncated
	}
	for digest := range slices.Chunk(rest, sha256.Size) {
		m.digests = append(m.digests, Digest(digest))
	}
	count := 0
	for i := range bits * 8 {
		if m.isData(i) {
			count++
			if i >= h.Chunks() {
				return nil, errors.New("the manifest has a chunk after the end of the image")
			}
		}
	}
	if count != len(m.digests) {
		return nil, fmt.Errorf("the manifest has %d digests for %d chunks", len(m.digests), count)
	}
	if again, err := m.Encode(); err != nil || !bytes.Equal(again, encoded) {
		return nil, errors.Join(errors.New("the header of the manifest is not as it is encoded"), err)
	}
	return m, nil
}

// DigestOf returns the digest of an encoded manifest, or of any other content: sha256:HEX.
func DigestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Read reads and decodes a manifest with the given digest from r.
func Read(r io.Reader, digest string, limit int64) (*Manifest, error) {
	encoded, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(encoded)) > limit:
		return nil, fmt.Errorf("the manifest is larger than %d bytes", limit)
	case DigestOf(encoded) != digest:
		return nil, fmt.Errorf("the manifest has the digest %s, and not %s", DigestOf(encoded), digest)
	}
	return Decode(encoded)
}
