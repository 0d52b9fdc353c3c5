// Package slots limits how many members of a group do something at once, and queues the others. The boot queue of a failure domain and the boot slots of a
// network are made of it. Its state is in memory only.
package slots

import (
	"cmp"
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
	// Wake, where not nil, is called for each queued member that may have a slot now. It is called without a lock.
	Wake func(member K)
}

// Slots are the slots and the queues of all groups. All methods are safe for concurrent use.
type Slots[K comparable] struct {
	options Options[K]

	mu       sync.Mutex
	members  map[K]*member[K]
	groups   map[string]map[*member[K]]struct{}
	changed  map[string]struct{} // the groups that the current call changed
	arrivals int
}

// member has a slot or is queued.
type member[K comparable] struct {
	key       K
	group     string
	since     time.Time // orders the queue
	arrival   int       // orders members with the same since
	until     time.Time // when the slot or the queue entry expires
	hasSlot   bool
	confirmed bool // the slot is from Hold
	woken     bool
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
	return &Slots[K]{options: options, members: map[K]*member[K]{}, groups: map[string]map[*member[K]]struct{}{}, changed: map[string]struct{}{}}
}

// Acquire gives a member a slot until a time at most, and returns true. If no slot is free for it, the member is queued and its position is returned. The time
// since of the first call orders the queue. A member that has a slot keeps it, with the end that it has.
func (s *Slots[K]) Acquire(group string, key K, since, until, now time.Time) (position Position, ok bool) {
	s.change(now, func() {
		s.expire(group, now)
		m := s.members[key]
		if m != nil && m.group != group {
			s.remove(m)
			m = nil
		}
		if m == nil {
			s.arrivals++
			m = &member[K]{key: key, group: group, since: since, arrival: s.arrivals}
			s.add(m)
		}
		ok = m.hasSlot
		if ok {
			return
		}
		before, holding := s.count(m)
		if limit := s.options.Limit(group); limit > 0 && before >= limit-holding {
			m.until, m.woken = now.Add(s.options.QueueTTL), false
			position = Position{before + 1, holding}
			return
		}
		ok, m.hasSlot, m.until = true, true, until
	})
	return position, ok
}

// Hold gives a member a slot until a time, also beyond the limit: it does already what the slots are for.
func (s *Slots[K]) Hold(group string, key K, until, now time.Time) {
	s.change(now, func() {
		if m := s.members[key]; m != nil && m.group == group && m.confirmed {
			m.until = until
			return
		} else if m != nil {
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
		for m := range s.groups[group] {
			if m.hasSlot {
				holding = append(holding, m.key)
			} else {
				queued++
			}
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
		wake = append(wake, s.admissible(group)...)
	}
	clear(s.changed)
	return wake
}

// admissible returns the first members of a queue, as many as slots are free, without those that were woken before.
func (s *Slots[K]) admissible(group string) (keys []K) {
	limit := s.options.Limit(group)
	if s.options.Wake == nil || limit == 0 {
		return nil
	}
	var queue []*member[K]
	for m := range s.groups[group] {
		if m.hasSlot {
			limit--
		} else {
			queue = append(queue, m)
		}
	}
	slices.SortFunc(queue, compare)
	for _, m := range queue[:min(len(queue), max(0, limit))] {
		if !m.woken {
			m.woken = true
			keys = append(keys, m.key)
		}
	}
	return keys
}

// count returns how many members are queued before one, and how many have a slot.
func (s *Slots[K]) count(of *member[K]) (before, holding int) {
	for m := range s.groups[of.group] {
		switch {
		case m.hasSlot:
			holding++
		case compare(m, of) < 0:
			before++
		}
	}
	return before, holding
}

// expire removes the members of a group whose time is over.
func (s *Slots[K]) expire(group string, now time.Time) {
	for m := range s.groups[group] {
		if !m.until.IsZero() && !now.Before(m.until) {
			s.remove(m)
		}
	}
}

func (s *Slots[K]) add(m *member[K]) {
	if s.groups[m.group] == nil {
		s.groups[m.group] = map[*member[K]]struct{}{}
	}
	s.groups[m.group][m] = struct{}{}
	s.members[m.key] = m
	s.changed[m.group] = struct{}{}
}

func (s *Slots[K]) remove(m *member[K]) {
	delete(s.members, m.key)
	delete(s.groups[m.group], m)
	if len(s.groups[m.group]) == 0 {
		delete(s.groups, m.group)
	}
	s.changed[m.group] = struct{}{}
}

func compare[K comparable](a, b *member[K]) int {
	return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.arrival, b.arrival))
}
