package layout

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf16"
)

// errNoFAT means that a partition has no FAT file system that can be read.
var errNoFAT = errors.New("no FAT file system")

// FAT: Microsoft Extensible Firmware Initiative FAT32 File System Specification, version 1.03.
const (
	fatEntry     = 32
	fatAttribute = 11
	fatLongName  = 0x0f
	fatVolume    = 0x08
	fatFolder    = 0x10
	fatDeleted   = 0xe5
	// A folder has at most 65,536 entries (the same specification, section 6), and a file name at most 255 characters in 20 entries.
	maxFolder       = 65536 * fatEntry
	maxNameEntries  = 20
	charsPerEntry   = 13
	lastNameEntry   = 0x40
	maxFAT12        = 4085
	maxFAT16        = 65525
	firstCluster    = 2
	maxSectorSize   = 4096
	maxClusterBytes = 256 << 10
)

// architectures are those of the names of boot loaders (UEFI specification 2.10, section 3.5.1.1).
var architectures = []string{"ia32", "x64", "ia64", "arm", "aa64", "riscv32", "riscv64", "riscv128", "loongarch32", "loongarch64"}

// fat is a FAT file system.
type fat struct {
	disk    *disk
	offset  int64 // of the partition
	table   int64 // offset of the first FAT
	root    int64 // offset of the root folder of FAT12 and FAT16
	entries int64 // of that root folder
	data    int64 // offset of the first cluster
	cluster int64 // size
	count   int64 // of clusters
	start   uint32
	bits    int
}

// loaders returns the architectures of the boot loaders in a partition.
func (d *disk) loaders(p partition) ([]string, error) {
	f, err := d.openFAT(p)
	if err != nil {
		return nil, err
	}
	folder, err := f.rootFolder()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"EFI", "BOOT"} {
		i := slices.IndexFunc(folder, func(e entry) bool { return e.folder && strings.EqualFold(e.name, name) })
		if i < 0 {
			return nil, nil
		}
		if folder, err = f.folder(folder[i].cluster); err != nil {
			return nil, err
		}
	}
	var found []string
	for _, e := range folder {
		name := strings.ToLower(e.name)
		architecture := strings.TrimSuffix(strings.TrimPrefix(name, "boot"), ".efi")
		if !e.folder && e.size > 0 && name == "boot"+architecture+".efi" && slices.Contains(architectures, architecture) {
			found = append(found, architecture)
		}
	}
	return found, nil
}

func sorted(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// openFAT reads the BIOS parameter block of a file system.
func (d *disk) openFAT(p partition) (*fat, error) {
	b, err := d.read(p.offset, min(512, p.size))
	if err != nil {
		return nil, err
	}
	if len(b) < 512 || !hasSignature(b) {
		return nil, errNoFAT
	}
	sector, perCluster := int64(binary.LittleEndian.Uint16(b[11:])), int64(b[13])
	reserved, tables, entries := int64(binary.LittleEndian.Uint16(b[14:])), int64(b[16]), int64(binary.LittleEndian.Uint16(b[17:]))
	sectors, perTable := int64(binary.LittleEndian.Uint16(b[19:])), int64(binary.LittleEndian.Uint16(b[22:]))
	if sectors == 0 {
		sectors = int64(binary.LittleEndian.Uint32(b[32:]))
	}
	if perTable == 0 {
		perTable = int64(binary.LittleEndian.Uint32(b[36:]))
	}
	if sector < 512 || sector > maxSectorSize || sector&(sector-1) != 0 || perCluster == 0 || perCluster&(perCluster-1) != 0 || perCluster*sector > maxClusterBytes ||
		reserved == 0 || tables == 0 || perTable == 0 {
		return nil, errNoFAT
	}
	f := &fat{disk: d, offset: p.offset, cluster: perCluster * sector, entries: entries}
	f.table = p.offset + reserved*sector
	f.root = f.table + tables*perTable*sector
	f.data = f.root + (entries*fatEntry+sector-1)/sector*sector
	end := p.offset + min(p.size, sectors*sector)
	if f.data >= end {
		return nil, errNoFAT
	}
	f.count = (end - f.data) / f.cluster
	// The number of clusters alone decides the kind (the specification, section 3.5).
	switch total := (sectors*sector - (f.data - p.offset)) / f.cluster; {
	case total < maxFAT12:
		f.bits = 12
	case total < maxFAT16:
		f.bits = 16
	default:
		f.bits = 32
		f.start = binary.LittleEndian.Uint32(b[44:])
	}
	return f, nil
}

// rootFolder returns the entries of the root folder.
func (f *fat) rootFolder() ([]entry, error) {
	if f.bits == 32 {
		return f.folder(f.start)
	}
	raw, err := f.disk.read(f.root, f.entries*fatEntry)
	if err != nil {
		return nil, err
	}
	return parseFolder(raw), nil
}

// folder returns the entries of the folder that begins at a cluster. The bound on its size ends a chain of clusters that is a loop.
func (f *fat) folder(cluster uint32) ([]entry, error) {
	if f.bits != 32 {
		cluster &= 0xffff // the upper half is reserved in FAT12 and FAT16 (section 6 of the specification)
	}
	var raw []byte
	for range maxFolder / f.minCluster() {
		if cluster < firstCluster || int64(cluster)-firstCluster >= f.count {
			break // the end of the chain, or damage
		}
		part, err := f.disk.read(f.data+(int64(cluster)-firstCluster)*f.cluster, f.cluster)
		if err != nil {
			return nil, err
		}
		raw = append(raw, part...)
		if ended(part) || len(raw) >= maxFolder {
			break
		}
		if cluster, err = f.next(cluster); err != nil {
			return nil, err
		}
	}
	return parseFolder(raw), nil
}

func (f *fat) minCluster() int64 { return max(f.cluster, 512) }

// ended is true if an entry of a folder says that no entry follows.
func ended(raw []byte) bool {
	for at := 0; at+fatEntry <= len(raw); at += fatEntry {
		if raw[at] == 0 {
			return true
		}
	}
	return false
}

// next returns the cluster that follows in a chain.
func (f *fat) next(cluster uint32) (uint32, error) {
	at := f.table + int64(cluster)*int64(f.bits)/8
	raw, err := f.disk.read(at, int64(f.bits+4)/8)
	if err != nil {
		return 0, err
	}
	switch f.bits {
	case 12:
		value := uint32(binary.LittleEndian.Uint16(raw))
		if cluster%2 == 1 {
			return value >> 4, nil
		}
		return value & 0xfff, nil
	case 16:
		return uint32(binary.LittleEndian.Uint16(raw)), nil
	default:
		return binary.LittleEndian.Uint32(raw) & 0x0fffffff, nil
	}
}

// entry is an entry of a folder.
type entry struct {
	name    string
	folder  bool
	cluster uint32
	size    uint32
}

// parseFolder returns the files and folders of a folder.
func parseFolder(raw []byte) []entry {
	var entries []entry
	var long longName
	for at := 0; at+fatEntry <= len(raw) && raw[at] != 0; at += fatEntry {
		e := raw[at : at+fatEntry]
		if e[fatAttribute]&0x3f == fatLongName {
			long.add(e)
			continue
		}
		name := long.take(e)
		if e[0] == fatDeleted || e[fatAttribute]&fatVolume != 0 {
			continue
		}
		entries = append(entries, entry{
			name: name, folder: e[fatAttribute]&fatFolder != 0, size: binary.LittleEndian.Uint32(e[28:]),
			cluster: uint32(binary.LittleEndian.Uint16(e[20:]))<<16 | uint32(binary.LittleEndian.Uint16(e[26:])),
		})
	}
	return entries
}

// longName collects a long name: its entries come in descending order before the entry with the short name (section 7 of the specification).
type longName struct {
	parts [][]uint16
	next  int // the number of the entry that must follow
	sum   byte
}

func (l *longName) add(e []byte) {
	number := int(e[0] &^ lastNameEntry)
	if e[0] != fatDeleted && e[0]&lastNameEntry != 0 && number <= maxNameEntries {
		l.parts, l.next, l.sum = nil, number, e[13]
	}
	if number == 0 || number != l.next || e[13] != l.sum {
		l.parts, l.next = nil, 0
		return
	}
	chars := make([]uint16, 0, charsPerEntry)
	for _, part := range [][]byte{e[1:11], e[14:26], e[28:32]} {
		for at := 0; at < len(part); at += 2 {
			chars = append(chars, binary.LittleEndian.Uint16(part[at:]))
		}
	}
	l.parts = append(l.parts, chars)
	l.next--
}

// take returns the name of a file with the given short entry.
func (l *longName) take(e []byte) string {
	parts, complete := l.parts, l.next == 0 && l.parts != nil && l.sum == shortSum(e)
	l.parts, l.next = nil, 0
	if !complete {
		base, extension := strings.TrimRight(string(e[:8]), " "), strings.TrimRight(string(e[8:11]), " ")
		if extension != "" {
			base += "." + extension
		}
		return base
	}
	slices.Reverse(parts)
	chars := slices.Concat(parts...)
	if end := slices.Index(chars, 0); end >= 0 {
		chars = chars[:end]
	}
	return string(utf16.Decode(chars))
}

// shortSum is the checksum of a short name, which the entries of its long name have.
func shortSum(e []byte) byte {
	var sum byte
	for _, c := range e[:11] {
		sum = sum>>1 | sum<<7
		sum += c
	}
	return sum
}
