package seed

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// keyfileDir is the prefix of the files, in NetworkManager's folder for connections.
const keyfileDir = "/etc/NetworkManager/system-connections/capbm-"

// keyfiles renders the network for NetworkManager (nm-settings-keyfile(5)). Connections refer to each other by UUIDs, which are derived from the names of the
// links. Interfaces are matched by their MAC addresses.
func (n *Network) keyfiles() []file {
	var out []file
	add := func(name string, sections ...string) {
		// NetworkManager ignores connections that other users can read.
		out = append(out, file{keyfileDir + name + ".nmconnection", 0o600, strings.Join(sections, "\n")})
	}
	for _, i := range n.Interfaces {
		connection := []string{"id=" + i.Name, "uuid=" + connectionID(i.Name), "type=ethernet"}
		if i.MAC == "" {
			connection = append(connection, "interface-name="+i.Name)
		}
		if bond := n.bondOf(i.Name); bond != nil {
			connection = append(connection, "master="+connectionID(bond.Name), "slave-type=bond")
			add(i.Name, section("connection", connection...), ethernet(i.MAC, i.MTU))
			continue
		}
		add(i.Name, section("connection", connection...), ethernet(i.MAC, i.MTU), i.keyfileIP(true), i.keyfileIP(false))
	}
	for _, b := range n.Bonds {
		add(b.Name, section("connection", "id="+b.Name, "uuid="+connectionID(b.Name), "type=bond", "interface-name="+b.Name),
			section("bond", b.options()...), ethernet("", b.MTU), b.keyfileIP(true), b.keyfileIP(false))
	}
	for _, v := range n.VLANs {
		add(v.Name, section("connection", "id="+v.Name, "uuid="+connectionID(v.Name), "type=vlan", "interface-name="+v.Name),
			section("vlan", fmt.Sprintf("id=%d", v.ID), "parent="+connectionID(v.Link)), ethernet("", v.MTU), v.keyfileIP(true), v.keyfileIP(false))
	}
	return out
}

// namespace is the namespace for the UUIDs of connections.
var namespace = uuid.NewSHA1(uuid.NameSpaceDNS, []byte("infrastructure.cluster.x-k8s.io"))

func connectionID(link string) string { return uuid.NewSHA1(namespace, []byte(link)).String() }

func section(name string, lines ...string) string {
	return joinLines(append([]string{"[" + name + "]"}, lines...)...).String()
}

func ethernet(mac string, mtu int) string {
	lines := appendSet(nil, "mac-address=", mac)
	if mtu > 0 {
		lines = append(lines, fmt.Sprintf("mtu=%d", mtu))
	}
	return section("ethernet", lines...)
}

// options returns the options of a bond with the kernel's names.
func (b Bond) options() []string {
	options := []string{"mode=" + b.Mode}
	if b.Monitor > 0 {
		options = append(options, fmt.Sprintf("miimon=%d", b.Monitor.Milliseconds()))
	}
	options = appendSet(options, "lacp_rate=", b.LACPRate)
	options = appendSet(options, "xmit_hash_policy=", b.HashPolicy)
	return appendSet(options, "primary=", b.Primary)
}

// keyfileIP returns the section of an address family.
func (s Settings) keyfileIP(v4 bool) string {
	name, method, dhcp := "ipv4", "disabled", s.DHCP4
	if !v4 {
		// The kernel may still accept addresses from router advertisements, as with the other renderers.
		name, method, dhcp = "ipv6", "ignore", s.DHCP6
	}
	switch {
	case dhcp:
		method = "auto"
	case s.has(v4):
		method = "manual"
	default:
		return section(name, "method="+method)
	}
	lines := []string{"method=" + method}
	for _, a := range s.Addresses {
		if a.Addr().Is4() == v4 {
			lines = append(lines, fmt.Sprintf("address%d=%s", len(lines), a))
		}
	}
	routes := 0
	for _, r := range s.Routes {
		if r.To.Addr().Is4() != v4 {
			continue
		}
		routes++
		line := fmt.Sprintf("route%d=%s,%s", routes, r.To, r.Via)
		if r.Metric > 0 {
			line += fmt.Sprintf(",%d", r.Metric)
		}
		lines = append(lines, line)
	}
	var servers []string
	for _, a := range s.Nameservers {
		if a.Is4() == v4 {
			servers = append(servers, a.String())
		}
	}
	lines = appendSet(lines, "dns=", strings.Join(servers, ";"))
	return section(name, appendSet(lines, "dns-search=", strings.Join(s.Search, ";"))...)
}
