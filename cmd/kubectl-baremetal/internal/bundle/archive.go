package bundle

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"time"
)

// File is a file of the bundle.
type File struct {
	// Name is its path in the archive, with slashes.
	Name    string
	Content []byte
}

// Write writes an archive (tar, compressed by gzip) with all files in one folder. Its modification times are now.
func Write(w io.Writer, folder string, files []File, now time.Time) error {
	compressed := gzip.NewWriter(w)
	archive := tar.NewWriter(compressed)
	for _, file := range files {
		header := &tar.Header{Name: folder + "/" + file.Name, Mode: 0o600, Size: int64(len(file.Content)), ModTime: now, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(file.Content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}
