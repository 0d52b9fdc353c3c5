package imaging

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// instanceLine is the line of NoCloud's metadata with the instance ID.
var instanceLine = regexp.MustCompile(`instance-id: *"?([0-9A-Za-z-]+)`)

// Instances returns the instance IDs of the bootstrap data anywhere on the disk, whether a partition table leads to it or not.
func (m *Machine) Instances() (instances []string, err error) {
	file, err := os.Open(m.Disk)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	for at := int64(0); ; {
		start, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, syscall.ENXIO) { // only a hole is left
			slices.Sort(instances)
			return slices.Compact(instances), nil
		}
		if err != nil {
			return nil, err
		}
		if at, err = unix.Seek(int(file.Fd()), start, unix.SEEK_HOLE); err != nil {
			return nil, err
		}
		content, err := io.ReadAll(io.NewSectionReader(file, start, at-start))
		if err != nil {
			return nil, err
		}
		for _, found := range instanceLine.FindAllSubmatch(content, -1) {
			instances = append(instances, string(found[1]))
		}
	}
}
