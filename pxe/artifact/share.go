package artifact

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

// errGaveWay ends the fetch of a namespace that has more than its share when another one needs the room.
var errGaveWay = errors.New("it gave way to the files of another namespace, since the cache is full: raise artifacts.maxSize of the boot server's configuration file")

// usage is how many bytes each namespace takes: the files that its servers are about to load, and what is being fetched for it. A file of several
// namespaces counts for each of them. c.mu is held.
func (c *Cache) usage() map[string]int64 {
	use := map[string]int64{}
	for _, f := range c.files {
		for namespace, at := range f.holders {
			if time.Since(at) >= c.opts.Hold {
				delete(f.holders, namespace)
				continue
			}
			use[namespace] += f.size
		}
	}
	for r := range c.rooms {
		use[r.namespace] += r.written
	}
	return use
}

// makeRoom deletes the files used longest ago until there is room for n more bytes of a namespace. Those that servers are about to load stay, unless
// all their namespaces have more than their share and this one has less. c.mu is held.
func (c *Cache) makeRoom(namespace string, n int64) error {
	for c.whole+c.partial+n > c.opts.MaxBytes {
		path := c.unheld()
		if path == "" {
			use := c.usage()
			use[namespace] += n
			share := c.opts.MaxBytes / int64(len(use))
			if use[namespace] > share {
				return c.noRoom()
			}
			if c.revoke(use, share) {
				continue
			}
			if path = c.overShare(use, share); path == "" {
				return c.noRoom()
			}
		}
		if err := c.delete(path); err != nil {
			return err
		}
	}
	return nil
}

// noRoom is why something does not fit.
func (c *Cache) noRoom() error {
	return fmt.Errorf("the cache may have %d bytes, and has no room for it beside what servers boot now; or the namespace has its share: "+
		"raise artifacts.maxSize of the boot server's configuration file", c.opts.MaxBytes)
}

// revoke ends a fetch of the namespace that takes the most, if that is more than a share. It costs no boot. c.mu is held.
func (c *Cache) revoke(use map[string]int64, share int64) bool {
	var chosen *room
	for r := range c.rooms {
		if r.written > 0 && use[r.namespace] > share && (chosen == nil || use[r.namespace] > use[chosen.namespace]) {
			chosen = r
		}
	}
	if chosen == nil {
		return false
	}
	chosen.revoked = true
	chosen.giveBack()
	_ = chosen.file.Truncate(0) // the disk has the room at once; where that fails, when the fetch has ended
	chosen.cancel(errGaveWay)
	return true
}

// overShare returns the file whose namespaces take the most, if all of them take more than a share, or "". Of several it is the one that was used longest
// ago. c.mu is held.
func (c *Cache) overShare(use map[string]int64, share int64) string {
	chosen, most := "", share
	for path, f := range c.files {
		least := int64(math.MaxInt64)
		for namespace := range f.holders {
			least = min(least, use[namespace])
		}
		if least > most || chosen != "" && least == most && f.used.Before(c.files[chosen].used) {
			chosen, most = path, least
		}
	}
	return chosen
}

// room is the room of a file that is not whole yet.
type room struct {
	cache     *Cache
	namespace string
	file      *os.File
	cancel    context.CancelCauseFunc // ends the fetch

	// c.mu guards these.
	written int64
	revoked bool
}

// open counts what is written to a file from now on.
func (r *room) open(to *os.File) {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	r.file = to
	r.cache.rooms[r] = true
}

// Write counts bytes before they are written to the file, and makes room for them.
func (r *room) Write(p []byte) (int, error) {
	c := r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.revoked {
		return 0, errGaveWay
	}
	if err := c.makeRoom(r.namespace, int64(len(p))); err != nil {
		return 0, err
	}
	c.partial += int64(len(p))
	r.written += int64(len(p))
	return len(p), nil
}

// keep gives a file that is whole its name.
func (r *room) keep(from, path string) error {
	c := r.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.revoked {
		return errGaveWay
	}
	if err := os.Rename(from, path); err != nil {
		return err
	}
	whole := &file{size: r.written, checked: true, holders: map[string]time.Time{}}
	if before := c.files[path]; before != nil { // another URL, or another namespace, had the same file
		whole.holders = before.holders
	}
	whole.use(r.namespace)
	c.drop(path)
	c.files[path] = whole
	c.whole += r.written
	r.giveBack()
	return nil
}

// release gives back the room of a file that did not become whole.
func (r *room) release() {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	r.giveBack()
	delete(r.cache.rooms, r)
}

// giveBack takes what was written out of the count. c.mu is held.
func (r *room) giveBack() {
	r.cache.partial -= r.written
	r.written = 0
}
