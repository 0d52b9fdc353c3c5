package slots_test

import (
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/slots"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

const queueTTL = time.Minute

// rack has Slots with a clock, and the members that were woken. A member's number is its place in the order of creation.
type rack struct {
	*slots.Slots[int]

	now   time.Time
	woken []int
}

func newRack(limit int) *rack {
	r := &rack{now: noon}
	r.Slots = slots.New(slots.Options[int]{Limit: func(string) int { return limit }, QueueTTL: queueTTL, Wake: func(m int) { r.woken = append(r.woken, m) }})
	return r
}

func created(member int) time.Time { return noon.Add(time.Duration(member) * time.Hour) }

// acquire returns 0 for a member that has a slot now, and its position otherwise.
func (r *rack) acquire(group string, member int) int {
	position, ok := r.Acquire(group, member, created(member), r.now.Add(time.Hour), r.now)
	if ok {
		return 0
	}
	return position.Number
}

func (r *rack) takeWoken() []int {
	defer func() { r.woken = nil }()
	return r.woken
}

// TestOrder: free slots are given in the order of creation, in whatever order the members ask, and each member is woken when it may have one.
func TestOrder(t *testing.T) {
	g := NewWithT(t)
	r := newRack(2)
	g.Expect([]int{r.acquire("a", 8), r.acquire("a", 9)}).To(Equal([]int{0, 0}), "the slots are free")
	g.Expect([]int{r.acquire("a", 5), r.acquire("a", 1), r.acquire("a", 3), r.acquire("a", 2)}).To(Equal([]int{1, 1, 2, 2}))
	g.Expect(r.acquire("a", 5)).To(Equal(4))
	g.Expect(r.takeWoken()).To(BeEmpty())
	r.Release(9, r.now)
	g.Expect(r.takeWoken()).To(Equal([]int{1}))
	g.Expect(r.acquire("a", 2)).To(Equal(2), "the slot is for another member")
	g.Expect(r.acquire("a", 1)).To(BeZero())
	g.Expect(r.acquire("a", 1)).To(BeZero(), "it has its slot")
	r.Release(8, r.now)
	r.Release(1, r.now)
	g.Expect(r.takeWoken()).To(Equal([]int{2, 3}))
	position, _ := r.Acquire("a", 5, created(5), r.now, r.now)
	g.Expect(position).To(Equal(slots.Position{Number: 3}))
}

// TestGroups: a group waits for no other, and a member that changes its group leaves the other one.
func TestGroups(t *testing.T) {
	g := NewWithT(t)
	r := newRack(1)
	g.Expect([]int{r.acquire("a", 1), r.acquire("b", 2)}).To(Equal([]int{0, 0}))
	g.Expect([]int{r.acquire("a", 3), r.acquire("b", 4)}).To(Equal([]int{1, 1}))
	g.Expect(r.acquire("c", 3)).To(BeZero())
	g.Expect(r.acquire("a", 3)).To(Equal(1))
	r.Hold("b", 1, r.now.Add(time.Hour), r.now)
	g.Expect(r.takeWoken()).To(Equal([]int{3}), "member 1 has its slot in group b now")
	r.Release(2, r.now)
	g.Expect(r.takeWoken()).To(BeEmpty(), "member 1 has the slot of group b")
	holding, queued := r.Members("b", r.now)
	g.Expect(holding).To(Equal([]int{1}))
	g.Expect(queued).To(Equal(1))
}

// TestFree: whatever happens to a member with a slot or at the front of the queue, the next one gets the slot.
func TestFree(t *testing.T) {
	for name, free := range map[string]func(*rack){
		"released":    func(r *rack) { r.Release(1, r.now) },
		"left":        func(r *rack) { r.Leave(1, r.now) },
		"expired":     func(r *rack) { r.now = r.now.Add(time.Hour) },
		"other group": func(r *rack) { r.acquire("b", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := newRack(1)
			r.acquire("a", 1)
			g.Expect(r.acquire("a", 2)).To(Equal(1))
			free(r)
			g.Expect(r.acquire("a", 2)).To(BeZero())
		})
	}
	for name, free := range map[string]func(*rack){
		"released":    func(r *rack) { r.Release(1, r.now) },
		"left":        func(r *rack) { r.Leave(1, r.now) },
		"not asking":  func(r *rack) { r.now = r.now.Add(queueTTL) },
		"other group": func(r *rack) { r.acquire("b", 1) },
	} {
		t.Run(name+" while queued", func(t *testing.T) {
			g := NewWithT(t)
			r := newRack(1)
			r.acquire("a", 0)
			g.Expect([]int{r.acquire("a", 1), r.acquire("a", 2)}).To(Equal([]int{1, 2}))
			free(r)
			g.Expect(r.acquire("a", 2)).To(Equal(1))
		})
	}
}

// TestHold: a member that does already what the slots are for counts beyond the limit, and only Release or the time takes its slot.
func TestHold(t *testing.T) {
	g := NewWithT(t)
	r := newRack(1)
	r.acquire("a", 1)
	r.Hold("a", 1, r.now.Add(time.Hour), r.now)
	r.Hold("a", 2, r.now.Add(2*time.Hour), r.now)
	r.Leave(1, r.now)
	g.Expect(r.acquire("a", 1)).To(BeZero())
	g.Expect(r.acquire("a", 3)).To(Equal(1))
	r.Release(1, r.now)
	g.Expect(r.takeWoken()).To(BeEmpty())
	g.Expect(r.acquire("a", 3)).To(Equal(1))
	r.Hold("a", 2, r.now.Add(time.Minute/2), r.now) // its end changes
	r.now = r.now.Add(time.Minute / 2)
	g.Expect(r.acquire("a", 3)).To(BeZero())
}

// TestTies: members that are queued since the same time are ordered by Compare, and a member whose time changes is queued again.
func TestTies(t *testing.T) {
	g := NewWithT(t)
	s := slots.New(slots.Options[int]{Limit: func(string) int { return 1 }, QueueTTL: time.Hour, Compare: func(a, b int) int { return a - b }})
	number := func(member int, since time.Time) int {
		position, _ := s.Acquire("a", member, since, noon.Add(time.Hour), noon)
		return position.Number
	}
	g.Expect([]int{number(9, noon), number(5, noon), number(3, noon), number(4, noon)}).To(Equal([]int{0, 1, 1, 2}))
	g.Expect(number(3, noon.Add(time.Second))).To(Equal(3))
	g.Expect(number(4, noon)).To(Equal(1))
}

// TestPositionTTL: a member gets the same position for a time, so that a status with it is not written for each member that leaves.
func TestPositionTTL(t *testing.T) {
	g := NewWithT(t)
	s := slots.New(slots.Options[int]{Limit: func(string) int { return 1 }, QueueTTL: time.Hour, PositionTTL: time.Minute})
	number := func(member int, at time.Time) int {
		position, _ := s.Acquire("a", member, created(member), at.Add(time.Hour), at)
		return position.Number
	}
	g.Expect([]int{number(0, noon), number(1, noon), number(2, noon)}).To(Equal([]int{0, 1, 2}))
	s.Leave(1, noon)
	g.Expect(number(2, noon.Add(time.Minute-1))).To(Equal(2))
	g.Expect(number(2, noon.Add(time.Minute))).To(Equal(1))
	s.Release(0, noon)
	g.Expect(number(2, noon)).To(Equal(0), "a free slot is given at once")
}

// TestNoLimit: limit 0 queues no member.
func TestNoLimit(t *testing.T) {
	g := NewWithT(t)
	r := newRack(0)
	for member := range 100 {
		g.Expect(r.acquire("a", member)).To(BeZero())
	}
	holding, queued := r.Members("a", r.now)
	g.Expect(holding).To(HaveLen(100))
	g.Expect(queued).To(BeZero())
}

// member is what the model of the property test knows of a member.
type member struct {
	queued  bool
	askedAt time.Time
	until   time.Time // of its slot
	woken   bool
}

// model compares a rack with the rules: it has who is queued, and who has a slot.
type model struct {
	*rack

	t       *rapid.T
	limit   int
	members map[int]*member
}

// state forgets the members whose time is over, and returns how many have a slot, and the queue.
func (m *model) state() (holding int, queue []int) {
	for n, member := range m.members {
		switch {
		case member.queued && !m.now.Before(member.askedAt.Add(queueTTL)), !member.queued && !m.now.Before(member.until):
			delete(m.members, n)
		case member.queued:
			queue = append(queue, n)
		default:
			holding++
		}
	}
	slices.Sort(queue)
	return holding, queue
}

// ask lets a member acquire a slot: it gets one if fewer members are queued before it than slots are free.
func (m *model) ask(n int) {
	holding, queue := m.state()
	before, _ := slices.BinarySearch(queue, n)
	has := m.members[n] != nil && !m.members[n].queued
	got := m.acquire("a", n)
	switch granted := has || before < m.limit-holding; {
	case granted != (got == 0):
		m.t.Fatalf("member %d gets %d with %d before it and %d of %d slots taken", n, got, before, holding, m.limit)
	case !granted && got != before+1:
		m.t.Fatalf("position %d of member %d, and %d are before it", got, n, before)
	case !granted:
		m.members[n] = &member{queued: true, askedAt: m.now}
	case !has:
		m.members[n] = &member{until: m.now.Add(time.Hour)}
	}
}

// check compares the slots and the queue with the model, and demands that each member that may have a slot was woken.
func (m *model) check() {
	for _, n := range m.takeWoken() {
		if member := m.members[n]; member != nil {
			member.woken = true
		}
	}
	holding, queue := m.state()
	if holding > m.limit {
		m.t.Fatalf("%d slots of %d are taken", holding, m.limit)
	}
	for _, n := range queue[:min(len(queue), m.limit-holding)] {
		if !m.members[n].woken {
			m.t.Fatalf("member %d may have a slot, and was not woken", n)
		}
	}
	if gotHolding, gotQueued := m.Members("a", m.now); len(gotHolding) != holding || gotQueued != len(queue) {
		m.t.Fatalf("%d members have slots and %d are queued, and not %d and %d", len(gotHolding), gotQueued, holding, len(queue))
	}
}

// TestPropertySlots: in any sequence of calls no group has more slots than its limit, a slot goes to a member before which fewer members are queued than slots are free,
// every member that may have a slot was woken or has it, and nothing is kept of a member that left.
func TestPropertySlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 3).Draw(t, "limit")
		m := &model{rack: newRack(limit), t: t, limit: limit, members: map[int]*member{}}
		for range rapid.IntRange(1, 100).Draw(t, "calls") {
			n := rapid.IntRange(0, 9).Draw(t, "member")
			switch rapid.SampledFrom([]string{"acquire", "acquire", "acquire", "release", "leave", "time"}).Draw(t, "call") {
			case "acquire":
				m.ask(n)
			case "release":
				m.Release(n, m.now)
				delete(m.members, n)
			case "leave":
				m.Leave(n, m.now)
				delete(m.members, n)
			case "time":
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 45).Draw(t, "minutes")) * time.Minute / 3)
				m.Members("a", m.now)
			}
			m.check()
		}
	})
}

// TestConcurrently: no two of many concurrent callers get the same slot, and each gets one in the end.
func TestConcurrently(t *testing.T) {
	const limit, all = 3, 40
	var (
		mu            sync.Mutex
		holding, most int
		wg            sync.WaitGroup
		woken         [all]chan struct{}
	)
	for i := range woken {
		woken[i] = make(chan struct{}, all)
	}
	s := slots.New(slots.Options[int]{Limit: func(string) int { return limit }, QueueTTL: time.Hour, Wake: func(m int) { woken[m] <- struct{}{} }})
	count := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		holding += by
		most = max(most, holding)
	}
	for i := range all {
		wg.Go(func() {
			for {
				if _, ok := s.Acquire("a", i, created(i), noon.Add(time.Hour), noon); ok {
					break
				}
				<-woken[i]
			}
			count(1)
			s.Hold("a", i, noon.Add(time.Hour), noon)
			count(-1)
			s.Release(i, noon)
		})
	}
	wg.Wait()
	NewWithT(t).Expect(most).To(BeNumerically("<=", limit))
	left, queued := s.Members("a", noon)
	NewWithT(t).Expect(left).To(BeEmpty())
	NewWithT(t).Expect(queued).To(BeZero())
}

// BenchmarkQueued is one call of each of 2,000 queued members beside 250 with a slot.
func BenchmarkQueued(b *testing.B) {
	s := slots.New(slots.Options[string]{Limit: func(string) int { return 250 }, QueueTTL: time.Minute})
	call := func(i int) {
		s.Acquire("a", strconv.Itoa(i), noon.Add(time.Duration(i)*time.Second), noon.Add(time.Hour), noon)
	}
	for i := range 2250 {
		call(i)
	}
	for b.Loop() {
		for i := 250; i < 2250; i++ {
			call(i)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/call")
}
