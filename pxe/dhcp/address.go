package dhcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// maxProbes is how many addresses are probed for one DISCOVER. The client repeats its request.
const maxProbes = 3

// requestedAddress returns the address that a client has, or asks for. It is invalid for none.
func (x *exchange) requestedAddress() netip.Addr {
	if requested := addrOf(x.request.RequestedIPAddress()); requested.IsValid() {
		return requested
	}
	return addrOf(x.request.ClientIPAddr)
}

// lease returns the address that the client keeps. A new address, for a client on a local link, is offered only if no machine answers for it
// (RFC 2131, section 2.2). Behind a relay the client itself checks the address, and declines it.
func (s *Server) lease(ctx context.Context, x *exchange) (netip.Addr, error) {
	mac := x.request.ClientHWAddr
	wanted := x.requestedAddress()
	if !x.network.Usable(wanted) {
		wanted = netip.Addr{}
	}
	for range maxProbes {
		lease, err := s.Booter.Lease(ctx, pxe.LeaseRequest{MAC: mac, Pool: x.network.Pool(), Wanted: wanted})
		if err != nil {
			return netip.Addr{}, NoLease(err)
		}
		if !x.network.Usable(lease.Address) {
			return netip.Addr{}, fmt.Errorf("find an address: a server of %s cannot have %s", x.network.Subnet, lease.Address)
		}
		if !lease.New || relayOf(x.request).IsValid() || x.request.MessageType() != dhcpv4.MessageTypeDiscover || !s.inUse(ctx, x, lease.Address) {
			return lease.Address, nil
		}
		if err := s.Booter.Decline(ctx, mac, lease.Address); err != nil {
			return netip.Addr{}, fmt.Errorf("decline %s, which another device uses: %w", lease.Address, err)
		}
		wanted = netip.Addr{}
	}
	return netip.Addr{}, fmt.Errorf("find an address: other devices use all %d that were probed", maxProbes)
}

// inUse is true if a machine other than the client answers for an address.
func (s *Server) inUse(ctx context.Context, x *exchange, address netip.Addr) bool {
	probe := s.Probe
	if probe == nil {
		probe = Probe
	}
	owner, used, err := probe(ctx, x.network.Address, address)
	if err != nil {
		if s.logs.allow("probe " + x.network.Name) {
			s.Log.Error(err, "Failed to check whether another device uses an address", "address", address.String(), "network", x.network.Name)
		}
		return false // assume that it is free
	}
	if !used || owner.String() == x.request.ClientHWAddr.String() {
		return false
	}
	s.conflict(x, address, owner)
	return true
}

func (s *Server) conflict(x *exchange, address netip.Addr, owner net.HardwareAddr) {
	s.Metrics.conflict(x.network.Name)
	if !s.logs.allow("conflict " + address.String()) {
		return
	}
	s.Log.Info("Another device uses an address of this network: find it, or remove the address from the ranges",
		"address", address.String(), "owner", owner.String(), "network", x.network.Name, "mac", x.request.ClientHWAddr.String())
}

// release keeps the lease, so that a server gets the same address after it was powered off.
func (s *Server) release(x *exchange) error {
	s.Log.V(1).Info("Kept the lease of a released address", "mac", x.request.ClientHWAddr.String(), "address", x.request.ClientIPAddr.String(), "network", x.network.Name)
	return NoReply(ResultNoted, "released")
}

// decline records that another device uses the address of a client.
func (s *Server) decline(ctx context.Context, x *exchange) error {
	address := addrOf(x.request.RequestedIPAddress())
	if !x.network.Usable(address) {
		return NoReply(ResultUnsuitable, "declines an address outside this network")
	}
	if !s.acknowledged.MayDecline(x.request.ClientHWAddr, address) {
		return NoReply(ResultUnsuitable, "declines an address that it was not given within the last minute")
	}
	if err := s.Booter.Decline(ctx, x.request.ClientHWAddr, address); err != nil {
		return fmt.Errorf("decline %s: %w", address, err)
	}
	s.conflict(x, address, nil)
	return NoReply(ResultNoted, "declined")
}
