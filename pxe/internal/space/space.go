// Package space bounds the disk space of a folder whose entries can be fetched again, such as boot files and images, and shares it among namespaces. An
// entry is identified by a key, and all namespaces share one copy. The least recently used entries are deleted first. A namespace cannot take the space of what
// other namespaces use beyond its share.
package space

import (
	"errors"
	"math"
	"sync"
	"time"
)

// Options are those of a Store.
type Options struct {
	// MaxBytes is the maximum size of all entries, with incomplete ones.
	MaxBytes int64
	// Retention is how long an entry is kept after its last use, whatever other entry needs the space.
	Retention time.Duration
	// Delete deletes an entry from the disk. An entry that is not there is no error. It is called with the lock of the Store.
	Delete func(key string) error
	// Full is the error for an entry that does not fit, and Revoked the error for an incomplete entry that gave way to another namespace.
	Full, Revoked error
}

// Store accounts the entries of a folder. It is safe for concurrent use.
type Store struct {
	opts Options

	mu            sync.Mutex
	entries       map[string]*entry
	reservations  map[*Reservation]bool // of incomplete entries
	completeBytes int64                 // of the entries
	partialBytes  int64                 // of the reservations
}

// entry is a boot file, an image or the like, which the folder has completely.
type entry struct {
	size int64
	used time.Time
	// saved is when the last use was last saved on the disk: see SaveUse.
	saved time.Time
	// verified is true once this process has verified the content. What an earlier process left may be damaged.
	verified bool
	// holders are the namespaces that use the entry, with the time of the last use.
	holders map[string]time.Time
}

// use records that a namespace uses the entry now.
func (t *entry) use(namespace string) {
	t.used = time.Now()
	t.holders[namespace] = t.used
	delete(t.holders, "") // the namespace of what an earlier process left
}

// New returns a Store without entries.
func New(opts Options) *Store {
	return &Store{opts: opts, entries: map[string]*entry{}, reservations: map[*Reservation]bool{}}
}

// Found adds an entry that an earlier process left. It is not verified.
func (s *Store) Found(key string, size int64, used time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = &entry{size: size, used: used, holders: map[string]time.Time{"": used}}
	s.completeBytes += size
}

// Trim deletes the least recently used entries until the others fit: the bound may be lower than in the earlier process.
func (s *Store) Trim() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.completeBytes > s.opts.MaxBytes {
		if err := s.delete(s.leastRecentlyUsed(0)); err != nil {
			return err
		}
	}
	return nil
}

// Use records that a namespace uses an entry now. It returns false for an entry that the folder does not have, or that is not verified.
func (s *Store) Use(namespace, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.entries[key]
	if t == nil || !t.verified {
		return false
	}
	t.use(namespace)
	return true
}

// SaveUse is true if the caller should save the time of the last use of an entry on the disk, for the next process: at most once in an interval.
func (s *Store) SaveUse(key string, interval time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.entries[key]
	if t == nil || time.Since(t.saved) < interval {
		return false
	}
	t.saved = time.Now()
	return true
}

// Contains is true for an entry that the folder has, verified or not.
func (s *Store) Contains(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key] != nil
}

// SizeMatches is false for an entry that has another size than it had when it was verified. An entry that was deleted in the meantime was complete.
func (s *Store) SizeMatches(key string, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.entries[key]
	return t == nil || t.size == size
}

// Verified records that the content of an entry is right, and that a namespace uses it.
func (s *Store) Verified(namespace, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.entries[key]; t != nil {
		t.verified = true
		t.use(namespace)
	}
}

// Forget removes an entry that is no longer on the disk.
func (s *Store) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
}

// Remove deletes an entry.
func (s *Store) Remove(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delete(key)
}

// Bytes returns the bytes of complete and of incomplete entries.
func (s *Store) Bytes() (complete, partial int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.completeBytes, s.partialBytes
}

// drop removes an entry from the accounting. s.mu is held.
func (s *Store) drop(key string) {
	if t := s.entries[key]; t != nil {
		s.completeBytes -= t.size
		delete(s.entries, key)
	}
}

// delete deletes an entry. s.mu is held.
func (s *Store) delete(key string) error {
	s.drop(key)
	return s.opts.Delete(key)
}

// leastRecentlyUsed returns the least recently used entry of those whose retention has passed, or "". s.mu is held.
func (s *Store) leastRecentlyUsed(retention time.Duration) string {
	oldest := ""
	for key, t := range s.entries {
		if time.Since(t.used) >= retention && (oldest == "" || t.used.Before(s.entries[oldest].used)) {
			oldest = key
		}
	}
	return oldest
}

// usage returns how many bytes each namespace uses: entries whose retention has not passed, and reservations. An entry of several namespaces counts for each
// of them. s.mu is held.
func (s *Store) usage() map[string]int64 {
	use := map[string]int64{}
	for _, t := range s.entries {
		for namespace, at := range t.holders {
			if time.Since(at) >= s.opts.Retention {
				delete(t.holders, namespace)
				continue
			}
			use[namespace] += t.size
		}
	}
	for r := range s.reservations {
		use[r.namespace] += r.held
	}
	return use
}

// freeSpace deletes the least recently used entries until n more bytes of a namespace fit. Entries within their retention are kept, unless all their
// namespaces use more than their share and this namespace uses less. s.mu is held.
func (s *Store) freeSpace(namespace string, n int64) error {
	if n > s.opts.MaxBytes {
		return s.opts.Full
	}
	for s.completeBytes+s.partialBytes+n > s.opts.MaxBytes {
		key := s.leastRecentlyUsed(s.opts.Retention)
		if key == "" {
			use := s.usage()
			use[namespace] += n
			share := s.opts.MaxBytes / int64(len(use))
			if use[namespace] > share {
				return s.opts.Full
			}
			if s.revoke(use, share) {
				continue
			}
			if key = s.overShare(use, share); key == "" {
				return s.opts.Full
			}
		}
		if err := s.delete(key); err != nil {
			return err
		}
	}
	return nil
}

// revoke ends the reservation of the namespace that uses the most space, if that is more than a share. It costs no boot. s.mu is held.
func (s *Store) revoke(use map[string]int64, share int64) bool {
	var chosen *Reservation
	for r := range s.reservations {
		if r.held > 0 && use[r.namespace] > share && (chosen == nil || use[r.namespace] > use[chosen.namespace]) {
			chosen = r
		}
	}
	if chosen == nil {
		return false
	}
	chosen.revoked = true
	chosen.free()
	chosen.end(s.opts.Revoked)
	return true
}

// overShare returns the entry whose namespaces use the most space, if all of them use more than a share, or "". Of several such entries it returns the least
// recently used one. s.mu is held.
func (s *Store) overShare(use map[string]int64, share int64) string {
	chosen, largest := "", share
	for key, t := range s.entries {
		least := int64(math.MaxInt64)
		for namespace := range t.holders {
			least = min(least, use[namespace])
		}
		if least > largest || chosen != "" && least == largest && t.used.Before(s.entries[chosen].used) {
			chosen, largest = key, least
		}
	}
	return chosen
}

// ErrReleased means that a reservation was used after its end. It is a defect of the caller.
var ErrReleased = errors.New("the reservation of disk space has ended")
