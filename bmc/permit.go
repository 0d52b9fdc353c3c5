package bmc

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// Permit lists the networks that BMCs may be in although they are loopback or link-local: users of the API name the addresses,
// and must not reach through them what only this machine can reach.
type Permit []netip.Prefix

// Check returns an error for an address that no BMC may have.
func (p Permit) Check(ip netip.Addr) error {
	ip = ip.Unmap().WithZone("")
	if slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(ip) }) {
		return nil
	}
	if ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return fmt.Errorf("%s is a loopback, link-local or multicast address: BMCs there are not spoken to, unless --bmc-allow-network names it", ip)
	}
	return nil
}

// Control checks the address of every connection before it is made. It is for net.Dialer.ControlContext, so that no name
// that resolves anew gets around it.
func (p Permit) Control(_ context.Context, _, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return p.Check(target.Addr())
}
