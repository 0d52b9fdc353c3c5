package seed

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// CommandLineNetwork returns the network as kernel arguments for an initramfs that fetches something before the system's own configuration exists, as
// Ignition does. The syntax is dracut's (dracut.cmdline(7)); systemd-network-generator and NetworkManager's nm-initrd-generator read it. Debian's initramfs-tools
// supports only a part of it. Search domains are left out, because the URLs contain addresses.
//
// dracut reads the tag of a VLAN from its name: names other than vlan100 and LINK.100 are an error.
func CommandLineNetwork(n *Network) (string, error) {
	words := []string{"rd.neednet=1"}
	for _, i := range n.Interfaces {
		if i.MAC != "" {
			words = append(words, "ifname="+i.Name+":"+i.MAC)
		}
	}
	for _, b := range n.Bonds {
		word := "bond=" + b.Name + ":" + strings.Join(b.Interfaces, ",") + ":" + strings.Join(b.options(), ",")
		if b.MTU > 0 {
			word += ":" + strconv.Itoa(b.MTU)
		}
		words = append(words, word)
	}
	for _, v := range n.VLANs {
		if !v.namesTag() {
			return "", fmt.Errorf("VLAN %q: an initramfs reads the tag of a VLAN from its name: name it %s.%d or vlan%d in spec.network", v.Name, v.Link, v.ID, v.ID)
		}
		words = append(words, "vlan="+v.Name+":"+v.Link)
	}
	var nameservers []string
	add := func(name string, s Settings) {
		words = append(words, s.dracut(name)...)
		for _, a := range s.Nameservers {
			nameservers = append(nameservers, "nameserver="+a.String())
		}
	}
	for _, i := range n.Interfaces {
		add(i.Name, i.Settings)
	}
	for _, b := range n.Bonds {
		add(b.Name, b.Settings)
	}
	for _, v := range n.VLANs {
		add(v.Name, v.Settings)
	}
	return strings.Join(append(words, nameservers...), " "), nil
}

var taggedName = regexp.MustCompile(`^(?:vlan|(.+)\.)0*([1-9][0-9]*)$`)

// namesTag is true for a VLAN name from which dracut reads the tag: vlan100, vlan0100, eth0.100, eth0.0100.
func (v VLAN) namesTag() bool {
	match := taggedName.FindStringSubmatch(v.Name)
	return match != nil && (match[1] == "" || match[1] == v.Link) && match[2] == strconv.Itoa(v.ID)
}

// dracut renders the addresses and routes of a link.
func (s Settings) dracut(name string) []string {
	var words []string
	mtu := ""
	if s.MTU > 0 {
		mtu = ":" + strconv.Itoa(s.MTU)
	}
	// DHCP of one address family is enough to fetch something, and the argument of a link has room for one.
	switch {
	case s.DHCP4:
		words = append(words, "ip="+name+":dhcp"+mtu)
	case s.DHCP6:
		words = append(words, "ip="+name+":dhcp6"+mtu)
	}
	gateways := map[bool]string{}
	var routes []string
	for _, r := range s.Routes {
		v4 := r.To.Addr().Is4()
		if r.isDefault() && gateways[v4] == "" && s.has(v4) {
			gateways[v4] = bracketed(r.Via)
			continue
		}
		to := r.To.String()
		if !v4 {
			to = "[" + to + "]"
		}
		routes = append(routes, "rd.route="+to+":"+bracketed(r.Via)+":"+name)
	}
	for _, a := range s.Addresses {
		v4 := a.Addr().Is4()
		// The gateway is written once, with the first address of its family.
		words = append(words, fmt.Sprintf("ip=%s::%s:%s::%s:none%s", bracketed(a.Addr()), gateways[v4], mask(a), name, mtu))
		gateways[v4] = ""
	}
	return append(words, routes...)
}

func bracketed(a netip.Addr) string {
	if a.Is4() {
		return a.String()
	}
	return "[" + a.String() + "]"
}

// mask returns the netmask of an IPv4 network, and the prefix length of an IPv6 network.
func mask(p netip.Prefix) string {
	if p.Addr().Is4() {
		return net.IP(net.CIDRMask(p.Bits(), 32)).String()
	}
	return strconv.Itoa(p.Bits())
}
