package dhcp6

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// maxRelays is how many relay agents may stand between a client and us: HOP_COUNT_LIMIT of RFC 8415, section 7.6.
const maxRelays = 8

// arrival is how a packet came in.
type arrival struct {
	// device is the index of the interface, 0 if it is not known.
	device int
	// source is who sent it: the client, or the last relay agent.
	source netip.AddrPort
}

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
// relay agent that sent it to us, else by the interface that it came in by.
func (s *Server) networkOf(x *exchange) (bootconfig.Network, bool) {
	for _, relay := range slices.Backward(x.relays) {
		// One that does not route, as in a switch, names no link (RFC 6221).
		if link := addrOf(relay.LinkAddr); link.IsValid() {
			if n, ok := s.only(func(n bootconfig.Network) bool { return n.Subnet.Contains(link) }); ok {
				return n, true
			}
			return s.only(func(n bootconfig.Network) bool { return slices.Contains(n.Relays, x.in.source.Addr().WithZone("")) })
		}
	}
	return s.only(func(n bootconfig.Network) bool { return x.in.device != 0 && s.heard[n.Name] == x.in.device })
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
