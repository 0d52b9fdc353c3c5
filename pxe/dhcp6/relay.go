package dhcp6

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// maxRelays is how many relay agents may be between a client and this server: HOP_COUNT_LIMIT of RFC 8415, section 7.6.
const maxRelays = 8

// unwrap returns the client's message and the relay agents that forwarded it, the last one first.
func unwrap(packet dhcpv6.DHCPv6) (*dhcpv6.Message, []*dhcpv6.RelayMessage, error) {
	var relays []*dhcpv6.RelayMessage
	for {
		switch p := packet.(type) {
		case *dhcpv6.Message:
			return p, relays, nil
		case *dhcpv6.RelayMessage:
			if p.MessageType != dhcpv6.MessageTypeRelayForward || len(relays) == maxRelays {
				return nil, nil, dhcp.NoReply(dhcp.ResultUnsuitable, "forwarded back, or too often")
			}
			relays = append(relays, p)
			packet = p.Options.RelayMessage()
		default:
			return nil, nil, dhcp.NoReply(dhcp.ResultMalformed, "a relay forwards nothing")
		}
	}
}

// wrap wraps the answer for the relay agents (RFC 8415, section 19.3). Each gets back its addresses, its interface ID, and the port that it asked from
// (RFC 8357).
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

// networkOf returns the network of a request: by the link address of the relay agent nearest to the client, otherwise by the relay agent that sent the request,
// otherwise by the interface that it arrived at. It returns an error if there is none, or if the source is not plausible: any machine that reaches this server
// over IP can send any request, with any MAC address, from its own IP address.
func (s *Server) networkOf(x *exchange) (bootconfig.Network, error) {
	source, link := x.in.Source.Addr().WithZone(""), x.link()
	if !link.IsValid() {
		n, ok := s.onlyMatch(func(n bootconfig.Network) bool { return x.in.Device != 0 && s.deviceOfNetwork[n.Name] == x.in.Device })
		if !ok {
			return n, dhcp.NoReply(dhcp.ResultNoNetwork, "in none of the networks")
		}
		return n, s.checkClientSource(n, source, x.in)
	}
	n, ok := s.onlyMatch(func(n bootconfig.Network) bool { return n.Subnet.Contains(link) })
	if !ok {
		n, ok = s.onlyMatch(func(n bootconfig.Network) bool { return slices.Contains(n.Relays, source) })
	}
	if !ok {
		return n, dhcp.NoReply(dhcp.ResultNoNetwork, "in none of the networks")
	}
	return n, x.checkRelaySource(n, source)
}

// link returns the link address of the relay agent nearest to the client that has one, or an invalid address. A relay agent that does not route, such as a
// switch, sets none (RFC 6221).
func (x *exchange) link() netip.Addr {
	for _, relay := range slices.Backward(x.relays) {
		if link := addrOf(relay.LinkAddr); link.IsValid() {
			return link
		}
	}
	return netip.Addr{}
}

// checkRelaySource returns nil for a request that a relay agent of the network sent. The link address in the request proves nothing: the agent must have sent the
// request from an address of the configuration, or, if the configuration has no address of that link, from its address on that link.
func (x *exchange) checkRelaySource(n bootconfig.Network, source netip.Addr) error {
	wrote := func(relay *dhcpv6.RelayMessage) bool { return addrOf(relay.LinkAddr) == source }
	if slices.Contains(n.Relays, source) || len(n.Relays) == 0 && n.Subnet.Contains(source) && slices.ContainsFunc(x.relays, wrote) {
		return nil
	}
	return dhcp.NoReply(dhcp.ResultUntrusted, "a relay agent sent it from "+source.String()+", which is not one of the network's relays")
}

// checkClientSource returns nil for a request that came from a local link. No router forwards packets from a link-local address or to a link-local multicast
// group. A client that sends from another address, as EDK2 does at port 4011, has an address of the network.
func (s *Server) checkClientSource(n bootconfig.Network, source netip.Addr, in dhcp.Arrival) error {
	if source.IsLinkLocalUnicast() || in.Target.IsLinkLocalMulticast() || n.Subnet.Contains(source) || s.devices.Get(in.Device).Neighbors(source) {
		return nil
	}
	return dhcp.NoReply(dhcp.ResultUntrusted, "sent from "+source.String()+", which is not on the link of the network")
}

// onlyMatch returns the one network that matches. If several match, it returns none.
func (s *Server) onlyMatch(matches func(bootconfig.Network) bool) (found bootconfig.Network, ok bool) {
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
