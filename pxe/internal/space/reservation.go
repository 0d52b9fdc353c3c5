package space

import "time"

// Reservation is the space of an incomplete entry. It ends with Commit or Release.
type Reservation struct {
	store     *Store
	namespace string
	end       func(cause error)

	// store.mu guards these.
	held    int64 // bytes that count
	used    int64 // bytes that were written, at most held
	revoked bool
	ended   bool
}

// Reserve returns a reservation of no bytes. When it has to give way to another namespace, end is called with the lock of the Store: it ends the work, and
// frees the space on the disk at once. Call Release when the work is over.
func (s *Store) Reserve(namespace string, end func(cause error)) *Reservation {
	r := &Reservation{store: s, namespace: namespace, end: end}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reservations[r] = true
	return r
}

// Hold reserves bytes before they are written, so that work that cannot be completed does not begin. It frees space for them if needed.
func (r *Reservation) Hold(total int64) error {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.hold(total)
}

// hold raises the bytes that count to total. store.mu is held.
func (r *Reservation) hold(total int64) error {
	s := r.store
	switch {
	case r.revoked:
		return s.opts.Revoked
	case r.ended:
		return ErrReleased
	case total <= r.held:
		return nil
	}
	if err := s.freeSpace(r.namespace, total-r.held); err != nil {
		return err
	}
	if r.revoked { // a namespace that uses less than its share loses nothing
		return s.opts.Revoked
	}
	s.partialBytes += total - r.held
	r.held = total
	return nil
}

// Add counts n bytes before they are written, and frees space for those that were not reserved.
func (r *Reservation) Add(n int64) error {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.hold(r.used + n); err != nil {
		return err
	}
	r.used += n
	return nil
}

// Sub counts n bytes that were deleted. They stay reserved.
func (r *Reservation) Sub(n int64) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.used = max(0, r.used-n)
}

// Reset sets the number of bytes that were written and not deleted. What is reserved stays reserved.
func (r *Reservation) Reset(used int64) {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.used = min(used, r.held)
}

// Commit makes an entry of size bytes complete: publish gives it its final name, while no other entry is deleted or added.
func (r *Reservation) Commit(key string, size int64, publish func() error) error {
	s := r.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := r.hold(size); err != nil {
		return err
	}
	if err := publish(); err != nil {
		return err
	}
	whole := &entry{size: size, verified: true, holders: map[string]time.Time{}}
	if before := s.entries[key]; before != nil { // another namespace had the same entry
		whole.holders = before.holders
	}
	whole.use(r.namespace)
	s.drop(key)
	s.entries[key] = whole
	s.completeBytes += size
	r.free()
	return nil
}

// Release frees the space of an entry that did not become complete. It may be called after Commit.
func (r *Reservation) Release() {
	r.store.mu.Lock()
	defer r.store.mu.Unlock()
	r.free()
	r.ended = true
	delete(r.store.reservations, r)
}

// free removes the bytes from the accounting. store.mu is held.
func (r *Reservation) free() {
	r.store.partialBytes -= r.held
	r.held, r.used = 0, 0
}
