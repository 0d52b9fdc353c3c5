package artifact

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"syscall"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/space"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// verifyOrFetch verifies a file of the cache, or fetches it. Users see the error. It has no part of the response, not even its checksum (see origin.ErrNoFile).
func (c *Cache) verifyOrFetch(ctx context.Context, f file) error {
	if c.space.Contains(f.path) {
		leave, err := c.fetchLimiter.Enter(ctx, origin.LimitKey{Namespace: f.namespace})
		if err != nil {
			return err
		}
		sum, err := origin.HashFile(ctx, f.path, f.sum.New())
		leave()
		switch {
		case err == nil && sum == f.sum.Digest:
			c.space.Verified(f.namespace, f.path)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		// The file is damaged or unreadable.
		if err := c.space.Remove(f.path); err != nil {
			return err
		}
	}
	parsed, err := url.Parse(f.URL)
	if err != nil {
		return fmt.Errorf("the URL is not valid: %w", origin.WithoutURL(err))
	}
	from := origin.NewWebFile(parsed, c.client)
	if err := c.fetchInSlot(ctx, f, from); err != nil {
		c.logFailure(f.namespace, from.Name(), err)
		return fmt.Errorf("fetch %s: %w", from.Name(), err)
	}
	return nil
}

// logFailure logs why a file could not be fetched.
func (c *Cache) logFailure(namespace, from string, err error) {
	if !c.logLimiter.Allow() {
		return
	}
	cause := err
	if e := new(origin.Error); errors.As(err, &e) {
		cause = e.Cause
	}
	c.opts.Log.Info("Failed to fetch a boot artifact", "namespace", namespace, "origin", from, "cause", fmt.Sprintf("%.500s", cause.Error()))
}

// fetchInSlot fetches a file once a slot is free, unless it was fetched for another namespace in the meantime.
func (c *Cache) fetchInSlot(ctx context.Context, f file, from *origin.WebFile) error {
	waiting, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	leave, err := c.fetchLimiter.Enter(waiting, origin.LimitKey{Namespace: f.namespace, Origin: from.Host()})
	if err != nil {
		return errors.New("it waits for other files of the namespace that are being fetched")
	}
	defer leave()
	if c.space.Use(f.namespace, f.path) {
		return nil
	}
	return c.fetch(ctx, f, from)
}

// fetch fetches a file, verifies it, and only then gives it its final name: a file with a final name is complete.
func (c *Cache) fetch(ctx context.Context, f file, from *origin.WebFile) error {
	ctx, end := context.WithTimeout(ctx, c.opts.Timeout)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	body, err := from.Open(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if body.Size > c.opts.MaxBytes {
		return fmt.Errorf("it is larger than the cache, which may have %d bytes: raise artifacts.maxSize of the boot server's configuration file", c.opts.MaxBytes)
	}
	err = c.receive(f, c.opts.MinRate.Meter(ctx, body, cancel), cancel)
	switch {
	case err == nil || !errors.As(err, new(*origin.ReadError)):
		return err
	case errors.Is(context.Cause(ctx), origin.ErrSlow):
		return fmt.Errorf("it came slower than %d bytes a second for %s", c.opts.MinRate.BytesPerSecond, c.opts.MinRate.Window)
	case errors.Is(context.Cause(ctx), errRevoked):
		return errRevoked
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("it did not come within %s", c.opts.Timeout)
	}
	return &origin.Error{Shown: origin.ErrNoFile, Cause: fmt.Errorf("the origin ended the transfer of %d bytes early: %w", body.Size, err)}
}

// receive writes a body to the disk, and gives the file its final name if the checksum matches.
func (c *Cache) receive(f file, body io.Reader, cancel context.CancelCauseFunc) error {
	written, err := os.CreateTemp(c.opts.Dir, partialPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(written.Name()) }() // a renamed file is no longer here
	reservation := c.space.Reserve(f.namespace, func(cause error) {
		_ = written.Truncate(0) // frees the space at once; if it fails, the end of the fetch does
		cancel(cause)
	})
	defer reservation.Release()
	sum := f.sum.New()
	size, err := c.write(io.MultiWriter(counted{reservation}, written, sum), body)
	if err := errors.Join(err, written.Close()); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.sum.Digest {
		return &origin.Error{
			Shown: fmt.Errorf("%w: it should be %s", ErrChecksum, f.Checksum),
			Cause: fmt.Errorf("%w: it is %s:%s and should be %s", ErrChecksum, f.sum.Kind, got, f.Checksum),
		}
	}
	return reservation.Commit(f.path, size, func() error { return os.Rename(written.Name(), f.path) })
}

// write writes a body, and returns its size.
func (c *Cache) write(to io.Writer, body io.Reader) (int64, error) {
	size, err := io.Copy(to, body)
	if errors.Is(err, syscall.ENOSPC) {
		err = fmt.Errorf("the disk with %s is full, and the cache may have %d bytes: give it more room, or the cache a lower bound: %w", c.opts.Dir, c.opts.MaxBytes, err)
	}
	return size, err
}

// counted counts bytes before they are written to a file, and frees space for them.
type counted struct{ reservation *space.Reservation }

func (c counted) Write(p []byte) (int, error) {
	if err := c.reservation.Add(int64(len(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
