package dhcp6

import (
	"context"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// exchange is a request with its context and its answer.
type exchange struct {
	in      dhcp.Arrival
	request *dhcpv6.Message
	relays  []*dhcpv6.RelayMessage
	network bootconfig.Network
	client  dhcp.Client
	mac     net.HardwareAddr
	answer  pxe.Answer
	// url is the client's boot file, empty for none.
	url string
	// address is the address in the answer, invalid for none.
	address netip.Addr
	reply   *dhcpv6.Message
}

// handle answers a packet with the exchange's reply. An error, often a dhcp.NoReplyError, is the reason why there is no answer.
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
		return x, dhcp.NoReply(dhcp.ResultElsewhere, "DHCPv6 is off in this network")
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

// valid checks which options a message must and must not have (RFC 8415, section 16).
func (x *exchange) valid() error {
	clientID, serverID := x.request.Options.ClientID(), x.request.Options.ServerID()
	switch x.request.MessageType {
	case dhcpv6.MessageTypeSolicit, dhcpv6.MessageTypeConfirm, dhcpv6.MessageTypeRebind:
		if clientID == nil || serverID != nil {
			return dhcp.NoReply(dhcp.ResultUnsuitable, "no client identifier, or a server identifier")
		}
	case dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeDecline, dhcpv6.MessageTypeRelease:
		if clientID == nil || serverID == nil {
			return dhcp.NoReply(dhcp.ResultUnsuitable, "no client identifier, or no server identifier")
		}
	case dhcpv6.MessageTypeInformationRequest:
		if x.request.Options.OneIANA() != nil || x.request.Options.OneIATA() != nil || x.request.Options.OneIAPD() != nil {
			return dhcp.NoReply(dhcp.ResultUnsuitable, "an INFORMATION-REQUEST with an identity association")
		}
	default:
		return dhcp.NoReply(dhcp.ResultUnsuitable, "not a message to a server")
	}
	if serverID != nil && !identifierOf(x.network).Equal(serverID) {
		return dhcp.NoReply(dhcp.ResultElsewhere, "for another DHCPv6 server")
	}
	return nil
}

// lookUp identifies the server.
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
		return dhcp.NoReply(dhcp.ResultUnknown, "its MAC address is unknown: no relay agent, DUID or link-local address has it")
	}
	return dhcp.NoReply(dhcp.ResultUnknown, "not a server of the inventory")
}

func (s *Server) compose(ctx context.Context, x *exchange) error {
	if x.answer.Boot == pxe.NotYet && x.client.Boots() && x.request.MessageType != dhcpv6.MessageTypeDecline {
		// Firmware that gets no answer asks again. With an answer without a boot file it gives up, and the boot is lost.
		return dhcp.NoReply(dhcp.ResultNothing, "it is not powered on yet")
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
		// A server gets the same address after it was powered off.
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
		// The client does not need to wait for other servers.
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

// proxy composes the answer in the mode proxy. It has the boot file, and for firmware that asks for an address too it has the form that EDK2 expects. When
// EDK2 has its address, it asks for the boot file once more, by a REQUEST without an identity association.
func (x *exchange) proxy() error {
	firmware := (x.client.PXE || x.client.HTTP) && !x.client.IPXE
	kind := x.request.MessageType
	switch {
	case x.url == "":
		return dhcp.NoReply(dhcp.ResultNothing, "nothing to boot")
	case kind == dhcpv6.MessageTypeInformationRequest:
		x.addBootFile()
		return nil
	case kind == dhcpv6.MessageTypeSolicit && firmware:
		x.reply.MessageType = dhcpv6.MessageTypeAdvertise
	case kind == dhcpv6.MessageTypeRequest && firmware && x.request.Options.OneIANA() == nil:
	default:
		return dhcp.NoReply(dhcp.ResultElsewhere, "for the DHCPv6 server that gives the addresses")
	}
	x.addBootFile()
	if x.client.PXE {
		x.reply.AddOption(vendorClass(classPXE))
	}
	return nil
}

// addBootFile adds the URL of the boot file.
func (x *exchange) addBootFile() {
	if x.url == "" {
		return
	}
	x.reply.AddOption(dhcpv6.OptBootFileURL(x.url))
	if x.client.HTTP && !x.client.IPXE {
		// UEFI 2.10, section 24.7.2: firmware ignores an answer without the class.
		x.reply.AddOption(vendorClass(classHTTP))
	}
}

func vendorClass(class string) dhcpv6.Option {
	return &dhcpv6.OptVendorClass{EnterpriseNumber: intelEnterprise, Data: [][]byte{[]byte(class)}}
}

// addParameters adds the options that the client requests and the network has.
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
