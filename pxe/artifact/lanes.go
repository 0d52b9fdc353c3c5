package artifact

import (
	"context"
	"slices"
	"sync"
)

// Bounds on what is fetched at once. A namespace that names slow origins must not delay the files of another one, so each has lanes of its
// own. A fetch costs a connection, a goroutine and a buffer, so there may be many; what the bounds save are the origins.
const (
	// laneOrigin is how many fetches of one namespace from one origin run at once.
	laneOrigin = 2
	// laneOwn is how many fetches of each namespace run at once, however many the others have.
	laneOwn = 2
	// laneShared is up to how many fetches in all a namespace may have more than its own.
	laneShared = 16
	// laneAll is how many fetches run at once in all. So 57 namespaces with slow origins at least are needed to delay another one.
	laneAll = 128
)

// lane is what a fetch takes: the origin is a host with its port, or empty for a file that is checked on the disk.
type lane struct{ namespace, origin string }

// lanes bound the fetches that run at once, in all, of each namespace, and of each namespace from one origin.
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

// enter waits for a lane. Call leave when the fetch is over.
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
	if i < 0 { // it got its lane just now
		l.leave(wanted)
	}
	return nil, ctx.Err()
}

// admit gives a lane to every fetch for which there is one. The namespace with the fewest fetches is first, and of one namespace the fetch that
// came first. l.mu is held.
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

// free is true when a fetch may begin. l.mu is held.
func (l *lanes) free(wanted lane) bool {
	return l.all < laneAll && l.byLane[wanted] < laneOrigin && (l.all < laneShared || l.byNamespace[wanted.namespace] < laneOwn)
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
