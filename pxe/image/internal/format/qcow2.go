package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The layout of a qcow2 file is in docs/interop/qcow2.rst of QEMU; the names here are those of that document.
const (
	minClusterBits = 9
	maxClusterBits = 21
	// maxL1Bytes bounds the L1 table as QEMU does (QCOW_MAX_L1_SIZE). It is not read into memory at once.
	maxL1Bytes = 32 << 20
	// maxRefcountBytes bounds the refcount table as QEMU does (QCOW_MAX_REFTABLE_SIZE). It is not read.
	maxRefcountBytes = 8 << 20

	headerV2 = 72
	headerV3 = 104

	entryOffset      = 0x00fffffffffffe00 // of an L1 entry, and of an L2 entry of a standard cluster
	entryReserved    = 0x7f000000000001fe // in a standard cluster
	entryCompressed  = 1 << 62
	entryZero        = 1
	l1EntryReserved  = 0x7f000000000001ff
	incompatDirty    = 1 << 0
	incompatCorrupt  = 1 << 1
	incompatExternal = 1 << 2
	incompatCompress = 1 << 3
	incompatExtended = 1 << 4

	compressionDeflate = 0
	compressionZSTD    = 1
)

// qcow2Header is what the reader needs of the header.
type qcow2Header struct {
	version     uint32
	clusterBits uint32
	size        int64
	l1Size      uint32
	l1Offset    uint64
	compression uint8
}

// readQCOW2Header reads the header of a file of fileSize bytes, and refuses what the reader does not support.
func readQCOW2Header(file io.ReaderAt, fileSize int64, limits Limits) (qcow2Header, error) {
	raw := make([]byte, 112)
	n, err := file.ReadAt(raw, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return qcow2Header{}, err
	}
	raw = raw[:n]
	if n < headerV2 || string(raw[:4]) != qcow2Magic {
		return qcow2Header{}, invalid("the qcow2 file is truncated in its header")
	}
	h := qcow2Header{
		version: binary.BigEndian.Uint32(raw[4:]), clusterBits: binary.BigEndian.Uint32(raw[20:]),
		l1Size: binary.BigEndian.Uint32(raw[36:]), l1Offset: binary.BigEndian.Uint64(raw[40:]),
	}
	size := binary.BigEndian.Uint64(raw[24:])
	switch {
	case h.version != 2 && h.version != 3:
		return h, invalid("the qcow2 file has version %d: versions 2 and 3 are supported", h.version)
	case h.clusterBits < minClusterBits || h.clusterBits > maxClusterBits:
		return h, invalid("the qcow2 file has clusters of 2^%d bytes: 2^%d to 2^%d are valid", h.clusterBits, minClusterBits, maxClusterBits)
	case binary.BigEndian.Uint64(raw[8:]) != 0 || binary.BigEndian.Uint32(raw[16:]) != 0:
		return h, invalid("the qcow2 file has a backing file: flatten it with qemu-img convert")
	case binary.BigEndian.Uint32(raw[32:]) != 0:
		return h, invalid("the qcow2 file is encrypted: publish it without encryption")
	case size == 0:
		return h, invalid("the disk in the qcow2 file is empty")
	case size > uint64(limits.MaxSize): //nolint:gosec // the limit is positive
		return h, &TooLargeError{limits.MaxSize}
	}
	h.size = int64(size) //nolint:gosec // at most MaxSize
	if h.version == 3 {
		if err := h.readVersion3(raw); err != nil {
			return h, err
		}
	}
	return h, h.checkTables(raw, uint64(fileSize)) //nolint:gosec // a file has no negative size
}

// readVersion3 reads the fields that version 3 added.
func (h *qcow2Header) readVersion3(raw []byte) error {
	if len(raw) < headerV3 {
		return invalid("the qcow2 file is truncated in its header")
	}
	features, length := binary.BigEndian.Uint64(raw[72:]), binary.BigEndian.Uint32(raw[100:])
	switch {
	case features&incompatDirty != 0:
		return invalid("the qcow2 file is marked as in use, or was not closed: repair it with qemu-img check -r all")
	case features&incompatCorrupt != 0:
		return invalid("the qcow2 file is marked as corrupt: repair it with qemu-img check -r all")
	case features&incompatExternal != 0:
		return invalid("the qcow2 file has its data in another file: flatten it with qemu-img convert")
	case features&incompatExtended != 0:
		return invalid("the qcow2 file has extended L2 entries: convert it with qemu-img convert -O qcow2 -o extended_l2=off")
	case features&^incompatCompress != 0:
		return invalid("the qcow2 file has the incompatible features %#x, which are unknown", features)
	case length < headerV3 || length%8 != 0 || length > 1<<h.clusterBits:
		return invalid("the qcow2 file has a header of %d bytes", length)
	case binary.BigEndian.Uint32(raw[96:]) > 6:
		return invalid("the qcow2 file has refcounts of 2^%d bits: at most 2^6 are valid", binary.BigEndian.Uint32(raw[96:]))
	}
	if length > headerV3 && len(raw) > headerV3 {
		h.compression = raw[headerV3]
	}
	switch {
	case h.compression != compressionDeflate && h.compression != compressionZSTD:
		return invalid("the qcow2 file has the compression type %d: deflate and zstd are supported", h.compression)
	case (features&incompatCompress != 0) != (h.compression != compressionDeflate):
		return invalid("the qcow2 file has the compression type %d, which its incompatible features contradict", h.compression)
	}
	return nil
}

// checkTables verifies where the tables are. The refcounts are not needed to read the disk: only their table is checked.
func (h *qcow2Header) checkTables(raw []byte, fileSize uint64) error {
	cluster := uint64(1) << h.clusterBits
	refcounts, refcountBytes := binary.BigEndian.Uint64(raw[48:]), uint64(binary.BigEndian.Uint32(raw[56:]))<<h.clusterBits
	needed := (uint64(h.size) + h.bytesPerL1() - 1) / h.bytesPerL1() //nolint:gosec // the size is positive
	l1Bytes := uint64(h.l1Size) * 8
	switch {
	case l1Bytes > maxL1Bytes:
		return invalid("the qcow2 file has an L1 table of %d bytes: at most %d are supported", l1Bytes, maxL1Bytes)
	case uint64(h.l1Size) < needed:
		return invalid("the qcow2 file has %d L1 entries: its disk needs %d", h.l1Size, needed)
	case !inside(h.l1Offset, l1Bytes, cluster, fileSize):
		return invalid("the qcow2 file has its L1 table outside of the file, or not at a cluster")
	case refcountBytes == 0 || refcountBytes > maxRefcountBytes || !inside(refcounts, refcountBytes, cluster, fileSize):
		return invalid("the qcow2 file has its refcount table outside of the file, not at a cluster, or with an invalid size")
	case h.l1Offset < refcounts+refcountBytes && refcounts < h.l1Offset+l1Bytes:
		return invalid("the qcow2 file has overlapping tables")
	}
	return nil
}

// inside is true for a range that begins at a cluster, not in the header, and ends in the file.
func inside(offset, length, cluster, fileSize uint64) bool {
	return offset >= cluster && offset%cluster == 0 && offset <= fileSize && length <= fileSize-offset
}

// bytesPerL1 is how much of the disk an L1 entry describes: an L2 table is one cluster of entries of 8 bytes.
func (h *qcow2Header) bytesPerL1() uint64 { return 1 << (2*h.clusterBits - 3) }

func (h *qcow2Header) String() string {
	return fmt.Sprintf("qcow2 version %d with clusters of %d bytes", h.version, 1<<h.clusterBits)
}
