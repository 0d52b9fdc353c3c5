// Package artifact fetches the files that servers boot, checks them against their checksums, and keeps them on disk.
package artifact

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/space"
)

// Artifact is a file with the checksum that it must have.
type Artifact struct {
	// URL is where the file comes from.
	URL string
	// Checksum is sha256:HEX or sha512:HEX.
	Checksum string
}

// partialPrefix is the prefix of the names of incomplete files.
const partialPrefix = "part-"

// ErrChecksum means that a file is not the one that its checksum names.
var ErrChecksum = errors.New("the checksum differs")

// ErrNotYet means that a file is still being fetched.
var ErrNotYet = errors.New("being fetched")

// Options bound a cache. Zero values take the defaults.
type Options struct {
	// Dir is the folder. It is created, and contains nothing that cannot be fetched again.
	Dir string
	// MaxBytes is the maximum size of the cache, with incomplete files. The least recently used files are deleted first. Defaults to 20 GiB.
	MaxBytes int64
	// Retention is how long a file is kept after it was opened, whatever other file needs the space: a server that is booting it will fetch it.
	// Defaults to 15 minutes.
	Retention time.Duration
	// Outbound restricts where files may come from, because users choose the URLs.
	Outbound outbound.Policy
	// RetryAfter is how long an error is remembered before the file is fetched again. Defaults to 10 s.
	RetryAfter time.Duration
	// Timeout bounds the fetch of one file. Defaults to 15 minutes.
	Timeout time.Duration
	// MinRate is how many bytes a second an origin must send, on average in each RateWindow. Defaults to 32 KiB and 30 s.
	MinRate    int64
	RateWindow time.Duration
	// Log gets the cause of a failed fetch, which users do not see.
	Log logr.Logger
}

// Cache stores files by their checksums. It is safe for concurrent use.
type Cache struct {
	opts       Options
	client     *http.Client
	lanes      *origin.Lanes
	space      *space.Store  // by path
	logLimiter *rate.Limiter // limits the messages about failed fetches

	ctx    context.Context //nolint:containedctx // fetches outlive the requests that start them
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	fetches map[string]*fetch // by namespace, path and URL
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
	if opts.MinRate == 0 {
		opts.MinRate = 32 << 10
	}
	if opts.RateWindow == 0 {
		opts.RateWindow = 30 * time.Second
	}
	if opts.Retention == 0 {
		opts.Retention = 15 * time.Minute
	}
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil { //nolint:gosec // kernels are no secret
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Cache{
		opts: opts, ctx: ctx, cancel: cancel, lanes: origin.NewLanes(origin.FetchBounds), logLimiter: rate.NewLimiter(1, 50),
		fetches: map[string]*fetch{},
		space:   space.New(space.Options{MaxBytes: opts.MaxBytes, Retention: opts.Retention, Delete: remove, Full: fullError(opts.MaxBytes), Revoked: errRevoked}),
	}
	if err := c.loadDir(); err != nil {
		cancel()
		return nil, err
	}
	c.client = &http.Client{Transport: origin.NewTransport(opts.Outbound)}
	return c, nil
}

// Close ends the fetches that run and waits for them.
func (c *Cache) Close() {
	c.cancel()
	c.wg.Wait()
}

// Open returns a file for a namespace. While the file is being fetched or checked, which Open starts, the error is ErrNotYet. A failed fetch is
// repeated after RetryAfter. An open file stays readable when the cache deletes it.
//
// All namespaces share one copy of a file. The checksum is the permission to read it: a namespace gets the file whatever URL it names.
func (c *Cache) Open(namespace string, a Artifact) (*os.File, error) {
	path, err := c.path(a)
	if err != nil {
		return nil, err
	}
	if !c.space.Use(namespace, path) {
		return nil, c.start(namespace, a, path)
	}
	opened, err := os.Open(path) //nolint:gosec // made of a checked checksum
	if err != nil {
		// An operator may empty the folder at any time.
		c.space.Forget(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, c.start(namespace, a, path)
	}
	if info, err := opened.Stat(); err != nil || !c.space.SizeMatches(path, info.Size()) {
		c.space.Forget(path)
		return nil, errors.Join(opened.Close(), c.start(namespace, a, path))
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // the last use, for the next process; the file may be deleted already
	return opened, nil
}

func (c *Cache) path(a Artifact) (string, error) {
	sum, err := origin.ParseChecksum(a.Checksum)
	return filepath.Join(c.opts.Dir, sum.FileName()), err
}

// start fetches a file in the background unless a fetch is running, and returns the state of the fetch as an error.
func (c *Cache) start(namespace string, a Artifact, path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := namespace + " " + path + " " + a.URL // a slow fetch of the same file must not delay another namespace or URL
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
		err := c.verifyOrFetch(namespace, a, path)
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

// maxErrors is how many errors are remembered before old ones are dropped. Users can name any number of URLs.
const maxErrors = 1000

// forgetErrors drops old errors when there are too many. c.mu is held.
func (c *Cache) forgetErrors() {
	if len(c.fetches) > maxErrors {
		maps.DeleteFunc(c.fetches, func(_ string, f *fetch) bool { return !f.running && time.Since(f.endedAt) > c.opts.RetryAfter })
	}
}
