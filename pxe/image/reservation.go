package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/space"
)

const (
	partialPrefix = "part-" // of the folders of incomplete images
	sourceName    = "source"
	plainName     = "plain"
	dataName      = "data"
	manifestName  = "manifest"
)

// reservation is the disk space of an image that is being prepared, with its files.
type reservation struct {
	*space.Reservation

	folder              string
	source, plain, data *os.File
	cancel              context.CancelCauseFunc // ends the context of the work
}

// reserve makes the folder of an image, without any space. The context ends when the space is needed for another namespace.
func (s *Service) reserve(ctx context.Context, j *job) (context.Context, *reservation, error) {
	folder, err := os.MkdirTemp(s.opts.Dir, partialPrefix)
	if err != nil {
		return nil, nil, err
	}
	r := &reservation{folder: folder}
	ctx, r.cancel = context.WithCancelCause(ctx)
	err = os.Chmod(folder, 0o755) //nolint:gosec // the boot server, which may have another user, reads it; images are no secret to it
	for name, file := range map[string]**os.File{sourceName: &r.source, plainName: &r.plain, dataName: &r.data} {
		if err == nil {
			*file, err = os.OpenFile(filepath.Join(folder, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as above
		}
	}
	r.Reservation = s.space.Reserve(j.namespace, func(cause error) {
		r.cancel(cause)
		for _, f := range []*os.File{r.source, r.plain, r.data} {
			_ = f.Truncate(0) // frees the space at once; if it fails, the end of the job does
		}
	})
	if err != nil {
		r.close()
		return nil, nil, err
	}
	return ctx, r, nil
}

// causeOf returns the cause of an error in the context of a reservation: the end of the reservation has consequences of many kinds.
func causeOf(ctx context.Context, err error) error {
	if revoked := new(Error); err != nil && errors.As(context.Cause(ctx), &revoked) {
		return revoked
	}
	return err
}

// keepData deletes all files but the data, which has size bytes without holes.
func (r *reservation) keepData(size int64) error {
	for _, f := range []*os.File{r.source, r.plain} {
		if err := errors.Join(f.Truncate(0), os.Remove(f.Name())); err != nil {
			return err
		}
	}
	r.Reset(size)
	return nil
}

// close deletes what is left. A complete image is no longer here.
func (r *reservation) close() {
	r.cancel(nil)
	for _, f := range []*os.File{r.source, r.plain, r.data} {
		if f != nil {
			_ = f.Close()
		}
	}
	_ = os.RemoveAll(r.folder) // the next start deletes what could not be deleted
	r.Release()
}
