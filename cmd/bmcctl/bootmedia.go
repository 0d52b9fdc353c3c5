package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// mediaServer serves one image to a BMC, and counts the bytes that the BMC reads. This is the evidence that a server booted from the image.
type mediaServer struct {
	image  *os.File
	size   int64
	path   string
	server *http.Server
	done   chan error
	read   atomic.Int64
}

// bootMedia returns the image that the server is booted from, or nil without --boot-media. If it is a file, it is served until stop is called.
func (q *qualification) bootMedia(ctx context.Context, t *target) (media *bmctest.BootMedia, stop func() error, err error) {
	nothing := func() error { return nil }
	switch {
	case q.media == "":
		return nil, nothing, nil
	case isURL(q.media):
		return &bmctest.BootMedia{URL: q.media, Timeout: q.mediaTimeout}, nothing, nil
	}
	file, size, err := openImage(q.media)
	if err != nil {
		return nil, nothing, err
	}
	listener, err := q.listen(ctx, t)
	if err != nil {
		return nil, nothing, errors.Join(err, file.Close())
	}
	// The path is a secret, and the URL ends in .iso and has no query, as BMCs require.
	s := &mediaServer{image: file, size: size, path: "/" + strings.ToLower(rand.Text()) + "/boot.iso", done: make(chan error, 1)}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { s.done <- s.server.Serve(listener) }()
	return &bmctest.BootMedia{
		URL: "http://" + listener.Addr().String() + s.path, Read: s.read.Load, Size: size, Timeout: q.mediaTimeout,
	}, s.stop, nil
}

// isUnspecified is true for an address without a host, or with 0.0.0.0 or [::]: the BMC gets its URL.
func isUnspecified(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "" || ip != nil && ip.IsUnspecified())
}

func isURL(text string) bool { return strings.Contains(text, "://") }

func openImage(name string) (*os.File, int64, error) {
	file, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, 0, usageErrorf("--boot-media: %v", err)
	}
	info, err := file.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		err = usageErrorf("--boot-media: %s is not a file with an image", name)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}

// listen listens on the address of --boot-media-listen or, without one, on a free port of this machine's address in the direction of the BMC.
func (q *qualification) listen(ctx context.Context, t *target) (net.Listener, error) {
	address := q.mediaListen
	if address == "" {
		// A UDP socket sends nothing when it is connected, but it gets the source address of the route.
		probe, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(t.URL.Hostname(), "9"))
		if err != nil {
			return nil, fmt.Errorf("find the address that the BMC reaches: %w: use --boot-media-listen", err)
		}
		host, _, err := net.SplitHostPort(probe.LocalAddr().String())
		if err := errors.Join(err, probe.Close()); err != nil {
			return nil, err
		}
		address = net.JoinHostPort(host, "0")
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, usageErrorf("--boot-media-listen: %v: use an address of this machine that the BMC reaches, like 192.0.2.5:8080", err)
	}
	return listener, nil
}

// ServeHTTP serves the image with ranges, to clients that know its path.
func (s *mediaServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != s.path || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(&countingWriter{ResponseWriter: w, count: &s.read}, r, "boot.iso", time.Time{}, io.NewSectionReader(s.image, 0, s.size))
}

// stop ends the server, also if the BMC still reads, and closes the image.
func (s *mediaServer) stop() error {
	err := s.server.Close()
	if served := <-s.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, s.image.Close())
}

// countingWriter counts the bytes of the image, and not those of an error.
type countingWriter struct {
	http.ResponseWriter

	failed bool
	count  *atomic.Int64
}

func (w *countingWriter) WriteHeader(status int) {
	w.failed = status/100 != 2
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(content []byte) (int, error) {
	n, err := w.ResponseWriter.Write(content)
	if !w.failed {
		w.count.Add(int64(n))
	}
	return n, err
}
