package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
)

// Signature is a magic number that says what a disk, or a part of it, contains.
type Signature struct {
	// Type is gpt, mbr, lvm2, md, zfs, ext, xfs, btrfs, vfat, exfat, ntfs, swap, luks, iso9660, bcache, vmfs, gpfs, gfs2, ocfs2, bluestore, imsm, ddf, f2fs, bcachefs,
	// jfs, reiserfs, nilfs2, udf, hfsplus, apfs, erofs or squashfs.
	Type string
	// Offset and Length are what must be zeroed to remove it, in bytes from the start of the disk.
	Offset, Length int64
	// Label is the label of a file system.
	Label string
	// Partition is the number of the partition that has it, 0 for the disk itself. PartitionGUID is its unique GUID in a GPT.
	Partition     int
	PartitionGUID string
}

// shared are the file systems that several servers may use at once. An agent that finds one sees the storage of others.
var shared = []string{"vmfs", "gpfs", "gfs2", "ocfs2"}

// maxSignatures bounds what is returned for a disk, and maxPartitions how many partitions are read.
const (
	maxSignatures = 1024
	maxPartitions = 256
)

// magic is a magic number at an offset. The offsets are those of the formats, as blkid(8) of util-linux lists them.
type magic struct {
	kind   string
	offset int64
	magic  string
	// label is the offset of the label from the start of the volume, and labelLength its size.
	label, labelLength int64
}

var magics = []magic{
	{"ext", 0x438, "\x53\xef", 0x478, 16},
	{"xfs", 0, "XFSB", 108, 12},
	{"btrfs", 0x10040, "_BHRfS_M", 0x1012b, 256},
	{"btrfs", 64<<20 + 0x40, "_BHRfS_M", 0, 0},
	{"btrfs", 256<<30 + 0x40, "_BHRfS_M", 0, 0},
	{"exfat", 3, "EXFAT   ", 0, 0},
	{"ntfs", 3, "NTFS    ", 0, 0},
	{"luks", 0, "LUKS\xba\xbe", 0, 0},
	{"luks", 0x4000, "SKUL\xba\xbe", 0, 0},
	{"luks", 0x8000, "SKUL\xba\xbe", 0, 0},
	{"luks", 0x10000, "SKUL\xba\xbe", 0, 0},
	{"luks", 0x20000, "SKUL\xba\xbe", 0, 0},
	{"luks", 0x40000, "SKUL\xba\xbe", 0, 0},
	{"luks", 0x80000, "SKUL\xba\xbe", 0, 0},
	{"luks", 0x100000, "SKUL\xba\xbe", 0, 0},
	{"luks", 0x200000, "SKUL\xba\xbe", 0, 0},
	{"luks", 0x400000, "SKUL\xba\xbe", 0, 0},
	{"iso9660", 0x8001, "CD001", 0x8028, 32},
	{"iso9660", 0x8801, "CD001", 0, 0},
	{"bcache", 0x1018, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", 0, 0},
	{"vmfs", 0x100000, "\x0d\xd0\x01\xc0", 0, 0},
	{"vmfs", 0x200000, "\x5e\xf1\xab\x2f", 0, 0},
	{"gfs2", 0x10000, "\x01\x16\x19\x70\x00\x00\x00\x01", 0, 0}, // also gfs
	{"ocfs2", 0x400, "OCFSV2", 0, 0},
	{"ocfs2", 0x800, "OCFSV2", 0, 0},
	{"ocfs2", 0x1000, "OCFSV2", 0, 0},
	{"ocfs2", 0x2000, "OCFSV2", 0, 0},
	{"ocfs2", 8, "OracleCFS", 0, 0},
	{"bluestore", 0, "bluestore block device", 0, 0},
	{"lvm2", 0x000, "LABELONE", 0, 0},
	{"lvm2", 0x200, "LABELONE", 0, 0},
	{"lvm2", 0x400, "LABELONE", 0, 0},
	{"lvm2", 0x600, "LABELONE", 0, 0},
	{"md", 0, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00", 0, 0},      // version 1.1
	{"md", 0x1000, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00", 0, 0}, // version 1.2
	{"f2fs", 0x400, "\x10\x20\xf5\xf2", 0, 0},
	{"bcachefs", 0x1018, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", 0, 0},
	{"jfs", 0x8000, "JFS1", 0, 0},
	{"reiserfs", 0x10034, "ReIsEr", 0, 0},
	{"nilfs2", 0x406, "\x34\x34", 0, 0},
	{"udf", 0x8001, "BEA01", 0, 0},
	{"hfsplus", 0x400, "H+\x00\x04", 0, 0},
	{"hfsplus", 0x400, "HX\x00\x05", 0, 0},
	{"apfs", 0x20, "NXSB", 0, 0},
	{"erofs", 0x400, "\xe2\xe1\xf5\xe0", 0, 0},
	{"squashfs", 0, "hsqs", 0, 0},
	{"swap", 0xff6, "SWAPSPACE2", 0x41c, 16},
	{"swap", 0x1ff6, "SWAPSPACE2", 0x41c, 16},
	{"swap", 0x3ff6, "SWAPSPACE2", 0x41c, 16},
	{"swap", 0x7ff6, "SWAPSPACE2", 0x41c, 16},
	{"swap", 0xfff6, "SWAPSPACE2", 0x41c, 16},
	{"swap", 0xff6, "SWAP-SPACE", 0, 0},
}

// Signatures returns the signatures of a disk and of its partitions. size is in bytes, and sector the sector size. What is damaged is left out. An error
// means that the disk cannot be read.
func Signatures(r io.ReaderAt, size int64, sector int) ([]Signature, error) {
	reads := &reads{r: r}
	r = reads
	v := &volume{r: r, size: size}
	v.scan()
	parts := v.tables(size, sector)
	for _, p := range parts[:min(len(parts), maxPartitions)] {
		first, last := int64(p.First), int64(p.Last) //nolint:gosec // bounded by tables
		part := &volume{r: r, base: first * int64(sector), size: (last - first + 1) * int64(sector), number: p.Number, guid: p.GUID}
		if kind := p.Shared(); kind != "" {
			part.add(Signature{Type: kind, Offset: 0, Length: 512})
		}
		part.scan()
		v.found = append(v.found, part.found...)
	}
	return v.found[:min(len(v.found), maxSignatures)], reads.err
}

// PartitionNames returns the labels of the partitions in the primary and in the backup GPT, with a bound of maxPartitions. A damaged table has no labels.
func PartitionNames(r io.ReaderAt, size int64, sector int) []string {
	var names []string
	for _, lba := range []uint64{1, uint64(max(size, 0))/uint64(max(sector, 1)) - 1} {
		table, err := gpt.Read(r, lba, size, sector)
		if err != nil {
			continue
		}
		for _, p := range table.Partitions() {
			if name := strings.TrimSpace(p.Name); name != "" && !slices.Contains(names, name) && len(names) < maxPartitions {
				names = append(names, name)
			}
		}
	}
	return names
}

// reads keeps the first error of a reader: a disk that cannot be read is not one without signatures.
type reads struct {
	r   io.ReaderAt
	err error
}

func (r *reads) ReadAt(b []byte, offset int64) (int, error) {
	n, err := r.r.ReadAt(b, offset)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("cannot read %d bytes at %d: %w", len(b), offset, err)
	}
	return n, err
}

// volume is a disk or a partition.
type volume struct {
	r          io.ReaderAt
	base, size int64
	number     int
	guid       gpt.GUID
	found      []Signature
}

// at returns the bytes at an offset, or nil outside of the volume or if they cannot be read.
func (v *volume) at(offset, length int64) []byte {
	if offset < 0 || length <= 0 || offset > v.size-length {
		return nil
	}
	b := make([]byte, length)
	if _, err := v.r.ReadAt(b, v.base+offset); err != nil {
		return nil
	}
	return b
}

func (v *volume) has(offset int64, magic string) bool {
	return string(v.at(offset, int64(len(magic)))) == magic
}

// add adds a signature with an offset from the start of the volume.
func (v *volume) add(s Signature) {
	s.Offset, s.Partition = s.Offset+v.base, v.number
	if v.guid != (gpt.GUID{}) {
		s.PartitionGUID = v.guid.String()
	}
	v.found = append(v.found, s)
}

// scan finds the signatures of formats.
func (v *volume) scan() {
	for _, m := range magics {
		if v.has(m.offset, m.magic) {
			v.add(Signature{Type: m.kind, Offset: m.offset, Length: int64(len(m.magic)), Label: text(v.at(m.label, m.labelLength))})
		}
	}
	v.scanFAT()
	v.scanEnd()
	v.scanZFS()
}

// maxText is the maximum length of a text of a disk, in bytes.
const maxText = 256

// text returns a text of a disk, which ends with a zero byte or with spaces.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return printable.Line(string(b), maxText)
}

// scanEnd finds what is at the end of a volume: the superblocks of md 0.90 and 1.0 (Documentation/admin-guide/md.rst, md_p.h), and those of firmware RAID.
func (v *volume) scanEnd() {
	const md = "\xfc\x4e\x2b\xa9"
	if at := v.size&^0xffff - 0x10000; v.has(at, md) || v.has(at, "\xa9\x2b\x4e\xfc") {
		v.add(Signature{Type: "md", Offset: at, Length: 4})
	}
	if at := (v.size/512 - 16) &^ 7 * 512; v.has(at, md+"\x01\x00\x00\x00") {
		v.add(Signature{Type: "md", Offset: at, Length: 8})
	}
	const imsm = "Intel Raid ISM Cfg Sig. "
	for _, at := range []int64{v.size - 2*512, v.size - 2*4096} {
		if v.has(at, imsm) {
			v.add(Signature{Type: "imsm", Offset: at, Length: int64(len(imsm))})
		}
	}
	const ddf = "\xde\x11\xde\x11"
	if v.has(v.size-512, ddf) {
		v.add(Signature{Type: "ddf", Offset: v.size - 512, Length: int64(len(ddf))})
	}
}

// scanZFS finds the four labels of a vdev (ZFS on-disk specification, 1.2): two at the start and two at the end, of 256 KiB each, with the uberblocks in
// their second half.
func (v *volume) scanZFS() {
	const label = 256 << 10
	end := v.size &^ (label - 1)
	for _, at := range []int64{0, label, end - 2*label, end - label} {
		blocks := v.at(at+label/2, label/2)
		for ; len(blocks) >= 1024; blocks = blocks[1024:] {
			if m := binary.LittleEndian.Uint64(blocks); m == 0x00bab10c || m == 0x0cb1ba0000000000 {
				v.add(Signature{Type: "zfs", Offset: at, Length: label})
				break
			}
		}
	}
}

// tables finds partition tables, and returns the partitions of those that are valid. They are inside of the disk.
func (v *volume) tables(size int64, sector int) []gpt.Partition {
	var parts []gpt.Partition
	for _, s := range []int64{512, 4096} {
		v.gpt(s, s)
		v.gpt(size/s*s-s, s)
	}
	if t, err := gpt.Read(v.r, 1, size, sector); err == nil {
		parts = t.Partitions()
		if at := t.AlternateLBA; at < uint64(max(size, 0))/uint64(sector) { //nolint:gosec // positive
			v.gpt(int64(at)*int64(sector), int64(sector)) //nolint:gosec // inside of the disk
		}
	} else if size >= int64(sector) {
		if backup, err := gpt.Read(v.r, uint64(size/int64(sector))-1, size, sector); err == nil { //nolint:gosec // positive
			parts = backup.Partitions()
		}
	}
	mbr, err := gpt.ReadMBR(v.r, size, sector)
	isFAT := slices.ContainsFunc(v.found, func(s Signature) bool { return slices.Contains([]string{"vfat", "exfat", "ntfs"}, s.Type) })
	if err == nil && (len(mbr) > 0 || !isFAT) {
		v.add(Signature{Type: "mbr", Offset: 510, Length: 2})
	}
	if len(parts) == 0 {
		parts = mbr
	}
	return slices.DeleteFunc(parts, func(p gpt.Partition) bool {
		return p.Protective() || p.First == 0 || p.First > p.Last || p.Last >= uint64(max(size, 0))/uint64(sector) //nolint:gosec // positive
	})
}

// gpt adds the header of a GPT at an offset, unless it is known. The CRC is not checked: firmware may be less strict.
func (v *volume) gpt(offset, sector int64) {
	const header = "EFI PART"
	known := slices.ContainsFunc(v.found, func(s Signature) bool { return s.Type == "gpt" && s.Offset == offset })
	if !known && offset > 0 && v.has(offset, header) {
		v.add(Signature{Type: "gpt", Offset: offset, Length: min(sector, v.size-offset)})
	}
}
