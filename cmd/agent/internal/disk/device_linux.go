package disk

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// blkZeroOut is the ioctl BLKZEROOUT (include/uapi/linux/fs.h): _IO(0x12, 127). Package unix does not have it.
const blkZeroOut = 0x127f

// file is a block device or a plain file.
type file struct {
	*os.File

	block  bool
	size   int64
	sector int
	// noZero is true once the device has refused the command that zeroes a range.
	noZero bool
}

// Open opens a block device for writing and for nobody else: O_EXCL of a block device fails with EBUSY if it is mounted, or if md, dm or another process
// holds it (open(2)). The error is ErrBusy then.
func Open(node string) (Device, error) {
	f, err := os.OpenFile(node, os.O_RDWR|os.O_EXCL|unix.O_CLOEXEC, 0) //nolint:gosec // the node of a disk that the plan selects
	switch {
	case errors.Is(err, unix.EBUSY):
		return nil, fmt.Errorf("%w: %w", ErrBusy, err)
	case err != nil:
		return nil, err
	}
	d, err := blockDevice(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", node, err), f.Close())
	}
	return d, nil
}

func blockDevice(f *os.File) (*file, error) {
	sector, err := unix.IoctlGetInt(int(f.Fd()), unix.BLKSSZGET)
	if err != nil {
		return nil, fmt.Errorf("cannot read the sector size: %w", err)
	}
	size, err := f.Seek(0, 2)
	if err != nil {
		return nil, fmt.Errorf("cannot read the size: %w", err)
	}
	return &file{File: f, block: true, size: size, sector: sector}, nil
}

// OpenFile opens a plain file as a disk, which has the size of the file. Tests, and agents that run as a process, write to one.
func OpenFile(name string, sector int) (Device, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_CLOEXEC, 0) //nolint:gosec // the caller chooses the file
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, errors.Join(err, f.Close())
	case !info.Mode().IsRegular() || info.Size() == 0 || info.Size()%int64(sector) != 0:
		return nil, errors.Join(fmt.Errorf("%s is not a plain file with a number of sectors of %d bytes: create one with truncate", name, sector), f.Close())
	}
	return &file{File: f, size: info.Size(), sector: sector}, nil
}

func (f *file) Size() int64     { return f.size }
func (f *file) SectorSize() int { return f.sector }

// ZeroRange zeros a range with BLKZEROOUT or, in a file, as a hole. BLKZEROOUT makes the device write zeros, or unmap what then reads as zeros
// (blkdev_issue_zeroout in the kernel's block/blk-lib.c), and drops the range from the page cache.
func (f *file) ZeroRange(offset, length int64) error {
	if length <= 0 {
		return nil
	}
	if f.noZero {
		return writeZeros(f, offset, length)
	}
	var err error
	if f.block {
		err = zeroOut(int(f.Fd()), offset, length)
	} else {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, length)
	}
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		f.noZero = true
		return writeZeros(f, offset, length)
	case err != nil:
		return fmt.Errorf("cannot zero %d bytes at %d of %s: %w", length, offset, f.Name(), err)
	default:
		return nil
	}
}

func zeroOut(fd int, offset, length int64) error {
	what := [2]uint64{uint64(offset), uint64(length)} //nolint:gosec // positive
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), blkZeroOut, uintptr(unsafe.Pointer(&what))) //nolint:gosec // an ioctl takes a pointer
		if errno == 0 {
			return nil
		}
		if !errors.Is(errno, unix.EINTR) {
			return errno
		}
	}
}

// Flush writes back what the page cache has (fsync also reports errors of earlier write-back, and flushes the cache of the disk), and drops the page
// cache: with BLKFLSBUF for a block device, and as advice for a file.
func (f *file) Flush() error {
	if err := f.Sync(); err != nil {
		return err
	}
	if f.block {
		if err := unix.IoctlSetInt(int(f.Fd()), unix.BLKFLSBUF, 0); err != nil {
			return fmt.Errorf("BLKFLSBUF of %s: %w", f.Name(), err)
		}
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil && f.block {
		return fmt.Errorf("posix_fadvise of %s: %w", f.Name(), err)
	}
	return nil
}
