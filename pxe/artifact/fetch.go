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
)

// get checks the file that is there, or fetches it.
func (c *Cache) get(a Artifact, path string) error {
	if c.known(path) {
		leave, err := c.lanes.enter(c.ctx, "") // no origin: the disk
		if err != nil {
			return err
		}
		sum, err := checksumOf(c.ctx, path, newHash(kindOf(a)))
		leave()
		switch {
		case err == nil && sum == digestOf(a):
			c.checked(path)
			return nil
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		}
		// It suffered while nobody looked, or it cannot be read.
		if err := c.remove(path); err != nil {
			return err
		}
	}
	return c.fetch(a, path)
}

// fetch gets a file, checks it, and only then gives it its name: what has the name is whole.
func (c *Cache) fetch(a Artifact, path string) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return err
	}
	leave, err := c.lanes.enter(ctx, request.URL.Host)
	if err != nil {
		return err
	}
	defer leave()
	origin := request.URL.Scheme + "://" + request.URL.Host + request.URL.Path // a query may hold a token
	response, err := c.client.Do(request)
	if err != nil {
		var withURL *url.Error
		if errors.As(err, &withURL) {
			err = withURL.Err
		}
		return fmt.Errorf("fetch %s: %w", origin, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s answered %s", origin, response.Status)
	case response.ContentLength > c.opts.MaxBytes:
		return fmt.Errorf("%s has %d bytes: %w", origin, response.ContentLength, c.tooLarge())
	}
	if err := c.receive(a, path, newStalling(response.Body, c.opts.Stall, cancel), response.ContentLength); err != nil {
		return fmt.Errorf("fetch %s: %w", origin, err)
	}
	return nil
}

// receive writes a body to the disk, and gives it its name if it is right.
func (c *Cache) receive(a Artifact, path string, body *stalling, length int64) error {
	defer body.stop()
	written, err := os.CreateTemp(c.opts.Dir, partial)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(written.Name()) }() // it is gone when it got its name
	room := &bounded{cache: c}
	defer room.release()
	got, err := c.write(written, room, a, body, length)
	if err := errors.Join(err, written.Close()); err != nil {
		return err
	}
	if got != digestOf(a) {
		return fmt.Errorf("%w: it is %s:%s and should be %s", ErrChecksum, kindOf(a), got, a.Checksum)
	}
	return room.keep(written.Name(), path)
}

// write writes a body that should have a length to a file, and returns its checksum.
func (c *Cache) write(to *os.File, room *bounded, a Artifact, body *stalling, length int64) (string, error) {
	sum := newHash(kindOf(a))
	n, err := io.Copy(io.MultiWriter(room, to, sum), body)
	switch err := body.explain(err); {
	case errors.Is(err, syscall.ENOSPC):
		return "", fmt.Errorf("the disk with %s is full, and the cache may have %d bytes: give it more room, or the cache a lower bound: %w", c.opts.Dir, c.opts.MaxBytes, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "", fmt.Errorf("the origin hung up after %d of %d bytes", n, length)
	default:
		return hex.EncodeToString(sum.Sum(nil)), err
	}
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
