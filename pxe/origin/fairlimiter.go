package origin

import (
	"context"
	"slices"
	"sync"
)

// Bounds are those of concurrent work. A namespace that names slow origins must not delay the files of another namespace, so each has slots of its own.
type Bounds struct {
	// PerOrigin is how many slots one namespace may have for one origin.
	PerOrigin int
	// Guaranteed is how many slots each namespace may have, however many the other namespaces have.
	Guaranteed int
	// Shared is the number of used slots below which a namespace may have more than Guaranteed.
	Shared int
	// Max is how many slots there are in all.
	Max int
}

// FetchBounds are those of fetches. A fetch costs a connection, a goroutine and a buffer, so there may be many; the bounds protect the origins. At least 57
// namespaces with slow origins are needed to delay another one.
var FetchBounds = Bounds{PerOrigin: 2, Guaranteed: 2, Shared: 16, Max: 128}

// LimitKey identifies what a fetch counts against. Origin is a host with its port, or empty for a file that is verified on the disk.
type LimitKey struct{ Namespace, Origin string }

// FairLimiter limits the concurrent work in all, of each namespace, and of each namespace from one origin. Work that runs has a slot.
type FairLimiter struct {
	bounds Bounds

	mu          sync.Mutex
	all         int
	byNamespace map[string]int
	byKey       map[LimitKey]int
	waiting     []*limitWaiter // in the order of arrival
}

type limitWaiter struct {
	key     LimitKey
	entered chan struct{}
}

// NewFairLimiter returns a limiter whose slots are all free.
func NewFairLimiter(bounds Bounds) *FairLimiter {
	return &FairLimiter{bounds: bounds, byNamespace: map[string]int{}, byKey: map[LimitKey]int{}}
}

// Enter waits for a slot. The caller calls leave when its work is over.
func (l *FairLimiter) Enter(ctx context.Context, wanted LimitKey) (leave func(), err error) {
	w := &limitWaiter{key: wanted, entered: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, w)
	l.admit()
	l.mu.Unlock()
	select {
	case <-w.entered:
		return func() { l.leave(wanted) }, nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting, w)
	if i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // it got its slot in this moment
		l.leave(wanted)
	}
	return nil, ctx.Err()
}

// admit gives a slot to every fetch that may start. The namespace with the fewest fetches goes first, and within a namespace the fetch that
// arrived first. l.mu is held.
func (l *FairLimiter) admit() {
	for {
		next := -1
		for i, w := range l.waiting {
			if l.free(w.key) && (next < 0 || l.byNamespace[w.key.Namespace] < l.byNamespace[l.waiting[next].key.Namespace]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := l.waiting[next]
		l.waiting = slices.Delete(l.waiting, next, next+1)
		l.all++
		l.byNamespace[w.key.Namespace]++
		l.byKey[w.key]++
		close(w.entered)
	}
}

// free is true if a fetch may start. l.mu is held.
func (l *FairLimiter) free(wanted LimitKey) bool {
	return l.all < l.bounds.Max && l.byKey[wanted] < l.bounds.PerOrigin && (l.all < l.bounds.Shared || l.byNamespace[wanted.Namespace] < l.bounds.Guaranteed)
}

func (l *FairLimiter) leave(left LimitKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.byNamespace[left.Namespace]--; l.byNamespace[left.Namespace] == 0 {
		delete(l.byNamespace, left.Namespace)
	}
	if l.byKey[left]--; l.byKey[left] == 0 {
		delete(l.byKey, left)
	}
	l.admit()
}
