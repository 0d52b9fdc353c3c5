package dhcp

import (
	"strings"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts DHCP requests by their result. The labels have few values: the networks of the configuration, the kinds of messages, and the results. Clients
// cannot add values.
type Metrics struct {
	requests  *prometheus.CounterVec
	conflicts *prometheus.CounterVec
}

// NewMetrics creates and registers the counters.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capbm_dhcp_requests_total",
			Help: "DHCPv4 messages, by network, kind and result: answered, refused (NAK), unknown (not a server of the inventory), " +
				"nothing (no boot file), no-network, untrusted (not from the network or one of its relays), elsewhere (for another DHCP server), noted (RELEASE, DECLINE), unsuitable, malformed, overloaded, failed, panicked.",
		}, []string{"network", "kind", "result"}),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capbm_dhcp_address_conflicts_total",
			Help: "Address conflicts: addresses that another client of the network already uses, by network.",
		}, []string{"network"}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.conflicts} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) request(network string, kind dhcpv4.MessageType, what Result) {
	if m == nil {
		return
	}
	name := "other"
	if kind >= dhcpv4.MessageTypeDiscover && kind <= dhcpv4.MessageTypeInform {
		name = strings.ToLower(kind.String())
	}
	m.requests.WithLabelValues(network, name, string(what)).Inc()
}

// initConflicts creates the conflict counter of a network with 0, so that the first conflict counts as an increase.
func (m *Metrics) initConflicts(network string) {
	if m != nil {
		m.conflicts.WithLabelValues(network)
	}
}

func (m *Metrics) conflict(network string) {
	if m != nil {
		m.conflicts.WithLabelValues(network).Inc()
	}
}

const (
	// repeatInterval is how long a repeated message about the same machine is suppressed.
	repeatInterval = 5 * time.Minute
	// maxRepeatKeys bounds the keys in memory: anyone can send with any MAC address.
	maxRepeatKeys = 4096
)

// repeatLimiter limits repeated log messages: allow is true for a key at most once per interval. With too many keys it is false for new ones; the metrics count them.
type repeatLimiter struct {
	mu sync.Mutex
	// current has the keys since the time since, previous those of the interval before.
	current, previous map[string]time.Time
	since             time.Time
}

func (s *repeatLimiter) allow(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.since) >= repeatInterval {
		s.current, s.previous, s.since = map[string]time.Time{}, s.current, now
	}
	at, ok := s.current[what]
	if !ok {
		at, ok = s.previous[what]
	}
	if ok && now.Sub(at) < repeatInterval || len(s.current) >= maxRepeatKeys {
		return false
	}
	s.current[what] = now
	return true
}
