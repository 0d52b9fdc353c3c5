// Package seedtest provides networks for tests, and decodes Ignition configs.
package seedtest

import (
	"fmt"
	"net/netip"
	"time"

	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// Static is a network with a bond of two interfaces and a VLAN on it with static addresses, and an interface with DHCP.
func Static() *seed.Network {
	return &seed.Network{
		Interfaces: []seed.Interface{
			{Name: "lan0", MAC: "52:54:00:00:00:01"}, {Name: "lan1", MAC: "52:54:00:00:00:02"},
			{Name: "eno3", Settings: seed.Settings{MTU: 9000, DHCP4: true}},
		},
		Bonds: []seed.Bond{{
			Name: "bond0", Interfaces: []string{"lan0", "lan1"}, Mode: "802.3ad", LACPRate: "fast", HashPolicy: "layer3+4", Monitor: 100 * time.Millisecond,
		}},
		VLANs: []seed.VLAN{{Name: "bond0.100", ID: 100, Link: "bond0", Settings: seed.Settings{
			Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.10/24"), netip.MustParsePrefix("2001:db8::10/64")},
			Routes: []seed.Route{
				{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("192.0.2.1")},
				{To: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr("fe80::1"), Metric: 100},
				{To: netip.MustParsePrefix("198.51.100.0/24"), Via: netip.MustParseAddr("192.0.2.254")},
			},
			Nameservers: []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")},
			Search:      []string{"example.com", "example.net"},
		}}},
	}
}

// Networks generates networks that the API server accepts and that an initramfs can be configured with.
func Networks() *rapid.Generator[*seed.Network] {
	return rapid.Custom(func(t *rapid.T) *seed.Network {
		n := &seed.Network{}
		for i := range rapid.IntRange(1, 5).Draw(t, "interfaces") {
			link := seed.Interface{Name: fmt.Sprintf("lan%d", i)}
			if rapid.Bool().Draw(t, "has a MAC") {
				link.MAC = fmt.Sprintf("52:54:00:00:00:%02x", i)
			}
			n.Interfaces = append(n.Interfaces, link)
		}
		free := n.Interfaces
		for i := range rapid.IntRange(0, 2).Draw(t, "bonds") {
			members := free[:rapid.IntRange(0, min(len(free), 2)).Draw(t, "members")]
			if len(members) == 0 {
				break
			}
			free = free[len(members):]
			n.Bonds = append(n.Bonds, bond(t, i, members))
		}
		var links []string
		for i := range free {
			free[i].Settings = settings(t, len(links))
			links = append(links, free[i].Name)
		}
		for i := range n.Bonds {
			n.Bonds[i].Settings = settings(t, len(links))
			links = append(links, n.Bonds[i].Name)
		}
		for _, link := range links {
			for _, id := range rapid.SliceOfNDistinct(rapid.IntRange(1, 4094), 0, 2, rapid.ID).Draw(t, "VLANs") {
				n.VLANs = append(n.VLANs, seed.VLAN{Name: fmt.Sprintf("%s.%d", link, id), ID: id, Link: link, Settings: settings(t, 100+len(n.VLANs))})
				n.VLANs[len(n.VLANs)-1].MTU = 0 // it could be larger than that of the link
			}
		}
		return n
	})
}

func bond(t *rapid.T, number int, members []seed.Interface) seed.Bond {
	b := seed.Bond{Name: fmt.Sprintf("bond%d", number), Monitor: time.Duration(rapid.IntRange(10, 1000).Draw(t, "monitor")) * time.Millisecond}
	for _, m := range members {
		b.Interfaces = append(b.Interfaces, m.Name)
	}
	b.Mode = rapid.SampledFrom([]string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}).Draw(t, "mode")
	switch b.Mode {
	case "802.3ad":
		b.LACPRate = rapid.SampledFrom([]string{"", "slow", "fast"}).Draw(t, "LACP rate")
		b.HashPolicy = rapid.SampledFrom([]string{"", "layer2", "layer2+3", "layer3+4", "encap2+3", "encap3+4"}).Draw(t, "hash policy")
	case "active-backup":
		b.Primary = rapid.SampledFrom(append([]string{""}, b.Interfaces...)).Draw(t, "primary")
	}
	return b
}

// settings returns the settings of the link with a number, with networks of its own.
func settings(t *rapid.T, number int) seed.Settings {
	s := seed.Settings{MTU: rapid.SampledFrom([]int{0, 1280, 9000}).Draw(t, "MTU")}
	add := func(address, gateway, everywhere, elsewhere string) {
		s.Addresses = append(s.Addresses, netip.MustParsePrefix(address))
		via := netip.MustParseAddr(gateway)
		if number == 0 {
			s.Routes = append(s.Routes, seed.Route{To: netip.MustParsePrefix(everywhere), Via: via, Metric: rapid.IntRange(0, 1).Draw(t, "metric") * 100})
		}
		if rapid.Bool().Draw(t, "has a route") {
			s.Routes = append(s.Routes, seed.Route{To: netip.MustParsePrefix(elsewhere), Via: via})
		}
	}
	if rapid.Bool().Draw(t, "has IPv4") {
		add(fmt.Sprintf("10.0.%d.10/24", number), fmt.Sprintf("10.0.%d.1", number), "0.0.0.0/0", fmt.Sprintf("10.1.%d.0/24", number))
		s.Nameservers = append(s.Nameservers, netip.MustParseAddr("192.0.2.53"))
	} else {
		s.DHCP4 = rapid.Bool().Draw(t, "DHCP")
	}
	if rapid.Bool().Draw(t, "has IPv6") {
		add(fmt.Sprintf("2001:db8:0:%x::10/64", number), fmt.Sprintf("2001:db8:0:%x::1", number), "::/0", fmt.Sprintf("2001:db8:1:%x::/64", number))
		s.Nameservers = append(s.Nameservers, netip.MustParseAddr("2001:db8::53"))
		s.Search = []string{"example.com"}
	} else {
		s.DHCP6 = rapid.Bool().Draw(t, "DHCPv6")
	}
	return s
}
