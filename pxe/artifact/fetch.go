package artifact

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/space"
)

// The errors of a failed fetch that users see. A user chooses the URL, and the boot server is in a network that the user may not reach. So all failures
// before a file arrives have the same text, and no text contains a part of the response, not even its checksum. The log has the cause.
var (
	errNoFile  = errors.New("no file came from the origin: the log of the boot server has the cause")
	errRefused = errors.New("the boot server does not connect to the origin, unless artifacts.allowNetworks or artifacts.allowHosts of its configuration file permits it")
)

// fetchError is an error whose cause is only logged.
type fetchError struct{ message, cause error }

func (e *fetchError) Error() string { return e.message.Error() }
func (e *fetchError) Unwrap() error { return e.message }

// verifyOrFetch verifies a file of the cache, or fetches it.
func (c *Cache) verifyOrFetch(namespace string, a Artifact, path string) error {
	if c.space.Contains(path) {
		leave, err := c.lanes.Enter(c.ctx, origin.Lane{Namespace: namespace})
		if err != nil {
			return err
		}
		sum, err := origin.HashFile(c.ctx, path, checksumOf(a).New())
		leave()
		switch {
		case err == nil && sum == checksumOf(a).Digest:
			c.space.Verified(namespace, path)
			return nil
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		}
		// The file is damaged or unreadable.
		if err := c.space.Remove(path); err != nil {
			return err
		}
	}
	from, err := url.Parse(a.URL)
	if err != nil {
		return fmt.Errorf("the URL is not valid: %w", origin.WithoutURL(err))
	}
	name := from.Scheme + "://" + from.Host + from.Path // a query may contain a token
	if err := c.fetchInLane(namespace, a, path, from.Host); err != nil {
		c.logFailure(namespace, name, err)
		return fmt.Errorf("fetch %s: %w", name, err)
	}
	return nil
}

// logFailure logs why a file could not be fetched.
func (c *Cache) logFailure(namespace, from string, err error) {
	if !c.logLimiter.Allow() {
		return
	}
	cause := err
	if e := new(fetchError); errors.As(err, &e) {
		cause = e.cause
	}
	c.opts.Log.Info("Failed to fetch a boot artifact", "namespace", namespace, "origin", from, "cause", fmt.Sprintf("%.500s", cause.Error()))
}

// fetchInLane fetches a file once a lane is free, unless it was fetched for another namespace in the meantime.
func (c *Cache) fetchInLane(namespace string, a Artifact, path, host string) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.Timeout)
	defer cancel()
	leave, err := c.lanes.Enter(ctx, origin.Lane{Namespace: namespace, Origin: host})
	if err != nil {
		return errors.New("it waits for other files of the namespace that are being fetched")
	}
	defer leave()
	if c.space.Use(namespace, path) {
		return nil
	}
	return c.fetch(namespace, a, path)
}

// fetch fetches a file, verifies it, and only then gives it its final name: a file with a final name is complete.
func (c *Cache) fetch(namespace string, a Artifact, path string) error {
	ctx, end := context.WithTimeout(c.ctx, c.opts.Timeout)
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return origin.WithoutURL(err)
	}
	request.Header.Set("Accept-Encoding", "identity") // the checksum is that of the file
	response, err := c.client.Do(request)
	if err != nil {
		err = origin.WithoutURL(err)
		if errors.As(err, new(*outbound.RefusedError)) {
			return &fetchError{errRefused, err}
		}
		return &fetchError{errNoFile, err}
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode != http.StatusOK:
		return &fetchError{errNoFile, errors.New("the origin answered " + response.Status)}
	case response.ContentLength > c.opts.MaxBytes:
		return fmt.Errorf("it is larger than the cache, which may have %d bytes: raise artifacts.maxSize of the boot server's configuration file", c.opts.MaxBytes)
	}
	body := &origin.Metered{Body: response.Body}
	c.wg.Go(func() {
		body.Watch(ctx, c.opts.RateWindow, int64(float64(c.opts.MinRate)*c.opts.RateWindow.Seconds()), cancel)
	})
	err = c.receive(a, path, body, namespace, cancel)
	switch {
	case err == nil || !errors.As(err, new(*transferError)):
		return err
	case errors.Is(context.Cause(ctx), origin.ErrSlow):
		return fmt.Errorf("it came slower than %d bytes a second for %s", c.opts.MinRate, c.opts.RateWindow)
	case errors.Is(context.Cause(ctx), errRevoked):
		return errRevoked
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("it did not come within %s", c.opts.Timeout)
	}
	return &fetchError{errNoFile, fmt.Errorf("the origin ended the transfer of %d bytes early: %w", response.ContentLength, err)}
}

// transferError is an error while a body is read.
type transferError struct{ error }

func (e *transferError) Unwrap() error { return e.error }

// receive writes a body to the disk, and gives the file its final name if the checksum matches.
func (c *Cache) receive(a Artifact, path string, body io.Reader, namespace string, cancel context.CancelCauseFunc) error {
	written, err := os.CreateTemp(c.opts.Dir, partialPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(written.Name()) }() // a renamed file is no longer here
	room := c.space.Reserve(namespace, func(cause error) {
		_ = written.Truncate(0) // frees the space at once; if it fails, the end of the fetch does
		cancel(cause)
	})
	defer room.Release()
	got, size, err := c.write(written, room, a, body)
	if err := errors.Join(err, written.Close()); err != nil {
		return err
	}
	if got != checksumOf(a).Digest {
		return &fetchError{
			fmt.Errorf("%w: it should be %s", ErrChecksum, a.Checksum),
			fmt.Errorf("%w: it is %s:%s and should be %s", ErrChecksum, checksumOf(a).Kind, got, a.Checksum),
		}
	}
	return room.Commit(path, size, func() error { return os.Rename(written.Name(), path) })
}

// write writes a body to a file, and returns its checksum and size.
func (c *Cache) write(to io.Writer, room *space.Reservation, a Artifact, body io.Reader) (string, int64, error) {
	sum := checksumOf(a).New()
	size, err := io.Copy(io.MultiWriter(counted{room}, to, sum), transfer{body})
	if errors.Is(err, syscall.ENOSPC) {
		return "", 0, fmt.Errorf("the disk with %s is full, and the cache may have %d bytes: give it more room, or the cache a lower bound: %w", c.opts.Dir, c.opts.MaxBytes, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), size, err
}

// counted counts bytes before they are written to a file, and frees space for them.
type counted struct{ room *space.Reservation }

func (c counted) Write(p []byte) (int, error) {
	if err := c.room.Add(int64(len(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// transfer distinguishes read errors from write errors.
type transfer struct{ io.Reader }

func (t transfer) Read(p []byte) (int, error) {
	n, err := t.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &transferError{err}
	}
	return n, err
}

// checksumOf returns the checksum of a file, which path has verified.
func checksumOf(a Artifact) origin.Checksum {
	sum, _ := origin.ParseChecksum(a.Checksum)
	return sum
}
