package dhcp

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// arrival is how a request came in.
type arrival struct {
	// device is the index of the interface, 0 if it is not known.
	device int
	// proxy is true at the port of proxies, 4011.
	proxy bool
	// source is who sent it: the client, or a relay agent.
	source netip.AddrPort
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

// networkOf returns the network that a request is of: by the relay agent that forwarded it, by the address that the client has, else by
// the interface that it came in by. A relay agent is believed where it has an address in the network, or where the
// configuration names it.
func (s *Server) networkOf(request *dhcpv4.DHCPv4, in arrival) (bootconfig.Network, bool) {
	relay, link := relayOf(request), wantedLink(request)
	if relay.IsValid() {
		return s.relayedNetwork(relay, link)
	}
	if client := addrOf(request.ClientIPAddr); client.IsValid() {
		// A client that renews its lease sends to us alone, and is in a network behind a router maybe.
		if n, ok := s.only(func(n bootconfig.Network) bool { return n.Subnet.Contains(client) }); ok {
			return n, true
		}
	}
	n, ok := s.networkAt(in.device)
	if ok && link.IsValid() && !n.Subnet.Contains(link) {
		return bootconfig.Network{}, false
	}
	return n, ok
}

func (s *Server) relayedNetwork(relay, link netip.Addr) (bootconfig.Network, bool) {
	if link.IsValid() {
		return s.only(func(n bootconfig.Network) bool { return n.Subnet.Contains(link) && believes(n, relay) })
	}
	if n, ok := s.only(func(n bootconfig.Network) bool { return n.Subnet.Contains(relay) }); ok {
		return n, true
	}
	if n, ok := s.only(func(n bootconfig.Network) bool { return believes(n, relay) }); ok {
		return n, true
	}
	n, ok := s.only(func(bootconfig.Network) bool { return true })
	return n, ok && !n.Subnet.IsValid() && len(n.Relays) == 0 // a single network of which nothing is known
}

// believes is true where a relay agent may forward requests of the network.
func believes(n bootconfig.Network, relay netip.Addr) bool {
	return n.Subnet.Contains(relay) || slices.Contains(n.Relays, relay)
}

// networkAt returns the network whose broadcasts come in by an interface. A single network has all that come in by any, unless it
// names its interface.
func (s *Server) networkAt(device int) (bootconfig.Network, bool) {
	if n, ok := s.only(func(bootconfig.Network) bool { return true }); ok && n.Interface == "" {
		return n, true
	}
	name, addresses := s.devices.get(device)
	return s.only(func(n bootconfig.Network) bool { return name != "" && n.OnLink(name, addresses) })
}

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

// deviceLife is how long what is known of an interface is believed.
const deviceLife = 10 * time.Second

// devices knows interfaces by their index. Interfaces come and go, and asking the kernel for each packet is dear.
type devices struct {
	// look asks the kernel.
	look func(index int) (name string, addresses []netip.Addr)

	mu    sync.Mutex
	known map[int]device
}

type device struct {
	name      string
	addresses []netip.Addr
	until     time.Time
}

func (d *devices) get(index int) (string, []netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.known[index]
	if !ok || time.Now().After(known.until) {
		look := d.look
		if look == nil {
			look = kernelDevice
		}
		known = device{until: time.Now().Add(deviceLife)}
		known.name, known.addresses = look(index)
		if d.known == nil {
			d.known = map[int]device{}
		}
		d.known[index] = known
	}
	return known.name, known.addresses
}

// kernelDevice returns the name of an interface and its IPv4 addresses, nothing if it is gone.
func kernelDevice(index int) (string, []netip.Addr) {
	found, err := net.InterfaceByIndex(index)
	if err != nil {
		return "", nil
	}
	prefixes, err := found.Addrs()
	if err != nil {
		return found.Name, nil
	}
	var addresses []netip.Addr
	for _, p := range prefixes {
		if prefix, ok := p.(*net.IPNet); ok {
			if a := addrOf(prefix.IP); a.IsValid() {
				addresses = append(addresses, a)
			}
		}
	}
	return found.Name, addresses
}
