package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// probeTimeout bounds the one attempt that decides whether the downloads can be reached, from the DNS query to the headers of the answer.
	probeTimeout = 3 * time.Second
	// connectTimeout, headerTimeout and stallTimeout bound how long a host may keep silent; a download may be slow, but not stand still.
	connectTimeout = 10 * time.Second
	headerTimeout  = 20 * time.Second
	stallTimeout   = 20 * time.Second
	// downloadTimeout bounds one download: after it, even a slow machine has built the program.
	downloadTimeout = 8 * time.Minute
	// maxSize bounds a download, and a program in an archive. The largest has about 110 MB.
	maxSize = 512 << 20
)

// connectionError is an error of the network, and not an answer of the server.
type connectionError struct{ err error }

func (e *connectionError) Error() string { return e.err.Error() }
func (e *connectionError) Unwrap() error { return e.err }

type fetcher struct {
	client *http.Client
	mirror string // base URL without a slash at the end; empty for the projects' own hosts
	into   string
	stall  time.Duration
	size   int64 // of a download, and of a program in an archive, at most
}

func newFetcher(mirror, into string) *fetcher {
	transport := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext, TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: headerTimeout,
		ForceAttemptHTTP2: true,
	}
	return &fetcher{
		client: &http.Client{Transport: transport}, mirror: strings.TrimSuffix(mirror, "/"), into: into, stall: stallTimeout, size: maxSize,
	}
}

// url returns the address of a path of the checksums.
func (f *fetcher) url(path string) string {
	if f.mirror != "" {
		return f.mirror + "/" + path
	}
	return "https://" + path
}

// probe makes one attempt to reach the server of a path. Each answer will do, also 404.
func (f *fetcher) probe(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %v", probeTimeout))
	defer cancel()
	client := *f.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, f.url(path), http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return withCause(ctx, err)
	}
	return response.Body.Close()
}

// install fetches a program, checks it, and puts it and its stamp in place.
func (f *fetcher) install(ctx context.Context, p program) (err error) {
	archive, err := f.download(ctx, p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(archive)) }()
	source := archive
	if p.member != "" {
		if source, err = f.extract(archive, p); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, discard(source)) }()
	}
	target := filepath.Join(f.into, p.name)
	if err := errors.Join(source.Chmod(0o755), source.Sync()); err != nil {
		return err
	}
	// The stamp goes first and comes last: a program whose stamp is missing is fetched or built again.
	if err := os.Remove(target + ".stamp"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Rename(source.Name(), target); err != nil {
		return err
	}
	return os.WriteFile(target+".stamp", []byte(p.stamp()+"\n"), 0o644) //nolint:gosec // readable as what git writes
}

// download fetches the path into a temporary file beside the programs, and returns it if its checksum is right.
func (f *fetcher) download(ctx context.Context, p program) (*os.File, error) {
	target, err := os.CreateTemp(f.into, "."+p.name+".part-")
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	if err := f.get(ctx, p.path, io.MultiWriter(target, hash)); err != nil {
		return nil, errors.Join(err, discard(target))
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); sum != p.sum {
		return nil, errors.Join(fmt.Errorf("%s has the checksum %s and not %s of hack/downloads.sha256", f.url(p.path), sum, p.sum), discard(target))
	}
	return target, nil
}

// get writes what is at the path.
func (f *fetcher) get(ctx context.Context, path string, to io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, downloadTimeout, fmt.Errorf("not complete within %v", downloadTimeout))
	defer cancel()
	ctx, stalled := context.WithCancelCause(ctx)
	defer stalled(nil)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url(path), http.NoBody)
	if err != nil {
		return err
	}
	response, err := f.client.Do(request)
	if err != nil {
		return &connectionError{withCause(ctx, err)}
	}
	defer func() { _ = response.Body.Close() }() // only read from
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", f.url(path), response.Status)
	}
	timer := time.AfterFunc(f.stall, func() { stalled(fmt.Errorf("nothing received for %v", f.stall)) })
	defer timer.Stop()
	body := &progressReader{reader: io.LimitReader(response.Body, f.size+1), progress: func() { timer.Reset(f.stall) }}
	n, err := io.Copy(to, body)
	if err != nil {
		return &connectionError{fmt.Errorf("%s: %w after %d bytes", f.url(path), withCause(ctx, err), n)}
	}
	if n > f.size {
		return fmt.Errorf("%s has more than %d bytes", f.url(path), f.size)
	}
	return nil
}

// extract writes the program of a verified archive into a temporary file.
func (f *fetcher) extract(archive *os.File, p program) (*os.File, error) {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return nil, fmt.Errorf("%s is no archive: %w", p.path, err)
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("%s has no %s: %w", p.path, p.member, err)
		}
		if header.Name != p.member || header.Typeflag != tar.TypeReg {
			continue
		}
		if header.Size > f.size {
			return nil, fmt.Errorf("%s of %s has %d bytes", p.member, p.path, header.Size)
		}
		target, err := os.CreateTemp(f.into, "."+p.name+".part-")
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(target, files, header.Size); err != nil {
			return nil, errors.Join(err, discard(target))
		}
		return target, nil
	}
}

// inspect prints the checksum or the content of what is at a path.
func (f *fetcher) inspect(ctx context.Context, path string, content bool) error {
	if content {
		return f.get(ctx, path, os.Stdout)
	}
	hash := sha256.New()
	if err := f.get(ctx, path, hash); err != nil {
		return err
	}
	fmt.Printf("%x  %s\n", hash.Sum(nil), path)
	return nil
}

// discard closes and removes a temporary file, if it is still there.
func discard(f *os.File) error {
	err := os.Remove(f.Name())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(f.Close(), err)
}

// withCause adds why the context ended, where the error leaves that out.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// progressReader calls progress at each read that received something.
type progressReader struct {
	reader   io.Reader
	progress func()
}

func (r *progressReader) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if n > 0 {
		r.progress()
	}
	return n, err
}
