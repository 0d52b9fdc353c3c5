package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// validNetwork has a bond of two interfaces with a VLAN on it, and a third interface.
func validNetwork() *v1alpha1.HostNetwork {
	return &v1alpha1.HostNetwork{
		Interfaces: []v1alpha1.NetworkInterface{
			{Name: "lan0", MACAddress: "52:54:00:00:00:01"},
			{Name: "lan1", MACAddress: "52:54:00:00:00:02"},
			{Name: "eno3", LinkSettings: v1alpha1.LinkSettings{MTU: 9000, DHCP6: true}},
		},
		Bonds: []v1alpha1.NetworkBond{{
			Name: "bond0", Interfaces: []v1alpha1.LinkName{"lan0", "lan1"},
			Parameters: v1alpha1.BondParameters{Mode: "802.3ad", LACPRate: "fast", TransmitHashPolicy: "layer3+4"},
		}},
		VLANs: []v1alpha1.NetworkVLAN{{Name: "bond0.100", ID: 100, Link: "bond0", LinkSettings: v1alpha1.LinkSettings{
			Addresses: []v1alpha1.IPPrefix{"192.0.2.10/24", "2001:db8::10/64"},
			Routes: []v1alpha1.NetworkRoute{
				{To: "default", Via: "192.0.2.1"}, {To: "default", Via: "fe80::1", Metric: 100}, {To: "198.51.100.0/24", Via: "192.0.2.254"},
			},
			Nameservers: &v1alpha1.Nameservers{Addresses: []v1alpha1.IPAddress{"192.0.2.53", "2001:db8::53"}, Search: []v1alpha1.DomainName{"example.com"}},
		}}},
	}
}

func hostWithNetwork() *v1alpha1.BareMetalHost {
	h := validHost()
	h.Spec.Network = validNetwork()
	return h
}

func TestNetworkRefused(t *testing.T) {
	type host = *v1alpha1.BareMetalHost
	type network = *v1alpha1.HostNetwork
	const (
		of    = "spec.network"
		nic   = of + ".interfaces[0]"
		bond  = of + ".bonds[0]"
		vlan  = of + ".vlans[0]"
		route = vlan + ".routes[0]"
	)
	on := func(change func(network)) func(host) { return func(h host) { change(h.Spec.Network) } }
	named := func(name v1alpha1.LinkName) func(host) { return on(func(n network) { n.Interfaces[0].Name = name }) }
	mac := func(m string) func(host) { return on(func(n network) { n.Interfaces[0].MACAddress = m }) }
	address := func(a v1alpha1.IPPrefix) func(host) { return on(func(n network) { n.VLANs[0].Addresses[0] = a }) }
	goes := func(to string, via v1alpha1.IPAddress) func(host) {
		return on(func(n network) { n.VLANs[0].Routes[0] = v1alpha1.NetworkRoute{To: to, Via: via} })
	}
	bonded := func(change func(*v1alpha1.NetworkBond)) func(host) {
		return on(func(n network) { change(&n.Bonds[0]) })
	}
	tagged := func(change func(*v1alpha1.NetworkVLAN)) func(host) {
		return on(func(n network) { change(&n.VLANs[0]) })
	}
	dns := func(a v1alpha1.IPAddress) func(host) {
		return on(func(n network) { n.VLANs[0].Nameservers.Addresses[0] = a })
	}
	search := func(d v1alpha1.DomainName) func(host) {
		return on(func(n network) { n.VLANs[0].Nameservers.Search[0] = d })
	}
	refuse(t, hostWithNetwork, []refused[host]{
		{"no interface", on(func(n network) { n.Interfaces = nil }), of + ".interfaces", "Required value"},
		{"no address at all", on(func(n network) { n.VLANs, n.Interfaces[2].DHCP6 = nil, false }), of, "set addresses, dhcp4 or dhcp6"},
		{"name empty", named(""), nic + ".name", "Required value"},
		{"name too long", named("enp0s31f6np0v100"), nic + ".name", "Too long"},
		{"name with a slash", named("eth/0"), nic + ".name", "must be the name of a network interface"},
		{"name with a newline", named("eth0\n"), nic + ".name", "must be the name of a network interface"},
		{"name of the loopback", named("lo"), nic + ".name", "must be the name of a network interface"},
		{"name twice", named("lan1"), of + ".interfaces[1]", "Duplicate value"},
		{"name of a bond", on(func(n network) { n.Interfaces[2].Name = "bond0" }), of, "a bond and an interface have the same name"},
		{"name of a VLAN", on(func(n network) { n.Interfaces[2].Name = "bond0.100" }), of, "a VLAN has the name of an interface or a bond"},
		{"VLAN with a bond's name", tagged(func(v *v1alpha1.NetworkVLAN) { v.Name = "bond0" }), of, "a VLAN has the name of an interface or a bond"},
		{"MAC in upper case", mac("52:54:00:AB:00:01"), nic + ".macAddress", "in lower case with colons"},
		{"MAC of a group", mac("01:00:5e:00:00:01"), nic + ".macAddress", "must be the MAC address of one network interface"},
		{"MAC twice", mac("52:54:00:00:00:02"), of, "two interfaces have the same macAddress"},
		{"MTU too small", on(func(n network) { n.Interfaces[0].MTU = 576 }), nic + ".mtu", "greater than or equal to 1280"},
		{"MTU too large", on(func(n network) { n.Interfaces[0].MTU = 9217 }), nic + ".mtu", "less than or equal to 9216"},
		{"MTU of a VLAN above a bond's", tagged(func(v *v1alpha1.NetworkVLAN) { v.MTU = 9000 }), of, "a VLAN's mtu is larger than its link's"},
		{"MTU of a VLAN above an interface's", on(func(n network) { n.VLANs[0].Link, n.VLANs[0].MTU = "eno3", 9001 }), of, "a VLAN's mtu is larger than its link's"},

		{"address without a length", address("192.0.2.10"), vlan + ".addresses[0]", "must be an IP address with a prefix length"},
		{"address with a length too long", address("192.0.2.10/33"), vlan + ".addresses[0]", "must be an IP address with a prefix length"},
		{"address that is a word", address("static/24"), vlan + ".addresses[0]", "must be an IP address with a prefix length"},
		{"address of a group", address("224.0.0.1/24"), vlan + ".addresses[0]", "must be the address of a host"},
		{"address of the loopback", address("127.0.0.1/8"), vlan + ".addresses[0]", "must be the address of a host"},
		{"address of nobody", address("::/64"), vlan + ".addresses[0]", "must be the address of a host"},
		{"address twice", address("2001:db8::10/64"), vlan + ".addresses[1]", "Duplicate value"},

		{"route to a host's bits", goes("198.51.100.1/24", "192.0.2.1"), route + ".to", "no host bits"},
		{"route to nowhere", goes("", "192.0.2.1"), route + ".to", "Required value"},
		{"route without a gateway", goes("default", ""), route + ".via", "Required value"},
		{"route via a name", goes("default", "gateway"), route + ".via", "must be an IP address"},
		{"route of two families", goes("2001:db8:1::/48", "192.0.2.1"), route, "have different address families"},
		{"route via another network", goes("default", "192.0.3.1"), vlan, "a route's via is in none of the networks"},
		{"route of IPv6 via another network", goes("default", "2001:db8:1::1"), vlan, "a route's via is in none of the networks"},
		{"route without an address", on(func(n network) { n.Interfaces[2].Routes = []v1alpha1.NetworkRoute{{To: "default", Via: "192.0.2.1"}} }), of + ".interfaces[2]", "a route's via is in none"},
		{"route of a bond without an address", bonded(func(b *v1alpha1.NetworkBond) { b.Routes = []v1alpha1.NetworkRoute{{To: "default", Via: "192.0.2.1"}} }), bond, "a route's via is in none"},
		{"metric negative", on(func(n network) { n.VLANs[0].Routes[0].Metric = -1 }), route + ".metric", "greater than or equal to 1"},
		{"name server is a name", dns("ns.example.com"), vlan + ".nameservers.addresses[0]", "must be an IP address"},
		{"search domain with a space", search("example com"), vlan + ".nameservers.search[0]", "must be the name of a domain"},
		{"nameservers empty", tagged(func(v *v1alpha1.NetworkVLAN) { v.Nameservers = &v1alpha1.Nameservers{} }), vlan + ".nameservers", "at least 1 properties"},

		{"bond of nothing", bonded(func(b *v1alpha1.NetworkBond) { b.Interfaces = nil }), bond + ".interfaces", "Required value"},
		{"bond of an unknown interface", bonded(func(b *v1alpha1.NetworkBond) { b.Interfaces[0] = "lan9" }), of, "has an interface that is not in interfaces"},
		{"bond of one interface twice", bonded(func(b *v1alpha1.NetworkBond) { b.Interfaces[0] = "lan1" }), bond + ".interfaces[1]", "Duplicate value"},
		{"bond without a mode", bonded(func(b *v1alpha1.NetworkBond) { b.Parameters.Mode = "" }), bond + ".parameters.mode", "Required value"},
		{"bond with an unknown mode", bonded(func(b *v1alpha1.NetworkBond) { b.Parameters.Mode = "4" }), bond + ".parameters.mode", "802.3ad"},
		{"LACP without LACP", bonded(func(b *v1alpha1.NetworkBond) {
			b.Parameters = v1alpha1.BondParameters{Mode: "active-backup", LACPRate: "fast"}
		}), bond + ".parameters", "lacpRate is allowed only with mode 802.3ad"},
		{"hash policy in active-backup", bonded(func(b *v1alpha1.NetworkBond) {
			b.Parameters = v1alpha1.BondParameters{Mode: "active-backup", TransmitHashPolicy: "layer2"}
		}), bond + ".parameters", "transmitHashPolicy is allowed only with"},
		{"primary in LACP", bonded(func(b *v1alpha1.NetworkBond) { b.Parameters.Primary = "lan0" }), bond + ".parameters", "primary is allowed only with"},
		{"primary of another bond", bonded(func(b *v1alpha1.NetworkBond) {
			b.Parameters = v1alpha1.BondParameters{Mode: "active-backup", Primary: "eno3"}
		}), bond, "is not one of the bond's interfaces"},
		{"interface in two bonds", on(func(n network) {
			n.Bonds = append(n.Bonds, v1alpha1.NetworkBond{Name: "bond1", Interfaces: []v1alpha1.LinkName{"lan1"}, Parameters: v1alpha1.BondParameters{Mode: "active-backup"}})
		}), of, "an interface is in two bonds"},
		{"interface of a bond with an address", on(func(n network) { n.Interfaces[0].Addresses = []v1alpha1.IPPrefix{"192.0.2.11/24"} }), of, "set them on the bond"},
		{"interface of a bond with DHCP", on(func(n network) { n.Interfaces[0].DHCP4 = true }), of, "set them on the bond"},

		{"VLAN without an id", tagged(func(v *v1alpha1.NetworkVLAN) { v.ID = 0 }), vlan + ".id", "Required value"},
		{"VLAN with an id too large", tagged(func(v *v1alpha1.NetworkVLAN) { v.ID = 4095 }), vlan + ".id", "less than or equal to 4094"},
		{"VLAN without a link", tagged(func(v *v1alpha1.NetworkVLAN) { v.Link = "" }), vlan + ".link", "Required value"},
		{"VLAN over an unknown link", tagged(func(v *v1alpha1.NetworkVLAN) { v.Link = "bond9" }), of, "is neither in interfaces nor in bonds"},
		{"VLAN over a VLAN", tagged(func(v *v1alpha1.NetworkVLAN) { v.Link = v.Name }), of, "is neither in interfaces nor in bonds"},
		{"VLAN over an interface of a bond", tagged(func(v *v1alpha1.NetworkVLAN) { v.Link = "lan0" }), of, "is an interface of a bond: set it to the bond"},
		{"VLAN twice", on(func(n network) {
			n.VLANs = append(n.VLANs, v1alpha1.NetworkVLAN{Name: "other", ID: 100, Link: "bond0"})
		}), of, "two VLANs have the same id on the same link"},
	})
}

func TestNetworkAccepted(t *testing.T) {
	type host = *v1alpha1.BareMetalHost
	accept(t, hostWithNetwork, []accepted[host]{
		{"one interface with DHCP", func(h host) {
			h.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{Name: "eno1", LinkSettings: v1alpha1.LinkSettings{DHCP4: true}}}}
		}},
		{"IPv6 alone", func(h host) {
			h.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{Name: "eno1", LinkSettings: v1alpha1.LinkSettings{
				Addresses: []v1alpha1.IPPrefix{"2001:db8::10/64"}, Routes: []v1alpha1.NetworkRoute{{To: "default", Via: "2001:db8::1"}},
			}}}}
		}},
		{"a gateway in the network that DHCP gives", func(h host) {
			h.Spec.Network.Interfaces[2].LinkSettings = v1alpha1.LinkSettings{DHCP4: true, Routes: []v1alpha1.NetworkRoute{{To: "198.51.100.0/24", Via: "203.0.113.1"}}}
		}},
		{"a bond with a primary interface and a large MTU", func(h host) {
			b := &h.Spec.Network.Bonds[0]
			b.Parameters, b.MTU = v1alpha1.BondParameters{Mode: "active-backup", Primary: "lan0"}, 9000
			h.Spec.Network.VLANs[0].MTU = 9000
		}},
		{"the same id on two links", func(h host) {
			h.Spec.Network.VLANs = append(h.Spec.Network.VLANs, v1alpha1.NetworkVLAN{Name: "eno3.100", ID: 100, Link: "eno3"})
		}},
		{"all that fits", func(h host) { h.Spec.Network = largestNetwork() }},
	})
}

// largestNetwork has the maximum number of items everywhere. The rules must stay within the cost limit of the API server for it.
func largestNetwork() *v1alpha1.HostNetwork {
	n := &v1alpha1.HostNetwork{}
	settings := func(link int) v1alpha1.LinkSettings {
		s := v1alpha1.LinkSettings{Nameservers: &v1alpha1.Nameservers{}}
		for i := range 8 {
			s.Addresses = append(s.Addresses, v1alpha1.IPPrefix(fmt.Sprintf("2001:db8:aaaa:bbbb:%x:%x:ffff:ffff/112", 0x1000+link, 0x1000+i)))
			s.Nameservers.Addresses = append(s.Nameservers.Addresses, v1alpha1.IPAddress(fmt.Sprintf("2001:db8:aaaa:bbbb:cccc:dddd:eeee:%x", 0x1000+i)))
			s.Nameservers.Search = append(s.Nameservers.Search, v1alpha1.DomainName(fmt.Sprintf("a%d.", i)+strings.Repeat("abcdefg.", 31)+"a"))
		}
		for i := range 16 {
			s.Routes = append(s.Routes, v1alpha1.NetworkRoute{
				To: fmt.Sprintf("2001:db9:%x::/112", i), Via: v1alpha1.IPAddress(fmt.Sprintf("2001:db8:aaaa:bbbb:%x:%x:ffff:fffe", 0x1000+link, 0x1007)),
			})
		}
		return s
	}
	for i := range 16 {
		n.Interfaces = append(n.Interfaces, v1alpha1.NetworkInterface{Name: v1alpha1.LinkName(fmt.Sprintf("interface-%05d", i)), MACAddress: fmt.Sprintf("52:54:00:00:00:%02x", i)})
	}
	for i := range 8 {
		n.Bonds = append(n.Bonds, v1alpha1.NetworkBond{
			Name: v1alpha1.LinkName(fmt.Sprintf("bond-%010d", i)), Interfaces: []v1alpha1.LinkName{n.Interfaces[2*i].Name, n.Interfaces[2*i+1].Name},
			Parameters: v1alpha1.BondParameters{Mode: "802.3ad"}, LinkSettings: settings(i),
		})
	}
	for i := range 16 {
		n.VLANs = append(n.VLANs, v1alpha1.NetworkVLAN{Name: v1alpha1.LinkName(fmt.Sprintf("vlan-%010d", i)), ID: int32(100 + i), Link: n.Bonds[i%8].Name, LinkSettings: settings(100 + i)})
	}
	return n
}
