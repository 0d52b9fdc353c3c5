// Package iso lays out ISO 9660 images from which a PC boots with a BIOS or a UEFI. An image is not stored: its headers are made in memory, a few KiB, and the
// contents of its files are read where they are, so any number of images share a kernel. The same input gives the same bytes.
//
// The clauses in comments are those of ECMA-119 (4th edition, the text of ISO 9660), and of "El Torito Bootable CD-ROM Format Specification", version 1.0. UEFI
// 2.10, section 13.3.2, says how firmware finds its system partition in such an image.
package iso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"time"
)

// SectorSize is the size of a logical sector, to which all contents are aligned (6.1.2).
const SectorSize = 2048

const (
	// systemArea is the number of sectors at the start that the standard does not use (6.2.1).
	systemArea = 16
	// padding is the number of sectors at the end. The first sectors of GRUB's boot image load the rest in parts of 32 sectors, and operating systems read ahead:
	// neither may reach the end of the medium. mkisofs adds as many (manual page, "-pad").
	padding = 150
	// maxFile is the maximum size of a file in one extent (9.1.4).
	maxFile = math.MaxUint32
	// maxBootSectors is the maximum of the sector count in a boot entry, in sectors of 512 bytes (El Torito, figure 3).
	maxBootSectors = math.MaxUint16
)

// Content is the content of a file, for example an io.SectionReader of a shared file.
type Content interface {
	io.ReaderAt
	Size() int64
}

// Bytes is a content in memory.
func Bytes(b []byte) Content { return bytes.NewReader(b) }

// File is a file of an image.
type File struct {
	// Path is like boot/grub/grub.cfg. Each name has at most 8 letters, digits and underscores, and that of a file may have an extension of at most 3: names
	// that every reader of ISO 9660 finds, whatever extensions it knows (10.1). Letters are lower case here and upper case in the image, as GRUB expects.
	Path    string
	Content Content
}

// Options describe an image.
type Options struct {
	// Label is the volume identifier: at most 32 capital letters, digits and underscores.
	Label string
	// Time is the time of the volume and of its files.
	Time time.Time
	// BIOS is what a BIOS boots. It becomes the file BIOSPath. Nil for none.
	BIOS *BIOSImage
	// UEFI is the path of the file with the EFI system partition, a FAT file system of less than 32 MiB. Empty for none.
	UEFI string
}

// Image is an image. It is immutable, and safe for concurrent use if its contents are.
type Image struct {
	size    int64
	extents []extent
	files   map[string]Range
}

// Range is a range of bytes of an image.
type Range struct{ Start, Size int64 }

// Overlaps is true if the ranges have a byte in common.
func (r Range) Overlaps(o Range) bool {
	return r.Size > 0 && o.Size > 0 && r.Start < o.Start+o.Size && o.Start < r.Start+r.Size
}

// extent is a part of an image that comes from a content. What is in no extent is zero.
type extent struct {
	Range

	path    string // of the file; empty for what is generated
	content io.ReaderAt
	from    int64 // offset in content
}

var (
	labelFormat = regexp.MustCompile(`^[A-Z0-9_]{1,32}$`)
	nameFormat  = regexp.MustCompile(`^[a-z0-9_]{1,8}$`)
	fileFormat  = regexp.MustCompile(`^[a-z0-9_]{1,8}(\.[a-z0-9_]{1,3})?$`)
)

// New lays out an image, with the contents of the files in their order, and the BIOS image last. It returns an error for invalid options, paths and sizes.
func New(o Options, files []File) (*Image, error) {
	if !labelFormat.MatchString(o.Label) {
		return nil, fmt.Errorf("the label %q is not 1 to 32 capital letters, digits and underscores", o.Label)
	}
	if year := o.Time.UTC().Year(); year < 1900 || year > 1900+math.MaxUint8 {
		return nil, fmt.Errorf("the time %s is outside the years that a directory can have", o.Time)
	}
	if o.BIOS != nil {
		files = append(slices.Clone(files), File{BIOSPath, Bytes(o.BIOS.content)})
	}
	root, err := tree(files)
	if err != nil {
		return nil, err
	}
	l := &layout{Options: o, next: systemArea, image: &Image{files: map[string]Range{}}}
	if err := l.write(root); err != nil {
		return nil, err
	}
	return l.image, nil
}

// Size returns the size in bytes.
func (i *Image) Size() int64 { return i.size }

// File returns where the content of a file is. Its size is 0 for a file that does not exist or is empty.
func (i *Image) File(path string) Range { return i.files[path] }

// With returns the image with other contents of files, by their paths. They must have the same sizes. The images share all other contents.
func (i *Image) With(contents map[string]io.ReaderAt) *Image {
	out := *i
	out.extents = slices.Clone(i.extents)
	for n := range out.extents {
		if content, ok := contents[out.extents[n].path]; ok {
			out.extents[n].content = content
		}
	}
	return &out
}

// At returns where the bytes from an offset come from: size bytes from an offset in a content; nil for zeros. The size is 0 from the end of the image on.
func (i *Image) At(offset int64) (content io.ReaderAt, from, size int64) {
	e, zeros := i.find(offset)
	if zeros != 0 {
		return nil, 0, max(0, zeros)
	}
	return e.content, e.from + offset - e.Start, e.Start + e.Size - offset
}

// ReadAt reads a part of the image. It needs no memory.
func (i *Image) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, errors.New("read at a negative offset")
	}
	if offset >= i.size {
		return 0, io.EOF
	}
	var end error
	if left := i.size - offset; int64(len(p)) > left {
		p, end = p[:left], io.EOF
	}
	for done := 0; done < len(p); {
		n, err := i.readPart(p[done:], offset+int64(done))
		if done += n; err != nil {
			return done, err
		}
	}
	return len(p), end
}

// readPart reads from one extent, or the zeros before the next one.
func (i *Image) readPart(p []byte, offset int64) (int, error) {
	e, zeros := i.find(offset)
	if zeros > 0 { // ReadAt reads nothing behind the end
		n := int(min(zeros, int64(len(p))))
		clear(p[:n])
		return n, nil
	}
	at := offset - e.Start
	p = p[:min(int64(len(p)), e.Size-at)]
	n, err := e.content.ReadAt(p, e.from+at)
	if n == len(p) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the content is shorter than it was
	}
	return n, err
}

// find returns the extent at an offset, or the number of zeros from there to the next extent or the end; it is negative from the end on.
func (i *Image) find(offset int64) (e extent, zeros int64) {
	at, _ := slices.BinarySearchFunc(i.extents, offset, func(e extent, offset int64) int {
		if e.Start+e.Size <= offset {
			return -1
		}
		return 1
	})
	switch {
	case at == len(i.extents) && offset == i.size:
		return extent{}, -1
	case at == len(i.extents):
		return extent{}, i.size - offset
	case i.extents[at].Start > offset:
		return extent{}, i.extents[at].Start - offset
	default:
		return i.extents[at], 0
	}
}

// layout is an image that is being laid out.
type layout struct {
	Options

	next  int64 // the next free sector
	image *Image
}

// reserve returns the sector of an area of that many bytes.
func (l *layout) reserve(size int64) int64 {
	sector := l.next
	l.next += sectors(size)
	return sector
}

func sectors(size int64) int64 { return (size + SectorSize - 1) / SectorSize }

// put adds a content at a sector. Zeros at the end of a generated content are left out.
func (l *layout) put(sector int64, generated []byte) {
	generated = bytes.TrimRight(generated, "\x00")
	l.add(extent{Range{sector * SectorSize, int64(len(generated))}, "", bytes.NewReader(slices.Clone(generated)), 0})
}

func (l *layout) add(e extent) {
	if e.Size > 0 {
		l.image.extents = append(l.image.extents, e)
	}
}

// write lays out everything: the descriptors, the path tables, the boot catalog, the directories, and the files in their order.
func (l *layout) write(root *node) error {
	descriptors := l.reserve(3 * SectorSize)
	directories := root.directories()
	table := pathTable(directories, binary.LittleEndian)
	little, big, catalog := l.reserve(int64(len(table))), l.reserve(int64(len(table))), l.reserve(SectorSize)
	for _, d := range directories {
		d.size = d.recordsSize()
		d.sector = l.reserve(d.size)
	}
	files := root.files()
	for _, f := range files {
		if f.size = f.content.Size(); f.size < 0 || f.size > maxFile {
			return fmt.Errorf("%s has %d bytes, and a file has at most %d", f.path, f.size, int64(maxFile))
		}
		f.sector = l.reserve(f.size)
		l.image.files[f.path] = Range{f.sector * SectorSize, f.size}
	}
	l.next += padding
	if l.next > math.MaxUint32 {
		return errors.New("the image is larger than an ISO 9660 image can be")
	}
	l.image.size = l.next * SectorSize
	entries, err := l.bootCatalog(files)
	if err != nil {
		return err
	}
	l.put(descriptors, l.primaryDescriptor(root, len(table), little, big))
	l.put(descriptors+1, bootRecord(catalog))
	l.put(descriptors+2, descriptor(255)) // 8.3: the set terminator
	l.put(little, pathTable(directories, binary.LittleEndian))
	l.put(big, pathTable(directories, binary.BigEndian))
	l.put(catalog, entries)
	for _, d := range directories {
		l.put(d.sector, d.records(l.Time))
	}
	for _, f := range files {
		l.content(f, descriptors)
	}
	return nil
}

// content adds the content of a file.
func (l *layout) content(f *node, primary int64) {
	var head []byte
	if f.path == BIOSPath && l.BIOS != nil {
		head = l.BIOS.head(primary, f.sector)
	}
	start, done := f.sector*SectorSize, int64(len(head))
	l.add(extent{Range{start, done}, "", bytes.NewReader(head), 0})
	l.add(extent{Range{start + done, f.size - done}, f.path, f.content, done})
}
