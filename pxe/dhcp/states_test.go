package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

var stranger = netip.MustParseAddr("192.0.2.9")

// TestAuthoritative runs through the states of RFC 2131, section 4.3.
func TestAuthoritative(t *testing.T) {
	wrong := netip.MustParseAddr("192.0.2.78")
	const ack, nak, none = dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNak, dhcpv4.MessageTypeNone
	for name, test := range map[string]struct {
		kind    dhcpv4.MessageType
		request []dhcpv4.Modifier
		want    dhcpv4.MessageType
		what    Result
	}{
		"SELECTING us":                              {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{serverID(ours), requested(leased)}, ack, ResultAnswered},
		"SELECTING us, another address":             {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{serverID(ours), requested(wrong)}, nak, ResultRefused},
		"SELECTING another server":                  {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{serverID(stranger), requested(leased)}, none, ResultElsewhere},
		"INIT-REBOOT":                               {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{requested(leased)}, ack, ResultAnswered},
		"INIT-REBOOT, another address":              {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{requested(wrong)}, nak, ResultRefused},
		"INIT-REBOOT, from another network":         {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{requested(netip.MustParseAddr("10.0.0.1"))}, nak, ResultRefused},
		"RENEWING or REBINDING":                     {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{ciaddr(leased)}, ack, ResultAnswered},
		"RENEWING, another address":                 {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{ciaddr(wrong)}, nak, ResultRefused},
		"REQUEST for no address":                    {dhcpv4.MessageTypeRequest, nil, none, ResultUnsuitable},
		"INFORM":                                    {dhcpv4.MessageTypeInform, []dhcpv4.Modifier{ciaddr(wrong)}, ack, ResultAnswered},
		"RELEASE":                                   {dhcpv4.MessageTypeRelease, []dhcpv4.Modifier{serverID(ours), ciaddr(leased)}, none, ResultNoted},
		"DECLINE of what was not given now":         {dhcpv4.MessageTypeDecline, []dhcpv4.Modifier{serverID(ours), requested(leased)}, none, ResultUnsuitable},
		"DECLINE of another server's address":       {dhcpv4.MessageTypeDecline, []dhcpv4.Modifier{serverID(stranger), requested(leased)}, none, ResultElsewhere},
		"DECLINE of an address that is never given": {dhcpv4.MessageTypeDecline, []dhcpv4.Modifier{serverID(ours), requested(ours)}, none, ResultUnsuitable},
		"DECLINE of nothing":                        {dhcpv4.MessageTypeDecline, []dhcpv4.Modifier{serverID(ours)}, none, ResultUnsuitable},
		"DISCOVER by an unknown machine":            {dhcpv4.MessageTypeDiscover, []dhcpv4.Modifier{dhcpv4.WithHwAddr(other)}, none, ResultUnknown},
		"REQUEST by an unknown machine":             {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{dhcpv4.WithHwAddr(other), requested(wrong)}, none, ResultUnknown},
		"DECLINE by an unknown machine":             {dhcpv4.MessageTypeDecline, []dhcpv4.Modifier{dhcpv4.WithHwAddr(other), serverID(ours), requested(leased)}, none, ResultUnknown},
		"an OFFER":                                  {dhcpv4.MessageTypeOffer, nil, none, ResultUnsuitable},
		"BOOTP, which has no kind":                  {none, []dhcpv4.Modifier{dhcpv4.WithoutOption(dhcpv4.OptionDHCPMessageType)}, none, ResultUnsuitable},
		"a reply":                                   {dhcpv4.MessageTypeDiscover, []dhcpv4.Modifier{func(p *dhcpv4.DHCPv4) { p.OpCode = dhcpv4.OpcodeBootReply }}, none, ResultUnsuitable},
		"no Ethernet":                               {dhcpv4.MessageTypeDiscover, []dhcpv4.Modifier{dhcpv4.WithHwAddr(make(net.HardwareAddr, 8))}, none, ResultUnsuitable},
		"Infiniband, with a short address":          {dhcpv4.MessageTypeDiscover, []dhcpv4.Modifier{dhcpv4.WithHWType(iana.HWTypeInfiniband)}, none, ResultUnsuitable},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := booter(networkBoot)
			reply, what := ask(t, server(bootconfig.Authoritative, b), message(t, test.kind, test.request...), atServer)
			g.Expect(what).To(Equal(test.what))
			if test.want == none {
				g.Expect(reply).To(BeNil())
			} else {
				g.Expect(reply.MessageType()).To(Equal(test.want))
				g.Expect(addrOf(reply.ServerIdentifier())).To(Equal(ours))
			}
			if test.want == nak {
				g.Expect(addrOf(reply.YourIPAddr).IsValid()).To(BeFalse())
				g.Expect(addrOf(reply.ClientIPAddr).IsValid()).To(BeFalse())
				g.Expect(reply.IsBroadcast()).To(BeTrue(), "a relay agent must broadcast it")
				g.Expect(reply.Options.Has(dhcpv4.OptionIPAddressLeaseTime)).To(BeFalse())
				g.Expect(reply.BootFileName).To(BeEmpty())
			}
			g.Expect(b.Declined()).To(BeEmpty())
		})
	}
}

// TestDecline: an address is declined once, by the server that was given it within the last minute, and not by one that renewed it. Otherwise a forged packet would
// take the address of a running server.
func TestDecline(t *testing.T) {
	g := NewWithT(t)
	b := booter(networkBoot)
	s := server(bootconfig.Authoritative, b)
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	s.acknowledged.Clock = now
	decline := message(t, dhcpv4.MessageTypeDecline, serverID(ours), requested(leased))
	try := func(want Result) {
		t.Helper()
		_, what := ask(t, s, decline, atServer)
		g.Expect(what).To(Equal(want))
	}
	given := func(request ...dhcpv4.Modifier) {
		t.Helper()
		reply, _ := ask(t, s, message(t, dhcpv4.MessageTypeRequest, request...), atServer)
		g.Expect(reply.MessageType()).To(Equal(dhcpv4.MessageTypeAck))
	}
	given(ciaddr(leased))
	try(ResultUnsuitable)
	given(serverID(ours), requested(leased))
	now.SetTime(now.Now().Add(time.Minute))
	try(ResultUnsuitable)
	g.Expect(b.Declined()).To(BeEmpty())
	given(serverID(ours), requested(leased))
	now.SetTime(now.Now().Add(59 * time.Second))
	try(ResultNoted)
	try(ResultUnsuitable)
	g.Expect(b.Declined()).To(Equal([]netip.Addr{leased}))
}

// TestParameters: the options of an answer with an address. INFORM gets all of them except the address.
func TestParameters(t *testing.T) {
	g := NewWithT(t)
	s := server(bootconfig.Authoritative, booter(known))
	offer, _ := ask(t, s, discover(t), atServer)
	g.Expect(offer.MessageType()).To(Equal(dhcpv4.MessageTypeOffer))
	g.Expect(addrOf(offer.YourIPAddr)).To(Equal(leased))
	g.Expect(offer.IPAddressLeaseTime(0)).To(Equal(time.Hour))
	inform, _ := ask(t, s, message(t, dhcpv4.MessageTypeInform, ciaddr(stranger)), atServer)
	g.Expect(addrOf(inform.YourIPAddr).IsValid()).To(BeFalse())
	g.Expect(addrOf(inform.ClientIPAddr)).To(Equal(stranger))
	g.Expect(inform.Options.Has(dhcpv4.OptionIPAddressLeaseTime)).To(BeFalse())
	for _, reply := range []*dhcpv4.DHCPv4{offer, inform} {
		g.Expect(reply.SubnetMask().String()).To(Equal("ffffff00"))
		g.Expect(reply.Router()[0].String()).To(Equal("192.0.2.254"))
		g.Expect(reply.DNS()[0].String()).To(Equal("192.0.2.53"))
		g.Expect(reply.NTPServers()[0].String()).To(Equal("192.0.2.123"))
		g.Expect(reply.DomainName()).To(Equal("example.com"))
		g.Expect(reply.Options.Get(dhcpv4.OptionInterfaceMTU)).To(Equal([]byte{0x23, 0x28}))
	}

	n := &s.Networks[0]
	n.Router, n.DNS, n.NTP, n.Domain, n.MTU = netip.Addr{}, nil, nil, "", 0
	offer, _ = ask(t, s, discover(t), atServer)
	for _, code := range []dhcpv4.OptionCode{
		dhcpv4.OptionRouter, dhcpv4.OptionDomainNameServer, dhcpv4.OptionNTPServers, dhcpv4.OptionDomainName, dhcpv4.OptionInterfaceMTU,
	} {
		g.Expect(offer.Options.Has(code)).To(BeFalse(), code.String())
	}
}

// TestWanted: a client keeps its address if it can, and only an address of this network is requested.
func TestWanted(t *testing.T) {
	for name, test := range map[string]struct {
		request *dhcpv4.DHCPv4
		want    string
	}{
		"asked for":          {discover(t, requested(stranger)), "192.0.2.9"},
		"had":                {message(t, dhcpv4.MessageTypeRequest, ciaddr(stranger)), "192.0.2.9"},
		"nothing":            {discover(t), "invalid IP"},
		"of another network": {discover(t, requested(netip.MustParseAddr("198.51.100.1"))), "invalid IP"},
		"our own":            {discover(t, requested(ours)), "invalid IP"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := booter(known)
			var got pxe.LeaseRequest
			b.Leases = func(r pxe.LeaseRequest) (pxe.Lease, error) {
				got = r
				return pxe.Lease{Address: leased}, nil
			}
			ask(t, server(bootconfig.Authoritative, b), test.request, atServer)
			g.Expect(got.Wanted.String()).To(Equal(test.want))
			g.Expect(got.MAC).To(Equal(mac))
			g.Expect(got.Pool.Network).To(Equal("test"))
		})
	}
}

// TestLeaseErrors: without an address there is no answer, and an unusable address is never given.
func TestLeaseErrors(t *testing.T) {
	for name, lease := range map[string]pxe.Lease{
		"nothing": {}, "our own address": {Address: ours}, "the router": {Address: netip.MustParseAddr("192.0.2.254")},
		"of another network": {Address: netip.MustParseAddr("198.51.100.1")}, "the broadcast address": {Address: netip.MustParseAddr("192.0.2.255")},
	} {
		t.Run(name, func(t *testing.T) {
			b := booter(networkBoot)
			b.Leases = func(pxe.LeaseRequest) (pxe.Lease, error) { return lease, nil }
			_, what := ask(t, server(bootconfig.Authoritative, b), discover(t), atServer)
			NewWithT(t).Expect(what).To(Equal(ResultFailed))
		})
	}
	b := booter(networkBoot)
	b.Leases = func(pxe.LeaseRequest) (pxe.Lease, error) { return pxe.Lease{}, errors.New("all are given") }
	_, what := ask(t, server(bootconfig.Authoritative, b), discover(t), atServer)
	NewWithT(t).Expect(what).To(Equal(ResultFailed))
	b.Leases = func(pxe.LeaseRequest) (pxe.Lease, error) {
		return pxe.Lease{}, fmt.Errorf("%w: an earlier request", pxe.ErrNotYet)
	}
	_, what = ask(t, server(bootconfig.Authoritative, b), discover(t), atServer)
	NewWithT(t).Expect(what).To(Equal(ResultUnsuitable), "nothing failed")
	b = booter(networkBoot)
	b.Err = errors.New("no cache")
	for _, mode := range []bootconfig.Mode{bootconfig.Proxy, bootconfig.Authoritative} {
		_, what = ask(t, server(mode, b), discover(t, pxeClient(iana.EFI_X86_64)...), atServer)
		NewWithT(t).Expect(what).To(Equal(ResultFailed))
	}
}

// TestProxy: the answers of a proxy, at both ports.
func TestProxy(t *testing.T) {
	const offer, ack, none = dhcpv4.MessageTypeOffer, dhcpv4.MessageTypeAck, dhcpv4.MessageTypeNone
	uefi := pxeClient(iana.EFI_X86_64)
	client := netip.MustParseAddr("192.0.2.200")
	for name, test := range map[string]struct {
		kind    dhcpv4.MessageType
		request []dhcpv4.Modifier
		in      arrival
		want    dhcpv4.MessageType
	}{
		"DISCOVER":                        {dhcpv4.MessageTypeDiscover, uefi, atServer, offer},
		"DISCOVER of an operating system": {dhcpv4.MessageTypeDiscover, nil, atServer, none},
		"DISCOVER of an unknown machine":  {dhcpv4.MessageTypeDiscover, with(uefi, dhcpv4.WithHwAddr(other)), atServer, none},
		"REQUEST to the other server":     {dhcpv4.MessageTypeRequest, with(uefi, serverID(stranger), requested(client)), atServer, none},
		"REQUEST that names us":           {dhcpv4.MessageTypeRequest, with(uefi, serverID(ours), requested(client)), atServer, none},
		"INIT-REBOOT":                     {dhcpv4.MessageTypeRequest, with(uefi, requested(client)), atServer, none},
		"INFORM":                          {dhcpv4.MessageTypeInform, with(uefi, ciaddr(client)), atServer, none},
		"RELEASE":                         {dhcpv4.MessageTypeRelease, with(uefi, ciaddr(client)), atServer, none},
		"DECLINE":                         {dhcpv4.MessageTypeDecline, with(uefi, requested(client)), atServer, none},
		"REQUEST at 4011":                 {dhcpv4.MessageTypeRequest, with(uefi, ciaddr(client)), atProxy, ack},
		"REQUEST at 4011 that names the other server": {dhcpv4.MessageTypeRequest, with(uefi, ciaddr(client), serverID(stranger)), atProxy, ack},
		"REQUEST at 4011 without an address":          {dhcpv4.MessageTypeRequest, uefi, atProxy, ack},
		"INFORM at 4011":                              {dhcpv4.MessageTypeInform, with(uefi, ciaddr(client)), atProxy, ack},
		"REQUEST at 4011 of an unknown machine":       {dhcpv4.MessageTypeRequest, with(uefi, ciaddr(client), dhcpv4.WithHwAddr(other)), atProxy, none},
		"REQUEST at 4011 of an operating system":      {dhcpv4.MessageTypeRequest, []dhcpv4.Modifier{ciaddr(client)}, atProxy, none},
		"DISCOVER at 4011":                            {dhcpv4.MessageTypeDiscover, uefi, atProxy, none},
		"DECLINE at 4011":                             {dhcpv4.MessageTypeDecline, with(uefi, requested(client)), atProxy, none},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := booter(networkBoot)
			reply, _ := ask(t, server(bootconfig.Proxy, b), message(t, test.kind, test.request...), test.in)
			g.Expect(b.Declined()).To(BeEmpty())
			if test.want == none {
				g.Expect(reply).To(BeNil())
				return
			}
			g.Expect(reply.MessageType()).To(Equal(test.want))
			checkProxy(g, reply)
			if test.want == ack {
				g.Expect(addrOf(reply.ClientIPAddr)).To(Equal(addrOf(message(t, test.kind, test.request...).ClientIPAddr)))
			}
		})
	}
}

// checkProxy checks the requirements of EDK2 for a proxy: no address, the class, no option 43, and the server and boot file.
func checkProxy(g Gomega, reply *dhcpv4.DHCPv4) {
	g.Expect(addrOf(reply.YourIPAddr).IsValid()).To(BeFalse())
	g.Expect(reply.Options.Has(dhcpv4.OptionIPAddressLeaseTime)).To(BeFalse())
	g.Expect(reply.Options.Has(dhcpv4.OptionSubnetMask)).To(BeFalse())
	g.Expect(reply.Options.Has(dhcpv4.OptionRouter)).To(BeFalse())
	g.Expect(reply.ClassIdentifier()).To(Equal(classPXE))
	g.Expect(reply.Options.Has(dhcpv4.OptionVendorSpecificInformation)).To(BeFalse())
	g.Expect(addrOf(reply.ServerIPAddr)).To(Equal(ours))
	g.Expect(addrOf(reply.ServerIdentifier())).To(Equal(ours))
	g.Expect(reply.BootFileName).To(Equal("52-54-00-00-00-01/snponly.efi"))
}

// TestProxyPortBeside: firmware that asks an authoritative server at the proxy port gets an answer too, without an address.
func TestProxyPortBeside(t *testing.T) {
	g := NewWithT(t)
	request := message(t, dhcpv4.MessageTypeRequest, with(pxeClient(iana.EFI_X86_64), ciaddr(leased))...)
	reply, _ := ask(t, server(bootconfig.Authoritative, booter(networkBoot)), request, atProxy)
	g.Expect(reply.MessageType()).To(Equal(dhcpv4.MessageTypeAck))
	checkProxy(g, reply)
}

func TestOff(t *testing.T) {
	for _, in := range []arrival{atServer, atProxy} {
		for kind := dhcpv4.MessageTypeDiscover; kind <= dhcpv4.MessageTypeInform; kind++ {
			_, what := ask(t, server(bootconfig.Off, booter(networkBoot)), message(t, kind, pxeClient(iana.EFI_X86_64)...), in)
			NewWithT(t).Expect(what).To(Equal(ResultElsewhere))
		}
	}
}

// TestProbe: a new address is offered on a local link only if no other machine answers for it.
func TestProbe(t *testing.T) {
	addresses := []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("192.0.2.12"), netip.MustParseAddr("192.0.2.13")}
	for name, test := range map[string]struct {
		used    int // how many of the addresses are in use
		owner   net.HardwareAddr
		old     bool
		err     error
		request *dhcpv4.DHCPv4
		offered netip.Addr
		probes  int
	}{
		"nobody":                      {request: discover(t), offered: addresses[0], probes: 1},
		"somebody":                    {used: 1, owner: other, request: discover(t), offered: addresses[1], probes: 2},
		"somebody without a name":     {used: 2, request: discover(t), offered: addresses[2], probes: 3},
		"the client itself":           {used: 1, owner: mac, request: discover(t), offered: addresses[0], probes: 1},
		"everywhere":                  {used: 4, owner: other, request: discover(t), probes: 3},
		"a probe that cannot be made": {used: 1, err: errors.New("no socket"), request: discover(t), offered: addresses[0], probes: 1},
		"an address that is known":    {used: 1, owner: other, old: true, request: discover(t), offered: addresses[0]},
		"behind a relay":              {used: 1, owner: other, request: discover(t, relayed("192.0.2.2")), offered: addresses[0]},
		"a client that comes back":    {used: 1, owner: other, request: message(t, dhcpv4.MessageTypeRequest, requested(addresses[0])), offered: addresses[0]},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := booter(known)
			b.Leases = func(pxe.LeaseRequest) (pxe.Lease, error) {
				return pxe.Lease{Address: addresses[len(b.Declined())], New: !test.old}, nil
			}
			s := server(bootconfig.Authoritative, b)
			probes := 0
			s.Probe = func(_ context.Context, from, address netip.Addr) (net.HardwareAddr, bool, error) {
				g.Expect(from).To(Equal(ours))
				g.Expect(address).To(Equal(addresses[probes]))
				probes++
				return test.owner, probes <= test.used, test.err
			}
			in := atServer
			if relay := relayOf(test.request); relay.IsValid() {
				in = byRelay(relay.String())
			}
			reply, what := ask(t, s, test.request, in)
			g.Expect(probes).To(Equal(test.probes))
			if !test.offered.IsValid() {
				g.Expect(what).To(Equal(ResultFailed))
				g.Expect(b.Declined()).To(Equal(addresses[:3]))
				return
			}
			g.Expect(addrOf(reply.YourIPAddr)).To(Equal(test.offered))
		})
	}
}

// TestProbeLoopback: a machine that refuses a packet uses the address. This machine has every loopback address.
func TestProbeLoopback(t *testing.T) {
	g := NewWithT(t)
	_, used, err := Probe(t.Context(), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.9"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(used).To(BeTrue())

	_, _, err = Probe(t.Context(), netip.MustParseAddr("240.0.0.1"), netip.MustParseAddr("127.0.0.9"))
	g.Expect(err).To(HaveOccurred(), "the address to ask from is not ours")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, used, err = Probe(ctx, netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.9"))
	g.Expect(err).To(HaveOccurred())
	g.Expect(used).To(BeFalse())
}
