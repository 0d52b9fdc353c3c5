package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// armMagic is in the header of a kernel for arm64, at this offset (Documentation/arch/arm64/booting.rst).
const (
	armMagic       = "ARM\x64"
	armMagicOffset = 56
)

// The names of the kernel's files.
const (
	plainKernel    = "kernel"
	zippedKernel   = "kernel.gz"
	squashedKernel = "kernel.squashfs"
)

// writeKernel writes the kernel into a folder as the file kernel. The signature is of these bytes. A kernel for arm64 is not compressed: it is written as
// kernel.gz, which iPXE decompresses, and as the file kernel in the file system kernel.squashfs, which GRUB reads on a boot medium. GRUB verifies the signature of
// what it reads from a file system, but of a file with gzip before it decompresses it.
func writeKernel(source, folder, mksquashfs string) error {
	content, err := os.ReadFile(source) //nolint:gosec // the folder is ours
	if err != nil {
		return err
	}
	if !isUncompressed(content) {
		return writeFile(filepath.Join(folder, plainKernel), content)
	}
	zipped, err := zip(content)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(folder, zippedKernel), zipped); err != nil {
		return err
	}
	return squash(content, filepath.Join(folder, squashedKernel), mksquashfs)
}

// writeFile writes a file of a release, that everyone may read.
func writeFile(name string, content []byte) error {
	return os.WriteFile(name, content, 0o644) //nolint:gosec // see above
}

// squash writes a file system with a kernel as its only file, always with the same bytes. The words of mksquashfs are separated by blanks. The largest blocks
// compress best, and the kernel is read as a whole.
func squash(kernel []byte, name, mksquashfs string) error {
	root, err := os.MkdirTemp(filepath.Dir(name), "squash")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }()
	file := filepath.Join(root, plainKernel)
	if err := errors.Join(writeFile(file, kernel), os.Chmod(file, 0o644), os.Chmod(root, 0o755)); err != nil { //nolint:gosec // whatever the umask is
		return err
	}
	words := append(strings.Fields(mksquashfs), root, name, "-comp", "xz", "-b", "1M", "-all-root", "-no-xattrs", "-noappend", "-quiet", "-no-progress")
	command := exec.Command(words[0], words[1:]...)           //nolint:noctx,gosec // ends with its input
	command.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=0") // all times in the file system
	if out, err := command.CombinedOutput(); err != nil {
		reason, _, _ := strings.Cut(string(out), "\n") // a description of all options follows
		return fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, reason)
	}
	return nil
}

func isUncompressed(kernel []byte) bool {
	return len(kernel) > armMagicOffset && bytes.HasPrefix(kernel[armMagicOffset:], []byte(armMagic))
}

// zip compresses a text with gzip, without a name and a time.
func zip(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
