// Package isotest reads the images that package iso lays out. It was written from the specifications, and shares no code with that package.
package isotest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Volume is an ISO 9660 image.
type Volume struct {
	Label string
	// Created is the creation time as written.
	Created string
	// Files are the contents of the files by their paths, in lower case and without version.
	Files map[string][]byte
	// Boot are the boot entries.
	Boot []Entry
}

// Entry is a boot entry of El Torito.
type Entry struct {
	Platform byte
	// Sectors counts 512 bytes.
	Sectors int
	// Start is the offset of the image in bytes.
	Start int64
}

const (
	sector = 2048
	// maxDepth and maxFiles bound a damaged image.
	maxDepth = 8
	maxFiles = 10000
)

type reader struct {
	image io.ReaderAt
	files map[string][]byte
	// directories are the sectors of the directories by their paths.
	directories map[string]uint32
}

// Read reads an image of a size, and checks what it repeats: numbers in two byte orders, the two path tables, and the links of the directories.
func Read(image io.ReaderAt, size int64) (*Volume, error) {
	r := &reader{image: image, files: map[string][]byte{}, directories: map[string]uint32{}}
	primary, err := r.sector(16)
	if err != nil {
		return nil, err
	}
	record, err := r.sector(17)
	if err != nil {
		return nil, err
	}
	end, err := r.sector(18)
	if err != nil {
		return nil, err
	}
	if string(primary[:7]) != "\x01CD001\x01" || string(record[:7]) != "\x00CD001\x01" || string(end[:7]) != "\xffCD001\x01" {
		return nil, errors.New("the descriptors are not a primary one, a boot record and the end")
	}
	if blocks, err := both32(primary[80:]); err != nil || int64(blocks)*sector != size {
		return nil, fmt.Errorf("a volume of %d sectors in an image of %d bytes: %w", blocks, size, err)
	}
	v := &Volume{Label: strings.TrimRight(string(primary[40:72]), " "), Created: string(primary[813:829]), Files: r.files}
	if err := r.directory("", primary[156:190], 0, nil); err != nil {
		return nil, err
	}
	if err := r.pathTables(primary); err != nil {
		return nil, err
	}
	v.Boot, err = r.boot(record)
	return v, err
}

func (r *reader) sector(number uint32) ([]byte, error) { return r.read(number, sector) }

func (r *reader) read(number, size uint32) ([]byte, error) {
	b := make([]byte, size)
	if n, err := r.image.ReadAt(b, int64(number)*sector); n < len(b) {
		return nil, fmt.Errorf("sector %d: %w", number, err)
	}
	return b, nil
}

func both32(b []byte) (uint32, error) {
	little, big := binary.LittleEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])
	if little != big {
		return 0, fmt.Errorf("the byte orders differ: %d and %d", little, big)
	}
	return little, nil
}

// directory reads a directory by its record. parent is the record of its parent, nil for the root.
func (r *reader) directory(path string, record []byte, depth int, parent []byte) error {
	if depth > maxDepth || len(r.files) > maxFiles {
		return errors.New("too many directories or files")
	}
	start, err := both32(record[2:])
	if err != nil {
		return err
	}
	size, err := both32(record[10:])
	if err != nil {
		return err
	}
	r.directories[path] = start
	content, err := r.read(start, size)
	if err != nil {
		return err
	}
	last := ""
	for number, at := 0, 0; at < len(content); number++ {
		length := int(content[at])
		if length == 0 { // the rest of the sector
			at = (at/sector + 1) * sector
			continue
		}
		if at/sector != (at+length-1)/sector {
			return fmt.Errorf("%s: record %d crosses a sector", path, number)
		}
		child := content[at : at+length]
		at += length
		name := string(child[33 : 33+int(child[32])])
		switch {
		case number == 0 && name != "\x00", number == 1 && name != "\x01":
			return fmt.Errorf("%s: record %d is %q", path, number, name)
		case number == 0 && string(child[2:18]) != string(record[2:18]):
			return fmt.Errorf("%s: the record of itself is another", path)
		case number == 1 && parent != nil && string(child[2:18]) != string(parent[2:18]):
			return fmt.Errorf("%s: the record of its parent is another", path)
		case number < 2:
			continue
		case padded(name) <= last:
			return fmt.Errorf("%s: %q is not sorted", path, name)
		}
		last = padded(name)
		if err := r.child(path, child, name, depth, record); err != nil {
			return err
		}
	}
	return nil
}

// padded makes names comparable by ECMA-119, 9.3.
func padded(name string) string {
	name, _, _ = strings.Cut(name, ";")
	base, extension, _ := strings.Cut(name, ".")
	return fmt.Sprintf("%-30s%-30s", base, extension)
}

func (r *reader) child(path string, child []byte, name string, depth int, record []byte) error {
	path = strings.TrimPrefix(path+"/"+strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(name, ";1"), ".")), "/")
	if child[25]&2 != 0 {
		return r.directory(path, child, depth+1, record)
	}
	start, err := both32(child[2:])
	if err != nil {
		return err
	}
	size, err := both32(child[10:])
	if err != nil {
		return err
	}
	r.files[path], err = r.read(start, size)
	return err
}

// pathTables checks that both path tables have all directories.
func (r *reader) pathTables(primary []byte) error {
	size, err := both32(primary[132:])
	if err != nil {
		return err
	}
	for _, table := range []struct {
		start uint32
		order binary.ByteOrder
	}{{binary.LittleEndian.Uint32(primary[140:]), binary.LittleEndian}, {binary.BigEndian.Uint32(primary[148:]), binary.BigEndian}} {
		content, err := r.read(table.start, size)
		if err != nil {
			return err
		}
		var paths []string
		for at := 0; at < len(content); {
			length, start, parent := int(content[at]), table.order.Uint32(content[at+2:]), int(table.order.Uint16(content[at+6:]))
			name := strings.ToLower(string(content[at+8 : at+8+length]))
			at += 8 + length + length%2
			path := ""
			if len(paths) > 0 {
				if parent < 1 || parent > len(paths) {
					return fmt.Errorf("%q has the parent %d", name, parent)
				}
				path = strings.TrimPrefix(paths[parent-1]+"/"+name, "/")
			}
			paths = append(paths, path)
			if got, ok := r.directories[path]; !ok || got != start {
				return fmt.Errorf("the path table has %q at sector %d, and the directories have it at %d", path, start, got)
			}
		}
		if len(paths) != len(r.directories) {
			return fmt.Errorf("a path table has %d of %d directories", len(paths), len(r.directories))
		}
	}
	return nil
}

// boot reads the boot catalog.
func (r *reader) boot(record []byte) ([]Entry, error) {
	if strings.TrimRight(string(record[7:39]), "\x00") != "EL TORITO SPECIFICATION" {
		return nil, errors.New("no boot record of El Torito")
	}
	catalog, err := r.sector(binary.LittleEndian.Uint32(record[71:]))
	if err != nil || catalog[0] == 0 {
		return nil, err
	}
	var sum uint16
	for i := 0; i < 32; i += 2 {
		sum += binary.LittleEndian.Uint16(catalog[i:])
	}
	if catalog[0] != 1 || catalog[30] != 0x55 || catalog[31] != 0xaa || sum != 0 {
		return nil, errors.New("the validation entry is not valid")
	}
	entries := []Entry{entry(catalog[1], catalog[32:])}
	if header := catalog[64:]; header[0] == 0x91 {
		if binary.LittleEndian.Uint16(header[2:]) != 1 {
			return nil, errors.New("the section has not one entry")
		}
		entries = append(entries, entry(header[1], header[32:]))
	}
	return entries, nil
}

func entry(platform byte, e []byte) Entry {
	if e[0] != 0x88 || e[1] != 0 {
		return Entry{Platform: 0x99}
	}
	return Entry{platform, int(binary.LittleEndian.Uint16(e[6:])), int64(binary.LittleEndian.Uint32(e[8:])) * sector}
}
