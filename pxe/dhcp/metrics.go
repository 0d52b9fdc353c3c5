package dhcp

import (
	"strings"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what becomes of DHCP requests. Their labels have few values: the networks of the configuration, the kinds of
// messages, and what may become of a request. Nobody on the wire can add one.
type Metrics struct {
	requests  *prometheus.CounterVec
	conflicts *prometheus.CounterVec
}

// NewMetrics makes counters, and registers them.
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

func (m *Metrics) request(network string, kind dhcpv4.MessageType, what result) {
	if m == nil {
		return
	}
	name := "other"
	if kind >= dhcpv4.MessageTypeDiscover && kind <= dhcpv4.MessageTypeInform {
		name = strings.ToLower(kind.String())
	}
	m.requests.WithLabelValues(network, name, string(what)).Inc()
}

// expect shows the conflicts of a network from the start, so that the first one counts as a rise.
func (m *Metrics) expect(network string) {
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
	// quiet is how long the same is not told again of a machine.
	quiet = 5 * time.Minute
	// mostTold bounds what is remembered to have been told: anybody can send with any MAC address.
	mostTold = 4096
)

// seldom lets each thing be told once in a while. When too many different things happen none is told: the metrics count them.
type seldom struct {
	mu sync.Mutex
	// told is since since, before is what was told in the time before that.
	told, before map[string]time.Time
	since        time.Time
}

func (s *seldom) allow(what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.since) >= quiet {
		s.told, s.before, s.since = map[string]time.Time{}, s.told, now
	}
	at, ok := s.told[what]
	if !ok {
		at, ok = s.before[what]
	}
	if ok && now.Sub(at) < quiet || len(s.told) >= mostTold {
		return false
	}
	s.told[what] = now
	return true
}
