package dhcp6

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// maxIdentities bounds the identity associations of a request that are answered, and the addresses that are read from each.
const maxIdentities = 8

// addAddress answers the identity associations of a request. The first one for an address gets the address that the server keeps. Further ones, temporary
// addresses and prefixes are not available.
func (s *Server) addAddress(ctx context.Context, x *exchange) error {
	options := x.request.Options
	for i, ia := range capped(options.IANA()) {
		answer := &dhcpv6.OptIANA{IaId: ia.IaId}
		if i > 0 {
			answer.Options.Add(status(iana.StatusNoAddrsAvail, "a server has one address"))
		} else if err := s.giveAddress(ctx, x, ia, answer); err != nil {
			return err
		}
		x.reply.AddOption(answer)
	}
	for _, ia := range capped(options.IATA()) {
		answer := &dhcpv6.OptIATA{IaId: ia.IaId}
		answer.Options.Add(status(iana.StatusNoAddrsAvail, "there are no temporary addresses"))
		x.reply.AddOption(answer)
	}
	for _, ia := range capped(options.IAPD()) {
		answer := &dhcpv6.OptIAPD{IaId: ia.IaId}
		answer.Options.Add(status(iana.StatusNoPrefixAvail, "there are no prefixes"))
		x.reply.AddOption(answer)
	}
	return nil
}

// capped bounds what is read from a client's request.
func capped[T any](all []T) []T { return all[:min(len(all), maxIdentities)] }

// giveAddress answers an identity association with the address that the server keeps. Any other address of the client gets a lifetime of zero, so that it stops
// using it (RFC 8415, sections 18.3.4 and 18.3.5). A REQUEST for an address of another network gets NotOnLink (18.3.2).
func (s *Server) giveAddress(ctx context.Context, x *exchange, ia, answer *dhcpv6.OptIANA) error {
	var wanted netip.Addr
	has := capped(ia.Options.Addresses())
	for _, a := range has {
		address := addrOf(a.IPv6Addr)
		if x.network.Subnet.Contains(address) {
			wanted = cmp.Or(wanted, address)
		} else if x.request.MessageType == dhcpv6.MessageTypeRequest {
			answer.Options.Add(status(iana.StatusNotOnLink, "this is not the network of "+address.String()))
			return nil
		}
	}
	lease, err := s.Booter.Lease(ctx, pxe.LeaseRequest{MAC: x.mac, Pool: x.network.Pool(), Wanted: wanted})
	if err != nil {
		return dhcp.NoLease(err)
	}
	if !lease.Address.Is6() || lease.Address == x.network.Address {
		return fmt.Errorf("find an address: a server of %s cannot have %s", x.network.Name, lease.Address)
	}
	x.address = lease.Address
	valid := cmp.Or(x.network.LeaseTime, time.Hour)
	// RFC 8415, section 21.4: ask this server after half of the time, any server after four fifths.
	answer.T1, answer.T2 = valid/2, valid*4/5
	answer.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: lease.Address.AsSlice(), PreferredLifetime: valid, ValidLifetime: valid})
	if kind := x.request.MessageType; kind == dhcpv6.MessageTypeRequest || kind == dhcpv6.MessageTypeSolicit && x.reply.MessageType == dhcpv6.MessageTypeReply { // with rapid commit
		s.acknowledged.Note(x.mac, lease.Address)
	}
	if x.request.MessageType == dhcpv6.MessageTypeRenew || x.request.MessageType == dhcpv6.MessageTypeRebind {
		for _, a := range has {
			if addrOf(a.IPv6Addr) != lease.Address {
				answer.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: a.IPv6Addr})
			}
		}
	}
	return nil
}

func status(code iana.StatusCode, message string) dhcpv6.Option {
	return &dhcpv6.OptStatusCode{StatusCode: code, StatusMessage: message}
}

// requestedAddresses returns the addresses in the identity associations of a request.
func (x *exchange) requestedAddresses() []netip.Addr {
	var all []netip.Addr
	for _, ia := range x.request.Options.IANA() {
		for _, a := range ia.Options.Addresses() {
			if address := addrOf(a.IPv6Addr); address.IsValid() {
				all = append(all, address)
			}
		}
	}
	return capped(all)
}

// confirm answers whether the client's addresses are of its network (RFC 8415, section 18.3.3). A client without addresses gets no answer.
func (x *exchange) confirm() error {
	addresses := x.requestedAddresses()
	if len(addresses) == 0 {
		return dhcp.NoReply(dhcp.ResultUnsuitable, "confirms no address")
	}
	for _, a := range addresses {
		if !x.network.Subnet.Contains(a) {
			x.reply.AddOption(status(iana.StatusNotOnLink, "this is not the network of "+a.String()))
			return nil
		}
	}
	x.reply.AddOption(status(iana.StatusSuccess, "all addresses are of this network"))
	return nil
}

// decline records that other devices use addresses that the client was given within the last minute.
func (s *Server) decline(ctx context.Context, x *exchange) {
	for _, a := range x.requestedAddresses() {
		if !s.acknowledged.MayDecline(x.mac, a) {
			continue
		}
		if err := s.Booter.Decline(ctx, x.mac, a); err != nil {
			s.Log.Error(err, "Failed to decline an address", "mac", x.mac.String(), "address", a.String(), "network", x.network.Name)
			continue
		}
		s.Log.Info("Another device uses an address of this network: find it, or remove the address from the ranges",
			"address", a.String(), "network", x.network.Name, "mac", x.mac.String())
	}
	x.reply.AddOption(status(iana.StatusSuccess, "noted"))
}
