package seed

import (
	"fmt"
	"strings"
)

// file is a file that Ignition writes.
type file struct {
	path    string
	mode    int
	content string
}

// networkdDir is the prefix of the files, in systemd's folder for the configuration of links. Their numbers order them before those of the image.
const networkdDir = "/etc/systemd/network/10-capbm-"

// networkd renders the network for systemd-networkd (systemd.network(5), systemd.netdev(5)), and the names of the interfaces for
// systemd-udevd (systemd.link(5)), which all distributions with Ignition have.
func (n *Network) networkd() []file {
	var out []file
	add := func(name, kind string, content *strings.Builder) {
		out = append(out, file{networkdDir + name + "." + kind, 0o644, content.String()})
	}
	for _, i := range n.Interfaces {
		match := "Name=" + i.Name
		if i.MAC != "" {
			// Not MACAddress: bonds and VLANs inherit the address of their interface.
			match = "PermanentMACAddress=" + i.MAC
			add(i.Name, "link", joinLines("[Match]", match, "", "[Link]", "Name="+i.Name))
		}
		add(i.Name, "network", n.networkdLink(match, i.Name, i.Settings))
	}
	for _, b := range n.Bonds {
		lines := []string{"[NetDev]", "Name=" + b.Name, "Kind=bond", "", "[Bond]", "Mode=" + b.Mode}
		lines = appendSet(lines, "MIIMonitorSec=", milliseconds(b))
		lines = appendSet(lines, "LACPTransmitRate=", b.LACPRate)
		lines = appendSet(lines, "TransmitHashPolicy=", b.HashPolicy)
		add(b.Name, "netdev", joinLines(lines...))
		add(b.Name, "network", n.networkdLink("Name="+b.Name, b.Name, b.Settings))
	}
	for _, v := range n.VLANs {
		add(v.Name, "netdev", joinLines("[NetDev]", "Name="+v.Name, "Kind=vlan", "", "[VLAN]", fmt.Sprintf("Id=%d", v.ID)))
		add(v.Name, "network", n.networkdLink("Name="+v.Name, v.Name, v.Settings))
	}
	return out
}

func (n *Network) networkdLink(match, name string, s Settings) *strings.Builder {
	out := joinLines("[Match]", match, "", "[Link]")
	if s.MTU > 0 {
		_, _ = fmt.Fprintf(out, "MTUBytes=%d\n", s.MTU)
	}
	if !s.addressed() {
		// The system is online once the links with addresses are.
		_, _ = out.WriteString("RequiredForOnline=no\n")
	}
	dhcp := map[[2]bool]string{{false, false}: "no", {true, false}: "ipv4", {false, true}: "ipv6", {true, true}: "yes"}[[2]bool{s.DHCP4, s.DHCP6}]
	_, _ = fmt.Fprintf(out, "\n[Network]\nDHCP=%s\n", dhcp)
	if bond := n.bondOf(name); bond != nil {
		_, _ = fmt.Fprintf(out, "Bond=%s\n", bond.Name)
		if bond.Primary == name {
			_, _ = out.WriteString("PrimarySlave=yes\n")
		}
	}
	for _, v := range n.vlansOn(name) {
		_, _ = fmt.Fprintf(out, "VLAN=%s\n", v)
	}
	for _, a := range s.Addresses {
		_, _ = fmt.Fprintf(out, "Address=%s\n", a)
	}
	for _, a := range s.Nameservers {
		_, _ = fmt.Fprintf(out, "DNS=%s\n", a)
	}
	if len(s.Search) > 0 {
		_, _ = fmt.Fprintf(out, "Domains=%s\n", strings.Join(s.Search, " "))
	}
	for _, r := range s.Routes {
		_, _ = fmt.Fprintf(out, "\n[Route]\nDestination=%s\nGateway=%s\n", r.To, r.Via)
		if r.Metric > 0 {
			_, _ = fmt.Fprintf(out, "Metric=%d\n", r.Metric)
		}
	}
	return out
}

// milliseconds returns the interval of a bond's link monitoring in systemd's format, or "" for the default.
func milliseconds(b Bond) string {
	if b.Monitor == 0 {
		return ""
	}
	return fmt.Sprintf("%dms", b.Monitor.Milliseconds())
}

// joinLines writes lines.
func joinLines(lines ...string) *strings.Builder {
	out := &strings.Builder{}
	for _, l := range lines {
		_, _ = out.WriteString(l + "\n")
	}
	return out
}

// appendSet appends a setting, unless it has no value.
func appendSet(lines []string, key, value string) []string {
	if value == "" {
		return lines
	}
	return append(lines, key+value)
}
