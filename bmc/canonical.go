package bmc

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// CanonicalHost returns the host of a URL, with its port if it has one, in the one notation that all notations of an address and of a DNS name have in common: in
// lower case, without a dot at its end, an IPv6 address in its shortest form (RFC 5952), and an IPv4 address that is mapped to IPv6 as an IPv4 address (RFC 4291, 2.5.5.2).
// Two notations of one BMC would otherwise be two BMCs. It resolves no name.
func CanonicalHost(u *url.URL) string {
	host, port := CanonicalHostname(u.Hostname()), u.Port()
	switch {
	case port != "":
		return net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		return "[" + host + "]"
	default:
		return host
	}
}

// CanonicalHostname is CanonicalHost for a name or an address alone.
func CanonicalHostname(name string) string {
	name = strings.TrimSuffix(strings.ToLower(name), ".")
	if address, err := netip.ParseAddr(name); err == nil {
		return address.Unmap().String()
	}
	return name
}
