package bootconfig

import (
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// alone checks a network by itself.
func (r *reader) alone(n Network, path *field.Path) {
	if n.Mode == Authoritative && !n.Subnet.IsValid() {
		r.required(path.Child("subnet"), "give the network of the addresses, like 192.0.2.0/24, which the mode authoritative needs")
	}
	r.families(n, path)
	if n.Router.IsValid() && n.Subnet.IsValid() && !n.Router.IsLinkLocalUnicast() && !n.Subnet.Contains(n.Router) {
		r.invalid(path.Child("router"), n.Router.String(), "give an address of subnet "+n.Subnet.String())
	}
	for i := range n.Ranges {
		r.rangeOf(n, i, path.Child("ranges"))
	}
}

// rangeOf checks one of the ranges of a network.
func (r *reader) rangeOf(n Network, i int, path *field.Path) {
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
			r.invalid(at, text, fmt.Sprintf("leave out what %s has", path.Index(j)))
		}
	}
}

// families checks that all addresses of a network are IPv4, or all IPv6.
func (r *reader) families(n Network, path *field.Path) {
	if !n.Address.IsValid() {
		return // that is said already
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

// reservation is an address that no server may have, and what it is.
type reservation struct {
	address netip.Addr
	what    string
}

func (n Network) reserved() []reservation {
	out := []reservation{{n.Address, "address of the boot server"}}
	if n.Router.IsValid() {
		out = append(out, reservation{n.Router, "router"})
	}
	if n.Subnet.IsValid() && n.Subnet.Addr().Is4() && n.Subnet.Bits() < 31 {
		out = append(out, reservation{n.Subnet.Addr(), "network's own address"}, reservation{lastOf(n.Subnet), "broadcast address"})
	}
	return out
}

// lastOf is the last address of an IPv4 network.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(bytes)
}

// Usable is true for an address that a server of the network may have.
func (n Network) Usable(a netip.Addr) bool {
	return n.Subnet.Contains(a) && !slices.ContainsFunc(n.reserved(), func(r reservation) bool { return r.address == a })
}

// Contains is true for an address of a range.
func Contains(rng pxe.Range, a netip.Addr) bool { return !a.Less(rng.First) && !rng.Last.Less(a) }

// offBeside checks that the clients of a network in which another DHCP server gives addresses can be told from those of the other networks.
func (r *reader) offBeside(n Network, networks []Network, at *field.Path) {
	ours := func(other Network) bool { return other.Mode != Off }
	if n.Mode == Off && !n.Subnet.IsValid() && slices.ContainsFunc(networks, ours) {
		r.required(at.Child("subnet"), "give the network of its servers, like 192.0.2.0/24: without it any client counts as one of a network in which another DHCP server "+
			"gives addresses, also where mode is authoritative or proxy")
	}
}

// together checks what holds between networks.
func (r *reader) together(networks []Network, path *field.Path) {
	for i, n := range networks {
		at := path.Index(i)
		r.offBeside(n, networks, at)
		for j, other := range networks[:i] {
			if n.Name == other.Name {
				r.problems = append(r.problems, field.Duplicate(at.Child("name"), n.Name))
			}
			if n.Subnet.IsValid() && other.Subnet.IsValid() && n.Subnet.Overlaps(other.Subnet) {
				r.invalid(at.Child("subnet"), n.Subnet.String(), fmt.Sprintf("give a network that does not overlap with %s of %s", other.Subnet, path.Index(j)))
			}
			if indistinct(n, other) {
				r.invalid(at, n.Name, fmt.Sprintf("nothing tells it from %s: give interface, or subnets one of which holds address", path.Index(j)))
			}
		}
		for j, other := range networks {
			if slices.ContainsFunc(n.Ranges, func(rng pxe.Range) bool { return i != j && Contains(rng, other.Address) }) {
				r.invalid(at.Child("ranges"), other.Address.String(), fmt.Sprintf("leave out the address of %s", path.Index(j)))
			}
		}
	}
}

// indistinct is true when a broadcast could be of either network.
func indistinct(a, b Network) bool {
	if a.Mode == Off || b.Mode == Off || a.Address.BitLen() != b.Address.BitLen() {
		return false
	}
	if a.Interface != "" || b.Interface != "" {
		return a.Interface == b.Interface
	}
	return a.Address == b.Address && a.heardAtAddress() && b.heardAtAddress()
}

// BehindRouter is true for a network that no interface of the boot server is in: a relay forwards its broadcasts, and its servers have addresses of Subnet.
func (n Network) BehindRouter() bool { return n.Interface == "" && !n.heardAtAddress() }

// heardAtAddress is true when broadcasts on the link that the boot server's address is on may come from this network. They do not
// where the address is of another network: then a relay forwards from this one.
func (n Network) heardAtAddress() bool {
	return !n.Subnet.IsValid() || n.Subnet.Contains(n.Address)
}

// OnLink is true when a broadcast that came in by an interface with these addresses is one of this network.
func (n Network) OnLink(name string, addresses []netip.Addr) bool {
	if n.Interface != "" {
		return n.Interface == name
	}
	return n.heardAtAddress() && slices.Contains(addresses, n.Address)
}
