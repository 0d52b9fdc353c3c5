package artifact

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

// errRevoked ends the fetch of a namespace that uses more than its share when another namespace needs the space.
var errRevoked = errors.New("it gave way to the files of another namespace because the cache is full: raise artifacts.maxSize of the boot server's configuration file")

// usage returns how many bytes each namespace uses: files whose retention has not passed, and incomplete files. A file of several namespaces
// counts for each of them. c.mu is held.
func (c *Cache) usage() map[string]int64 {
	use := map[string]int64{}
	for _, f := range c.files {
		for namespace, at := range f.holders {
			if time.Since(at) >= c.opts.Retention {
				delete(f.holders, namespace)
				continue
			}
			use[namespace] += f.size
		}
	}
	for r := range c.reservations {
		use[r.namespace] += r.written
	}
	return use
}

// freeSpace deletes the least recently used files until n more bytes of a namespace fit. Files within their retention are kept, unless all
// their namespaces use more than their share and this namespace uses less. c.mu is held.
func (c *Cache) freeSpace(namespace string, n int64) error {
	for c.completeBytes+c.partialBytes+n > c.opts.MaxBytes {
		path := c.leastRecentlyUsed()
		if path == "" {
			use := c.usage()
			use[namespace] += n
			share := c.opts.MaxBytes / int64(len(use))
			if use[namespace] > share {
				return c.noSpaceError()
			}
			if c.revoke(use, share) {
				continue
			}
			if path = c.overShare(use, share); path == "" {
				return c.noSpaceError()
			}
		}
		if err := c.delete(path); err != nil {
			return err
		}
	}
	return nil
}

// noSpaceError returns the error for a file that does not fit.
func (c *Cache) noSpaceError() error {
	return fmt.Errorf("the cache may have %d bytes, and has no room for it beside what servers boot now; or the namespace has its share: "+
		"raise artifacts.maxSize of the boot server's configuration file", c.opts.MaxBytes)
}

// revoke ends a fetch of the namespace that uses the most space, if that is more than a share. It costs no boot. c.mu is held.
func (c *Cache) revoke(use map[string]int64, share int64) bool {
	var chosen *reservation
	for r := range c.reservations {
		if r.written > 0 && use[r.namespace] > share && (chosen == nil || use[r.namespace] > use[chosen.namespace]) {
			chosen = r
		}
	}
	if chosen == nil {
		return false
	}
	chosen.revoked = true
	chosen.freeReserved()
	_ = chosen.file.Truncate(0) // frees the space at once; if it fails, the end of the fetch does
	chosen.cancel(errRevoked)
	return true
}

// overShare returns the file whose namespaces use the most space, if all of them use more than a share, or "". Of several such files it returns
// the least recently used one. c.mu is held.
func (c *Cache) overShare(use map[string]int64, share int64) string {
	chosen, largest := "", share
	for path, f := range c.files {
		least := int64(math.MaxInt64)
		for namespace := range f.holders {
			least = min(least, use[namespace])
		}
		if least > largest || chosen != "" && least == largest && f.used.Before(c.files[chosen].used) {
			chosen, largest = path, least
		}
	}
	return chosen
}

// reservation is the space of an incomplete file.
type reservation struct {
	cache     *Cache
	namespace string
	file      *os.File
	cancel    context.CancelCauseFunc // ends the fetch

	// c.mu guards these.
	written int64
	revoked bool
}

// open counts the bytes that are written to a file from now on.
func (r *reservation) open(to *os.File) {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	r.file = to
	r.cache.reservations[r] = true
}

// Write counts bytes before they are written to the file, and frees space for them.
func (r *reservation) Write(p []byte) (int, error) {
	c := r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.revoked {
		return 0, errRevoked
	}
	if err := c.freeSpace(r.namespace, int64(len(p))); err != nil {
		return 0, err
	}
	c.partialBytes += int64(len(p))
	r.written += int64(len(p))
	return len(p), nil
}

// commit gives a complete file its final name.
func (r *reservation) commit(from, path string) error {
	c := r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.revoked {
		return errRevoked
	}
	if err := os.Rename(from, path); err != nil {
		return err
	}
	whole := &file{size: r.written, verified: true, holders: map[string]time.Time{}}
	if before := c.files[path]; before != nil { // another URL, or another namespace, had the same file
		whole.holders = before.holders
	}
	whole.use(r.namespace)
	c.drop(path)
	c.files[path] = whole
	c.completeBytes += r.written
	r.freeReserved()
	return nil
}

// release frees the space of a file that did not become complete.
func (r *reservation) release() {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	r.freeReserved()
	delete(r.cache.reservations, r)
}

// freeReserved removes the written bytes from the accounting. c.mu is held.
func (r *reservation) freeReserved() {
	r.cache.partialBytes -= r.written
	r.written = 0
}
