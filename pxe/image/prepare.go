package image

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/internal/convert"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/internal/format"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/internal/layout"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/internal/source"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

const (
	// maxResumes is how often a download that breaks continues.
	maxResumes = 10
	// convertSlack is what a conversion of a raw image needs beside the source, whose space it frees in steps.
	convertSlack = 32 << 20
)

// download writes the source to the disk and verifies its checksum. It returns true if another namespace made the image ready in the meantime.
func (s *Service) download(ctx context.Context, j *job, file source.File, r *reservation) (done bool, err error) {
	leave, err := s.downloads.Enter(ctx, origin.LimitKey{Namespace: j.namespace, Origin: file.Host()})
	if err != nil {
		return false, err
	}
	defer leave()
	if _, ok := s.use(j.namespace, j.key); ok {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	t := &transfer{service: s, job: j, reservation: r, sum: j.sum.New()}
	for range maxResumes {
		before := t.written
		if err = t.attempt(ctx, file); err == nil || !errors.As(err, new(*origin.ReadError)) || ctx.Err() != nil || t.written == before {
			break
		}
	}
	switch {
	case err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return false, &Error{Interrupted, fmt.Sprintf("the image did not come within %s", s.opts.Timeout)}
	case err != nil:
		return false, err
	}
	if got := hex.EncodeToString(t.sum.Sum(nil)); got != j.sum.Digest {
		s.logFailure(j.namespace, file.Name(), fmt.Errorf("the file has the checksum %s:%s", j.sum.Kind, got))
		return false, differs(j)
	}
	return false, nil
}

// differs returns the error for a file with another checksum. The checksum that it has is not in the text: with it, the next request could read the file.
func differs(j *job) error {
	return &Error{ChecksumDiffers, fmt.Sprintf("the file does not have the checksum %s: correct the checksum, or the URL", j.sum)}
}

// transfer is the download of one file, in one or several attempts.
type transfer struct {
	service     *Service
	job         *job
	reservation *reservation
	sum         hash.Hash
	written     int64
	size        int64
}

// attempt downloads the file, or the rest of it.
func (t *transfer) attempt(ctx context.Context, file source.File) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, err := file.Open(ctx, t.written)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if body.Offset != t.written { // from the beginning
		if err := t.reservation.source.Truncate(0); err != nil {
			return err
		}
		t.reservation.Sub(t.written)
		t.written = 0
		t.sum.Reset()
	}
	t.size = max(0, body.Size)
	if kind, digest, _ := bytes.Cut([]byte(body.Digest), []byte(":")); string(kind) == t.job.sum.Kind && string(digest) != t.job.sum.Digest {
		return differs(t.job)
	}
	minRate := origin.DefaultMinRate
	err = t.receive(minRate.Meter(ctx, body, cancel))
	broken := new(origin.ReadError)
	switch {
	case err == nil || !errors.As(err, &broken):
		return err
	case errors.Is(context.Cause(ctx), origin.ErrSlow):
		return &Error{ImageUnreachable, fmt.Sprintf("the image came slower than %d bytes a second for %s", minRate.BytesPerSecond, minRate.Window)}
	}
	return errors.Join(origin.Unreached(fmt.Errorf("the transfer ended after %d of %d bytes: %w", t.written, body.Size, broken.Err)), broken)
}

// receive writes a body to the source file. The beginning of the file says what the image needs at least.
func (t *transfer) receive(body io.Reader) error {
	buffer := make([]byte, 256<<10)
	for first := t.written == 0; ; first = false {
		n, err := fill(body, buffer)
		if first {
			if err := t.reserve(buffer[:n]); err != nil {
				return err
			}
		}
		if err := t.write(buffer[:n]); err != nil {
			return err
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// fill reads until p is full. Unlike io.ReadFull it returns the error of the reader: io.ErrUnexpectedEOF is that of a body that is truncated.
func fill(from io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = from.Read(p[n:])
		n += more
	}
	return n, err
}

// reserve reserves what the image needs at least, from its beginning. The conversion of a raw image frees the source while it goes on; that of a qcow2 image
// does not, and writes about as much data as the source has; and the content of a compressed image is at least as large as the image.
func (t *transfer) reserve(head []byte) error {
	limit := t.service.opts.MaxImageSize
	peak := t.size
	switch kind, err := format.Detect(head); {
	case err != nil: // it is reported when the checksum is verified
	case kind == format.QCOW2:
		virtual := format.VirtualSize(head)
		if virtual > uint64(limit) { //nolint:gosec // positive
			return &format.TooLargeError{Max: limit}
		}
		peak += min(t.size, int64(virtual)) //nolint:gosec // at most limit
	case kind == format.Raw:
		if t.size > limit {
			return &format.TooLargeError{Max: limit}
		}
		peak += min(t.size, convertSlack)
	default:
		peak += t.size
	}
	return t.reservation.Hold(peak)
}

func (t *transfer) write(p []byte) error {
	if err := t.reservation.Add(int64(len(p))); err != nil {
		return err
	}
	if _, err := t.reservation.source.WriteAt(p, t.written); err != nil {
		return err
	}
	_, _ = t.sum.Write(p) // never fails
	t.written += int64(len(p))
	t.job.progress.set(Downloading, t.written, t.size)
	return nil
}

// convert makes the raw disk and the manifest, and gives them their final name.
func (s *Service) convert(ctx context.Context, j *job, r *reservation) error {
	if _, ok := s.use(j.namespace, j.key); ok {
		return nil
	}
	j.progress.set(Waiting, 0, 0)
	leave, err := s.conversions.Enter(ctx, origin.LimitKey{Namespace: j.namespace})
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	if _, ok := s.use(j.namespace, j.key); ok {
		return nil
	}
	m, err := convert.Convert(ctx, r.source, r.data, convert.Options{
		MaxSize: s.opts.MaxImageSize, Raw: j.raw, Reservation: r, Temporary: r.plain,
		Progress: func(done, total int64) { j.progress.set(Converting, done, total) },
	})
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return &Error{ImageTooLarge, fmt.Sprintf("the conversion of the image took more than %s", s.opts.Timeout)}
	}
	if err != nil {
		return err
	}
	return s.publish(j, r, m)
}

// publish writes the manifest, and renames the folder when all is on the disk: a folder with a final name is complete.
func (s *Service) publish(j *job, r *reservation, m *manifest.Manifest) error {
	encoded, err := m.Encode()
	if err != nil {
		return err
	}
	if err := r.keepData(m.DataBytes()); err != nil {
		return err
	}
	digest := manifest.DigestOf(encoded)
	content := append([]byte(digest+"\n"), encoded...)
	if err := r.Add(int64(len(content)) + folderBytes); err != nil {
		return err
	}
	if err := writeSynced(filepath.Join(r.folder, manifestName), content); err != nil {
		return err
	}
	if err := errors.Join(r.data.Sync(), syncFolder(r.folder)); err != nil {
		return err
	}
	info := Info{ManifestDigest: digest, Header: m.Header, DataBytes: m.DataBytes()}
	final := filepath.Join(s.opts.Dir, j.key)
	return r.Commit(j.key, info.DataBytes+int64(len(encoded))+folderBytes, func() error {
		// Another namespace may have made the same image, which is deterministic.
		if err := s.delete(j.key); err != nil {
			return err
		}
		if err := errors.Join(os.Rename(r.folder, final), syncFolder(s.opts.Dir)); err != nil {
			return err
		}
		s.setReady(j.key, info)
		return nil
	})
}

// writeSynced writes a file to the disk.
func writeSynced(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // the boot server reads it
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder writes the names in a folder to the disk.
func syncFolder(path string) error {
	f, err := os.Open(path) //nolint:gosec // our own
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// failure returns the error that the user sees, and logs its cause.
func (s *Service) failure(ctx context.Context, j *job, err error) *Error {
	if err == nil {
		return nil
	}
	shown, cause := new(Error), err
	var fromSource *source.Error
	var fromOrigin *origin.Error
	switch {
	case errors.As(err, &shown):
	case errors.As(err, &fromSource):
		shown = &Error{Reason(fromSource.Reason), fromSource.Message}
		cause = fromSource.Cause
	case errors.As(err, &fromOrigin):
		shown, cause = &Error{ImageUnreachable, fromOrigin.Error()}, fromOrigin.Cause
	case errors.As(err, new(*format.TooLargeError)):
		shown = &Error{ImageTooLarge, err.Error() + ": use an image with a smaller disk"}
	case errors.As(err, new(*format.InvalidError)) || errors.As(err, new(*layout.InvalidError)):
		shown = &Error{ImageFormatInvalid, err.Error()}
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		shown = &Error{NoSpace, fmt.Sprintf("the disk with the images is full, and they may have %d bytes: give it more room, or the images a lower bound", s.opts.MaxBytes)}
	default:
		shown = &Error{Interrupted, "the boot server could not prepare the image: its log has the cause"}
	}
	if cause != nil && ctx.Err() == nil {
		s.logFailure(j.namespace, j.name(), cause)
	}
	return shown
}
