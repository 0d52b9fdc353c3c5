// Package outbound decides which addresses the provider connects to for users of the API. Users choose the addresses of BMCs and of boot artifacts.
// Without this check they could reach, through the provider, addresses that only the provider's machine can reach.
package outbound

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Policy says which addresses the provider may connect to. The zero value permits every address except those that are refused by default: loopback,
// link-local, multicast and reserved addresses, those of cloud metadata services, and those of this machine.
type Policy struct {
	// AllowNetworks are always permitted. They override every other rule.
	AllowNetworks []netip.Prefix
	// AllowHosts are host names, in lower case and without a trailing dot. Their addresses are permitted even if DenyNetworks contains them. They do not
	// permit addresses that are refused by default: a name may resolve to any address.
	AllowHosts []string
	// DenyNetworks are refused in addition to the addresses that are refused by default.
	DenyNetworks []netip.Prefix

	interfaceAddresses func() ([]net.Addr, error) // nil for net.InterfaceAddrs
}

// RefusedError is the error for an address that the policy does not permit.
type RefusedError struct {
	Address netip.Addr
	// Reason is the kind of address.
	Reason string
}

// Error returns a sentence with the address. Do not show it to a user who named a host: the address to which the name resolves here may be internal.
func (r *RefusedError) Error() string { return r.Address.String() + " is " + r.Reason }

// reservedNetworks are addresses that no machine in a network of servers or BMCs has.
var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),   // RFC 6890
	netip.MustParsePrefix("240.0.0.0/4"), // RFC 6890, with the limited broadcast address
	netip.MustParsePrefix("::/96"),       // RFC 4291, section 2.5.5.1: IPv4-compatible addresses, deprecated
}

// metadataNetworks are addresses of cloud metadata services that are not link-local. Their answers often contain credentials of the machine.
var metadataNetworks = []netip.Prefix{
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS: metadata (::254), credentials of EKS Pods (::23)
	netip.MustParsePrefix("fd20:ce::254/128"),   // Google Cloud
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba Cloud
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("192.0.0.192/32"),     // Oracle Cloud
}

// nat64Prefix is the prefix of IPv4 addresses behind a NAT64 gateway (RFC 6052, section 2.1).
var nat64Prefix = netip.MustParsePrefix("64:ff9b::/96")

// Check returns a *RefusedError if the policy does not permit an address of a host.
func (p Policy) Check(host string, ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if contains(p.AllowNetworks, ip) {
		return nil
	}
	reason, err := p.refused(ip)
	if err != nil {
		return err
	}
	if reason == "" && contains(p.DenyNetworks, ip) && !slices.Contains(p.AllowHosts, strings.ToLower(strings.TrimSuffix(host, "."))) {
		reason = "in a network that the configuration denies"
	}
	if reason != "" {
		return &RefusedError{Address: ip, Reason: reason}
	}
	if nat64Prefix.Contains(ip) {
		bytes := ip.As16()
		return p.Check(host, netip.AddrFrom4([4]byte(bytes[12:])))
	}
	return nil
}

// refused returns the reason why an address is refused by default, or "".
func (p Policy) refused(ip netip.Addr) (string, error) {
	switch {
	case ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() || contains(reservedNetworks, ip):
		return "a loopback, link-local, multicast or reserved address", nil
	case contains(metadataNetworks, ip):
		return "an address of a cloud metadata service", nil
	}
	addresses := net.InterfaceAddrs
	if p.interfaceAddresses != nil {
		addresses = p.interfaceAddresses
	}
	own, err := addresses()
	if err != nil {
		return "", fmt.Errorf("read the addresses of this machine: %w", err)
	}
	if slices.ContainsFunc(own, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.Equal(ip.AsSlice())
	}) {
		return "an address of the provider itself", nil
	}
	return "", nil
}

func contains(networks []netip.Prefix, ip netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(ip) })
}

// Dial connects to an address like net.Dialer.DialContext. It calls check, such as Policy.Check, for each resolved address right before it connects. So a
// name that resolves differently at each lookup cannot pass the check with one address and be connected to another.
func Dial(ctx context.Context, timeout time.Duration, check func(host string, ip netip.Addr) error, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: timeout, ControlContext: func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return err
		}
		return check(host, target.Addr())
	}}
	return dialer.DialContext(ctx, network, address)
}
