package host

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// queue is a line with a clock, and who was woken.
type queue struct {
	*line
	now   time.Time
	woken []string
}

func newQueue(limit int) *queue {
	b := &queue{now: noon}
	b.line = newLine(limit, func(key types.NamespacedName) { b.woken = append(b.woken, key.Name) })
	return b
}

// at is a host, with whatever its name says behind a slash as its failure domain.
func at(name string) seen {
	name, domain, _ := strings.Cut(name, "/")
	return seen{key: types.NamespacedName{Namespace: "dc", Name: name}, uid: types.UID(name), number: 1, domain: domain}
}

// created is when the machine of a host was created, by the number in its name.
func created(name string) time.Time {
	var n int
	_, _ = fmt.Sscanf(name, "h%d", &n)
	return noon.Add(time.Duration(n) * time.Hour)
}

func (b *queue) asks(names ...string) (places []int) {
	for _, name := range names {
		s := at(name)
		if place := b.ask(s, created(name), b.now); place != nil {
			places = append(places, place.Number)
		} else {
			places = append(places, 0)
		}
	}
	return places
}

// boots takes the place of a host that may begin, and shows its attempt.
func (b *queue) boots(g Gomega, name string) {
	s := at(name)
	s.number, s.until = 2, b.now.Add(time.Hour)
	g.Expect(b.take(s.key, 2, s.until, b.now)).To(BeNil(), name)
	b.look(s, b.now)
}

// ends shows that a host does not boot any more.
func (b *queue) ends(name string) {
	s := at(name)
	s.number = 2
	b.look(s, b.now)
}

func (b *queue) turns() []string {
	defer func() { b.woken = nil }()
	return b.woken
}

// TestLineIsFair: those whose machines were created first are let on first, in whatever order they ask, and each is woken when its turn comes.
func TestLineIsFair(t *testing.T) {
	g := NewWithT(t)
	b := newQueue(2)
	g.Expect(b.asks("h5", "h4", "h1", "h3", "h2")).To(Equal([]int{0, 0, 0, 0, 0}), "each was one of the first two when it asked")
	g.Expect(b.take(at("h5").key, 2, b.now.Add(time.Hour), b.now)).To(Equal(&lifecycle.QueuePosition{Number: 5}), "but is not any more")
	g.Expect(b.turns()).To(BeEmpty())
	b.boots(g, "h1")
	b.boots(g, "h2")
	b.now = b.now.Add(time.Minute)
	g.Expect(b.asks("h3", "h4", "h5")).To(Equal([]int{1, 2, 3}))
	g.Expect(b.take(at("h3").key, 2, b.now.Add(time.Hour), b.now)).To(Equal(&lifecycle.QueuePosition{Number: 1, Booting: 2}))
	b.ends("h2")
	g.Expect(b.turns()).To(Equal([]string{"h3"}))
	g.Expect(b.take(at("h4").key, 2, b.now.Add(time.Hour), b.now)).NotTo(BeNil(), "it is the turn of another")
	b.boots(g, "h3")
	b.ends("h1")
	b.ends("h3")
	g.Expect(b.turns()).To(ConsistOf("h4", "h5"))
}

// TestLineOfEachDomain: a failure domain waits for no other.
func TestLineOfEachDomain(t *testing.T) {
	g := NewWithT(t)
	b := newQueue(1)
	g.Expect(b.asks("h1/rack-1", "h2/rack-2", "h3")).To(Equal([]int{0, 0, 0}))
	for _, name := range []string{"h1/rack-1", "h2/rack-2", "h3"} {
		b.boots(g, name)
	}
	g.Expect(b.asks("h4/rack-1", "h5/rack-2", "h6")).To(Equal([]int{1, 1, 1}))
	g.Expect(b.asks("h4/rack-3")).To(Equal([]int{0}), "it was moved to another rack")
	g.Expect(b.asks("h4/rack-1")).To(Equal([]int{1}))
	moved := at("h1/rack-2")
	moved.number, moved.until = 2, b.now.Add(time.Hour)
	b.look(moved, b.now)
	g.Expect(b.turns()).To(Equal([]string{"h4"}), "what boots counts where it stands now")
	b.ends("h2/rack-2")
	g.Expect(b.turns()).To(BeEmpty(), "the one that came boots there")
}

// TestLinePlacesAreGivenBack: whatever becomes of a host that boots or waits, those behind it go on.
func TestLinePlacesAreGivenBack(t *testing.T) {
	anew := at("h1")
	anew.uid = "another"
	for name, leave := range map[string]func(*queue){
		"it reported in, failed or was released": func(b *queue) { b.ends("h1") },
		"its object is gone":                     func(b *queue) { b.forget(at("h1").key) },
		"another has its name":                   func(b *queue) { b.look(anew, b.now) },
		"its attempt was over long ago":          func(b *queue) { b.now = b.now.Add(time.Hour); b.asks("h2") },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := newQueue(1)
			b.asks("h1")
			b.boots(g, "h1")
			g.Expect(b.asks("h2", "h3")).To(Equal([]int{1, 2}))
			leave(b)
			g.Expect(b.asks("h2")).To(Equal([]int{0}))
		})
	}
	for name, leave := range map[string]func(*queue){
		"it does not want to boot any more": func(b *queue) { b.leave(at("h1").key) },
		"its object is gone":                func(b *queue) { b.forget(at("h1").key) },
		"another has its name":              func(b *queue) { b.look(anew, b.now) },
		"it was moved to another rack":      func(b *queue) { b.asks("h1/rack-2") },
		"it looks again, and cannot": func(b *queue) {
			b.take(at("h1").key, 2, b.now.Add(time.Hour), b.now)
			b.outdated(at("h1").key)
			b.leave(at("h1").key)
		},
		"it was not recorded": func(b *queue) {
			b.take(at("h1").key, 2, b.now.Add(time.Hour), b.now)
			b.notRecorded(at("h1").key, true, b.now)
		},
	} {
		t.Run(name+" before it began", func(t *testing.T) {
			g := NewWithT(t)
			b := newQueue(1)
			g.Expect(b.asks("h1", "h2", "h3")).To(Equal([]int{0, 2, 3}))
			leave(b)
			g.Expect(b.turns()).To(Equal([]string{"h2"}))
		})
	}
}

// TestLineBelievesNoOldCache: what was recorded counts although the cache does not show it yet, and what may have been recorded for a while.
func TestLineBelievesNoOldCache(t *testing.T) {
	g := NewWithT(t)
	b := newQueue(1)
	b.asks("h1")
	g.Expect(b.take(at("h1").key, 2, b.now.Add(time.Hour), b.now)).To(BeNil())
	b.look(at("h1"), b.now)
	g.Expect(b.asks("h2")).To(Equal([]int{1}), "it is being recorded")
	b.look(at("h1"), b.now)
	b.leave(at("h1").key)
	g.Expect(b.asks("h2")).To(Equal([]int{1}))
	b.ends("h1")
	g.Expect(b.asks("h2")).To(Equal([]int{0}))

	g.Expect(b.take(at("h2").key, 2, b.now.Add(time.Hour), b.now)).To(BeNil())
	b.notRecorded(at("h2").key, false, b.now)
	b.look(at("h2"), b.now)
	g.Expect(b.asks("h3")).To(Equal([]int{1}), "nobody knows whether it was recorded")
	g.Expect(b.asks("h2")).To(Equal([]int{0}), "it may try again")
	b.now = b.now.Add(doubtful)
	g.Expect(b.asks("h3")).To(Equal([]int{0}))
}

// TestLineKeepsTheTurn: whose attempt was not recorded because the host was written to meanwhile is still the next.
func TestLineKeepsTheTurn(t *testing.T) {
	g := NewWithT(t)
	b := newQueue(1)
	g.Expect(b.asks("h1", "h2", "h3")).To(Equal([]int{0, 2, 3}))
	g.Expect(b.take(at("h1").key, 2, b.now.Add(time.Hour), b.now)).To(BeNil())
	b.outdated(at("h1").key)
	g.Expect(b.turns()).To(BeEmpty())
	g.Expect(b.asks("h2", "h1")).To(Equal([]int{2, 0}))
	b.boots(g, "h1")
	b.ends("h1")
	g.Expect(b.turns()).To(Equal([]string{"h2"}))
}

// TestLineTellsSeldom: the place that people are told does not change with each that leaves.
func TestLineTellsSeldom(t *testing.T) {
	g := NewWithT(t)
	b := newQueue(1)
	b.asks("h0")
	b.boots(g, "h0")
	g.Expect(b.asks("h1", "h2", "h3")).To(Equal([]int{1, 2, 3}))
	b.leave(at("h1").key)
	b.now = b.now.Add(lifecycle.QueuePositionInterval - 1)
	g.Expect(b.asks("h2", "h3")).To(Equal([]int{2, 3}))
	b.now = b.now.Add(1)
	g.Expect(b.asks("h2", "h3")).To(Equal([]int{1, 2}))
	g.Expect(b.turns()).To(BeEmpty())
}

// TestLineSeeds: who boots is known before anybody is let on, and is asked for once.
func TestLineSeeds(t *testing.T) {
	g := NewWithT(t)
	b := newQueue(1)
	boots := at("h9")
	boots.until = b.now.Add(time.Hour)
	g.Expect(b.seed(b.now, func() ([]seen, error) { return nil, errors.New("no cache") })).NotTo(Succeed())
	g.Expect(b.seed(b.now, func() ([]seen, error) { return []seen{boots, at("h8")}, nil })).To(Succeed())
	g.Expect(b.seed(b.now, nil)).To(Succeed())
	g.Expect(b.asks("h1")).To(Equal([]int{1}))
	b.ends("h9")
	g.Expect(b.turns()).To(Equal([]string{"h1"}))
}

// truth is what the line is to know.
type truth struct {
	domain  string
	waits   bool
	boots   time.Time // until when
	version int32
}

// TestPropertyLine: in any sequence no failure domain boots more hosts than may at once, the first of those that wait are those who may begin, each of
// them was told so, and nobody waits while there is a place.
func TestPropertyLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 3).Draw(t, "limit")
		b := newQueue(limit)
		hosts, told := map[string]*truth{}, map[string]bool{}
		count := func(domain string) (n int) {
			for _, h := range hosts {
				if h.domain == domain && b.now.Before(h.boots) {
					n++
				}
			}
			return n
		}
		first := func(name string) bool {
			before := 0
			for other, h := range hosts {
				if h.waits && h.domain == hosts[name].domain && created(other).Before(created(name)) {
					before++
				}
			}
			return before < limit-count(hosts[name].domain)
		}
		show := func(name string) seen {
			h := hosts[name]
			s := at(name)
			s.domain, s.number, s.until = h.domain, h.version, h.boots
			return s
		}
		for range rapid.IntRange(1, 80).Draw(t, "events") {
			name := fmt.Sprintf("h%d", rapid.IntRange(0, 9).Draw(t, "host"))
			h := hosts[name]
			if h == nil {
				h = &truth{domain: "rack-1", version: 1}
				hosts[name] = h
			}
			booting := b.now.Before(h.boots)
			switch event := rapid.IntRange(0, 9).Draw(t, "event"); {
			case event < 4 && !booting: // it is reconciled, and begins if it may
				b.look(show(name), b.now)
				h.waits = true
				place := b.ask(show(name), created(name), b.now)
				if (place == nil) != first(name) {
					t.Fatalf("%s is told %v, and it is its turn: %t", name, place, first(name))
				}
				told[name] = place == nil
				if event == 3 || place != nil {
					break
				}
				if b.take(show(name).key, h.version+1, b.now.Add(time.Hour), b.now) != nil {
					t.Fatalf("%s may begin, and may not", name)
				}
				if event == 2 && rapid.Bool().Draw(t, "outdated") { // somebody else wrote
					b.outdated(show(name).key)
					break
				}
				if event == 2 { // the write fails
					b.notRecorded(show(name).key, true, b.now)
					h.waits = false
					break
				}
				h.waits, h.boots, h.version = false, b.now.Add(time.Hour), h.version+1
			case event == 4 && booting: // it reports in
				h.boots = time.Time{}
				b.look(show(name), b.now)
			case event == 5 && !booting:
				h.waits = false
				b.leave(show(name).key)
			case event == 6:
				delete(hosts, name)
				b.forget(at(name).key)
			case event == 7: // it is carried to another rack
				h.domain = rapid.SampledFrom([]string{"rack-1", "rack-2"}).Draw(t, "domain")
				b.look(show(name), b.now)
				if h.waits {
					told[name] = b.ask(show(name), created(name), b.now) == nil
				}
			case event == 8: // an old cache
				old := show(name)
				if old.number--; booting && old.number > 0 {
					old.until = time.Time{}
					b.look(old, b.now)
				}
			case event == 9:
				b.now = b.now.Add(10 * time.Minute)
				for _, waiting := range slices.Sorted(maps.Keys(hosts)) {
					if hosts[waiting].waits {
						told[waiting] = b.ask(show(waiting), created(waiting), b.now) == nil
					}
				}
			}
			for _, woken := range b.turns() {
				told[woken] = true
			}
			for name, h := range hosts {
				switch {
				case h.waits && first(name) && !told[name]:
					t.Fatalf("it is the turn of %s, and nobody told it", name)
				case h.waits && b.hosts[at(name).key] == nil:
					t.Fatalf("%s waits, and is not in the line", name)
				}
			}
		}
		if len(b.hosts) > len(hosts) {
			t.Fatalf("the line keeps hosts that are gone: %d of %d", len(b.hosts), len(hosts))
		}
	})
}

// TestLineConcurrently: however many reconciles there are at once, none of them takes a place that another has.
func TestLineConcurrently(t *testing.T) {
	const limit, all = 3, 40
	var (
		mu            sync.Mutex
		booting, most int
		wg            sync.WaitGroup
		woken         = map[string]chan struct{}{}
	)
	for i := range all {
		woken[fmt.Sprintf("h%d", i)] = make(chan struct{}, all)
	}
	l := newLine(limit, func(key types.NamespacedName) { woken[key.Name] <- struct{}{} })
	for name, turn := range woken {
		wg.Go(func() {
			s := at(name)
			l.look(s, noon)
			for l.ask(s, created(name), noon) != nil || l.take(s.key, 2, noon.Add(time.Hour), noon) != nil {
				<-turn
			}
			mu.Lock()
			booting++
			most = max(most, booting)
			mu.Unlock()
			s.number, s.until = 2, noon.Add(time.Hour)
			l.look(s, noon)
			mu.Lock()
			booting--
			mu.Unlock()
			s.until = time.Time{}
			l.look(s, noon)
		})
	}
	wg.Wait()
	NewWithT(t).Expect(most).To(BeNumerically("<=", limit))
	NewWithT(t).Expect(l.hosts).To(BeEmpty())
	NewWithT(t).Expect(l.domains).To(BeEmpty())
}

// BenchmarkLine is a look at each of 2,000 hosts that wait, of 10,000.
func BenchmarkLine(b *testing.B) {
	l := newLine(250, func(types.NamespacedName) {})
	var hosts []seen
	for i := range 10_000 {
		s := at(fmt.Sprintf("h%d", i))
		if i < 250 {
			s.until = noon.Add(time.Hour)
		}
		l.look(s, noon)
		hosts = append(hosts, s)
	}
	for b.Loop() {
		for i := 250; i < 2250; i++ {
			l.look(hosts[i], noon)
			l.ask(hosts[i], noon.Add(time.Duration(i)*time.Second), noon)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/look")
}
