package pxe

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/iso"
)

// mediaFile is a file in a medium, for one request. It is opened when it is first read, unless an earlier request left it open.
type mediaFile struct {
	open   func() (io.ReadSeekCloser, error)
	size   int64
	idle   *idleFiles
	key    idleKey
	opened io.ReadSeekCloser
}

// errMediaChanged is returned if a file has another size than its medium says: it was replaced under a boot server that runs.
var errMediaChanged = errors.New("a file of the boot medium was replaced during the boot: the next attempt gets the new one")

// ensure opens the file.
func (f *mediaFile) ensure() error {
	if f.opened != nil {
		return nil
	}
	if opened := f.idle.take(f.key); opened != nil {
		if f.accept(opened) == nil {
			return nil
		}
		// It was changed where it is. The error is that of the file which is there now.
	}
	return f.fetch()
}

// fetch opens the file that is there now, and starts to fetch one that is not there.
func (f *mediaFile) fetch() error {
	opened, err := f.open()
	if err != nil {
		return err
	}
	return f.accept(opened)
}

// accept takes an open file, or closes one that has another size than the medium says.
func (f *mediaFile) accept(opened io.ReadSeekCloser) error {
	size, err := opened.Seek(0, io.SeekEnd)
	if err == nil && size != f.size {
		err = fmt.Errorf("%w: it has %d bytes instead of %d", errMediaChanged, size, f.size)
	}
	if err != nil {
		_ = opened.Close()
		return err
	}
	f.opened = opened
	return nil
}

// close leaves the file to the next request.
func (f *mediaFile) close() {
	if f.opened != nil {
		f.idle.put(f.key, f.opened)
		f.opened = nil
	}
}

// ReadAt reads from the file.
func (f *mediaFile) ReadAt(p []byte, offset int64) (int, error) {
	if err := f.ensure(); err != nil {
		return 0, err
	}
	reader, ok := f.opened.(io.ReaderAt)
	if !ok {
		return 0, fmt.Errorf("%T cannot be read at an offset", f.opened)
	}
	return reader.ReadAt(p, offset)
}

// mediaReader reads a medium for one answer. A part of it that is in a file goes from the disk to the network within the kernel (sendfile).
type mediaReader struct {
	image  *iso.Image
	offset int64
	err    error // why the medium cannot be read: http.ServeContent returns no error
}

// note keeps the first error of a read.
func (r *mediaReader) note(err error) error {
	if r.err == nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return err
}

// Seek sets the offset of the next read.
func (r *mediaReader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.image.Size()
	default:
	}
	if offset < 0 {
		return 0, errors.New("seek to a negative offset")
	}
	r.offset = offset
	return offset, nil
}

// Read reads from the offset.
func (r *mediaReader) Read(p []byte) (int, error) {
	n, err := r.image.ReadAt(p, r.offset)
	r.offset += int64(n)
	return n, r.note(err)
}

// next returns a reader of the next bytes, at most limit of them, and their number. For a part in a file it is that file.
func (r *mediaReader) next(limit int64) (io.Reader, int64, error) {
	content, from, size := r.image.At(r.offset)
	size = min(size, limit)
	shared, ok := content.(*mediaFile)
	if !ok || size == 0 {
		return r, size, nil
	}
	if err := shared.ensure(); err != nil {
		return nil, 0, r.note(err)
	}
	file, ok := shared.opened.(*os.File)
	if !ok {
		return r, size, nil
	}
	_, err := file.Seek(from, io.SeekStart)
	return file, size, r.note(err)
}

// advance moves the offset behind bytes that were read from a file.
func (r *mediaReader) advance(from io.Reader, n int64) {
	if from != io.Reader(r) {
		r.offset += n
	}
}
