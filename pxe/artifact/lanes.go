package artifact

import (
	"context"
	"slices"
	"sync"
)

// Bounds on concurrent fetches. A namespace that names slow origins must not delay the files of another namespace, so each has lanes of its
// own. A fetch costs a connection, a goroutine and a buffer, so there may be many; the bounds protect the origins.
const (
	// maxPerOrigin is how many fetches one namespace may have from one origin.
	maxPerOrigin = 2
	// guaranteedPerNamespace is how many fetches each namespace may have, however many the other namespaces have.
	guaranteedPerNamespace = 2
	// sharedFetches is the number of fetches in all below which a namespace may have more than guaranteedPerNamespace.
	sharedFetches = 16
	// maxFetches is how many fetches may run in all. At least 57 namespaces with slow origins are thus needed to delay another one.
	maxFetches = 128
)

// lane identifies what a fetch counts against. The origin is a host with its port, or empty for a file that is verified on the disk.
type lane struct{ namespace, origin string }

// lanes bounds the concurrent fetches in all, of each namespace, and of each namespace from one origin.
type lanes struct {
	mu          sync.Mutex
	all         int
	byNamespace map[string]int
	byLane      map[lane]int
	waiting     []*laneWaiter // in the order of arrival
}

type laneWaiter struct {
	lane    lane
	entered chan struct{}
}

func newLanes() *lanes {
	return &lanes{byNamespace: map[string]int{}, byLane: map[lane]int{}}
}

// enter waits for a lane. The caller calls leave when the fetch is over.
func (l *lanes) enter(ctx context.Context, wanted lane) (leave func(), err error) {
	w := &laneWaiter{lane: wanted, entered: make(chan struct{})}
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
	if i < 0 { // it got its lane in this moment
		l.leave(wanted)
	}
	return nil, ctx.Err()
}

// admit gives a lane to every fetch that may start. The namespace with the fewest fetches goes first, and within a namespace the fetch that
// arrived first. l.mu is held.
func (l *lanes) admit() {
	for {
		next := -1
		for i, w := range l.waiting {
			if l.free(w.lane) && (next < 0 || l.byNamespace[w.lane.namespace] < l.byNamespace[l.waiting[next].lane.namespace]) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		w := l.waiting[next]
		l.waiting = slices.Delete(l.waiting, next, next+1)
		l.all++
		l.byNamespace[w.lane.namespace]++
		l.byLane[w.lane]++
		close(w.entered)
	}
}

// free is true if a fetch may start. l.mu is held.
func (l *lanes) free(wanted lane) bool {
	return l.all < maxFetches && l.byLane[wanted] < maxPerOrigin && (l.all < sharedFetches || l.byNamespace[wanted.namespace] < guaranteedPerNamespace)
}

func (l *lanes) leave(left lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.byNamespace[left.namespace]--; l.byNamespace[left.namespace] == 0 {
		delete(l.byNamespace, left.namespace)
	}
	if l.byLane[left]--; l.byLane[left] == 0 {
		delete(l.byLane, left)
	}
	l.admit()
}
