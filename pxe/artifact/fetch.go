package artifact

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
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
	if c.contains(path) {
		leave, err := c.lanes.enter(c.ctx, lane{namespace: namespace})
		if err != nil {
			return err
		}
		sum, err := checksumOf(c.ctx, path, newHash(kindOf(a)))
		leave()
		switch {
		case err == nil && sum == digestOf(a):
			c.markVerified(namespace, path)
			return nil
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		}
		// The file is damaged or unreadable.
		if err := c.remove(path); err != nil {
			return err
		}
	}
	origin, err := url.Parse(a.URL)
	if err != nil {
		return fmt.Errorf("the URL is not valid: %w", withoutURL(err))
	}
	name := origin.Scheme + "://" + origin.Host + origin.Path // a query may contain a token
	if err := c.fetchInLane(namespace, a, path, origin.Host); err != nil {
		c.logFailure(namespace, name, err)
		return fmt.Errorf("fetch %s: %w", name, err)
	}
	return nil
}

// logFailure logs why a file could not be fetched.
func (c *Cache) logFailure(namespace, origin string, err error) {
	if !c.logLimiter.Allow() {
		return
	}
	cause := err
	if e := new(fetchError); errors.As(err, &e) {
		cause = e.cause
	}
	c.opts.Log.Info("Failed to fetch a boot artifact", "namespace", namespace, "origin", origin, "cause", fmt.Sprintf("%.500s", cause.Error()))
}

// fetchInLane fetches a file once a lane is free, unless it was fetched for another namespace in the meantime.
func (c *Cache) fetchInLane(namespace string, a Artifact, path, origin string) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.Timeout)
	defer cancel()
	leave, err := c.lanes.enter(ctx, lane{namespace, origin})
	if err != nil {
		return errors.New("it waits for other files of the namespace that are being fetched")
	}
	defer leave()
	if c.use(namespace, path) {
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
		return withoutURL(err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		err = withoutURL(err)
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
	body := &metered{body: response.Body}
	c.wg.Go(func() {
		body.watch(ctx, c.opts.RateWindow, int64(float64(c.opts.MinRate)*c.opts.RateWindow.Seconds()), cancel)
	})
	err = c.receive(a, path, body, &reservation{cache: c, namespace: namespace, cancel: cancel})
	switch {
	case err == nil || !errors.As(err, new(*transferError)):
		return err
	case errors.Is(context.Cause(ctx), errSlow):
		return fmt.Errorf("it came slower than %d bytes a second for %s", c.opts.MinRate, c.opts.RateWindow)
	case errors.Is(context.Cause(ctx), errRevoked):
		return errRevoked
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("it did not come within %s", c.opts.Timeout)
	}
	return &fetchError{errNoFile, fmt.Errorf("the origin ended the transfer of %d bytes early: %w", response.ContentLength, err)}
}

// withoutURL removes the URL from an error: a query may contain a token.
func withoutURL(err error) error {
	if withURL := new(url.Error); errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}

// transferError is an error while a body is read.
type transferError struct{ error }

func (e *transferError) Unwrap() error { return e.error }

// receive writes a body to the disk, and gives the file its final name if the checksum matches.
func (c *Cache) receive(a Artifact, path string, body io.Reader, room *reservation) error {
	written, err := os.CreateTemp(c.opts.Dir, partialPrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(written.Name()) }() // a renamed file is no longer here
	room.open(written)
	defer room.release()
	got, err := c.write(written, room, a, body)
	if err := errors.Join(err, written.Close()); err != nil {
		return err
	}
	if got != digestOf(a) {
		return &fetchError{
			fmt.Errorf("%w: it should be %s", ErrChecksum, a.Checksum), fmt.Errorf("%w: it is %s:%s and should be %s", ErrChecksum, kindOf(a), got, a.Checksum),
		}
	}
	return room.commit(written.Name(), path)
}

// write writes a body to a file, and returns its checksum.
func (c *Cache) write(to io.Writer, room *reservation, a Artifact, body io.Reader) (string, error) {
	sum := newHash(kindOf(a))
	_, err := io.Copy(io.MultiWriter(room, to, sum), transfer{body})
	if errors.Is(err, syscall.ENOSPC) {
		return "", fmt.Errorf("the disk with %s is full, and the cache may have %d bytes: give it more room, or the cache a lower bound: %w", c.opts.Dir, c.opts.MaxBytes, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), err
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

// checksumOf reads a whole file.
func checksumOf(ctx context.Context, path string, sum hash.Hash) (string, error) {
	opened, err := os.Open(path) //nolint:gosec // made of a checked checksum
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }()
	buffer := make([]byte, 1<<20)
	for {
		n, err := opened.Read(buffer)
		_, _ = sum.Write(buffer[:n]) // never fails
		switch {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(sum.Sum(nil)), nil
		case err != nil:
			return "", err
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
	}
}

func kindOf(a Artifact) string {
	kind, _, _ := strings.Cut(a.Checksum, ":")
	return kind
}

func digestOf(a Artifact) string {
	_, digest, _ := strings.Cut(a.Checksum, ":")
	return strings.ToLower(digest)
}
