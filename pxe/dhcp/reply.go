package dhcp

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// exchange is a request with its context and its answer.
type exchange struct {
	request *dhcpv4.DHCPv4
	in      arrival
	network bootconfig.Network
	client  Client
	answer  pxe.Answer
	// file is the client's boot file, empty for none.
	file  string
	reply *dhcpv4.DHCPv4
}

// handle answers a request with the exchange's reply. An error, often a NoReplyError, is the reason why there is no answer.
func (s *Server) handle(ctx context.Context, request *dhcpv4.DHCPv4, in arrival) (*exchange, error) {
	x := &exchange{request: request, in: in}
	if request.OpCode != dhcpv4.OpcodeBootRequest || request.HWType != iana.HWTypeEthernet || len(request.ClientHWAddr) != 6 {
		return x, NoReply(ResultUnsuitable, "not a request of an Ethernet interface")
	}
	x.client = Classify(request)
	var err error
	if x.network, err = s.networkOf(request, in); err != nil {
		return x, err
	}
	kind, err := x.kind()
	if err != nil {
		return x, err
	}
	if id := addrOf(request.ServerIdentifier()); !in.proxy && id.IsValid() && id != x.serverID() {
		s.observeOther(ctx, x, id)
		return x, NoReply(ResultElsewhere, "for the DHCP server "+id.String())
	}
	if x.answer, err = s.Booter.Lookup(ctx, request.ClientHWAddr); err != nil {
		return x, err
	}
	if !x.answer.Known {
		return x, NoReply(ResultUnknown, "not a server of the inventory")
	}
	x.file = bootFile(x.network, x.client, x.answer, request.ClientHWAddr)
	switch request.MessageType() {
	case dhcpv4.MessageTypeRelease:
		return x, s.release(x)
	case dhcpv4.MessageTypeDecline:
		return x, s.decline(ctx, x)
	default:
		return x, s.compose(ctx, x, kind)
	}
}

// observeOther records that firmware which should boot from this server took the answer of another DHCP server, in a network where this one gives the addresses.
func (s *Server) observeOther(ctx context.Context, x *exchange, other netip.Addr) {
	if x.network.Mode != bootconfig.Authoritative || !x.client.Boots() || x.request.MessageType() != dhcpv4.MessageTypeRequest {
		return
	}
	if answer, err := s.Booter.Lookup(ctx, x.request.ClientHWAddr); err != nil || answer.Boot != pxe.Network {
		return
	}
	s.Booter.ObserveFailure(x.request.ClientHWAddr, fmt.Errorf("%w: a request with the MAC address of the server took the answer of %s, and no boot followed. Remove the MAC address there, or set "+
		"the mode of the network %s to proxy", pxe.ErrOtherDHCPServer, other, x.network.Name))
}

// kind returns the type of the answer, or an error for requests that are for another server.
//
// A proxy offers its boot file in addition to the other server's address; the REQUEST that follows is for that server. Firmware then asks
// the proxy at port 4011 (PXE 2.1, section 2.2.3), by REQUEST or INFORM.
func (x *exchange) kind() (dhcpv4.MessageType, error) {
	message := x.request.MessageType()
	switch {
	case x.network.Mode == bootconfig.Off:
		return 0, NoReply(ResultElsewhere, "DHCP is off in this network")
	case x.in.proxy:
		if !x.client.PXE || message != dhcpv4.MessageTypeRequest && message != dhcpv4.MessageTypeInform {
			return 0, NoReply(ResultUnsuitable, "a proxy does not answer this at its port")
		}
		return dhcpv4.MessageTypeAck, nil
	case message == dhcpv4.MessageTypeDiscover:
		return dhcpv4.MessageTypeOffer, nil
	case x.network.Mode == bootconfig.Proxy:
		return 0, NoReply(ResultElsewhere, "for the DHCP server that gives the addresses")
	case message == dhcpv4.MessageTypeRequest || message == dhcpv4.MessageTypeInform:
		return dhcpv4.MessageTypeAck, nil
	case message == dhcpv4.MessageTypeRelease || message == dhcpv4.MessageTypeDecline:
		return dhcpv4.MessageTypeNone, nil
	default:
		return 0, NoReply(ResultUnsuitable, "not a message to a DHCP server")
	}
}

// givesAddress is true if the answer contains an address. Clients that send INFORM, or ask at the proxy port, have an address already.
func (x *exchange) givesAddress() bool {
	return x.network.Mode == bootconfig.Authoritative && !x.in.proxy && x.request.MessageType() != dhcpv4.MessageTypeInform
}

// serverID is the server identifier that clients see. A relay agent may put its own address there, so that it sees all messages (RFC 5107).
func (x *exchange) serverID() netip.Addr {
	if relayOf(x.request).IsValid() {
		if id, ok := relayOption(x.request, dhcpv4.ServerIdentifierOverrideSubOption); ok && addrOf(id).IsValid() {
			return addrOf(id)
		}
	}
	return x.network.Address
}

func (s *Server) compose(ctx context.Context, x *exchange, kind dhcpv4.MessageType) error {
	switch {
	case x.answer.Boot == pxe.NotYet && x.client.Boots():
		// Firmware that gets no answer asks again. With an answer without a boot file it gives up, and the boot is lost.
		return NoReply(ResultNothing, "it is not powered on yet")
	case x.file == "" && (x.in.proxy || x.network.Mode == bootconfig.Proxy):
		return NoReply(ResultNothing, "nothing to boot")
	}
	var err error
	x.reply, err = dhcpv4.NewReplyFromRequest(x.request,
		dhcpv4.WithMessageType(kind), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(x.serverID().AsSlice())),
		// RFC 3011: a server that supports the option returns it.
		dhcpv4.WithOptionCopied(x.request, dhcpv4.OptionSubnetSelection),
	)
	if err != nil {
		return err
	}
	if x.givesAddress() {
		if given, err := s.giveAddress(ctx, x, kind == dhcpv4.MessageTypeAck); err != nil || !given {
			return err
		}
	}
	if kind == dhcpv4.MessageTypeAck {
		x.reply.ClientIPAddr = x.request.ClientIPAddr // RFC 2131, section 4.3.1, table 3
	}
	if x.network.Mode == bootconfig.Authoritative && !x.in.proxy {
		x.addParameters()
	}
	if x.file != "" {
		x.addBootFile()
	}
	return x.fit()
}

// giveAddress puts the client's address into the answer. If given is false, the answer is a complete NAK.
func (s *Server) giveAddress(ctx context.Context, x *exchange, ack bool) (given bool, err error) {
	if ack && !x.requestedAddress().IsValid() {
		return false, NoReply(ResultUnsuitable, "a REQUEST for no address")
	}
	address, err := s.lease(ctx, x)
	if err != nil {
		return false, err
	}
	if ack && address != x.requestedAddress() {
		x.makeNAK()
		return false, nil
	}
	x.addAddress(address)
	if ack && !addrOf(x.request.ClientIPAddr).IsValid() { // not a renewal
		s.acknowledged.Note(x.request.ClientHWAddr, address)
	}
	return true, nil
}

// makeNAK turns the answer into a NAK, after which the client starts again. Behind a relay the NAK is broadcast, because the client has no valid address
// (RFC 2131, section 4.3.2).
func (x *exchange) makeNAK() {
	x.reply.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
	x.reply.UpdateOption(dhcpv4.OptMessage("this address is not yours"))
	x.reply.SetBroadcast()
}

// resultOf returns the result of a request.
func resultOf(x *exchange, err error) Result {
	if err == nil && x.reply.MessageType() == dhcpv4.MessageTypeNak {
		return ResultRefused
	}
	return ResultOf(err)
}
