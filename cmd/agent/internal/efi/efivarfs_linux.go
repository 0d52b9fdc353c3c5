package efi

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Variables is a Store in a mounted efivarfs (Linux, Documentation/filesystems/efivarfs.rst).
type Variables struct {
	// Folder is where efivarfs is mounted: /sys/firmware/efi/efivars.
	Folder string
}

const (
	// attributesSize is the size of the attributes that efivarfs puts before a value.
	attributesSize = 4
	// maxValue is the maximum size of a value that is read, in bytes. Firmware limits variables to 64 KiB at most.
	maxValue = 64 << 10
	// maxVariables is the maximum number of variables that are listed.
	maxVariables = 8192
)

func (v Variables) path(name string) string {
	return filepath.Join(v.Folder, name+"-"+globalVendor)
}

// List implements Store.
func (v Variables) List(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := os.Open(v.Folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // it was only read
	files, err := dir.Readdirnames(maxVariables)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var out []string
	for _, f := range files {
		if name, ok := strings.CutSuffix(f, "-"+globalVendor); ok {
			out = append(out, name)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no variables: efivarfs is not mounted, or the firmware offers no runtime services", v.Folder)
	}
	return out, nil
}

// Read implements Store.
func (v Variables) Read(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := os.Open(v.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(f, attributesSize+maxValue))
	if err != nil {
		return nil, err
	}
	// The kernel reads a variable that was deleted meanwhile as an empty file.
	if len(content) < attributesSize {
		return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
	}
	return content[attributesSize:], nil
}

// Write implements Store. The kernel calls SetVariable for each write(2), so attributes and value must be in one.
func (v Variables) Write(ctx context.Context, name string, attributes uint32, value []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.makeMutable(name); err != nil {
		return cause(err)
	}
	fd, err := unix.Open(v.path(name), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return cause(fmt.Errorf("open: %w", err))
	}
	content := append(binary.LittleEndian.AppendUint32(nil, attributes), value...)
	n, err := unix.Write(fd, content)
	if err == nil && n != len(content) {
		err = fmt.Errorf("%d of %d bytes were written", n, len(content))
	}
	return cause(errors.Join(err, unix.Close(fd)))
}

// Delete implements Store.
func (v Variables) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := v.makeMutable(name); err != nil {
		return cause(err)
	}
	if err := os.Remove(v.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cause(err)
	}
	return nil
}

// makeMutable clears the flag FS_IMMUTABLE_FL, with which the kernel protects variables from rm -r since 4.5. On a file system without flags it does nothing.
func (v Variables) makeMutable(name string) error {
	f, err := os.Open(v.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was not written
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	switch {
	case errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP):
		return nil
	case err != nil:
		return fmt.Errorf("read the flags: %w", err)
	case flags&unix.STATX_ATTR_IMMUTABLE == 0: // it has the value of FS_IMMUTABLE_FL
		return nil
	}
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags&^unix.STATX_ATTR_IMMUTABLE); err != nil {
		return fmt.Errorf("clear the flag \"immutable\": %w", err)
	}
	return nil
}

// cause adds ErrFull and ErrReadOnly. The kernel translates the status codes of the firmware (efi_status_to_err): EFI_OUT_OF_RESOURCES is ENOSPC,
// EFI_WRITE_PROTECTED is EROFS, EFI_SECURITY_VIOLATION is EACCES. It answers ENOSPC itself if less than 5 KiB would stay free.
func cause(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	default:
		return err
	}
}
