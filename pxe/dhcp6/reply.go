package dhcp6

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// result is what became of a request. It is a label of a metric: there are few.
type result string

const (
	answered   result = "answered"
	unknown    result = "unknown"    // not a server of the inventory
	nothing    result = "nothing"    // a server of the inventory that has nothing to boot, in a network where others give addresses
	noNetwork  result = "no-network" // of none of the networks
	untrusted  result = "untrusted"  // of a network, says a sender that is neither on its link nor a relay agent of it
	elsewhere  result = "elsewhere"  // for another DHCPv6 server
	unsuitable result = "unsuitable" // nothing that this server answers
	malformed  result = "malformed"  // no DHCPv6
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
	in      dhcp.Arrival
	request *dhcpv6.Message
	relays  []*dhcpv6.RelayMessage
	network bootconfig.Network
	client  dhcp.Client
	mac     net.HardwareAddr
	answer  pxe.Answer
	// url is what the client is told to load, empty for nothing.
	url string
	// address is the one that the client is given, invalid for none.
	address netip.Addr
	reply   *dhcpv6.Message
}

// handle answers a packet: the exchange's reply is to be sent. An error says why there is none, as a silence where that is normal.
func (s *Server) handle(ctx context.Context, packet dhcpv6.DHCPv6, in dhcp.Arrival) (*exchange, error) {
	x := &exchange{in: in, request: &dhcpv6.Message{}}
	request, relays, err := unwrap(packet)
	if err != nil {
		return x, err
	}
	x.request, x.relays, x.client = request, relays, Classify(request)
	if x.network, err = s.networkOf(x); err != nil {
		return x, err
	}
	if x.network.Mode == bootconfig.Off {
		return x, silent(elsewhere, "DHCPv6 is off in this network")
	}
	if err := x.valid(); err != nil {
		return x, err
	}
	if err := s.lookUp(ctx, x); err != nil {
		return x, err
	}
	x.url = bootURL(x.network, x.client, x.answer, x.mac)
	return x, s.compose(ctx, x)
}

// valid checks what must be in a message and what must not (RFC 8415, section 16).
func (x *exchange) valid() error {
	clientID, serverID := x.request.Options.ClientID(), x.request.Options.ServerID()
	switch x.request.MessageType {
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRebind:
		if clientID == nil || serverID != nil {
			return silent(unsuitable, "no client identifier, or a server identifier")
		}
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeDecline, dhcpv6.MessageTypeRelease:
		if clientID == nil || serverID == nil {
			return silent(unsuitable, "no client identifier, or no server identifier")
		}
	case dhcpv6.MessageTypeInformationRequest:
		if x.request.Options.OneIANA() != nil || x.request.Options.OneIATA() != nil || x.request.Options.OneIAPD() != nil {
			return silent(unsuitable, "asks for addresses and does not")
		}
	default:
		return silent(unsuitable, "not a message to a server")
	}
	if serverID != nil && !identifierOf(x.network).Equal(serverID) {
		return silent(elsewhere, "for another DHCPv6 server")
	}
	return nil
}

// lookUp finds out which server it is.
func (s *Server) lookUp(ctx context.Context, x *exchange) error {
	for _, mac := range x.macs() {
		answer, err := s.Booter.Lookup(ctx, mac)
		if err != nil {
			return err
		}
		x.mac = mac
		if answer.Known {
			x.answer = answer
			return nil
		}
	}
	if x.mac == nil {
		return silent(unknown, "nothing tells its MAC address: neither a relay, nor its DUID, nor its link-local address")
	}
	return silent(unknown, "not a server of the inventory")
}

func (s *Server) compose(ctx context.Context, x *exchange) error {
	if x.answer.Boot == pxe.Soon && x.client.Boots() && x.request.MessageType != dhcpv6.MessageTypeDecline {
		// Firmware that gets no answer asks again. One that is told no boot file gives up, and its boot is lost.
		return silent(nothing, "it is not powered on yet")
	}
	x.reply = &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, TransactionID: x.request.TransactionID}
	if id := x.request.GetOneOption(dhcpv6.OptionClientID); id != nil {
		x.reply.AddOption(id)
	}
	x.reply.AddOption(dhcpv6.OptServerID(identifierOf(x.network)))
	if x.network.Mode == bootconfig.Proxy {
		return x.proxy()
	}
	switch x.request.MessageType {
	case dhcpv6.MessageTypeConfirm:
		return x.confirm()
	case dhcpv6.MessageTypeRelease:
		// A server that is switched off finds its address again.
		x.reply.AddOption(status(iana.StatusSuccess, "released, and kept"))
		return nil
	case dhcpv6.MessageTypeDecline:
		s.decline(ctx, x)
		return nil
	case dhcpv6.MessageTypeSolicit:
		if x.request.GetOneOption(dhcpv6.OptionRapidCommit) != nil {
			dhcpv6.WithRapidCommit(x.reply)
		} else {
			x.reply.MessageType = dhcpv6.MessageTypeAdvertise
		}
		// The client need not wait for other servers.
		x.reply.AddOption(dhcpv6.OptPreference(255))
	default:
	}
	if err := s.addAddress(ctx, x); err != nil {
		return err
	}
	x.addParameters()
	x.addBootFile()
	return nil
}

// proxy answers in the mode proxy: with the boot file, and to firmware that asks for an address too, in the way that EDK2 knows. EDK2
// asks for the boot file once more, by a REQUEST without an identity association, when it has its address.
func (x *exchange) proxy() error {
	firmware := (x.client.PXE || x.client.HTTP) && !x.client.IPXE
	kind := x.request.MessageType
	switch {
	case x.url == "":
		return silent(nothing, "nothing to boot")
	case kind == dhcpv6.MessageTypeInformationRequest:
		x.addBootFile()
		return nil
	case kind == dhcpv6.MessageTypeSolicit && firmware:
		x.reply.MessageType = dhcpv6.MessageTypeAdvertise
	case kind == dhcpv6.MessageTypeRequest && firmware && x.request.Options.OneIANA() == nil:
	default:
		return silent(elsewhere, "for the DHCPv6 server that gives the addresses")
	}
	x.addBootFile()
	if x.client.PXE {
		x.reply.AddOption(vendorClass(classPXE))
	}
	return nil
}

// addBootFile names the boot file.
func (x *exchange) addBootFile() {
	if x.url == "" {
		return
	}
	x.reply.AddOption(dhcpv6.OptBootFileURL(x.url))
	if x.client.HTTP && !x.client.IPXE {
		// UEFI 2.10, section 24.7.2: the answer must carry the class, or firmware passes it over.
		x.reply.AddOption(vendorClass(classHTTP))
	}
}

func vendorClass(class string) dhcpv6.Option {
	return &dhcpv6.OptVendorClass{EnterpriseNumber: enterprise, Data: [][]byte{[]byte(class)}}
}

// addParameters adds what the client asks for, where the network has it.
func (x *exchange) addParameters() {
	n := x.network
	if len(n.DNS) > 0 && x.request.IsOptionRequested(dhcpv6.OptionDNSRecursiveNameServer) {
		x.reply.AddOption(dhcpv6.OptDNS(ips(n.DNS)...))
	}
	if n.Domain != "" && x.request.IsOptionRequested(dhcpv6.OptionDomainSearchList) {
		x.reply.AddOption(dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: []string{n.Domain}}))
	}
	if len(n.NTP) > 0 && x.request.IsOptionRequested(dhcpv6.OptionNTPServer) {
		servers := &dhcpv6.OptNTPServer{}
		for _, ip := range ips(n.NTP) {
			address := dhcpv6.NTPSuboptionSrvAddr(ip)
			servers.Suboptions = append(servers.Suboptions, &address)
		}
		x.reply.AddOption(servers)
	}
}

func ips(addresses []netip.Addr) []net.IP {
	out := make([]net.IP, len(addresses))
	for i, a := range addresses {
		out[i] = a.AsSlice()
	}
	return out
}

// resultOf says what became of a request.
func resultOf(err error) result {
	var s silence
	switch {
	case errors.As(err, &s):
		return s.result
	case err != nil:
		return failed
	default:
		return answered
	}
}
