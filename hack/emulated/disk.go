package emulated

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16"
)

// NewDisk makes an empty disk, which takes no space. Another one with this name is replaced.
func NewDisk(name string, size int64) error {
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, nil, 0o600), os.Truncate(name, size))
}

// BootDisk boots the operating system on the disk, which has an address and repeats its requests for persist.
func (h *Hardware) BootDisk(address netip.Addr, persist time.Duration) (system *pxetest.System, err error) {
	err = h.read(func(d pxetest.Disk) error {
		system, err = d.Boot(address, persist)
		return err
	})
	return system, err
}

// Bootable is true if firmware would boot something from the disk.
func (h *Hardware) Bootable() (bootable bool, err error) {
	err = h.read(func(d pxetest.Disk) error {
		bootable = d.Bootable()
		return nil
	})
	return bootable, err
}

func (h *Hardware) read(with func(pxetest.Disk) error) error {
	file, err := os.Open(h.Disk)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return with(pxetest.Disk{ReaderAt: file, Size: info.Size()})
}

// imageStart is where the partitions of an image begin, in bytes. What is before them differs between the image and the disk: the partition table.
const imageStart = 1 << 20

// Torn returns what is missing on a disk that firmware boots: its bootstrap data, or the whole image with dataBytes of data. It is empty if nothing is missing,
// and for a disk that is not bootable.
func (h *Hardware) Torn(image string, dataBytes int64) (problem string, err error) {
	if boots, err := h.Bootable(); err != nil || !boots {
		return "", err
	}
	// The address does not matter: only what is on the disk is read.
	system, err := h.BootDisk(netip.IPv4Unspecified(), 0)
	if err != nil {
		return err.Error(), nil //nolint:nilerr // that is the judgement
	}
	if system.MetaData["instance-id"] == "" {
		return "it has no bootstrap data", nil
	}
	length := fat16.Size + dataBytes
	want, err := readRange(image, imageStart, length)
	if err != nil {
		return "", err
	}
	got, err := readRange(h.Disk, imageStart, length)
	if err == nil && !bytes.Equal(want, got) {
		problem = "it does not have the whole image"
	}
	return problem, err
}

// CorruptDisk changes a byte of the image on the disk, as a disk does that returns other data than was written to it.
func (h *Hardware) CorruptDisk() error {
	const at = imageStart + fat16.Size // the data of the image, which has no holes
	content, err := readRange(h.Disk, at, 1)
	if err != nil {
		return err
	}
	return writeAt(h.Disk, []byte{^content[0]}, at)
}

// instanceLine is the line of NoCloud's metadata with the instance ID.
var instanceLine = regexp.MustCompile(`instance-id: *"?([0-9A-Za-z-]+)`)

// Instances returns the instance IDs of the bootstrap data anywhere on the disk, whether a partition table leads to it or not.
func (h *Hardware) Instances() (instances []string, err error) {
	err = extents(h.Disk, func(content []byte) {
		for _, found := range instanceLine.FindAllSubmatch(content, -1) {
			instances = append(instances, string(found[1]))
		}
	})
	slices.Sort(instances)
	return slices.Compact(instances), err
}

// Data returns the serial numbers of the disks that have other bytes than zeros.
func (h *Hardware) Data() (serials []string, err error) {
	for _, name := range append([]string{h.Disk}, h.More...) {
		data := false
		err := extents(name, func(content []byte) { data = data || !zeros(content) })
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a disk that is missing
			return nil, err
		}
		if data {
			serials = append(serials, filepath.Base(name))
		}
	}
	return serials, nil
}

// HasData is true if there are other bytes than zeros in a range of the disk.
func (h *Hardware) HasData(offset, length int64) (bool, error) {
	content, err := readRange(h.Disk, offset, length)
	return !zeros(content), err
}

func zeros(content []byte) bool { return len(bytes.Trim(content, "\x00")) == 0 }

// extents reads a file except its holes.
func extents(name string, with func(content []byte)) error {
	file, err := os.Open(name) //nolint:gosec // a disk of this package
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // nothing was written
	for at := int64(0); ; {
		start, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, syscall.ENXIO) { // only a hole is left
			return nil
		}
		if err != nil {
			return err
		}
		if at, err = unix.Seek(int(file.Fd()), start, unix.SEEK_HOLE); err != nil {
			return err
		}
		content, err := io.ReadAll(io.NewSectionReader(file, start, at-start))
		if err != nil {
			return err
		}
		with(content)
	}
}

func readRange(name string, offset, length int64) (content []byte, err error) {
	file, err := os.Open(name) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	content = make([]byte, length)
	_, err = io.ReadFull(io.NewSectionReader(file, offset, length), content)
	return content, err
}
