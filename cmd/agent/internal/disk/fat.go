package disk

import "encoding/binary"

// scanFAT finds a FAT file system. Its label is in the volume entry of the root directory, as blkid prints it, or otherwise in the boot sector.
func (v *volume) scanFAT() {
	b := v.at(0, 512)
	if b == nil || b[510] != 0x55 || b[511] != 0xaa {
		return
	}
	var label []byte
	var offset int64
	switch {
	case string(b[82:90]) == "FAT32   ":
		offset, label = 82, b[71:82]
	case string(b[54:59]) == "FAT12", string(b[54:59]) == "FAT16", string(b[54:57]) == "FAT":
		offset, label = 54, b[43:54]
	default:
		return
	}
	s := Signature{Type: "vfat", Offset: offset, Length: 8, Label: text(label)}
	if root := v.fatLabel(b, offset == 82); root != "" {
		s.Label = root
	}
	if s.Label == "NO NAME" {
		s.Label = ""
	}
	v.add(s)
	v.add(Signature{Type: "vfat", Offset: 510, Length: 2, Label: s.Label})
}

// fatLabel returns the label in the root directory: of FAT32 in its first cluster only.
func (v *volume) fatLabel(b []byte, fat32 bool) string {
	sector, cluster := int64(binary.LittleEndian.Uint16(b[11:])), int64(b[13])
	reserved, fats := int64(binary.LittleEndian.Uint16(b[14:])), int64(b[16])
	entries, size := int64(binary.LittleEndian.Uint16(b[17:])), int64(binary.LittleEndian.Uint16(b[22:]))
	if fat32 {
		size = int64(binary.LittleEndian.Uint32(b[36:]))
	}
	root := (reserved + fats*size) * sector
	length := entries * 32
	if fat32 {
		first := int64(binary.LittleEndian.Uint32(b[44:]))
		root, length = root+(first-2)*cluster*sector, cluster*sector
	}
	dir := v.at(root, min(length, 64<<10))
	for ; len(dir) >= 32 && dir[0] != 0; dir = dir[32:] {
		const volume, longName = 0x08, 0x0f
		if dir[0] != 0xe5 && dir[11]&longName != longName && dir[11]&volume != 0 {
			return text(dir[:11])
		}
	}
	return ""
}
