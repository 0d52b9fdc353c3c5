package iso

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// The platforms of boot entries: El Torito, figure 2, and UEFI 2.10, section 13.3.2.1.
const (
	platformBIOS = 0x00
	platformUEFI = 0xef
)

const (
	bootEntrySize = 32
	bootable      = 0x88
	// biosSectors is how many sectors of 512 bytes a BIOS loads. Some load 4 of them, whatever the entry says.
	biosSectors = 4
	// virtualSector is the size of the sectors that a boot entry counts.
	virtualSector = 512
)

// bootRecord returns the boot record, which names the sector of the boot catalog (El Torito, figure 7).
func bootRecord(catalog int64) []byte {
	d := descriptor(0)
	copy(d[7:], "EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(d[71:], uint32(catalog)) //nolint:gosec // write bounds the sectors
	return d
}

// bootCatalog returns the boot catalog: the validation entry, the default entry, and, if there is a second platform, its section (El Torito, figures 2 to 5).
func (l *layout) bootCatalog(files []*node) ([]byte, error) {
	type entry struct {
		platform byte
		entry    []byte
	}
	var entries []entry
	bios := ""
	if l.BIOS != nil {
		bios = BIOSPath
	}
	for _, boot := range []struct {
		platform byte
		path     string
	}{{platformBIOS, bios}, {platformUEFI, l.UEFI}} {
		if boot.path == "" {
			continue
		}
		at := slices.IndexFunc(files, func(f *node) bool { return f.path == boot.path })
		if at < 0 {
			return nil, fmt.Errorf("the boot image %q is not among the files", boot.path)
		}
		e, err := bootEntry(boot.platform, files[at])
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{boot.platform, e})
	}
	if len(entries) == 0 {
		return nil, nil
	}
	out := append(validation(entries[0].platform), entries[0].entry...)
	if len(entries) == 2 {
		header := make([]byte, bootEntrySize)
		header[0], header[1] = 0x91, entries[1].platform // the last section
		binary.LittleEndian.PutUint16(header[2:], 1)
		out = append(append(out, header...), entries[1].entry...)
	}
	return out, nil
}

// validation returns the validation entry. The sum of its 16 bit words is zero.
func validation(platform byte) []byte {
	e := make([]byte, bootEntrySize)
	e[0], e[1], e[30], e[31] = 1, platform, 0x55, 0xaa
	var sum uint16
	for i := 0; i < len(e); i += 2 {
		sum += binary.LittleEndian.Uint16(e[i:])
	}
	binary.LittleEndian.PutUint16(e[28:], -sum)
	return e
}

// bootEntry returns an entry for an image without emulation of a disk.
func bootEntry(platform byte, f *node) ([]byte, error) {
	count := int64(biosSectors)
	if platform == platformUEFI {
		// Firmware takes a count of 0 and 1 for "to the end of the medium".
		if count = (f.size + virtualSector - 1) / virtualSector; count < 2 || count > maxBootSectors {
			return nil, fmt.Errorf("the EFI system partition %s has %d bytes: it must be smaller than 32 MiB, and not empty", f.path, f.size)
		}
	}
	e := make([]byte, bootEntrySize)
	e[0] = bootable
	binary.LittleEndian.PutUint16(e[6:], uint16(count))
	binary.LittleEndian.PutUint32(e[8:], uint32(f.sector)) //nolint:gosec // write bounds the sectors
	return e, nil
}

// The boot information table, by which GRUB's first 2 KiB find the rest of GRUB: the sector of the primary volume descriptor, the sector and the size of the
// image, and the sum of its 32 bit words after the table. Its format is that of mkisofs (manual page, "EL TORITO BOOT INFORMATION TABLE").
const (
	bootInfoStart = 8
	bootInfoEnd   = 64
)

// BIOSPath is the path of the BIOS image in an image.
const BIOSPath = "boot/bios.img"

// BIOSImage is an image that a BIOS boots: GRUB in its format i386-pc-eltorito. It is immutable, and any number of images share it.
type BIOSImage struct {
	content []byte
	sum     uint32
}

// NewBIOSImage returns the BIOS image with a content, which must not change afterwards.
func NewBIOSImage(content []byte) (*BIOSImage, error) {
	if len(content) < biosSectors*virtualSector || len(content) > maxBootSectors*virtualSector {
		return nil, fmt.Errorf("the boot image for a BIOS has %d bytes: it must have at least %d, which a BIOS loads, and be smaller than 32 MiB",
			len(content), biosSectors*virtualSector)
	}
	b := &BIOSImage{content: content}
	for rest := content[bootInfoEnd:]; len(rest) > 0; rest = rest[min(4, len(rest)):] {
		var word [4]byte
		copy(word[:], rest)
		b.sum += binary.LittleEndian.Uint32(word[:])
	}
	return b, nil
}

// head returns the start of the content with the boot information table.
func (b *BIOSImage) head(primary, sector int64) []byte {
	head := slices.Clone(b.content[:bootInfoEnd])
	clear(head[bootInfoStart:])
	for i, value := range []uint32{uint32(primary), uint32(sector), uint32(len(b.content)), b.sum} { //nolint:gosec // write bounds all
		binary.LittleEndian.PutUint32(head[bootInfoStart+4*i:], value)
	}
	return head
}
