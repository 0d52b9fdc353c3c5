package bootconfig

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// checkNetwork checks one network.
func (r *reader) checkNetwork(n Network, path *field.Path) {
	if n.Mode == Authoritative && !n.Subnet.IsValid() {
		r.required(path.Child("subnet"), "give the network of the addresses, like 192.0.2.0/24, which the mode authoritative needs")
	}
	r.checkFamilies(n, path)
	if n.Router.IsValid() && n.Subnet.IsValid() && !n.Router.IsLinkLocalUnicast() && !n.Subnet.Contains(n.Router) {
		r.invalid(path.Child("router"), n.Router.String(), "give an address of subnet "+n.Subnet.String())
	}
	for i := range n.Ranges {
		r.checkRange(n, i, path.Child("ranges"))
	}
}

// checkRange checks one of the ranges of a network.
func (r *reader) checkRange(n Network, i int, path *field.Path) {
	rng, at := n.Ranges[i], path.Index(i)
	text := rng.First.String() + "-" + rng.Last.String()
	if n.Subnet.IsValid() && (!n.Subnet.Contains(rng.First) || !n.Subnet.Contains(rng.Last)) {
		r.invalid(at, text, "give addresses of subnet "+n.Subnet.String())
		return
	}
	for _, reserved := range n.reserved() {
		if Contains(rng, reserved.address) {
			r.invalid(at, text, "leave out "+reserved.address.String()+", which is the "+reserved.what)
		}
	}
	for j, other := range n.Ranges[:i] {
		if Contains(rng, other.First) || Contains(other, rng.First) {
			r.invalid(at, text, fmt.Sprintf("leave out the addresses that %s has too", path.Index(j)))
		}
	}
}

// checkFamilies checks that all addresses of a network are IPv4, or all IPv6.
func (r *reader) checkFamilies(n Network, path *field.Path) {
	if !n.Address.IsValid() {
		return // reported already
	}
	of := func(name string, i int, a netip.Addr) {
		if !a.IsValid() || a.BitLen() == n.Address.BitLen() {
			return
		}
		at := path.Child(name)
		if i >= 0 {
			at = at.Index(i)
		}
		r.invalid(at, a.String(), "give an address of the same IP version as address "+n.Address.String()+"; a network of the other version is a network of its own")
	}
	of("subnet", -1, n.Subnet.Addr())
	of("router", -1, n.Router)
	for name, list := range map[string][]netip.Addr{"dns": n.DNS, "ntp": n.NTP, "relays": n.Relays} {
		for i, a := range list {
			of(name, i, a)
		}
	}
	for i, rng := range n.Ranges {
		of("ranges", i, rng.First)
	}
}

// reservedAddress is an address that no server may have, with its use.
type reservedAddress struct {
	address netip.Addr
	what    string
}

func (n Network) reserved() []reservedAddress {
	out := []reservedAddress{{n.Address, "address of the boot server"}}
	if n.Router.IsValid() {
		out = append(out, reservedAddress{n.Router, "router"})
	}
	if n.Subnet.IsValid() && n.Subnet.Addr().Is4() && n.Subnet.Bits() < 31 {
		out = append(out, reservedAddress{n.Subnet.Addr(), "network's own address"}, reservedAddress{broadcastOf(n.Subnet), "broadcast address"})
	}
	return out
}

// broadcastOf returns the last address of an IPv4 network.
func broadcastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(bytes)
}

// Usable is true for an address that a server of the network may have.
func (n Network) Usable(a netip.Addr) bool {
	return n.Subnet.Contains(a) && !slices.ContainsFunc(n.reserved(), func(r reservedAddress) bool { return r.address == a })
}

// Contains is true for an address of a range.
func Contains(rng pxe.Range, a netip.Addr) bool { return !a.Less(rng.First) && !rng.Last.Less(a) }

// checkOffSubnet checks that clients of a network in which another DHCP server gives addresses can be distinguished from those of the other networks.
func (r *reader) checkOffSubnet(n Network, networks []Network, at *field.Path) {
	served := func(other Network) bool { return other.Mode != Off }
	if n.Mode == Off && !n.Subnet.IsValid() && slices.ContainsFunc(networks, served) {
		r.required(at.Child("subnet"), "give the network of its servers, like 192.0.2.0/24: without it any client counts as one of a network in which another DHCP server "+
			"gives addresses, also where mode is authoritative or proxy")
	}
}

// checkTogether checks the networks against each other.
func (r *reader) checkTogether(networks []Network, path *field.Path) {
	for i, n := range networks {
		at := path.Index(i)
		r.checkOffSubnet(n, networks, at)
		for j, other := range networks[:i] {
			if n.Name == other.Name {
				r.problems = append(r.problems, field.Duplicate(at.Child("name"), n.Name))
			}
			if n.Subnet.IsValid() && other.Subnet.IsValid() && n.Subnet.Overlaps(other.Subnet) {
				r.invalid(at.Child("subnet"), n.Subnet.String(), fmt.Sprintf("give a network that does not overlap with %s of %s", other.Subnet, path.Index(j)))
			}
			if ambiguous(n, other) {
				r.invalid(at, n.Name, fmt.Sprintf("it cannot be distinguished from %s: give interface, or subnets one of which contains address", path.Index(j)))
			}
		}
		for j, other := range networks {
			if slices.ContainsFunc(n.Ranges, func(rng pxe.Range) bool { return i != j && Contains(rng, other.Address) }) {
				r.invalid(at.Child("ranges"), other.Address.String(), fmt.Sprintf("leave out the address of %s", path.Index(j)))
			}
		}
	}
}

// ambiguous is true if a broadcast could be of either network.
func ambiguous(a, b Network) bool {
	if a.Mode == Off || b.Mode == Off || a.Address.BitLen() != b.Address.BitLen() {
		return false
	}
	if a.Interface != "" || b.Interface != "" {
		return a.Interface == b.Interface
	}
	return a.Address == b.Address && a.receivedAtAddress() && b.receivedAtAddress()
}

// BehindRouter is true for a network that is on no interface of the boot server. A relay agent forwards its broadcasts, and its servers have addresses of Subnet.
func (n Network) BehindRouter() bool { return n.Interface == "" && !n.receivedAtAddress() }

// receivedAtAddress is true if broadcasts on the link of Address may be of this network. If Address is in another subnet, a relay agent forwards the broadcasts
// of this network.
func (n Network) receivedAtAddress() bool {
	return !n.Subnet.IsValid() || n.Subnet.Contains(n.Address)
}

// OnLink is true if a broadcast that arrived at an interface with this name and these addresses is of this network.
func (n Network) OnLink(name string, addresses []netip.Addr) bool {
	if n.Interface != "" {
		return n.Interface == name
	}
	return n.receivedAtAddress() && slices.Contains(addresses, n.Address)
}
