// Package artifact fetches the files that servers boot, checks them against their checksums, and keeps them on disk.
package artifact

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// Artifact is a file with the checksum that it must have.
type Artifact struct {
	// URL is where the file comes from.
	URL string
	// Checksum is sha256:HEX or sha512:HEX.
	Checksum string
}

// partial begins the names of files that are not whole yet.
const partial = "part-"

// ErrChecksum means that a file is not the one that its checksum names.
var ErrChecksum = errors.New("the checksum differs")

// ErrNotYet means that a file is being fetched.
var ErrNotYet = errors.New("being fetched")

// Options bound a cache. Zero values take the defaults.
type Options struct {
	// Dir is the folder. It is made, and holds nothing that cannot be fetched again.
	Dir string
	// MaxBytes is the size that the cache may have, with what is being fetched; the files used longest ago go first. Defaults to 20 GiB.
	MaxBytes int64
	// Hold is how long a file stays that was asked for, whatever else wants its room: a server that was told to boot it comes for it.
	// Defaults to 15 minutes.
	Hold time.Duration
	// Outbound is where files may come from: users name the URLs.
	Outbound outbound.Policy
	// RetryAfter is how long an error is remembered before the file is asked for again. Defaults to 10 s.
	RetryAfter time.Duration
	// Timeout bounds the fetch of one file. Defaults to 15 minutes.
	Timeout time.Duration
	// LeastRate is how many bytes a second an origin must send, on average in each RateWindow. Defaults to 32 KiB and 30 s.
	LeastRate  int64
	RateWindow time.Duration
	// Log has why files could not be fetched, which users do not learn.
	Log logr.Logger
}

// Cache holds files by their checksums. It is safe for concurrent use.
type Cache struct {
	opts   Options
	client *http.Client
	lanes  *lanes
	lines  *rate.Limiter // of the log

	ctx    context.Context //nolint:containedctx // fetches outlive the requests that start them
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	fetches map[string]*fetch // by namespace, path and URL
	files   map[string]*file  // by path
	rooms   map[*room]bool    // of files that are not whole yet
	whole   int64             // bytes of the files
	partial int64             // bytes of files that are not whole yet
}

// file is a file that the cache has.
type file struct {
	size int64
	used time.Time
	// checked is true for a file that this process saw to have its checksum. What it finds when it starts may have suffered.
	checked bool
	// holders are the namespaces that use it, and when they last did.
	holders map[string]time.Time
}

type fetch struct {
	running bool
	err     error
	endedAt time.Time
}

// New returns a cache. Close it.
func New(opts Options) (*Cache, error) {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 20 << 30
	}
	if opts.RetryAfter == 0 {
		opts.RetryAfter = 10 * time.Second
	}
	if opts.Timeout == 0 {
		opts.Timeout = 15 * time.Minute
	}
	if opts.LeastRate == 0 {
		opts.LeastRate = 32 << 10
	}
	if opts.RateWindow == 0 {
		opts.RateWindow = 30 * time.Second
	}
	if opts.Hold == 0 {
		opts.Hold = 15 * time.Minute
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil { //nolint:gosec // kernels are no secret
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Cache{
		opts: opts, ctx: ctx, cancel: cancel, lanes: newLanes(), lines: rate.NewLimiter(1, 50),
		fetches: map[string]*fetch{}, files: map[string]*file{}, rooms: map[*room]bool{},
	}
	if err := c.find(); err != nil {
		cancel()
		return nil, err
	}
	c.client = &http.Client{Transport: &http.Transport{
		// It is asked for every connection, also those of redirects.
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return outbound.Dial(ctx, 30*time.Second, opts.Outbound.Check, network, address)
		},
		TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}}
	return c, nil
}

// Close ends the fetches that run and waits for them.
func (c *Cache) Close() {
	c.cancel()
	c.wg.Wait()
}

// Open returns a file for a namespace. While it is being fetched or checked, which Open starts, the error is ErrNotYet; one that could not be
// fetched is tried again after a while. A file that is open stays readable, also when the cache does without it.
//
// A file is kept once for all namespaces, and the checksum is the right to it: a namespace gets it by whatever URL it names.
func (c *Cache) Open(namespace string, a Artifact) (*os.File, error) {
	path, err := c.path(a)
	if err != nil {
		return nil, err
	}
	if !c.use(namespace, path) {
		return nil, c.start(namespace, a, path)
	}
	opened, err := os.Open(path) //nolint:gosec // made of a checked checksum
	if err != nil {
		// The folder may be emptied at any time.
		c.forget(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, c.start(namespace, a, path)
	}
	if info, err := opened.Stat(); err != nil || !c.has(path, info.Size()) {
		c.forget(path)
		return nil, errors.Join(opened.Close(), c.start(namespace, a, path))
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // the time of the last use, for the next process; it may be gone already
	return opened, nil
}

func (c *Cache) path(a Artifact) (string, error) {
	kind, digest, _ := strings.Cut(a.Checksum, ":")
	if raw, err := hex.DecodeString(digest); err != nil || newHash(kind) == nil || len(raw) != newHash(kind).Size() {
		return "", fmt.Errorf("%q is no checksum", a.Checksum)
	}
	return filepath.Join(c.opts.Dir, kind+"-"+strings.ToLower(digest)), nil
}

func newHash(kind string) hash.Hash {
	switch kind {
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	default:
		return nil
	}
}

// start begins to fetch a file unless that is under way, and returns how it stands.
func (c *Cache) start(namespace string, a Artifact, path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := namespace + " " + path + " " + a.URL // another namespace or URL must not wait for a slow fetch of the same file
	f := c.fetches[key]
	switch {
	case f == nil:
		f = &fetch{}
		c.fetches[key] = f
	case f.running:
		return ErrNotYet
	case f.err != nil && time.Since(f.endedAt) < c.opts.RetryAfter:
		return f.err
	}
	last := f.err
	f.running = true
	c.forgetErrors()
	c.wg.Go(func() {
		err := c.get(namespace, a, path)
		c.mu.Lock()
		defer c.mu.Unlock()
		f.running, f.err, f.endedAt = false, err, time.Now()
		if err == nil {
			delete(c.fetches, key)
		}
	})
	if last != nil {
		return last
	}
	return ErrNotYet
}

// maxErrors is how many errors are remembered before old ones are dropped: users name what they like.
const maxErrors = 1000

// forgetErrors drops what failed long ago when there is much of it. c.mu is held.
func (c *Cache) forgetErrors() {
	if len(c.fetches) > maxErrors {
		maps.DeleteFunc(c.fetches, func(_ string, f *fetch) bool { return !f.running && time.Since(f.endedAt) > c.opts.RetryAfter })
	}
}
