package host

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// line lets the hosts of each failure domain boot, so many at once. It is memory only: who boots stands in the hosts' specs, and who waits comes by
// itself. Those that wait are in the order of their machines' creation, then of their names, which a restart keeps.
//
// Nobody has a place among those that boot but who boots: the first of those that wait, as many as there are free places, are woken, and take theirs in
// the moment in which they record the attempt. Who cannot, as when its BMC is away, leaves the line, and so holds up nobody.
type line struct {
	// limit is how many hosts of a failure domain may boot at once.
	limit int
	// wake brings a host back to be reconciled. It is called without the lock.
	wake func(types.NamespacedName)

	mu      sync.Mutex
	hosts   map[types.NamespacedName]*ticket
	domains map[string]*domain
	touched []string // the domains that a change is about
	seeded  bool
}

// ticket is a host that waits or boots.
type ticket struct {
	key    types.NamespacedName
	uid    types.UID
	domain string

	since  time.Time      // when the machine was created that it waits for
	woken  bool           // it knows that it may begin
	told   lifecycle.QueuePosition // what people were told
	toldAt time.Time

	boots  bool
	until  time.Time // when it counts as booting at the latest
	number int32     // of the boot: what has a lower one is older
}

// domain is what waits and boots of one failure domain.
type domain struct {
	waiting []*ticket // in their order
	booting map[*ticket]struct{}
	next    time.Time // none of booting is over before
}

// seen is what the cache shows of a host.
type seen struct {
	key    types.NamespacedName
	uid    types.UID
	number int32 // of its last boot
	domain string
	until  time.Time // until when it counts as booting; zero if it does not
}

// doubtful is how long a place is kept for an attempt of which it is not known whether it was recorded.
const doubtful = time.Minute

func newLine(limit int, wake func(types.NamespacedName)) *line {
	return &line{limit: limit, wake: wake, hosts: map[types.NamespacedName]*ticket{}, domains: map[string]*domain{}}
}

// seed tells the line once who boots, before it lets anybody on.
func (l *line) seed(now time.Time, list func() ([]seen, error)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seeded {
		return nil
	}
	all, err := list()
	if err != nil {
		return err
	}
	for _, s := range all {
		l.note(s, now)
	}
	l.seeded, l.touched = true, nil
	return nil
}

// look tells the line what the cache shows of a host.
func (l *line) look(s seen, now time.Time) {
	l.do(func() { l.note(s, now) })
}

func (l *line) note(s seen, now time.Time) {
	t := l.hosts[s.key]
	if t != nil && t.uid != s.uid {
		l.remove(t)
		t = nil
	}
	if t != nil && t.boots && s.number < t.number {
		return // the cache does not show the boot yet
	}
	if !now.Before(s.until) {
		if t != nil && t.boots {
			l.remove(t)
		}
		return
	}
	if t == nil {
		t = &ticket{key: s.key, uid: s.uid}
	} else {
		l.remove(t)
	}
	t.domain, t.until, t.number = s.domain, s.until, s.number
	l.addBooting(t)
}

// ask puts a host that could begin to boot into the line, and returns where it stands; nil when it may begin. since is when its machine was created.
func (l *line) ask(s seen, since, now time.Time) (place *lifecycle.QueuePosition) {
	l.do(func() {
		t := l.hosts[s.key]
		if t != nil && t.boots {
			return
		}
		if t != nil && (t.domain != s.domain || !t.since.Equal(since)) {
			l.remove(t)
			t = nil
		}
		if t == nil {
			t = &ticket{key: s.key, uid: s.uid, domain: s.domain, since: since}
			l.addWaiting(t)
		}
		place = l.place(t, now)
	})
	return place
}

// place is where a host stands that waits; nil when it may begin.
func (l *line) place(t *ticket, now time.Time) *lifecycle.QueuePosition {
	d := l.of(t.domain)
	d.expire(l, now)
	at, _ := slices.BinarySearchFunc(d.waiting, t, inOrder)
	if t.woken = at < l.limit-len(d.booting); t.woken {
		return nil
	}
	if t.toldAt.IsZero() || now.Sub(t.toldAt) >= lifecycle.QueuePositionInterval || now.Before(t.toldAt) {
		t.told, t.toldAt = lifecycle.QueuePosition{Number: at + 1, Booting: len(d.booting)}, now
	}
	told := t.told
	return &told
}

// take gives a host a slot for a boot, until a time at most, or returns its position in the queue instead.
func (l *line) take(key types.NamespacedName, number int32, until, now time.Time) (place *lifecycle.QueuePosition) {
	l.do(func() {
		t := l.hosts[key]
		if t == nil {
			return // without a limit nobody asks
		}
		if !t.boots {
			if place = l.place(t, now); place != nil {
				return
			}
		}
		l.remove(t)
		t.until, t.number = until, number
		l.addBooting(t)
	})
	return place
}

// notRecorded frees the slot of a boot that was not recorded. Where it may have been, the slot is kept until the cache shows it, but not for long.
func (l *line) notRecorded(key types.NamespacedName, surely bool, now time.Time) {
	l.do(func() {
		t := l.hosts[key]
		if t == nil || !t.boots {
			return
		}
		if l.remove(t); surely {
			return
		}
		t.until = now.Add(doubtful)
		l.addBooting(t)
	})
}

// outdated puts a host back to where it waited, whose attempt was not recorded because the cache did not show the host as it is: it looks
// again a moment later, and keeps its turn until then.
func (l *line) outdated(key types.NamespacedName) {
	l.do(func() {
		if t := l.hosts[key]; t != nil && t.boots {
			l.remove(t)
			l.addWaiting(t)
			t.woken = true // it looks again by itself
		}
	})
}

// leave takes a host out of the line that does not wait any more, or of which it is not known. One that boots stays.
func (l *line) leave(key types.NamespacedName) {
	l.do(func() {
		if t := l.hosts[key]; t != nil && !t.boots {
			l.remove(t)
		}
	})
}

// forget forgets a host that is gone.
func (l *line) forget(key types.NamespacedName) {
	l.do(func() {
		if t := l.hosts[key]; t != nil {
			l.remove(t)
		}
	})
}

// do changes the line, and wakes those whose turn has come by that.
func (l *line) do(change func()) {
	for _, key := range l.changed(change) {
		l.wake(key)
	}
}

func (l *line) changed(change func()) []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	var turns []types.NamespacedName
	for _, name := range l.touched {
		d := l.domains[name]
		if d == nil {
			continue
		}
		for _, t := range d.waiting[:min(len(d.waiting), max(0, l.limit-len(d.booting)))] {
			if !t.woken {
				t.woken = true
				turns = append(turns, t.key)
			}
		}
		if len(d.waiting) == 0 && len(d.booting) == 0 {
			delete(l.domains, name)
		}
	}
	l.touched = l.touched[:0]
	return turns
}

func (l *line) of(name string) *domain {
	d := l.domains[name]
	if d == nil {
		d = &domain{booting: map[*ticket]struct{}{}}
		l.domains[name] = d
	}
	if !slices.Contains(l.touched, name) {
		l.touched = append(l.touched, name)
	}
	return d
}

func (l *line) addWaiting(t *ticket) {
	d := l.of(t.domain)
	at, _ := slices.BinarySearchFunc(d.waiting, t, inOrder)
	d.waiting = slices.Insert(d.waiting, at, t)
	l.hosts[t.key] = t
}

func (l *line) addBooting(t *ticket) {
	t.boots = true
	d := l.of(t.domain)
	d.booting[t] = struct{}{}
	d.noteEnd(t.until)
	l.hosts[t.key] = t
}

func (l *line) remove(t *ticket) {
	d := l.of(t.domain)
	if t.boots {
		delete(d.booting, t)
	} else if at, found := slices.BinarySearchFunc(d.waiting, t, inOrder); found {
		d.waiting = slices.Delete(d.waiting, at, at+1)
	}
	t.boots, t.woken, t.toldAt = false, false, time.Time{}
	delete(l.hosts, t.key)
}

// noteEnd notes when one of those that boot is over.
func (d *domain) noteEnd(until time.Time) {
	if d.next.IsZero() || until.Before(d.next) {
		d.next = until
	}
}

// expire takes the places away of those that are over. It looks at them only when one may be.
func (d *domain) expire(l *line, now time.Time) {
	if len(d.booting) == 0 || now.Before(d.next) {
		return
	}
	d.next = time.Time{}
	for t := range d.booting {
		if !now.Before(t.until) {
			l.remove(t)
		} else {
			d.noteEnd(t.until)
		}
	}
}

func inOrder(a, b *ticket) int {
	return cmp.Or(a.since.Compare(b.since), strings.Compare(a.key.Namespace, b.key.Namespace), strings.Compare(a.key.Name, b.key.Name))
}
