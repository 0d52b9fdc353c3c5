package dhcp6

import (
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// Metrics counts DHCPv6 requests by their result. The labels have few values: the networks of the configuration, the kinds of messages, and the results.
// Clients cannot add values.
type Metrics struct{ requests *prometheus.CounterVec }

// NewMetrics creates and registers the counters.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capbm_dhcp6_requests_total",
		Help: "DHCPv6 messages, by network, kind and result: answered, unknown (not a server of the inventory), nothing (no boot file), " +
			"no-network, untrusted (not from the network or one of its relays), elsewhere (for another DHCPv6 server), unsuitable, malformed, overloaded, failed, panicked.",
	}, []string{"network", "kind", "result"})}
	return m, registerer.Register(m.requests)
}

func (m *Metrics) request(network string, kind dhcpv6.MessageType, what dhcp.Result) {
	if m == nil {
		return
	}
	name := "other"
	if kind >= dhcpv6.MessageTypeSolicit && kind <= dhcpv6.MessageTypeInformationRequest {
		name = strings.ToLower(kind.String())
	}
	m.requests.WithLabelValues(network, name, string(what)).Inc()
}
