package dhcp6

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// maxRelays is how many relay agents may stand between a client and us: HOP_COUNT_LIMIT of RFC 8415, section 7.6.
const maxRelays = 8

// unwrap returns the client's message and the relay agents that it came through, the last one first.
func unwrap(packet dhcpv6.DHCPv6) (*dhcpv6.Message, []*dhcpv6.RelayMessage, error) {
	var relays []*dhcpv6.RelayMessage
	for {
		switch p := packet.(type) {
		case *dhcpv6.Message:
			return p, relays, nil
		case *dhcpv6.RelayMessage:
			if p.MessageType != dhcpv6.MessageTypeRelayForward || len(relays) == maxRelays {
				return nil, nil, silent(unsuitable, "forwarded back, or too often")
			}
			relays = append(relays, p)
			packet = p.Options.RelayMessage()
		default:
			return nil, nil, silent(malformed, "a relay forwards nothing")
		}
	}
}

// wrap returns the answer as the relay agents want it (RFC 8415, section 19.3): each gets its addresses back, what it knows its
// interface by, and the port that it asked from (RFC 8357).
func wrap(reply *dhcpv6.Message, relays []*dhcpv6.RelayMessage) (dhcpv6.DHCPv6, error) {
	var out dhcpv6.DHCPv6 = reply
	for _, relay := range slices.Backward(relays) {
		wrapped, err := dhcpv6.EncapsulateRelay(out, dhcpv6.MessageTypeRelayReply, relay.LinkAddr, relay.PeerAddr)
		if err != nil {
			return nil, fmt.Errorf("wrap the answer for a relay: %w", err)
		}
		wrapped.HopCount = relay.HopCount
		for _, code := range []dhcpv6.OptionCode{dhcpv6.OptionInterfaceID, dhcpv6.OptionRelayPort} {
			if option := relay.GetOneOption(code); option != nil {
				wrapped.AddOption(option)
			}
		}
		out = wrapped
	}
	return out, nil
}

// networkOf returns the network that a request is of: by the link that the relay agent nearest to the client names, else by the
// relay agent that sent it to us, else by the interface that it came in by. An error says that it is of none, or that its sender is not believed: anybody
// who reaches this server over IP can send any request, with any MAC address, from its own IP address.
func (s *Server) networkOf(x *exchange) (bootconfig.Network, error) {
	source, link := x.in.Source.Addr().WithZone(""), x.link()
	if !link.IsValid() {
		n, ok := s.only(func(n bootconfig.Network) bool { return x.in.Device != 0 && s.heard[n.Name] == x.in.Device })
		if !ok {
			return n, silent(noNetwork, "of none of the networks")
		}
		return n, s.believeClient(n, source, x.in)
	}
	n, ok := s.only(func(n bootconfig.Network) bool { return n.Subnet.Contains(link) })
	if !ok {
		n, ok = s.only(func(n bootconfig.Network) bool { return slices.Contains(n.Relays, source) })
	}
	if !ok {
		return n, silent(noNetwork, "of none of the networks")
	}
	return n, x.believeRelay(n, source)
}

// link returns the link that the relay agent nearest to the client names, an invalid address where none does. One that does not route, as in a switch,
// names none (RFC 6221).
func (x *exchange) link() netip.Addr {
	for _, relay := range slices.Backward(x.relays) {
		if link := addrOf(relay.LinkAddr); link.IsValid() {
			return link
		}
	}
	return netip.Addr{}
}

// believeRelay returns nil for a request that a relay agent of the network sent. The link that it wrote proves nothing: it must have sent the request from an
// address that the configuration names, or, where it names none, from its address on that link.
func (x *exchange) believeRelay(n bootconfig.Network, source netip.Addr) error {
	wrote := func(relay *dhcpv6.RelayMessage) bool { return addrOf(relay.LinkAddr) == source }
	if slices.Contains(n.Relays, source) || len(n.Relays) == 0 && n.Subnet.Contains(source) && slices.ContainsFunc(x.relays, wrote) {
		return nil
	}
	return silent(untrusted, "a relay agent sent it from "+source.String()+", which is none of the network's relays")
}

// believeClient returns nil for a request that came from a link of ours: no router forwards what comes from a link-local address, or goes to all of a
// link. A client that sends from another address (as EDK2 does at port 4011) has one of the network.
func (s *Server) believeClient(n bootconfig.Network, source netip.Addr, in dhcp.Arrival) error {
	if source.IsLinkLocalUnicast() || in.Target.IsLinkLocalMulticast() || n.Subnet.Contains(source) || s.devices.Get(in.Device).Neighbors(source) {
		return nil
	}
	return silent(untrusted, "sent from "+source.String()+", which is not on the link of the network")
}

// only returns the one network that matches. Of several none is right.
func (s *Server) only(matches func(bootconfig.Network) bool) (found bootconfig.Network, ok bool) {
	for _, n := range s.Networks {
		if !matches(n) {
			continue
		}
		if ok {
			return bootconfig.Network{}, false
		}
		found, ok = n, true
	}
	return found, ok
}
