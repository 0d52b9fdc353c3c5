// Package disk writes disk images with a partition table and GRUB for a BIOS, for tests of imaging.
package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// alignment is where partitions begin, in bytes, and also the size of a BIOS boot partition.
const alignment = 1 << 20

// Image describes a disk image.
type Image struct {
	// Size is in bytes.
	Size int64
	// SectorSize is 512 or 4096 bytes.
	SectorSize int64
	// MBR writes a master boot record with up to four primary partitions, and no GPT.
	MBR bool
	// Boot and Core are the files boot.img and core.img of GRUB. Empty for an image that no BIOS boots.
	Boot, Core string
	// Partitions are in their order on the disk. They follow one another, from the first MiB.
	Partitions []Partition
}

// Partition is a partition of an image.
type Partition struct {
	// Number is its number in the table, from 1.
	Number int
	Type   Type
	// File has its content, and its size rounded up to a MiB. A BIOS boot partition has no file.
	File string

	start, size int64 // in bytes
}

// Type is what a partition is for.
type Type string

const (
	// BIOSBoot has GRUB's core image. Only a GPT has it: with an MBR the core image is between the MBR and the first partition.
	BIOSBoot Type = "bios"
	// ESP is the EFI system partition.
	ESP Type = "esp"
	// Linux has a file system.
	Linux Type = "linux"
)

// ParsePartition reads NUMBER:TYPE:FILE.
func ParsePartition(text string) (Partition, error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		return Partition{}, fmt.Errorf("%q is not NUMBER:TYPE:FILE", text)
	}
	number, err := strconv.Atoi(parts[0])
	if err != nil || number < 1 || number > entries {
		return Partition{}, fmt.Errorf("%q begins with no number from 1 to %d", text, entries)
	}
	p := Partition{Number: number, Type: Type(parts[1]), File: parts[2]}
	if _, ok := types[p.Type]; !ok {
		return Partition{}, fmt.Errorf("the type %q is not bios, esp or linux", p.Type)
	}
	if (p.Type == BIOSBoot) != (p.File == "") {
		return Partition{}, fmt.Errorf("%q: all partitions except that of the type bios have a file", text)
	}
	return p, nil
}

// Write writes the image to a file. What is zero becomes a hole of the file.
func (i *Image) Write(name string) (err error) {
	if err := i.place(); err != nil {
		return err
	}
	file, err := os.Create(name) //nolint:gosec // the user of the program names it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(i.Size); err != nil {
		return err
	}
	for _, p := range i.Partitions {
		if err := p.write(file); err != nil {
			return err
		}
	}
	first := make([]byte, 512)
	if i.Core != "" {
		if err := i.writeGRUB(file, first); err != nil {
			return err
		}
	}
	if i.MBR {
		return i.writeMBR(file, first)
	}
	return i.writeGPT(file, first)
}

// place sets where the partitions are, and checks that they fit.
func (i *Image) place() error {
	if i.SectorSize != 512 && i.SectorSize != 4096 {
		return fmt.Errorf("the sector size is %d, and not 512 or 4096", i.SectorSize)
	}
	at, numbers := int64(alignment), map[int]bool{}
	for n := range i.Partitions {
		p := &i.Partitions[n]
		if numbers[p.Number] {
			return fmt.Errorf("two partitions have the number %d", p.Number)
		}
		numbers[p.Number] = true
		p.start, p.size = at, alignment
		if p.Type != BIOSBoot {
			info, err := os.Stat(p.File)
			if err != nil {
				return err
			}
			p.size = (info.Size() + alignment - 1) / alignment * alignment
		}
		at += p.size
	}
	// The backup of a GPT has one sector and the table of entries, less than a MiB.
	if at > i.Size-alignment {
		return fmt.Errorf("the partitions need %d MiB, and the image has %d", (at+alignment)>>20, i.Size>>20)
	}
	return nil
}

// write copies the content of a partition.
func (p Partition) write(to *os.File) error {
	if p.File == "" {
		return nil
	}
	from, err := os.Open(p.File)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	chunk, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	for at := p.start; ; {
		n, err := io.ReadFull(from, chunk)
		if n > 0 && !bytes.Equal(chunk[:n], zeros[:n]) {
			if _, err := to.WriteAt(chunk[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
