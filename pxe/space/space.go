// Package space bounds the disk space of a folder with things that can be fetched again, such as boot files and images, and shares it among namespaces. A
// thing is identified by a key, and all namespaces share one copy. The least recently used things are deleted first. A namespace cannot take the space of what
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
	// MaxBytes is the maximum size of all things, with incomplete ones.
	MaxBytes int64
	// Retention is how long a thing is kept after its last use, whatever other thing needs the space.
	Retention time.Duration
	// Delete deletes a thing from the disk. A thing that is not there is no error. It is called with the lock of the Store.
	Delete func(key string) error
	// Full is the error for a thing that does not fit, and Revoked the error for an incomplete thing that gave way to another namespace.
	Full, Revoked error
}

// Store accounts the things of a folder. It is safe for concurrent use.
type Store struct {
	opts Options

	mu            sync.Mutex
	things        map[string]*thing
	reservations  map[*Reservation]bool // of incomplete things
	completeBytes int64                 // of the things
	partialBytes  int64                 // of the reservations
}

// thing is a thing that the folder has.
type thing struct {
	size int64
	used time.Time
	// verified is true once this process has verified the content. What an earlier process left may be damaged.
	verified bool
	// holders are the namespaces that use the thing, with the time of the last use.
	holders map[string]time.Time
}

// use records that a namespace uses the thing now.
func (t *thing) use(namespace string) {
	t.used = time.Now()
	t.holders[namespace] = t.used
	delete(t.holders, "") // the namespace of what an earlier process left
}

// New returns a Store without things.
func New(opts Options) *Store {
	return &Store{opts: opts, things: map[string]*thing{}, reservations: map[*Reservation]bool{}}
}

// Found adds a thing that an earlier process left. It is not verified.
func (s *Store) Found(key string, size int64, used time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.things[key] = &thing{size: size, used: used, holders: map[string]time.Time{"": used}}
	s.completeBytes += size
}

// Trim deletes the least recently used things until the others fit: the bound may be lower than in the earlier process.
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

// Use records that a namespace uses a thing now. It returns false for a thing that the folder does not have, or that is not verified.
func (s *Store) Use(namespace, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.things[key]
	if t == nil || !t.verified {
		return false
	}
	t.use(namespace)
	return true
}

// Contains is true for a thing that the folder has, verified or not.
func (s *Store) Contains(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.things[key] != nil
}

// SizeMatches is false for a thing that has another size than it had when it was verified. A thing that was deleted in the meantime was complete.
func (s *Store) SizeMatches(key string, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.things[key]
	return t == nil || t.size == size
}

// Verified records that the content of a thing is right, and that a namespace uses it.
func (s *Store) Verified(namespace, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.things[key]; t != nil {
		t.verified = true
		t.use(namespace)
	}
}

// Forget removes a thing that is no longer on the disk.
func (s *Store) Forget(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
}

// Remove deletes a thing.
func (s *Store) Remove(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.delete(key)
}

// Bytes returns the bytes of complete and of incomplete things.
func (s *Store) Bytes() (complete, partial int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.completeBytes, s.partialBytes
}

// drop removes a thing from the accounting. s.mu is held.
func (s *Store) drop(key string) {
	if t := s.things[key]; t != nil {
		s.completeBytes -= t.size
		delete(s.things, key)
	}
}

// delete deletes a thing. s.mu is held.
func (s *Store) delete(key string) error {
	s.drop(key)
	return s.opts.Delete(key)
}

// leastRecentlyUsed returns the least recently used thing of those whose retention has passed, or "". s.mu is held.
func (s *Store) leastRecentlyUsed(retention time.Duration) string {
	oldest := ""
	for key, t := range s.things {
		if time.Since(t.used) >= retention && (oldest == "" || t.used.Before(s.things[oldest].used)) {
			oldest = key
		}
	}
	return oldest
}

// usage returns how many bytes each namespace uses: things whose retention has not passed, and reservations. A thing of several namespaces counts for each
// of them. s.mu is held.
func (s *Store) usage() map[string]int64 {
	use := map[string]int64{}
	for _, t := range s.things {
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

// freeSpace deletes the least recently used things until n more bytes of a namespace fit. Things within their retention are kept, unless all their
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

// overShare returns the thing whose namespaces use the most space, if all of them use more than a share, or "". Of several such things it returns the least
// recently used one. s.mu is held.
func (s *Store) overShare(use map[string]int64, share int64) string {
	chosen, largest := "", share
	for key, t := range s.things {
		least := int64(math.MaxInt64)
		for namespace := range t.holders {
			least = min(least, use[namespace])
		}
		if least > largest || chosen != "" && least == largest && t.used.Before(s.things[chosen].used) {
			chosen, largest = key, least
		}
	}
	return chosen
}

// ErrReleased means that a reservation was used after its end. It is a defect of the caller.
var ErrReleased = errors.New("the reservation of disk space has ended")
