package format

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// l1Window is how much of the L1 table is in memory, in bytes.
const l1Window = 64 << 10

// maxClusterWindow bounds the window of a compressed cluster, in bytes. A cluster has at most 2 MiB.
const maxClusterWindow = 8 << 20

// qcow2 reads the disk in a qcow2 file. Its memory is bounded: a part of the L1 table, one L2 table, and one compressed cluster with its content, all of which
// are at most 2^maxClusterBits bytes, or twice that.
type qcow2 struct {
	qcow2Header

	file     io.ReaderAt
	fileSize uint64
	offset   int64 // of the next byte of the disk

	l1      []byte // entries from l1First on
	l1First uint64
	l2      []byte // the table at l2Offset
	l2At    uint64 // 0 for none

	packed  []byte
	cluster []byte // the content of the compressed cluster with the entry clusterOf
	holds   uint64 // 0 for none
	inflate io.ReadCloser
	zstd    *zstd.Decoder
}

// NewQCOW2 returns a Reader of the disk in a qcow2 file of fileSize bytes, and the size of the disk.
func NewQCOW2(file io.ReaderAt, fileSize int64, limits Limits) (Reader, int64, error) {
	h, err := readQCOW2Header(file, fileSize, limits)
	if err != nil {
		return nil, 0, err
	}
	q := &qcow2{qcow2Header: h, file: file, fileSize: uint64(fileSize)} //nolint:gosec // a file has no negative size
	return q, h.size, nil
}

func (q *qcow2) Close() {
	if q.zstd != nil {
		q.zstd.Close()
	}
}

func (q *qcow2) ReadChunk(ctx context.Context, p []byte) (int, bool, error) {
	if q.offset >= q.size {
		return 0, false, io.EOF
	}
	p = p[:min(int64(len(p)), q.size-q.offset)]
	clean := 0 // p is zeros, or is not changed yet, up to here
	hole := true
	for done := 0; done < len(p); {
		if err := ctx.Err(); err != nil {
			return 0, false, err
		}
		entry, span, err := q.lookup(uint64(q.offset) + uint64(done)) //nolint:gosec // positive
		if err != nil {
			return 0, false, err
		}
		part := p[done:min(uint64(len(p)), uint64(done)+span)]
		if entry != 0 {
			clear(p[clean:done])
			if err := q.read(entry, part, uint64(q.offset)+uint64(done)); err != nil { //nolint:gosec // positive
				return 0, false, err
			}
			clean, hole = done+len(part), false
		}
		done += len(part)
	}
	if !hole {
		clear(p[clean:])
	}
	q.offset += int64(len(p))
	return len(p), hole, nil
}

// lookup returns the L2 entry for an offset of the disk, or 0 for zeros, and how many bytes from there on it is for.
func (q *qcow2) lookup(offset uint64) (entry, span uint64, err error) {
	perL1 := q.bytesPerL1()
	l1, err := q.l1Entry(offset / perL1)
	if err != nil {
		return 0, 0, err
	}
	if l1&l1EntryReserved != 0 {
		return 0, 0, invalid("the qcow2 file has an L1 entry with reserved bits")
	}
	table := l1 & entryOffset
	if table == 0 {
		return 0, perL1 - offset%perL1, nil
	}
	cluster := uint64(1) << q.clusterBits
	if table != q.l2At {
		if !inside(table, cluster, cluster, q.fileSize) {
			return 0, 0, invalid("the qcow2 file has an L2 table outside of the file, or not at a cluster")
		}
		if q.l2 == nil {
			q.l2 = make([]byte, cluster)
		}
		q.l2At = 0
		if err := q.readAt(q.l2, table); err != nil {
			return 0, 0, err
		}
		q.l2At = table
	}
	entry = binary.BigEndian.Uint64(q.l2[offset%perL1>>q.clusterBits*8:])
	span = cluster - offset%cluster
	switch {
	case entry&entryCompressed != 0:
		return entry, span, nil
	case entry&entryReserved != 0:
		return 0, 0, invalid("the qcow2 file has an L2 entry with reserved bits")
	case entry&entryZero != 0:
		if q.version < 3 {
			return 0, 0, invalid("the qcow2 file has version 2 and a zero cluster, which version 3 added")
		}
		return 0, span, nil
	case entry&entryOffset == 0:
		return 0, span, nil
	}
	return entry, span, nil
}

// l1Entry returns an entry of the L1 table.
func (q *qcow2) l1Entry(index uint64) (uint64, error) {
	if q.l1 == nil || index < q.l1First || index >= q.l1First+uint64(len(q.l1)/8) {
		first := index - index%(l1Window/8)
		size := min(l1Window, (uint64(q.l1Size)-first)*8)
		if q.l1 == nil {
			q.l1 = make([]byte, l1Window)
		}
		q.l1 = q.l1[:size]
		if err := q.readAt(q.l1, q.l1Offset+first*8); err != nil {
			q.l1 = nil
			return 0, err
		}
		q.l1First = first
	}
	return binary.BigEndian.Uint64(q.l1[(index-q.l1First)*8:]), nil
}

// readAt reads bytes that must be in the file.
func (q *qcow2) readAt(p []byte, offset uint64) error {
	n, err := q.file.ReadAt(p, int64(offset)) //nolint:gosec // in the file
	switch {
	case n == len(p):
		return nil
	case errors.Is(err, io.EOF):
		return invalid("the qcow2 file is truncated")
	default:
		return err
	}
}

// read reads a part of a cluster, which is at an offset of the disk.
func (q *qcow2) read(entry uint64, p []byte, offset uint64) error {
	within := offset & (1<<q.clusterBits - 1)
	if entry&entryCompressed != 0 {
		if err := q.decompress(entry); err != nil {
			return err
		}
		copy(p, q.cluster[within:])
		return nil
	}
	host := entry & entryOffset
	if host&(1<<q.clusterBits-1) != 0 || host < 1<<q.clusterBits || host >= q.fileSize {
		return invalid("the qcow2 file has a data cluster outside of the file, or not at a cluster")
	}
	// The last cluster of a file may be incomplete. The rest of it is zeros: QEMU reads after the end of a file as zeros.
	there := uint64(0)
	if host+within < q.fileSize {
		there = min(uint64(len(p)), q.fileSize-host-within)
	}
	clear(p[there:])
	return q.readAt(p[:there], host+within)
}

// decompress reads a compressed cluster into q.cluster.
func (q *qcow2) decompress(entry uint64) error {
	if q.holds == entry {
		return nil
	}
	// The entry has the offset in bits 0 to x-1, and the number of additional sectors of 512 bytes in bits x to 61.
	x := 62 - (q.clusterBits - 8)
	offset := entry & (1<<x - 1)
	sectors := entry&(entryCompressed-1)>>x + 1
	length := sectors*512 - offset%512
	if offset < 1<<q.clusterBits || offset >= q.fileSize {
		return invalid("the qcow2 file has a compressed cluster outside of the file")
	}
	length = min(length, q.fileSize-offset) // the last sector of a file may be incomplete
	if q.cluster == nil {
		q.cluster, q.packed = make([]byte, 1<<q.clusterBits), make([]byte, 2<<q.clusterBits+512)
	}
	q.holds = 0
	packed := q.packed[:length]
	if err := q.readAt(packed, offset); err != nil {
		return err
	}
	from, err := q.decoder(packed)
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(from, q.cluster); err != nil {
		return invalid("the qcow2 file has a damaged compressed cluster: %.200s", err.Error())
	}
	q.holds = entry
	return nil
}

// decoder returns the content of a compressed cluster. There may be other clusters' data after its end.
func (q *qcow2) decoder(packed []byte) (io.Reader, error) {
	from := bytes.NewReader(packed)
	var err error
	if q.compression == compressionZSTD {
		if q.zstd == nil {
			q.zstd, err = zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxClusterWindow))
		} else {
			err = q.zstd.Reset(from)
		}
		if err != nil {
			return nil, invalid("the qcow2 file has a damaged compressed cluster: %.200s", err.Error())
		}
		return q.zstd, nil
	}
	if q.inflate == nil {
		q.inflate = flate.NewReader(from)
		return q.inflate, nil
	}
	resetter, ok := q.inflate.(flate.Resetter)
	if !ok {
		return nil, errors.New("the decoder of deflate cannot be used again")
	}
	return q.inflate, resetter.Reset(from, nil)
}
