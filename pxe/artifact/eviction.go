package artifact

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// find takes stock of the folder. What a process that died was fetching is of no use.
func (c *Cache) find() error {
	entries, err := os.ReadDir(c.opts.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(c.opts.Dir, entry.Name())
		if strings.HasPrefix(entry.Name(), partial) {
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
			c.whole += info.Size()
		}
	}
	return nil
}

// use notes that a namespace uses a file now. It returns false for one that the cache does not have, or did not check.
func (c *Cache) use(namespace, path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[path]
	if f == nil || !f.checked {
		return false
	}
	f.use(namespace)
	return true
}

// use notes that a namespace uses the file now.
func (f *file) use(namespace string) {
	f.used = time.Now()
	f.holders[namespace] = f.used
	delete(f.holders, "") // the process before did not say whose it was
}

func (c *Cache) known(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files[path] != nil
}

// has is true while a file has the size that it had when it was checked.
func (c *Cache) has(path string, size int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[path]
	return f == nil || f.size == size // nil is one that had to go while it was opened: it is open, and whole
}

func (c *Cache) checked(namespace, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[path]; f != nil {
		f.checked = true
		f.use(namespace)
	}
}

func (c *Cache) forget(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(path)
}

// drop takes a file out of the count. c.mu is held.
func (c *Cache) drop(path string) {
	if f := c.files[path]; f != nil {
		c.whole -= f.size
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

// unheld returns the file that was used longest ago, of those that no server is about to load, or "". c.mu is held.
func (c *Cache) unheld() string {
	oldest := ""
	for path, f := range c.files {
		if time.Since(f.used) >= c.opts.Hold && (oldest == "" || f.used.Before(c.files[oldest].used)) {
			oldest = path
		}
	}
	return oldest
}
