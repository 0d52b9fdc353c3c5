// Package gpttest writes partition tables into the images and disks of tests. It was written from the UEFI specification, and shares no code with package gpt.
package gpttest

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"unicode/utf16"
)

// Part is a partition of an image, in sectors.
type Part struct {
	First, Last uint64
	Attributes  uint64
	Name        string
	// Type is of an MBR.
	Type byte
	// GUID is the type in a GPT, as it is stored. Empty means Linux.
	GUID string
}

// The types of partitions, as they are stored.
const (
	// EFISystem is an EFI system partition, c12a7328-f81f-11d2-ba4b-00a0c93ec93b.
	EFISystem = "\x28\x73\x2a\xc1\x1f\xf8\xd2\x11\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b"
	// Linux is a Linux file system, 0fc63daf-8483-4772-8e79-3d69d8477de4.
	Linux = "\xaf\x3d\xc6\x0f\x83\x84\x72\x47\x8e\x79\x3d\x69\xd8\x47\x7d\xe4"
)

// PutGPT writes a GPT with 128 entries into an image or the content of a disk: boot code and protective MBR, the primary, and the backup in the last sectors.
func PutGPT(b []byte, sector int, parts []Part) {
	last := uint64(len(b)/sector) - 1 //nolint:gosec // positive
	PutMBR(b, nil)
	e := b[446:]
	copy(e[1:8], []byte{0, 2, 0, 0xee, 0xff, 0xff, 0xff})
	binary.LittleEndian.PutUint32(e[8:], 1)
	binary.LittleEndian.PutUint32(e[12:], uint32(last)) //nolint:gosec // images are small

	entries := make([]byte, 128*128)
	for i, p := range parts {
		if p.Last == 0 {
			continue // an entry that is not used
		}
		e := entries[128*i:]
		copy(e[:16], cmp.Or(p.GUID, Linux))
		fill(e[16:32], uint64(i)+p.First)
		binary.LittleEndian.PutUint64(e[32:], p.First)
		binary.LittleEndian.PutUint64(e[40:], p.Last)
		binary.LittleEndian.PutUint64(e[48:], p.Attributes)
		for j, u := range utf16.Encode([]rune(p.Name)) {
			binary.LittleEndian.PutUint16(e[56+2*j:], u)
		}
	}
	used := uint64(len(entries) / sector) //nolint:gosec // positive
	size := uint64(sector)                //nolint:gosec // positive
	put := func(my, other, at uint64) {
		copy(b[at*size:], entries)
		h := b[my*size:][:92]
		clear(b[my*size:][:sector])
		copy(h, "EFI PART\x00\x00\x01\x00\x5c\x00\x00\x00")
		binary.LittleEndian.PutUint64(h[24:], my)
		binary.LittleEndian.PutUint64(h[32:], other)
		binary.LittleEndian.PutUint64(h[40:], 2+used)
		binary.LittleEndian.PutUint64(h[48:], last-used-1)
		fill(h[56:72], 7)
		binary.LittleEndian.PutUint64(h[72:], at)
		binary.LittleEndian.PutUint32(h[80:], 128)
		binary.LittleEndian.PutUint32(h[84:], 128)
		binary.LittleEndian.PutUint32(h[88:], crc32.ChecksumIEEE(entries))
		binary.LittleEndian.PutUint32(h[16:], crc32.ChecksumIEEE(h))
	}
	put(1, last, 2)
	put(last, 1, last-used)
}

// PutMBR writes boot code, partitions and the signature of an MBR.
func PutMBR(b []byte, parts []Part) {
	fill(b[:440], 3)
	clear(b[440:510])
	for i, p := range parts {
		e := b[446+16*i:]
		e[4] = p.Type
		binary.LittleEndian.PutUint32(e[8:], uint32(p.First))           //nolint:gosec // images are small
		binary.LittleEndian.PutUint32(e[12:], uint32(p.Last-p.First+1)) //nolint:gosec // images are small
	}
	b[510], b[511] = 0x55, 0xaa
}

// fill writes bytes that have no zeros and depend on a seed. Their number is a multiple of 8.
func fill(b []byte, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // content of tests
	for ; len(b) >= 8; b = b[8:] {
		binary.LittleEndian.PutUint64(b, random.Uint64()|0x0101010101010101)
	}
}
