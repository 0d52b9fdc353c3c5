package pxetest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Bootable judges as firmware does, EDK2's PartitionDxe above all (Gpt.c, Mbr.c): a disk is bootable with a protective MBR and a valid primary GPT, or with
// a valid backup GPT in the last sector, with which EDK2 restores the primary; or with an MBR. It shares no code with the packages gpt and fit, which it judges.
func Bootable(r io.ReaderAt, size int64, sector int) bool {
	first := sectorAt(r, size, sector, 0)
	if first == nil {
		return false
	}
	signed := first[510] == 0x55 && first[511] == 0xaa
	code := !bytes.Equal(first[:440], make([]byte, 440))
	for i := range 4 {
		e := first[446+16*i:]
		kind, start, count := e[4], binary.LittleEndian.Uint32(e[8:]), binary.LittleEndian.Uint32(e[12:])
		switch {
		case !signed || kind == 0 || count == 0:
		case kind != 0xee:
			return true // a partition of an MBR, or of a hybrid one
		case start == 1:
			if ValidGPT(r, size, sector, 1) || ValidGPT(r, size, sector, size/int64(sector)-1) {
				return true
			}
		}
	}
	// A BIOS runs the code of a signed sector; some do not look for a signature.
	return code
}

// AnyTable is stricter than Bootable: it is true as soon as a firmware that checks less than EDK2 might find something: a valid GPT at the start or the end
// without a protective MBR, the signature of an MBR, or any other content in the first sector.
func AnyTable(r io.ReaderAt, size int64, sector int) bool {
	first := sectorAt(r, size, sector, 0)
	return first == nil || !bytes.Equal(first, make([]byte, sector)) || ValidGPT(r, size, sector, 1) || ValidGPT(r, size, sector, size/int64(sector)-1)
}

func sectorAt(r io.ReaderAt, size int64, sector int, lba int64) []byte {
	b := make([]byte, sector)
	if lba < 0 || (lba+1)*int64(sector) > size {
		return nil
	}
	if _, err := r.ReadAt(b, lba*int64(sector)); err != nil {
		return nil
	}
	return b
}

// ValidGPT is true if the sector lba has the header of a valid GPT. It is PartitionValidGptTable of EDK2, which checks the signature, the CRC of the header, its own address, and the CRC of the entries.
func ValidGPT(r io.ReaderAt, size int64, sector int, lba int64) bool {
	h := sectorAt(r, size, sector, lba)
	if h == nil || !bytes.HasPrefix(h, []byte("EFI PART")) {
		return false
	}
	length := int64(binary.LittleEndian.Uint32(h[12:16]))
	if length < 92 || length > int64(sector) {
		return false
	}
	plain := bytes.Clone(h[:length])
	copy(plain[16:20], []byte{0, 0, 0, 0})
	entries, count, each := int64(binary.LittleEndian.Uint64(h[72:80])), int64(binary.LittleEndian.Uint32(h[80:84])), int64(binary.LittleEndian.Uint32(h[84:88])) //nolint:gosec // checked below
	if crc32.ChecksumIEEE(plain) != binary.LittleEndian.Uint32(h[16:20]) || int64(binary.LittleEndian.Uint64(h[24:32])) != lba {                                  //nolint:gosec // compared
		return false
	}
	if entries < 2 || entries > size/int64(sector) || count*each > 4<<20 || entries*int64(sector)+count*each > size {
		return false
	}
	table := make([]byte, count*each)
	if _, err := r.ReadAt(table, entries*int64(sector)); err != nil {
		return false
	}
	return crc32.ChecksumIEEE(table) == binary.LittleEndian.Uint32(h[88:92])
}
