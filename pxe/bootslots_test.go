package pxe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

// rack is the servers of a network, each with what is known of it.
type rack struct {
	Booter // nothing but Lookup is asked

	mu      sync.Mutex
	answers map[string]Answer
	err     error
}

func (r *rack) Lookup(_ context.Context, mac net.HardwareAddr) (Answer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answers[mac.String()], r.err
}

func (r *rack) is(number int, a Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[macNumber(number).String()] = a
}

func macNumber(n int) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, byte(n >> 8), byte(n)} }

var (
	boots    = Answer{Known: true, Boot: Network}
	loads    = Answer{Known: true, Boot: Network, ScriptFor: netip.MustParseAddr("192.0.2.7")}
	seeded   = Answer{Known: true, ScriptFor: netip.MustParseAddr("192.0.2.7")}
	reported = Answer{Known: true, Boot: Disk}
)

// newRack returns the turns of a network with so many servers, all of which boot.
func newRack(most, servers int) (*rack, *BootSlots, *clocktesting.FakePassiveClock) {
	r, c := &rack{answers: map[string]Answer{}}, clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	for n := range servers {
		r.is(n, boots)
	}
	return r, newBootSlots(map[string]int{"rack-1": most, "other": most}, r, c), c
}

// place asks for a server. It returns 0 for a slot, or the position in the queue.
func (t *BootSlots) place(number int) int {
	s, turn := t.acquire(context.Background(), "rack-1", macNumber(number))
	if turn {
		return 0
	}
	return s.Number
}

// loading returns the MAC addresses of the servers of rack-1 that have a slot.
func (t *BootSlots) loading() (macs []string) {
	holding, _ := t.slots.Members("rack-1", t.clock.Now())
	for _, s := range holding {
		macs = append(macs, s.mac)
	}
	return macs
}

func later(c *clocktesting.FakePassiveClock, d time.Duration) { c.SetTime(c.Now().Add(d)) }

// wait lets time go by in which the servers 1 and 2 keep asking.
func (t *BootSlots) wait(c *clocktesting.FakePassiveClock, d time.Duration) {
	for ; d > retryInterval; d -= retryInterval {
		later(c, retryInterval)
		t.place(1)
		t.place(2)
	}
	later(c, d)
}

// TestTurns: a slot is kept until the attempt is over that it was given in, and the first who came has the next.
func TestTurns(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(*rack, *BootSlots, *clocktesting.FakePassiveClock)
		freed   bool // the slot of server 0
	}{
		"nothing":            {func(*rack, *BootSlots, *clocktesting.FakePassiveClock) {}, false},
		"it loads":           {func(r *rack, _ *BootSlots, _ *clocktesting.FakePassiveClock) { r.is(0, loads) }, false},
		"it has its seed":    {func(r *rack, _ *BootSlots, _ *clocktesting.FakePassiveClock) { r.is(0, seeded) }, false},
		"it reported in":     {func(r *rack, _ *BootSlots, _ *clocktesting.FakePassiveClock) { r.is(0, reported) }, true},
		"its attempt failed": {func(r *rack, _ *BootSlots, _ *clocktesting.FakePassiveClock) { r.is(0, Answer{Known: true}) }, true},
		"it is gone":         {func(r *rack, _ *BootSlots, _ *clocktesting.FakePassiveClock) { r.is(0, Answer{}) }, true},
		"nobody knows": {func(r *rack, _ *BootSlots, _ *clocktesting.FakePassiveClock) {
			r.is(0, Answer{})
			r.err = errors.New("down")
		}, false},
		"its time is up":            {func(_ *rack, t *BootSlots, c *clocktesting.FakePassiveClock) { t.wait(c, slotTTL-checkInterval) }, true},
		"its time is not up":        {func(_ *rack, t *BootSlots, c *clocktesting.FakePassiveClock) { t.wait(c, slotTTL-2*checkInterval) }, false},
		"it got no script":          {func(_ *rack, t *BootSlots, _ *clocktesting.FakePassiveClock) { t.release("rack-1", macNumber(0)) }, true},
		"another network's is free": {func(_ *rack, t *BootSlots, _ *clocktesting.FakePassiveClock) { t.release("other", macNumber(0)) }, false},
		"its next attempt begins": {func(r *rack, t *BootSlots, c *clocktesting.FakePassiveClock) {
			r.is(0, loads)
			t.place(1)
			later(c, time.Second)
			t.place(1)
			r.is(0, boots)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, turns, c := newRack(1, 3)
			g.Expect(turns.place(0)).To(BeZero())
			g.Expect(turns.place(1)).To(Equal(1))
			g.Expect(turns.place(2)).To(Equal(2))
			g.Expect(turns.place(0)).To(BeZero(), "it has its slot")
			test.happens(r, turns, c)
			later(c, checkInterval)
			if !test.freed {
				g.Expect(turns.place(1)).To(Equal(1))
				return
			}
			g.Expect(turns.place(2)).To(Equal(2), "it does not overtake")
			g.Expect(turns.place(1)).To(BeZero())
		})
	}
}

// TestSilent: who does not ask again loses its place, and comes back at the end of the line.
func TestSilent(t *testing.T) {
	g := NewWithT(t)
	_, turns, c := newRack(1, 4)
	for n := range 4 {
		g.Expect(turns.place(n)).To(Equal(n))
	}
	later(c, queueEntryTTL-time.Second)
	g.Expect(turns.place(2)).To(Equal(2), "the one before it may ask still")
	g.Expect(turns.place(3)).To(Equal(3))
	later(c, time.Second)
	g.Expect(turns.place(3)).To(Equal(2), "not any more")
	g.Expect(turns.place(2)).To(Equal(1))
	g.Expect(turns.place(1)).To(Equal(3))
}

// TestNoLimit: without a limit no server waits, and loading servers are still counted.
func TestNoLimit(t *testing.T) {
	g := NewWithT(t)
	r, turns, _ := newRack(0, 100)
	for n := range 100 {
		g.Expect(turns.place(n)).To(BeZero())
	}
	r.is(7, reported)
	turns.networks["other"].limit = 1
	turns.acquire(t.Context(), "other", macNumber(1))
	turns.acquire(t.Context(), "other", macNumber(2))
	g.Expect(testutil.CollectAndCompare(turns, strings.NewReader(`
# HELP capbm_network_boots_under_way Servers that have a boot slot, from their boot script to their report, by network. maxBoots limits them.
# TYPE capbm_network_boots_under_way gauge
capbm_network_boots_under_way{network="other"} 1
capbm_network_boots_under_way{network="rack-1"} 99
# HELP capbm_network_boots_waiting Servers that wait for a boot slot, by network.
# TYPE capbm_network_boots_waiting gauge
capbm_network_boots_waiting{network="other"} 1
capbm_network_boots_waiting{network="rack-1"} 0
`))).To(Succeed())
	_, turn := (*BootSlots)(nil).acquire(t.Context(), "rack-1", macNumber(1))
	g.Expect(turn).To(BeTrue())
	(*BootSlots)(nil).release("rack-1", macNumber(1))
	_, turn = turns.acquire(t.Context(), "no network of ours", macNumber(1))
	g.Expect(turn).To(BeTrue())
	turns.release("no network of ours", macNumber(1))
}

// guarded is a rack whose servers have one address each. A client with another address is denied.
type guarded struct {
	*rack

	denial error
}

func addressNumber(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}) }

func (b *guarded) judge(mac net.HardwareAddr, from netip.Addr) error {
	if from != addressNumber(int(mac[5])) {
		return b.denial
	}
	return nil
}

func (b *guarded) Admit(_ context.Context, mac net.HardwareAddr, from netip.Addr) error {
	return b.judge(mac, from)
}

func (b *guarded) Script(_ context.Context, mac net.HardwareAddr, from netip.Addr) (Script, error) {
	return Script{Template: "#!ipxe\nboot"}, b.judge(mac, from)
}

func (b *guarded) ObserveStage(net.HardwareAddr, Stage, netip.Addr, string) {}

func (b *guarded) ObserveWaiting(net.HardwareAddr, netip.Addr, int) {}

// get returns the status and the script that a client is given for a server.
func (b *guarded) get(turns *BootSlots, number int, from netip.Addr) (int, string) {
	h := &Handler{
		Booter: b, BootSlots: turns, Log: logr.Discard(), Network: func(netip.Addr, netip.Addr) string { return "rack-1" },
		BaseURL: func(netip.Addr) string { return "http://192.0.2.250" },
	}
	answer := ask(h.Mux(), http.MethodGet, ScriptPath(macNumber(number)), netip.AddrPortFrom(from, 1234).String(), nil)
	return answer.Code, answer.Body.String()
}

// TestStrangerInQueue: a client that is refused, or too early, moves no server in the queue and frees no slot, however often it asks with the MAC address of
// one. It gets the same answer as without a queue.
func TestStrangerInQueue(t *testing.T) {
	stranger := netip.MustParseAddr("198.51.100.66")
	for name, denial := range map[string]error{"refused": ErrRefused, "too early": ErrNotYet} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, turns, c := newRack(1, 3)
			b := &guarded{rack: r, denial: denial}
			status, want := b.get(nil, 1, stranger)
			g.Expect(status).To(Equal(map[error]int{ErrRefused: http.StatusForbidden, ErrNotYet: http.StatusOK}[denial]))
			asks := func(number int, expected string) {
				t.Helper()
				_, script := b.get(turns, number, addressNumber(number))
				g.Expect(script).To(ContainSubstring(expected))
			}
			const given, first, second = "#!ipxe\nboot", "number 1 in the boot queue", "number 2 in the boot queue"
			var answers []string
			strangerPolls := func() {
				for range 3 {
					_, script := b.get(turns, 1, stranger)
					answers = append(answers, script)
				}
			}
			asks(0, given)
			asks(1, first)
			asks(2, second)
			strangerPolls()
			r.is(0, reported)
			later(c, checkInterval)
			strangerPolls() // at the front of the queue, with a free slot
			asks(2, second)
			asks(1, given)
			strangerPolls() // while the server has the slot
			later(c, checkInterval)
			asks(2, first)
			g.Expect(answers).To(And(HaveLen(9), HaveEach(want)))
		})
	}
}

// TestPropertyBootSlots: in any order of requests, pauses and reports of servers, no more servers than the limit have a slot, no server overtakes one that keeps
// asking, and nothing is kept of a server that neither boots nor asks.
func TestPropertyBootSlots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const servers = 8
		most := rapid.IntRange(1, 4).Draw(t, "most")
		r, turns, c := newRack(most, servers)
		came, asked := map[int]int{}, map[int]time.Time{} // of those that wait: their order, and when they asked last
		for step := range rapid.IntRange(1, 200).Draw(t, "steps") {
			n := rapid.IntRange(0, servers-1).Draw(t, "server")
			switch rapid.SampledFrom([]string{"asks", "asks", "asks", "time", "loads", "reports in", "boots"}).Draw(t, "what") {
			case "time":
				later(c, time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds"))*time.Second)
			case "loads":
				r.is(n, loads)
			case "reports in":
				r.is(n, reported)
			case "boots":
				r.is(n, boots)
			case "asks":
				now := c.Now()
				for other, at := range asked {
					if now.Sub(at) >= queueEntryTTL {
						delete(asked, other)
					}
				}
				if _, waits := asked[n]; !waits {
					came[n] = step
				}
				had := slices.Contains(turns.loading(), string(macNumber(n)))
				before := 0
				for other := range asked {
					if other != n && came[other] < came[n] {
						before++
					}
				}
				place := turns.place(n)
				free := most - len(turns.loading())
				switch {
				case free < 0:
					t.Fatalf("%d of %d slots are taken", most-free, most)
				case place > 0 && place != before+1:
					t.Fatalf("its place is %d, and %d wait before it", place, before)
				case place == 0 && !had && free < before:
					t.Fatalf("it overtook: %d that came before it wait for %d slots", before, free)
				}
				if asked[n] = now; place == 0 {
					delete(asked, n)
				}
			}
		}
		later(c, queueEntryTTL+slotTTL)
		turns.place(0)
		if holding, queued := turns.slots.Members("rack-1", c.Now()); queued != 0 || len(holding) != 1 {
			t.Fatalf("it keeps %d queued servers and %d with a slot", queued, len(holding))
		}
	})
}

// TestManyAsk: of many that ask at once no more than the limit get a slot, and in the end all.
func TestManyAsk(t *testing.T) {
	g := NewWithT(t)
	const servers, most = 200, 7
	r, turns, c := newRack(most, servers)
	var (
		mu              sync.Mutex
		served, loading []int
	)
	for round := 0; len(served) < servers; round++ {
		g.Expect(round).To(BeNumerically("<", 10*servers))
		var all sync.WaitGroup
		for n := range servers {
			all.Go(func() {
				mu.Lock()
				done := slices.Contains(served, n)
				mu.Unlock()
				if done || turns.place(n) > 0 {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				served, loading = append(served, n), append(loading, n)
			})
		}
		all.Wait()
		g.Expect(len(loading)).To(BeNumerically("<=", most), fmt.Sprint(loading))
		for _, n := range loading {
			r.is(n, reported)
		}
		loading = nil
		later(c, checkInterval)
	}
}
