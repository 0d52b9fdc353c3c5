package dhcp

import (
	"context"
	"errors"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// result is what became of a request. It is a label of a metric: there are few.
type result string

const (
	answered   result = "answered"
	refused    result = "refused"    // a NAK
	unknown    result = "unknown"    // not a server of the inventory
	nothing    result = "nothing"    // a server of the inventory that has nothing to boot
	noNetwork  result = "no-network" // of none of the networks
	untrusted  result = "untrusted"  // of a network, says a sender that is neither in it nor a relay agent of it
	elsewhere  result = "elsewhere"  // for another DHCP server
	noted      result = "noted"      // RELEASE and DECLINE have no answer
	unsuitable result = "unsuitable" // nothing that this server answers
	malformed  result = "malformed"  // no DHCP
	overloaded result = "overloaded" // too many at once
	failed     result = "failed"     // an error of ours
	panicked   result = "panicked"   // a bug of ours
)

// silence is why a request gets no answer, which is normal: the wire is full of requests that are for others.
type silence struct {
	result result
	why    string
}

func (e silence) Error() string { return e.why }

func silent(r result, why string) error { return silence{result: r, why: why} }

// exchange is a request with all that is known of it, and its answer in the making.
type exchange struct {
	request *dhcpv4.DHCPv4
	in      arrival
	network bootconfig.Network
	client  Client
	answer  pxe.Answer
	// file is what the client is told to load, empty for nothing.
	file  string
	reply *dhcpv4.DHCPv4
}

// handle answers a request: the exchange's reply is to be sent. An error says why there is none, as a silence where that is normal.
func (s *Server) handle(ctx context.Context, request *dhcpv4.DHCPv4, in arrival) (*exchange, error) {
	x := &exchange{request: request, in: in}
	if request.OpCode != dhcpv4.OpcodeBootRequest || request.HWType != iana.HWTypeEthernet || len(request.ClientHWAddr) != 6 {
		return x, silent(unsuitable, "not a request of an Ethernet interface")
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
		return x, silent(elsewhere, "for the DHCP server "+id.String())
	}
	if x.answer, err = s.Booter.Lookup(ctx, request.ClientHWAddr); err != nil {
		return x, err
	}
	if !x.answer.Known {
		return x, silent(unknown, "not a server of the inventory")
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

// kind says which message answers the request, and which requests are for another server.
//
// A proxy offers its boot file beside the other server's address; the REQUEST that follows is for that server. Firmware then asks
// the proxy at port 4011 (PXE 2.1, section 2.2.3), by REQUEST or INFORM.
func (x *exchange) kind() (dhcpv4.MessageType, error) {
	message := x.request.MessageType()
	switch {
	case x.network.Mode == bootconfig.Off:
		return 0, silent(elsewhere, "DHCP is off in this network")
	case x.in.proxy:
		if !x.client.PXE || message != dhcpv4.MessageTypeRequest && message != dhcpv4.MessageTypeInform {
			return 0, silent(unsuitable, "nothing that a proxy answers at its port")
		}
		return dhcpv4.MessageTypeAck, nil
	case message == dhcpv4.MessageTypeDiscover:
		return dhcpv4.MessageTypeOffer, nil
	case x.network.Mode == bootconfig.Proxy:
		return 0, silent(elsewhere, "for the DHCP server that gives the addresses")
	case message == dhcpv4.MessageTypeRequest || message == dhcpv4.MessageTypeInform:
		return dhcpv4.MessageTypeAck, nil
	case message == dhcpv4.MessageTypeRelease || message == dhcpv4.MessageTypeDecline:
		return dhcpv4.MessageTypeNone, nil
	default:
		return 0, silent(unsuitable, "not a message to a DHCP server")
	}
}

// givesAddress is true where the answer holds an address: INFORM comes from a client that has one, and so does what comes to the port of proxies.
func (x *exchange) givesAddress() bool {
	return x.network.Mode == bootconfig.Authoritative && !x.in.proxy && x.request.MessageType() != dhcpv4.MessageTypeInform
}

// serverID is the address that clients know this server by. A relay agent that wants to see all messages puts itself there (RFC 5107).
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
	case x.answer.Boot == pxe.Soon && x.client.Boots():
		// Firmware that gets no answer asks again. One that is told no boot file gives up, and its boot is lost.
		return silent(nothing, "it is not powered on yet")
	case x.file == "" && (x.in.proxy || x.network.Mode == bootconfig.Proxy):
		return silent(nothing, "nothing to boot")
	}
	var err error
	x.reply, err = dhcpv4.NewReplyFromRequest(x.request,
		dhcpv4.WithMessageType(kind), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(x.serverID().AsSlice())),
		// RFC 3011: a server that heeds the option returns it.
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

// giveAddress puts the client's address into the answer. Without it the answer, which is then a NAK, is complete.
func (s *Server) giveAddress(ctx context.Context, x *exchange, ack bool) (given bool, err error) {
	if ack && !x.wanted().IsValid() {
		return false, silent(unsuitable, "a REQUEST for no address")
	}
	address, err := s.lease(ctx, x)
	if err != nil {
		return false, err
	}
	if ack && address != x.wanted() {
		x.refuse()
		return false, nil
	}
	x.addAddress(address)
	if ack && !addrOf(x.request.ClientIPAddr).IsValid() { // it is no renewal
		s.acknowledged.Note(x.request.ClientHWAddr, address)
	}
	return true, nil
}

// refuse turns the answer into a NAK: the client asks anew. It is for everyone behind the relay, since the client has no address
// that holds (RFC 2131, section 4.3.2).
func (x *exchange) refuse() {
	x.reply.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
	x.reply.UpdateOption(dhcpv4.OptMessage("this address is not yours"))
	x.reply.SetBroadcast()
}

// resultOf says what became of a request.
func resultOf(x *exchange, err error) result {
	var s silence
	switch {
	case errors.As(err, &s):
		return s.result
	case err != nil:
		return failed
	case x.reply.MessageType() == dhcpv4.MessageTypeNak:
		return refused
	default:
		return answered
	}
}
