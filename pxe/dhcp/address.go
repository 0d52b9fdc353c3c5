package dhcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// mostProbes is how many addresses are tried for one DISCOVER. The client asks again.
const mostProbes = 3

// wanted is the address that a client has, or asks for. It is invalid for none.
func (x *exchange) wanted() netip.Addr {
	if requested := addrOf(x.request.RequestedIPAddress()); requested.IsValid() {
		return requested
	}
	return addrOf(x.request.ClientIPAddr)
}

// lease returns the address that the client keeps. One that is new, for a client on our own link, is offered when nobody there answers
// for it (RFC 2131, section 2.2). Behind a relay the client itself looks, and declines.
func (s *Server) lease(ctx context.Context, x *exchange) (netip.Addr, error) {
	mac := x.request.ClientHWAddr
	wanted := x.wanted()
	if !x.network.Usable(wanted) {
		wanted = netip.Addr{}
	}
	for range mostProbes {
		lease, err := s.Booter.Lease(ctx, pxe.LeaseRequest{MAC: mac, Pool: x.network.Pool(), Wanted: wanted})
		if err != nil {
			return netip.Addr{}, fmt.Errorf("find an address: %w", err)
		}
		if !x.network.Usable(lease.Address) {
			return netip.Addr{}, fmt.Errorf("find an address: %s is none that a server of %s may have", lease.Address, x.network.Subnet)
		}
		if !lease.New || relayOf(x.request).IsValid() || x.request.MessageType() != dhcpv4.MessageTypeDiscover || !s.used(ctx, x, lease.Address) {
			return lease.Address, nil
		}
		if err := s.Booter.Decline(ctx, mac, lease.Address); err != nil {
			return netip.Addr{}, fmt.Errorf("decline %s, which somebody else uses: %w", lease.Address, err)
		}
		wanted = netip.Addr{}
	}
	return netip.Addr{}, fmt.Errorf("find an address: somebody uses each of the %d that were tried", mostProbes)
}

// used is true when another machine than the client answers for an address.
func (s *Server) used(ctx context.Context, x *exchange, address netip.Addr) bool {
	probe := s.Probe
	if probe == nil {
		probe = Probe
	}
	owner, used, err := probe(ctx, x.network.Address, address)
	if err != nil {
		if s.seldom.allow("probe " + x.network.Name) {
			s.Log.Error(err, "Look whether somebody uses an address", "address", address.String(), "network", x.network.Name)
		}
		return false // nothing is known against it
	}
	if !used || owner.String() == x.request.ClientHWAddr.String() {
		return false
	}
	s.conflict(x, address, owner)
	return true
}

func (s *Server) conflict(x *exchange, address netip.Addr, owner net.HardwareAddr) {
	s.Metrics.conflict(x.network.Name)
	if !s.seldom.allow("conflict " + address.String()) {
		return
	}
	s.Log.Info("Somebody else uses an address of this network: find out who, or take the address out of the ranges",
		"address", address.String(), "owner", owner.String(), "network", x.network.Name, "mac", x.request.ClientHWAddr.String())
}

// release keeps the lease: a server that is switched off finds its address again.
func (s *Server) release(x *exchange) error {
	s.Log.V(1).Info("Released, and kept", "mac", x.request.ClientHWAddr.String(), "address", x.request.ClientIPAddr.String(), "network", x.network.Name)
	return silent(noted, "released")
}

// decline notes that somebody else uses the address that a client was given.
func (s *Server) decline(ctx context.Context, x *exchange) error {
	address := addrOf(x.request.RequestedIPAddress())
	if !x.network.Usable(address) {
		return silent(unsuitable, "declines what is no address of this network")
	}
	if !s.acknowledged.MayDecline(x.request.ClientHWAddr, address) {
		return silent(unsuitable, "declines an address that it was not given a moment ago")
	}
	if err := s.Booter.Decline(ctx, x.request.ClientHWAddr, address); err != nil {
		return fmt.Errorf("decline %s: %w", address, err)
	}
	s.conflict(x, address, nil)
	return silent(noted, "declined")
}
