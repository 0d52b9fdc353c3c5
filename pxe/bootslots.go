package pxe

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/slots"
)

const (
	// retryInterval is how long a queued server sleeps before it asks again. A free slot stays unused for about half of it, which is little compared with
	// the minute that a boot takes. 2,000 queued servers ask 400 times a second, which costs less than what one of them loads.
	retryInterval = 5 * time.Second
	// queueEntryTTL is how long a server stays queued that does not ask again: a request or two may be lost.
	queueEntryTTL = 3 * retryInterval
	// slotTTL is how long a server has its slot at most. By then it has loaded what it boots, some GiB over a link that maxBoots protects. A server that
	// hangs must not keep others queued until its attempt times out.
	slotTTL = 10 * time.Minute
	// checkInterval is how often the servers with a slot are checked for the end of their boot, while others are queued.
	checkInterval = time.Second
)

var (
	loadingDesc = prometheus.NewDesc("capbm_network_boots_under_way",
		"Servers that have a boot slot, from their boot script to their report, by network. maxBoots limits them.",
		[]string{"network"}, nil)
	queuedDesc = prometheus.NewDesc("capbm_network_boots_waiting", "Servers that wait for a boot slot, by network.", []string{"network"}, nil)
)

// BootSlots limit how many servers of a network load what they boot at once (maxBoots). The other servers are queued and ask again, which costs a small request each.
// A server that is served together with too many others runs into the timeouts of its boot loader.
//
// The slots are in memory only. After a restart of the boot server all slots are free: until the boots of before end, more than maxBoots servers may load.
type BootSlots struct {
	booter Booter
	clock  clock.PassiveClock
	slots  *slots.Slots[server]

	mu       sync.Mutex
	networks map[string]*bootNetwork
}

// server is a server in a network.
type server struct{ network, mac string }

// bootNetwork is what is known about a network, except its slots.
type bootNetwork struct {
	limit     int                 // 0 for any number
	checkedAt time.Time           // when the servers with a slot were checked last
	bound     map[string]struct{} // the MAC addresses with a slot whose attempt was observed to have its script
}

var _ prometheus.Collector = &BootSlots{}

// NewBootSlots returns the boot slots of networks. limits has, by the name of a network, how many of its servers may load at once; 0 for any number. Register the
// result to get its metrics.
func NewBootSlots(limits map[string]int, booter Booter) *BootSlots {
	return newBootSlots(limits, booter, clock.RealClock{})
}

func newBootSlots(limits map[string]int, booter Booter, c clock.PassiveClock) *BootSlots {
	s := &BootSlots{booter: booter, clock: c, networks: map[string]*bootNetwork{}}
	for network, limit := range limits {
		s.networks[network] = &bootNetwork{limit: limit, bound: map[string]struct{}{}}
	}
	s.slots = slots.New(slots.Options[server]{Limit: func(network string) int { return s.networks[network].limit }, QueueTTL: queueEntryTTL})
	return s
}

// queuePosition is where a server is in the queue of its network.
type queuePosition struct {
	slots.Position

	network string
}

// String returns a text for consoles, without characters that a boot loader interprets.
func (p queuePosition) String() string {
	return fmt.Sprintf("number %d in the boot queue of network %s, %d booting (maxBoots)", p.Number, p.network, p.Holding)
}

// acquire gives a server that may boot a slot, and returns true. If no slot is free for it, it returns its position in the queue. A server does not overtake those that
// came before it. Nil BootSlots, and a network that is not theirs, limit nothing.
func (s *BootSlots) acquire(ctx context.Context, network string, mac net.HardwareAddr) (queuePosition, bool) {
	if s == nil || s.networks[network] == nil {
		return queuePosition{}, true
	}
	now := s.clock.Now()
	try := func() (slots.Position, bool) {
		return s.slots.Acquire(network, server{network, string(mac)}, time.Time{}, now.Add(slotTTL), now)
	}
	position, ok := try()
	if !ok && s.checkDue(network, now) {
		s.check(ctx, network, now)
		position, ok = try()
	}
	return queuePosition{position, network}, ok
}

// release takes the slot of a server that got no script with it.
func (s *BootSlots) release(network string, mac net.HardwareAddr) {
	if s != nil {
		s.slots.Release(server{network, string(mac)}, s.clock.Now())
	}
}

func (s *BootSlots) checkDue(network string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.networks[network]
	if now.Sub(n.checkedAt) < checkInterval {
		return false
	}
	n.checkedAt = now
	return true
}

// check takes the slots of the servers of a network whose attempt is over. No event says so: another boot server, or a controller, may know it first.
func (s *BootSlots) check(ctx context.Context, network string, now time.Time) (loading, queued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	holding, queued := s.slots.Members(network, now)
	n := s.networks[network]
	bound := n.bound
	n.bound = map[string]struct{}{}
	for _, server := range holding {
		_, wasBound := bound[server.mac]
		over, isBound := s.isOver(ctx, net.HardwareAddr(server.mac), wasBound)
		if over {
			s.slots.Release(server, now)
			continue
		}
		loading++
		if isBound {
			n.bound[server.mac] = struct{}{}
		}
	}
	return loading, queued
}

// isOver is true if the attempt that a slot was given in is over: its server reported in, it failed, or another attempt began. wasBound and isBound are true once the
// attempt has its script.
func (s *BootSlots) isOver(ctx context.Context, mac net.HardwareAddr, wasBound bool) (over, isBound bool) {
	answer, err := s.booter.Lookup(ctx, mac)
	switch {
	case err != nil:
		return false, wasBound
	case answer.ScriptFor.IsValid():
		return false, true // until it reported in, also after its bootstrap data was given out
	default:
		// The answer may be older than the script: then the attempt is not over, and still boots from the network.
		return wasBound || answer.Boot != Network, false
	}
}

// Describe implements prometheus.Collector.
func (s *BootSlots) Describe(to chan<- *prometheus.Desc) {
	to <- loadingDesc
	to <- queuedDesc
}

// Collect implements prometheus.Collector. Networks without a limit are counted too: the number shows which limit would have an effect.
func (s *BootSlots) Collect(to chan<- prometheus.Metric) {
	for network := range s.networks {
		loading, queued := s.check(context.Background(), network, s.clock.Now())
		to <- prometheus.MustNewConstMetric(loadingDesc, prometheus.GaugeValue, float64(loading), network)
		to <- prometheus.MustNewConstMetric(queuedDesc, prometheus.GaugeValue, float64(queued), network)
	}
}
