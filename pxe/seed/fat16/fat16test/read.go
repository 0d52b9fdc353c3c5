// Package fat16test reads the file systems that package fat16 writes. It was written from the specification, and shares no code with that package.
package fat16test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Volume is a FAT16 file system.
type Volume struct {
	Label string
	// Size is in bytes.
	Size int
	// Files are the contents of the files by their paths.
	Files map[string][]byte
}

const (
	attributeVolume    = 0x08
	attributeDirectory = 0x10
	attributeLongName  = 0x0f
)

// maxDepth bounds how deep folders are, so that a damaged file system ends.
const maxDepth = 8

// reader reads a file system by its own BIOS parameter block.
type reader struct {
	head      []byte
	fat, data int
	cluster   int
	count     int
}

// Read reads a file system of which head is the beginning. The rest is zeros.
func Read(head []byte) (*Volume, error) {
	if len(head) < 512 || head[510] != 0x55 || head[511] != 0xaa || string(head[54:62]) != "FAT16   " {
		return nil, errors.New("no FAT16 file system")
	}
	le := binary.LittleEndian
	sector, perCluster, reserved := int(le.Uint16(head[11:])), int(head[13]), int(le.Uint16(head[14:]))
	fats, entries, fatSectors := int(head[16]), int(le.Uint16(head[17:])), int(le.Uint16(head[22:]))
	total := int(le.Uint16(head[19:]))
	if total == 0 {
		total = int(le.Uint32(head[32:]))
	}
	root := (reserved + fats*fatSectors) * sector
	r := reader{head: head, fat: reserved * sector, data: root + entries*32, cluster: perCluster * sector}
	if r.cluster == 0 {
		return nil, errors.New("clusters have no sectors")
	}
	r.count = (total*sector - r.data) / r.cluster
	const margin = 16 // the specification advises to stay away from the limits
	if r.count < 4085+margin || r.count >= 65525-margin || 2*(r.count+2) > fatSectors*sector {
		return nil, fmt.Errorf("%d clusters and a table of %d sectors are not FAT16", r.count, fatSectors)
	}
	v := &Volume{Label: strings.TrimRight(string(head[43:54]), " "), Size: total * sector, Files: map[string][]byte{}}
	return v, r.directory(r.at(root, r.data-root), "", v, maxDepth)
}

// at returns a part of the file system.
func (r reader) at(offset, length int) []byte {
	out := make([]byte, length)
	if offset < len(r.head) {
		copy(out, r.head[offset:])
	}
	return out
}

func (r reader) directory(entries []byte, path string, v *Volume, depth int) error {
	var long []uint16
	for ; len(entries) >= 32 && entries[0] != 0; entries = entries[32:] {
		e := entries[:32]
		if e[11] == attributeLongName {
			long = append(longPart(e), long...)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimRight(string(utf16.Decode(long)), "\uffff"), "\x00")
		long = nil
		if e[11]&attributeVolume != 0 || e[0] == '.' {
			continue
		}
		content, err := r.chain(int(binary.LittleEndian.Uint16(e[26:])))
		if err != nil {
			return fmt.Errorf("%s%s: %w", path, name, err)
		}
		if e[11]&attributeDirectory == 0 {
			size := int(binary.LittleEndian.Uint32(e[28:]))
			if size > len(content) {
				return fmt.Errorf("%s%s has %d bytes, and its clusters %d", path, name, size, len(content))
			}
			v.Files[path+name] = bytes.Clone(content[:size])
			continue
		}
		if depth == 0 {
			return fmt.Errorf("%s%s: the folders are too deep", path, name)
		}
		if err := r.directory(content, path+name+"/", v, depth-1); err != nil {
			return err
		}
	}
	return nil
}

// longPart returns the part of a long name in an entry.
func longPart(e []byte) []uint16 {
	var part []uint16
	for _, i := range []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
		part = append(part, binary.LittleEndian.Uint16(e[i:]))
	}
	return part
}

// chain returns the content of a chain of clusters. Cluster 0 is that of an empty file.
func (r reader) chain(cluster int) ([]byte, error) {
	var out []byte
	for range r.count {
		if cluster == 0 && out == nil || cluster >= 0xfff8 {
			return out, nil
		}
		if cluster < 2 || cluster-2 >= r.count {
			return nil, fmt.Errorf("there is no cluster %d", cluster)
		}
		out = append(out, r.at(r.data+(cluster-2)*r.cluster, r.cluster)...)
		cluster = int(binary.LittleEndian.Uint16(r.at(r.fat+2*cluster, 2)))
	}
	return nil, errors.New("a chain of clusters has no end")
}
