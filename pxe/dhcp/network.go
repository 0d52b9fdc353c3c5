package dhcp

import (
	"net"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// limitedBroadcast is where clients without an address send to (RFC 2131, section 4.1). Routers do not forward it (RFC 1812, section 5.3.5.1),
// while some forward what is sent to the broadcast address of a subnet.
var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// arrival is how a request came in.
type arrival struct {
	Arrival

	// proxy is true at the port of proxies, 4011.
	proxy bool
}

// fromLink is true for a request that no router forwarded, whatever address its sender has. Routers do not forward packets from 0.0.0.0 either
// (RFC 1812, section 5.3.7).
func (in arrival) fromLink() bool {
	return in.Target == limitedBroadcast || in.Source.Addr().IsUnspecified()
}

// addrOf returns an IPv4 address of a packet, an invalid one for none.
func addrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip.To4())
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// relayOf returns the relay agent's address, an invalid one if the client sent the request itself.
func relayOf(request *dhcpv4.DHCPv4) netip.Addr { return addrOf(request.GatewayIPAddr) }

// relayOption returns what a relay agent says in a sub-option of option 82 (RFC 3046).
func relayOption(request *dhcpv4.DHCPv4, code dhcpv4.OptionCode) ([]byte, bool) {
	data := request.Options.Get(dhcpv4.OptionRelayAgentInformation)
	sub := dhcpv4.Options{}
	if data == nil || sub.FromBytes(data) != nil || !sub.Has(code) {
		return nil, false
	}
	return sub.Get(code), true
}

// wantedLink returns the network that a request is for where that is not the network that it was sent from: by what the relay says
// (link selection, RFC 3527), else by what the client says (subnet selection, RFC 3011).
func wantedLink(request *dhcpv4.DHCPv4) netip.Addr {
	if relayOf(request).IsValid() {
		if link, ok := relayOption(request, dhcpv4.LinkSelectionSubOption); ok {
			return addrOf(link)
		}
	}
	return addrOf(request.Options.Get(dhcpv4.OptionSubnetSelection))
}

// networkOf returns the network that a request is of. An error says that it is of none, or that its sender is not believed: anybody who reaches this
// server over IP can send any request, with any MAC address, from its own IP address.
func (s *Server) networkOf(request *dhcpv4.DHCPv4, in arrival) (bootconfig.Network, error) {
	n, ok := s.claimedNetwork(request, in)
	if !ok {
		return bootconfig.Network{}, silent(noNetwork, "of none of the networks")
	}
	if relay := relayOf(request); relay.IsValid() {
		return n, s.believeRelay(n, relay, in)
	}
	return n, s.believeClient(n, in)
}

// claimedNetwork returns the network that a request says it is of: by the relay agent that forwarded it, by the address that the client has, else by
// the interface that it came in by.
func (s *Server) claimedNetwork(request *dhcpv4.DHCPv4, in arrival) (bootconfig.Network, bool) {
	relay, link := relayOf(request), wantedLink(request)
	if relay.IsValid() {
		return s.relayedNetwork(relay, link)
	}
	if client := addrOf(request.ClientIPAddr); client.IsValid() {
		// A client that renews its lease sends to us alone, and may be in a network behind a router. A broadcast is of the link that it is heard at.
		n, ok := s.only(func(n bootconfig.Network) bool { return n.Subnet.Contains(client) })
		if ok && (s.heardAt(in.Device)(n) || n.BehindRouter() && !in.fromLink()) {
			return n, true
		}
	}
	n, ok := s.only(s.heardAt(in.Device))
	if ok && link.IsValid() && !n.Subnet.Contains(link) {
		return bootconfig.Network{}, false
	}
	return n, ok
}

// relayedNetwork returns the network of a relay agent: it must have an address there, or be named by the configuration.
func (s *Server) relayedNetwork(relay, link netip.Addr) (bootconfig.Network, bool) {
	if link.IsValid() {
		return s.only(func(n bootconfig.Network) bool { return n.Subnet.Contains(link) && forwardsFor(n, relay) })
	}
	if n, ok := s.only(func(n bootconfig.Network) bool { return n.Subnet.Contains(relay) }); ok {
		return n, true
	}
	if n, ok := s.only(func(n bootconfig.Network) bool { return forwardsFor(n, relay) }); ok {
		return n, true
	}
	n, ok := s.only(anyNetwork)
	return n, ok && !n.Subnet.IsValid() && len(n.Relays) == 0 // a single network of which nothing is known
}

// forwardsFor is true where a relay agent may forward requests of the network.
func forwardsFor(n bootconfig.Network, relay netip.Addr) bool {
	return n.Subnet.Contains(relay) || slices.Contains(n.Relays, relay)
}

// believeRelay returns nil for a request that a relay agent of the network sent. The giaddr that it wrote proves nothing: it must have sent the
// request from there, or from an address that the configuration names. Many relays send from the address that they have on the way to this server.
func (s *Server) believeRelay(n bootconfig.Network, relay netip.Addr, in arrival) error {
	source := in.Source.Addr()
	switch {
	case slices.Contains(n.Relays, source):
		return nil
	case len(n.Relays) > 0 || source != relay:
		return silent(untrusted, "the relay agent "+relay.String()+" sent it from "+source.String()+", which is none of the network's relays")
	case n.Subnet.Contains(relay) || s.devices.Get(in.Device).Neighbors(relay):
		return nil
	default:
		return silent(untrusted, "the relay agent "+relay.String()+" is on no link of this machine, and the network has neither subnet nor relays")
	}
}

// believeClient returns nil for a request that came from the network: from its link, or from an address that only its members have. A client that has an
// address sends from there (RFC 2131, section 4.1).
func (s *Server) believeClient(n bootconfig.Network, in arrival) error {
	source := in.Source.Addr()
	switch {
	case in.fromLink() || n.Subnet.Contains(source):
		return nil
	case !n.BehindRouter() && s.devices.Get(in.Device).Neighbors(source):
		return nil
	default:
		return silent(untrusted, "sent by unicast from "+source.String()+", which is not in the network")
	}
}

// heardAt returns which networks' broadcasts come in by an interface. A single network has all that come in by any, unless it names its interface.
func (s *Server) heardAt(device int) func(bootconfig.Network) bool {
	if n, ok := s.only(anyNetwork); ok && n.Interface == "" {
		return anyNetwork
	}
	d := s.devices.Get(device)
	return func(n bootconfig.Network) bool { return d.Name != "" && n.OnLink(d.Name, d.Addresses()) }
}

func anyNetwork(bootconfig.Network) bool { return true }

// only returns the one IPv4 network that matches. Of several none is right.
func (s *Server) only(matches func(bootconfig.Network) bool) (found bootconfig.Network, ok bool) {
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
