// Package artifact fetches the files that servers boot, checks them against their checksums, and keeps them on disk.
package artifact

import (
	"cmp"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/space"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
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

// saveInterval is how often the time of the last use of a file is saved on the disk. It is short compared with Options.Retention.
const saveInterval = time.Minute

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
	// MinRate is how fast an origin must send. Defaults to origin.DefaultMinRate.
	MinRate origin.MinRate
	// Log gets the cause of a failed fetch, which users do not see.
	Log logr.Logger
}

// Cache stores files by their checksums. It is safe for concurrent use.
type Cache struct {
	opts         Options
	client       *http.Client
	fetchLimiter *origin.FairLimiter
	space        *space.Store  // by path
	logLimiter   *rate.Limiter // limits the messages about failed fetches
	fetches      *origin.Jobs[file]
}

// file is an artifact for a namespace.
type file struct {
	Artifact

	namespace string
	sum       origin.Checksum
	path      string // of the complete file
}

// New returns a cache. Close it.
func New(opts Options) (*Cache, error) {
	opts.MaxBytes = cmp.Or(opts.MaxBytes, 20<<30)
	opts.Retention = cmp.Or(opts.Retention, 15*time.Minute)
	opts.RetryAfter = cmp.Or(opts.RetryAfter, 10*time.Second)
	opts.Timeout = cmp.Or(opts.Timeout, 15*time.Minute)
	opts.MinRate = cmp.Or(opts.MinRate, origin.DefaultMinRate)
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil { //nolint:gosec // kernels are no secret
		return nil, err
	}
	c := &Cache{
		opts: opts, client: &http.Client{Transport: origin.NewTransport(opts.Outbound)}, fetchLimiter: origin.NewFairLimiter(origin.FetchBounds), logLimiter: rate.NewLimiter(1, 50),
		space: space.New(space.Options{MaxBytes: opts.MaxBytes, Retention: opts.Retention, Delete: remove, Full: fullError(opts.MaxBytes), Revoked: errRevoked}),
	}
	if err := c.loadDir(); err != nil {
		return nil, err
	}
	c.fetches = origin.NewJobs(origin.JobOptions{RetryAfter: opts.RetryAfter}, c.verifyOrFetch)
	return c, nil
}

// Close ends the fetches that run and waits for them.
func (c *Cache) Close() { c.fetches.Close() }

// Open returns a file for a namespace. While the file is being fetched or checked, which Open starts, the error is ErrNotYet. A failed fetch is
// repeated after RetryAfter. An open file stays readable when the cache deletes it.
//
// All namespaces share one copy of a file. The checksum is the permission to read it: a namespace gets the file whatever URL it names.
func (c *Cache) Open(namespace string, a Artifact) (*os.File, error) {
	sum, err := origin.ParseChecksum(a.Checksum)
	if err != nil {
		return nil, err
	}
	f := file{a, namespace, sum, filepath.Join(c.opts.Dir, sum.FileName())}
	if !c.space.Use(namespace, f.path) {
		return nil, c.start(f)
	}
	opened, err := os.Open(f.path)
	if err != nil {
		// An operator may empty the folder at any time.
		c.space.Forget(f.path)
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, c.start(f)
	}
	if info, err := opened.Stat(); err != nil || !c.space.SizeMatches(f.path, info.Size()) {
		c.space.Forget(f.path)
		return nil, errors.Join(opened.Close(), c.start(f))
	}
	c.saveUse(f.path)
	return opened, nil
}

// Use records that a namespace uses a file now, as Open does, without opening it. It returns false for a file that Open does not have at once, or whose checksum is
// not valid.
func (c *Cache) Use(namespace string, a Artifact) bool {
	sum, err := origin.ParseChecksum(a.Checksum)
	if err != nil {
		return false
	}
	path := filepath.Join(c.opts.Dir, sum.FileName())
	if !c.space.Use(namespace, path) {
		return false
	}
	c.saveUse(path)
	return true
}

// saveUse saves the time of the last use for the next process.
func (c *Cache) saveUse(path string) {
	if c.space.SaveUse(path, saveInterval) {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // the file may be deleted already
	}
}

// start fetches a file in the background unless a fetch is running, and returns the state of the fetch as an error.
func (c *Cache) start(f file) error {
	_, err := c.fetches.Start(f.namespace, f.sum.String()+" "+f.URL, f)
	return cmp.Or(err, ErrNotYet)
}
