package artifact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// loadDir reads the folder, and deletes the incomplete files of an earlier process.
func (c *Cache) loadDir() error {
	entries, err := os.ReadDir(c.opts.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(c.opts.Dir, entry.Name())
		if strings.HasPrefix(entry.Name(), partialPrefix) {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			c.files[path] = &file{size: info.Size(), used: info.ModTime(), holders: map[string]time.Time{"": info.ModTime()}}
			c.completeBytes += info.Size()
		}
	}
	return nil
}

// use records that a namespace uses a file now. It returns false for a file that is not in the cache, or not verified.
func (c *Cache) use(namespace, path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[path]
	if f == nil || !f.verified {
		return false
	}
	f.use(namespace)
	return true
}

// use records that a namespace uses the file now.
func (f *file) use(namespace string) {
	f.used = time.Now()
	f.holders[namespace] = f.used
	delete(f.holders, "") // the namespace of files that an earlier process left
}

// contains is true for a file in the cache, verified or not.
func (c *Cache) contains(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files[path] != nil
}

// sizeMatches is true while a file has the size that it had when it was verified.
func (c *Cache) sizeMatches(path string, size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[path]
	return f == nil || f.size == size // nil if the file was evicted after it was opened: it is complete
}

// markVerified records that a file has its checksum.
func (c *Cache) markVerified(namespace, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[path]; f != nil {
		f.verified = true
		f.use(namespace)
	}
}

// forget is drop for a caller that does not hold c.mu.
func (c *Cache) forget(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(path)
}

// drop removes a file from the accounting. c.mu is held.
func (c *Cache) drop(path string) {
	if f := c.files[path]; f != nil {
		c.completeBytes -= f.size
		delete(c.files, path)
	}
}

// remove deletes a file.
func (c *Cache) remove(path string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.delete(path)
}

// delete deletes a file. c.mu is held.
func (c *Cache) delete(path string) error {
	c.drop(path)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// leastRecentlyUsed returns the least recently used file of those whose retention has passed, or "". c.mu is held.
func (c *Cache) leastRecentlyUsed() string {
	oldest := ""
	for path, f := range c.files {
		if time.Since(f.used) >= c.opts.Retention && (oldest == "" || f.used.Before(c.files[oldest].used)) {
			oldest = path
		}
	}
	return oldest
}
