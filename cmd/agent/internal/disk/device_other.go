//go:build !linux

package disk

import (
	"errors"
	"fmt"
	"os"
)

// Open fails: the agent runs on Linux.
func Open(node string) (Device, error) {
	return nil, fmt.Errorf("cannot open %s: %w", node, errors.ErrUnsupported)
}

type file struct {
	*os.File

	size   int64
	sector int
}

// OpenFile opens a plain file as a disk.
func OpenFile(name string, sector int) (Device, error) {
	f, err := os.OpenFile(name, os.O_RDWR, 0) //nolint:gosec // the caller chooses the file
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{File: f, size: info.Size(), sector: sector}, nil
}

func (f *file) Size() int64     { return f.size }
func (f *file) SectorSize() int { return f.sector }

func (f *file) ZeroRange(offset, length int64) error { return writeZeros(f, offset, length) }

func (f *file) Flush() error { return f.Sync() }
