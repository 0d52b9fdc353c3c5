package dhcp

import (
	"net"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// limitedBroadcast is where clients without an address send to (RFC 2131, section 4.1). Routers do not forward it (RFC 1812, section 5.3.5.1), but some forward
// packets to the broadcast address of a subnet.
var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// arrival is how a request arrived.
type arrival struct {
	Arrival

	// proxy is true at the proxy port, 4011.
	proxy bool
}

// fromLink is true for a request that no router forwarded, whatever its source address is. Routers do not forward packets from 0.0.0.0 either
// (RFC 1812, section 5.3.7).
func (in arrival) fromLink() bool {
	return in.Target == limitedBroadcast || in.Source.Addr().IsUnspecified()
}

// addrOf returns an IPv4 address of a packet, an invalid one if there is none.
func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip.To4())
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// relayOf returns the relay agent's address, an invalid one if the client sent the request directly.
func relayOf(request *dhcpv4.DHCPv4) netip.Addr { return addrOf(request.GatewayIPAddr) }

// relayOption returns a sub-option of the relay agent's option 82 (RFC 3046).
func relayOption(request *dhcpv4.DHCPv4, code dhcpv4.OptionCode) ([]byte, bool) {
	data := request.Options.Get(dhcpv4.OptionRelayAgentInformation)
	sub := dhcpv4.Options{}
	if data == nil || sub.FromBytes(data) != nil || !sub.Has(code) {
		return nil, false
	}
	return sub.Get(code), true
}

// selectedLink returns the network that a request selects, if that is not the network it came from: the relay agent's link selection (RFC 3527), otherwise the
// client's subnet selection (RFC 3011).
func selectedLink(request *dhcpv4.DHCPv4) netip.Addr {
	if relayOf(request).IsValid() {
		if link, ok := relayOption(request, dhcpv4.LinkSelectionSubOption); ok {
			return addrOf(link)
		}
	}
	return addrOf(request.Options.Get(dhcpv4.OptionSubnetSelection))
}

// networkOf returns the network of a request. It returns an error if there is none, or if the source is not plausible: any machine that reaches this server
// over IP can send any request, with any MAC address, from its own IP address.
func (s *Server) networkOf(request *dhcpv4.DHCPv4, in arrival) (bootconfig.Network, error) {
	n, ok := s.claimedNetwork(request, in)
	if !ok {
		return bootconfig.Network{}, NoReply(ResultNoNetwork, "in none of the networks")
	}
	if relay := relayOf(request); relay.IsValid() {
		return n, s.checkRelaySource(n, relay, in)
	}
	return n, s.checkClientSource(n, in)
}

// claimedNetwork returns the network that the content of a request claims: by its relay agent, by the client's address, otherwise by the interface that it
// arrived at.
func (s *Server) claimedNetwork(request *dhcpv4.DHCPv4, in arrival) (bootconfig.Network, bool) {
	relay, link := relayOf(request), selectedLink(request)
	if relay.IsValid() {
		return s.relayedNetwork(relay, link)
	}
	if client := addrOf(request.ClientIPAddr); client.IsValid() {
		// A client that renews its lease sends unicast to this server, and may be behind a router. A broadcast is of the link that it arrived at.
		n, ok := s.onlyMatch(func(n bootconfig.Network) bool { return n.Subnet.Contains(client) })
		if ok && (s.receivesAt(in.Device)(n) || n.BehindRouter() && !in.fromLink()) {
			return n, true
		}
	}
	n, ok := s.onlyMatch(s.receivesAt(in.Device))
	if ok && link.IsValid() && !n.Subnet.Contains(link) {
		return bootconfig.Network{}, false
	}
	return n, ok
}

// relayedNetwork returns the network of a relay agent. The agent must have an address in it, or be in its configuration.
func (s *Server) relayedNetwork(relay, link netip.Addr) (bootconfig.Network, bool) {
	if link.IsValid() {
		return s.onlyMatch(func(n bootconfig.Network) bool { return n.Subnet.Contains(link) && forwardsFor(n, relay) })
	}
	if n, ok := s.onlyMatch(func(n bootconfig.Network) bool { return n.Subnet.Contains(relay) }); ok {
		return n, true
	}
	if n, ok := s.onlyMatch(func(n bootconfig.Network) bool { return forwardsFor(n, relay) }); ok {
		return n, true
	}
	n, ok := s.onlyMatch(anyNetwork)
	return n, ok && !n.Subnet.IsValid() && len(n.Relays) == 0 // a single network without subnet and relays
}

// forwardsFor is true if a relay agent may forward requests of the network.
func forwardsFor(n bootconfig.Network, relay netip.Addr) bool {
	return n.Subnet.Contains(relay) || slices.Contains(n.Relays, relay)
}

// checkRelaySource returns nil for a request that a relay agent of the network sent. The giaddr in the request proves nothing: the agent must have sent the request
// from that address, or from an address of the configuration. Many relay agents send from their address on the path to this server.
func (s *Server) checkRelaySource(n bootconfig.Network, relay netip.Addr, in arrival) error {
	source := in.Source.Addr()
	switch {
	case slices.Contains(n.Relays, source):
		return nil
	case len(n.Relays) > 0 || source != relay:
		return NoReply(ResultUntrusted, "the relay agent "+relay.String()+" sent it from "+source.String()+", which is not one of the network's relays")
	case n.Subnet.Contains(relay) || s.devices.Get(in.Device).Neighbors(relay):
		return nil
	default:
		return NoReply(ResultUntrusted, "the relay agent "+relay.String()+" is on no link of this machine, and the network has neither subnet nor relays")
	}
}

// checkClientSource returns nil for a request that came from the network: from its link, or from an address in it. A client with an address sends from that
// address (RFC 2131, section 4.1).
func (s *Server) checkClientSource(n bootconfig.Network, in arrival) error {
	source := in.Source.Addr()
	switch {
	case in.fromLink() || n.Subnet.Contains(source):
		return nil
	case !n.BehindRouter() && s.devices.Get(in.Device).Neighbors(source):
		return nil
	default:
		return NoReply(ResultUntrusted, "sent by unicast from "+source.String()+", which is not in the network")
	}
}

// receivesAt returns whether broadcasts of a network arrive at an interface. A single network without an interface in its configuration has the broadcasts of all
// interfaces.
func (s *Server) receivesAt(device int) func(bootconfig.Network) bool {
	if n, ok := s.onlyMatch(anyNetwork); ok && n.Interface == "" {
		return anyNetwork
	}
	d := s.devices.Get(device)
	return func(n bootconfig.Network) bool { return d.Name != "" && n.OnLink(d.Name, d.Addresses()) }
}

func anyNetwork(bootconfig.Network) bool { return true }

// onlyMatch returns the one IPv4 network that matches. If several match, it returns none.
func (s *Server) onlyMatch(matches func(bootconfig.Network) bool) (found bootconfig.Network, ok bool) {
	for _, n := range s.Networks {
		if !n.Address.Is4() || !matches(n) {
			continue
		}
		if ok {
			return bootconfig.Network{}, false
		}
		found, ok = n, true
	}
	return found, ok
}
