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
)

// maxIdentities bounds the identity associations of a request that are answered, and the addresses in each that are looked at.
const maxIdentities = 8

// addAddress answers the identity associations of a request. The first for an address gets the one that the server keeps; there
// is none for a second, no temporary one and no prefix.
func (s *Server) addAddress(ctx context.Context, x *exchange) error {
	options := x.request.Options
	for i, ia := range first(options.IANA()) {
		answer := &dhcpv6.OptIANA{IaId: ia.IaId}
		if i > 0 {
			answer.Options.Add(status(iana.StatusNoAddrsAvail, "a server has one address"))
		} else if err := s.give(ctx, x, ia, answer); err != nil {
			return err
		}
		x.reply.AddOption(answer)
	}
	for _, ia := range first(options.IATA()) {
		answer := &dhcpv6.OptIATA{IaId: ia.IaId}
		answer.Options.Add(status(iana.StatusNoAddrsAvail, "there are no temporary addresses"))
		x.reply.AddOption(answer)
	}
	for _, ia := range first(options.IAPD()) {
		answer := &dhcpv6.OptIAPD{IaId: ia.IaId}
		answer.Options.Add(status(iana.StatusNoPrefixAvail, "there are no prefixes"))
		x.reply.AddOption(answer)
	}
	return nil
}

// first bounds what is looked at of what a client sent.
func first[T any](all []T) []T { return all[:min(len(all), maxIdentities)] }

// give answers an identity association with the address that the server keeps. Another one that the client has is given no more
// time: it stops using it (RFC 8415, sections 18.3.4 and 18.3.5). A REQUEST for one of another network is told so (18.3.2).
func (s *Server) give(ctx context.Context, x *exchange, ia, answer *dhcpv6.OptIANA) error {
	var wanted netip.Addr
	has := first(ia.Options.Addresses())
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
		return fmt.Errorf("find an address: %w", err)
	}
	if !lease.Address.Is6() || lease.Address == x.network.Address {
		return fmt.Errorf("find an address: %s is none that a server of %s may have", lease.Address, x.network.Name)
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

// identified returns the addresses in the identity associations of a request.
func (x *exchange) identified() []netip.Addr {
	var all []netip.Addr
	for _, ia := range x.request.Options.IANA() {
		for _, a := range ia.Options.Addresses() {
			if address := addrOf(a.IPv6Addr); address.IsValid() {
				all = append(all, address)
			}
		}
	}
	return first(all)
}

// confirm says whether the addresses that a client has are of its network (RFC 8415, section 18.3.3). There is nothing to say to one
// that has none.
func (x *exchange) confirm() error {
	addresses := x.identified()
	if len(addresses) == 0 {
		return silent(unsuitable, "confirms no address")
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

// decline notes that somebody else uses addresses that the client was given a moment ago.
func (s *Server) decline(ctx context.Context, x *exchange) {
	for _, a := range x.identified() {
		if !s.acknowledged.MayDecline(x.mac, a) {
			continue
		}
		if err := s.Booter.Decline(ctx, x.mac, a); err != nil {
			s.Log.Error(err, "Decline an address", "mac", x.mac.String(), "address", a.String(), "network", x.network.Name)
			continue
		}
		s.Log.Info("Somebody else uses an address of this network: find out who, or take the address out of the ranges",
			"address", a.String(), "network", x.network.Name, "mac", x.mac.String())
	}
	x.reply.AddOption(status(iana.StatusSuccess, "noted"))
}
