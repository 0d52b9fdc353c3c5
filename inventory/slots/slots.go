// Package slots limits how many members of a group do something at once, and queues the others. The boot queue of a failure domain and the boot slots of a
// network are made of it. Its state is in memory only.
package slots

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Options of Slots.
type Options[K comparable] struct {
	// Limit returns how many members of a group may have a slot at once; 0 for any number.
	Limit func(group string) int
	// QueueTTL is how long a member stays queued that does not ask again.
	QueueTTL time.Duration
	// WokenTTL is how long a member that was woken stays queued if it does not ask: those behind it wait for it. Defaults to 0: QueueTTL applies.
	WokenTTL time.Duration
	// PositionTTL is how long Acquire returns the same position to a member. Defaults to 0: each call returns the current one.
	PositionTTL time.Duration
	// Compare, where not nil, orders members that are queued since the same time. Without it they are ordered by their arrival.
	Compare func(a, b K) int
	// Wake, where not nil, is called for each queued member that may have a slot now. It is called without a lock.
	Wake func(member K)
}

// Slots are the slots and the queues of all groups. All methods are safe for concurrent use.
type Slots[K comparable] struct {
	options Options[K]

	mu       sync.Mutex
	members  map[K]*member[K]
	groups   map[string]*group[K]
	changed  map[string]struct{} // the groups that the current call changed
	arrivals int
}

type group[K comparable] struct {
	holders map[*member[K]]struct{}
	queue   []*member[K] // in its order
	expires time.Time    // no member expires before
}

// member has a slot or is queued.
type member[K comparable] struct {
	key       K
	group     string
	since     time.Time // orders the queue
	arrival   int
	until     time.Time // when the slot or the queue entry expires
	hasSlot   bool
	confirmed bool // the slot is from Hold
	woken     bool

	position   Position // that was returned last
	positionAt time.Time
}

// Position is where a member is in the queue. It is approximate: members before it may leave at any time.
type Position struct {
	// Number is 1 for the first member of the queue.
	Number int
	// Holding is how many members of the group have a slot.
	Holding int
}

// New returns Slots without members.
func New[K comparable](options Options[K]) *Slots[K] {
	return &Slots[K]{options: options, members: map[K]*member[K]{}, groups: map[string]*group[K]{}, changed: map[string]struct{}{}}
}

// Acquire gives a member a slot until a time at most, and returns true. If no slot is free for it, the member is queued and its position is returned. The queue is
// ordered by the time since. A member that has a slot keeps it, with the end that it has.
func (s *Slots[K]) Acquire(group string, key K, since, until, now time.Time) (position Position, ok bool) {
	s.change(now, func() {
		s.expire(group, now)
		m := s.members[key]
		if m != nil && (m.group != group || !m.hasSlot && !m.since.Equal(since)) {
			s.remove(m)
			m = nil
		}
		if m == nil {
			s.arrivals++
			m = &member[K]{key: key, group: group, since: since, arrival: s.arrivals, until: now.Add(s.options.QueueTTL)}
			s.add(m)
		}
		if ok = m.hasSlot; ok {
			return
		}
		g := s.groups[group]
		before, _ := slices.BinarySearchFunc(g.queue, m, s.compare)
		if limit := s.options.Limit(group); limit > 0 && before >= limit-len(g.holders) {
			m.until, m.woken = now.Add(s.options.QueueTTL), false
			position = s.positionOf(m, Position{before + 1, len(g.holders)}, now)
			return
		}
		s.remove(m)
		m.hasSlot, m.until, ok = true, until, true
		s.add(m)
	})
	return position, ok
}

// positionOf returns the position that was returned last, or the current one if that is older than PositionTTL.
func (s *Slots[K]) positionOf(m *member[K], current Position, now time.Time) Position {
	if m.positionAt.IsZero() || now.Sub(m.positionAt) >= s.options.PositionTTL {
		m.position, m.positionAt = current, now
	}
	return m.position
}

// Hold gives a member a slot until a time, also beyond the limit: it does already what the slots are for.
func (s *Slots[K]) Hold(group string, key K, until, now time.Time) {
	s.change(now, func() {
		if m := s.members[key]; m != nil {
			if m.group == group && m.confirmed && m.until.Equal(until) {
				return
			}
			s.remove(m)
		}
		s.add(&member[K]{key: key, group: group, until: until, hasSlot: true, confirmed: true})
	})
}

// Release removes a member from the queue, or takes its slot.
func (s *Slots[K]) Release(key K, now time.Time) {
	s.change(now, func() {
		if m := s.members[key]; m != nil {
			s.remove(m)
		}
	})
}

// Leave removes a member from the queue, or takes its slot if that is not from Hold.
func (s *Slots[K]) Leave(key K, now time.Time) {
	s.change(now, func() {
		if m := s.members[key]; m != nil && !m.confirmed {
			s.remove(m)
		}
	})
}

// Members returns the members of a group that have a slot, and how many are queued.
func (s *Slots[K]) Members(group string, now time.Time) (holding []K, queued int) {
	s.change(now, func() {
		s.expire(group, now)
		if g := s.groups[group]; g != nil {
			for m := range g.holders {
				holding = append(holding, m.key)
			}
			queued = len(g.queue)
		}
	})
	return holding, queued
}

// change runs a function under the lock, and wakes those members that may have a slot after it.
func (s *Slots[K]) change(now time.Time, do func()) {
	for _, key := range s.locked(now, do) {
		s.options.Wake(key)
	}
}

func (s *Slots[K]) locked(now time.Time, do func()) (wake []K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	for group := range s.changed {
		s.expire(group, now)
		wake = append(wake, s.admissible(group, now)...)
	}
	clear(s.changed)
	return wake
}

// admissible returns the first members of a queue, as many as slots are free, without those that were woken before.
func (s *Slots[K]) admissible(group string, now time.Time) (keys []K) {
	g, limit := s.groups[group], s.options.Limit(group)
	if s.options.Wake == nil || limit == 0 || g == nil {
		return nil
	}
	for _, m := range g.queue[:min(len(g.queue), max(0, limit-len(g.holders)))] {
		if !m.woken {
			m.woken = true
			if s.options.WokenTTL > 0 {
				m.until = now.Add(s.options.WokenTTL)
				g.noteExpiry(m)
			}
			keys = append(keys, m.key)
		}
	}
	return keys
}

// expire removes the members of a group whose time is over.
func (s *Slots[K]) expire(group string, now time.Time) {
	g := s.groups[group]
	if g == nil || now.Before(g.expires) {
		return
	}
	g.expires = time.Time{}
	for _, m := range append(slices.Collect(maps.Keys(g.holders)), g.queue...) {
		if now.Before(m.until) {
			g.noteExpiry(m)
		} else {
			s.remove(m)
		}
	}
}

func (g *group[K]) noteExpiry(m *member[K]) {
	if g.expires.IsZero() || m.until.Before(g.expires) {
		g.expires = m.until
	}
}

func (s *Slots[K]) add(m *member[K]) {
	g := s.groups[m.group]
	if g == nil {
		g = &group[K]{holders: map[*member[K]]struct{}{}}
		s.groups[m.group] = g
	}
	if m.hasSlot {
		g.holders[m] = struct{}{}
	} else {
		at, _ := slices.BinarySearchFunc(g.queue, m, s.compare)
		g.queue = slices.Insert(g.queue, at, m)
	}
	g.noteExpiry(m)
	s.members[m.key] = m
	s.changed[m.group] = struct{}{}
}

func (s *Slots[K]) remove(m *member[K]) {
	g := s.groups[m.group]
	delete(g.holders, m)
	if at, found := slices.BinarySearchFunc(g.queue, m, s.compare); found && !m.hasSlot {
		g.queue = slices.Delete(g.queue, at, at+1)
	}
	if len(g.holders)+len(g.queue) == 0 {
		delete(s.groups, m.group)
	}
	delete(s.members, m.key)
	s.changed[m.group] = struct{}{}
}

// compare orders a queue. No two of its members are equal.
func (s *Slots[K]) compare(a, b *member[K]) int {
	byKey := 0
	if s.options.Compare != nil {
		byKey = s.options.Compare(a.key, b.key)
	}
	return cmp.Or(a.since.Compare(b.since), byKey, cmp.Compare(a.arrival, b.arrival))
}
