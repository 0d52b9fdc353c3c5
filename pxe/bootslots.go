package pxe

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

const (
	// retryInterval is how long a server that waits sleeps before it asks again. A slot that became free stays so for about half of it: little beside
	// the minute that a boot takes. And 2,000 servers that wait ask 400 times a second, which costs less than what one of them loads.
	retryInterval = 5 * time.Second
	// queueEntryTTL is how long a server keeps its place in line without asking again: a request or two may be lost on the way.
	queueEntryTTL = 3 * retryInterval
	// slotTTL is how long a server has its slot at most. What it boots, some GiB over a link that maxBoots keeps from being crowded, is loaded
	// by then, and one that hangs says nothing: it must not keep others waiting until its attempt times out.
	slotTTL = 10 * time.Minute
	// checkInterval is how often it is looked whether those that have the slots still boot, while somebody waits for one.
	checkInterval = time.Second
)

var (
	loadingDesc = prometheus.NewDesc("capbm_network_boots_under_way",
		"Servers that have a boot slot, from their boot script to their report, by network. maxBoots limits them.",
		[]string{"network"}, nil)
	queuedDesc = prometheus.NewDesc("capbm_network_boots_waiting", "Servers that wait for a boot slot, by network.", []string{"network"}, nil)
)

// BootSlots lets so many servers of each network load what they boot at once. The others stand in line and ask again and again: that costs a small
// request each, while a server that is served beside too many others runs into the time-outs of its boot loader, which know no queue.
//
// It is memory only, one entry for each server of the inventory that boots, in each network that it asks from. After a restart of the boot
// server all slots are free, so that more than maxBoots may load until those are through that had one; and the line forms anew as servers ask.
type BootSlots struct {
	booter Booter
	clock  clock.PassiveClock

	mu    sync.Mutex
	queues map[string]*networkQueue // by network
}

// networkQueue is who loads and who waits in a network.
type networkQueue struct {
	limit    int // may load at once; 0 for any number
	loading map[string]*bootSlot
	waiting []*queuedServer // in the order in which they came
	checkedAt  time.Time // when it was last looked whether those that load still boot
}

// bootSlot is what a server has that loads.
type bootSlot struct {
	mac   net.HardwareAddr
	until time.Time // at the latest
	bound bool      // the attempt that it was given in was seen to have its script
}

// queuedServer is a server that stands in line.
type queuedServer struct {
	mac   net.HardwareAddr
	asked time.Time
}

var _ prometheus.Collector = &BootSlots{}

// NewBootSlots returns turns for networks, by their names, with how many servers may load at once in each; 0 for any number. Register it to see how
// many load and wait.
func NewBootSlots(most map[string]int, booter Booter) *BootSlots {
	return newBootSlots(most, booter, clock.RealClock{})
}

func newBootSlots(most map[string]int, booter Booter, c clock.PassiveClock) *BootSlots {
	t := &BootSlots{booter: booter, clock: c, queues: map[string]*networkQueue{}}
	for network, n := range most {
		t.queues[network] = &networkQueue{limit: n, loading: map[string]*bootSlot{}}
	}
	return t
}

// queuePosition is where a server stands in line.
type queuePosition struct {
	network         string
	number, loading int
}

// String reads the same on a console and in a status: it has nothing that a boot loader would take for more than text.
func (s queuePosition) String() string {
	return fmt.Sprintf("number %d of those that wait in network %s, %d boot (maxBoots)", s.number, s.network, s.loading)
}

// acquire gives a server that may boot a slot, if it has none yet, and returns true; or where it stands in line. Slots that are free are for the first in
// line, also while those sleep: who comes later does not overtake them. Nil turns, and a network that is not theirs, let everybody on.
func (t *BootSlots) acquire(ctx context.Context, network string, mac net.HardwareAddr) (queuePosition, bool) {
	if t == nil || t.queues[network] == nil {
		return queuePosition{}, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	l, now := t.queues[network], t.clock.Now()
	l.expire(now)
	if l.loading[string(mac)] != nil {
		return queuePosition{}, true
	}
	at := slices.IndexFunc(l.waiting, func(w *queuedServer) bool { return bytes.Equal(w.mac, mac) })
	if at < 0 {
		at, l.waiting = len(l.waiting), append(l.waiting, &queuedServer{mac: mac})
	}
	l.waiting[at].asked = now
	if !l.free(at) && now.Sub(l.checkedAt) >= checkInterval {
		t.check(ctx, l, now)
	}
	if !l.free(at) {
		return queuePosition{network, at + 1, len(l.loading)}, false
	}
	l.waiting = slices.Delete(l.waiting, at, at+1)
	l.loading[string(mac)] = &bootSlot{mac: mac, until: now.Add(slotTTL)}
	return queuePosition{}, true
}

// release takes the slot back of a server that got no script with it.
func (t *BootSlots) release(network string, mac net.HardwareAddr) {
	if t == nil || t.queues[network] == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.queues[network].loading, string(mac))
}

// free is true when there is a slot for the one at a place in line, beside those for all before it.
func (l *networkQueue) free(at int) bool { return l.limit == 0 || at < l.limit-len(l.loading) }

// expire ends what the time ends.
func (l *networkQueue) expire(now time.Time) {
	l.waiting = slices.DeleteFunc(l.waiting, func(w *queuedServer) bool { return now.Sub(w.asked) > queueEntryTTL })
	maps.DeleteFunc(l.loading, func(_ string, s *bootSlot) bool { return !now.Before(s.until) })
}

// check takes the slots back of those that do not boot any more. Nobody tells of that: it is another boot server, or a controller, that may know first.
func (t *BootSlots) check(ctx context.Context, l *networkQueue, now time.Time) {
	l.checkedAt = now
	maps.DeleteFunc(l.loading, func(_ string, s *bootSlot) bool { return t.over(ctx, s) })
}

// over is true when the attempt that a slot was given in is over: its server reported in, it failed, or another one began.
func (t *BootSlots) over(ctx context.Context, s *bootSlot) bool {
	answer, err := t.booter.Lookup(ctx, s.mac)
	switch {
	case err != nil:
		return false
	case answer.ScriptFor.IsValid():
		s.bound = true // until it reported in, also after its seed
		return false
	default:
		// What is known may be older than the script: then its attempt is not over, and boots the network still.
		return s.bound || answer.Boot != Network
	}
}

// Describe implements prometheus.Collector.
func (t *BootSlots) Describe(to chan<- *prometheus.Desc) {
	to <- loadingDesc
	to <- queuedDesc
}

// Collect implements prometheus.Collector. Networks without a limit are counted as well: it tells what limit would be felt.
func (t *BootSlots) Collect(to chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	for network, l := range t.queues {
		l.expire(now)
		t.check(context.Background(), l, now)
		to <- prometheus.MustNewConstMetric(loadingDesc, prometheus.GaugeValue, float64(len(l.loading)), network)
		to <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(len(l.waiting)), network)
	}
}
