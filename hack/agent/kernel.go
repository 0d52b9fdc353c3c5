package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
)

// armMagic is in the header of a kernel for arm64, at this offset (Documentation/arch/arm64/booting.rst).
const (
	armMagic       = "ARM\x64"
	armMagicOffset = 56
)

// writeKernel writes the kernel into a folder as the file kernel. The signature is of these bytes. A kernel for arm64 is not compressed: it is written as
// kernel.gz, which iPXE decompresses. The boot server decompresses it for other boot loaders.
func writeKernel(source, folder string) error {
	content, err := os.ReadFile(source) //nolint:gosec // the folder is ours
	if err != nil {
		return err
	}
	name := "kernel"
	if isUncompressed(content) {
		name = "kernel.gz"
		if content, err = zip(content); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(folder, name), content, 0o644) //nolint:gosec // a file of a release, that everyone may read
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
