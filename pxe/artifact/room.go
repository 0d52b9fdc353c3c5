package artifact

import (
	"errors"
	"fmt"
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
			c.files[path] = &file{size: info.Size(), used: info.ModTime()}
			c.whole += info.Size()
		}
	}
	return nil
}

// use notes that a file is used now. It returns false for one that the cache does not have, or did not check.
func (c *Cache) use(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[path]
	if f == nil || !f.checked {
		return false
	}
	f.used = time.Now()
	return true
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

func (c *Cache) checked(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[path]; f != nil {
		f.checked, f.used = true, time.Now()
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

// makeRoom deletes the files used longest ago until there is room for n more bytes. Those that servers are about to load stay.
// c.mu is held.
func (c *Cache) makeRoom(n int64) error {
	for c.whole+c.partial+n > c.opts.MaxBytes {
		oldest := ""
		for path, f := range c.files {
			if time.Since(f.used) >= c.opts.Hold && (oldest == "" || f.used.Before(c.files[oldest].used)) {
				oldest = path
			}
		}
		if oldest == "" {
			return c.tooLarge()
		}
		if err := c.delete(oldest); err != nil {
			return err
		}
	}
	return nil
}

// tooLarge is why something does not fit.
func (c *Cache) tooLarge() error {
	return fmt.Errorf("the cache may have %d bytes, which is too few for it beside what servers boot now: raise the bound", c.opts.MaxBytes)
}

// bounded counts what is written to a file that is not whole yet, and makes room for it.
type bounded struct {
	cache   *Cache
	written int64
}

func (b *bounded) Write(p []byte) (int, error) {
	c := b.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.makeRoom(int64(len(p))); err != nil {
		return 0, err
	}
	c.partial += int64(len(p))
	b.written += int64(len(p))
	return len(p), nil
}

// keep gives a file that is whole its name.
func (b *bounded) keep(from, path string) error {
	c := b.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := os.Rename(from, path); err != nil {
		return err
	}
	c.drop(path) // another URL had the same file
	c.files[path] = &file{size: b.written, used: time.Now(), checked: true}
	c.whole += b.written
	c.partial -= b.written
	b.written = 0
	return nil
}

// release gives the room of a file back that did not become whole.
func (b *bounded) release() {
	b.cache.mu.Lock()
	defer b.cache.mu.Unlock()
	b.cache.partial -= b.written
	b.written = 0
}
