package dhcp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// anyRequest draws a request as it may come over the wire.
func anyRequest(t *rapid.T) *dhcpv4.DHCPv4 {
	address := rapid.SampledFrom([]net.IP{nil, {192, 0, 2, 77}, {192, 0, 2, 9}, {192, 0, 2, 1}, {10, 0, 0, 1}, {255, 255, 255, 255}})
	p, err := dhcpv4.New(
		dhcpv4.WithHwAddr(rapid.SampledFrom([]net.HardwareAddr{mac, other, {}, {1, 2, 3, 4, 5, 6, 7, 8}}).Draw(t, "mac")),
		dhcpv4.WithOption(dhcpv4.OptMessageType(dhcpv4.MessageType(rapid.Byte().Draw(t, "kind")%12))),
	)
	if err != nil {
		t.Fatal(err)
	}
	p.ClientIPAddr, p.GatewayIPAddr = address.Draw(t, "ciaddr"), address.Draw(t, "giaddr")
	p.Flags = rapid.Uint16().Draw(t, "flags")
	for _, code := range []dhcpv4.OptionCode{
		dhcpv4.OptionRequestedIPAddress, dhcpv4.OptionServerIdentifier, dhcpv4.OptionSubnetSelection,
	} {
		if a := address.Draw(t, code.String()); a != nil {
			p.UpdateOption(dhcpv4.OptGeneric(code, a))
		}
	}
	class := rapid.SampledFrom([]string{"", "PXEClient", "PXEClient:Arch:00007", "HTTPClient:Arch:00016", "MSFT"}).Draw(t, "class")
	if class != "" {
		p.UpdateOption(dhcpv4.OptClassIdentifier(class))
	}
	if rapid.Bool().Draw(t, "has an architecture") {
		p.UpdateOption(dhcpv4.OptClientArch(iana.Arch(rapid.Uint16Range(0, 30).Draw(t, "architecture"))))
	}
	for _, code := range []dhcpv4.OptionCode{
		dhcpv4.OptionUserClassInformation, optionIPXE, dhcpv4.OptionRelayAgentInformation, dhcpv4.OptionVendorSpecificInformation, dhcpv4.OptionClientIdentifier,
		dhcpv4.OptionClientMachineIdentifier, dhcpv4.OptionMaximumDHCPMessageSize,
	} {
		if rapid.Bool().Draw(t, "has "+code.String()) {
			p.UpdateOption(dhcpv4.OptGeneric(code, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, code.String())))
		}
	}
	return p
}

// promises checks the requirements for the answer to any request.
func promises(t interface{ Fatalf(string, ...any) }, s *Server, b pxe.Booter, request, reply *dhcpv4.DHCPv4, in arrival) {
	n := s.Networks[0]
	answer, _ := b.Lookup(nil, request.ClientHWAddr) //nolint:staticcheck // a fake that needs no context
	named := reply.BootFileName + reply.BootFileNameOption()
	given := addrOf(reply.YourIPAddr)
	switch {
	case in.Source.Addr() == fromOutside.Source.Addr():
		t.Fatalf("a machine outside of the network got an answer: %s", request)
	case relayOf(request).IsValid() && relayOf(request) != in.Source.Addr():
		t.Fatalf("a relay is answered that sends from %s: %s", in.Source, request)
	case !answer.Known:
		t.Fatalf("an unknown machine got an answer: %s", reply)
	case n.Mode == bootconfig.Off:
		t.Fatalf("an answer where DHCP is off: %s", reply)
	case answer.Boot == pxe.NotYet && Classify(request).Boots():
		t.Fatalf("firmware of a server that is not powered on yet is answered: %s", reply)
	case answer.Boot == pxe.Ignore && named != "":
		t.Fatalf("a boot file for a server that boots nothing: %s", named)
	case given.IsValid() && (n.Mode == bootconfig.Proxy || in.proxy):
		t.Fatalf("a proxy gives an address: %s", reply)
	case given.IsValid() && !n.Usable(given):
		t.Fatalf("an unusable address: %s", given)
	case given.IsValid() != reply.Options.Has(dhcpv4.OptionIPAddressLeaseTime):
		t.Fatalf("an address without a time, or a time without an address: %s", reply)
	case reply.MessageType() == dhcpv4.MessageTypeNak && (n.Mode != bootconfig.Authoritative || given.IsValid() || named != ""):
		t.Fatalf("a NAK that says more: %s", reply)
	case !reply.Options.Has(dhcpv4.OptionServerIdentifier):
		t.Fatalf("an answer without a server identifier: %s", reply)
	}
	if size := len(reply.ToBytes()); size > maxMessageSize-udpOverhead {
		t.Fatalf("an answer of %d bytes", size)
	}
	x := &exchange{request: request, reply: reply, in: in, network: n}
	if target, _ := destination(x); addrOf(target.(*net.UDPAddr).IP) == (netip.Addr{}) {
		t.Fatalf("an answer to nowhere: %s", target)
	}
}

var answers = []pxe.Answer{
	{Known: true}, {Known: true, Boot: pxe.Network}, {Known: true, Boot: pxe.Network, SecureBoot: true}, {Known: true, Boot: pxe.Disk}, {Known: true, Boot: pxe.Disk, BIOS: true},
	{Known: true, Boot: pxe.NotYet},
}

// fromOutside is the arrival of a routed request, from an address of no network.
var fromOutside = byRelay("10.0.0.1")

var arrivals = []arrival{atServer, atProxy, byRelay("192.0.2.3"), byRelay("192.0.2.9"), fromOutside, {Arrival: fromOutside.Arrival, proxy: true}}

func TestPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]bootconfig.Mode{bootconfig.Off, bootconfig.Proxy, bootconfig.Authoritative}).Draw(t, "mode")
		b := booter(rapid.SampledFrom(answers).Draw(t, "answer"))
		b.Address = rapid.SampledFrom([]netip.Addr{leased, ours, {}, netip.MustParseAddr("10.0.0.1")}).Draw(t, "leased")
		s := server(mode, b)
		in := rapid.SampledFrom(arrivals).Draw(t, "arrival")
		request, err := parse(anyRequest(t).ToBytes())
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.handle(t.Context(), request, in)
		if err != nil {
			return
		}
		reply, err := dhcpv4.FromBytes(x.reply.ToBytes())
		if err != nil {
			t.Fatalf("the answer cannot be read: %v", err)
		}
		promises(t, s, b, request, reply, in)
	})
}

// FuzzReply: no packet makes the server panic, and every answer fulfills the requirements.
func FuzzReply(f *testing.F) {
	for _, modifiers := range [][]dhcpv4.Modifier{
		nil, pxeClient(iana.EFI_X86_64), ipxeClient(), httpClient(iana.EFI_X86_64_HTTP), {relayed("192.0.2.3", link("192.0.2.0")), selection("192.0.2.0")},
	} {
		for kind := dhcpv4.MessageTypeDiscover; kind <= dhcpv4.MessageTypeInform; kind++ {
			f.Add(message(f, kind, modifiers...).ToBytes())
			f.Add(message(f, kind, with(modifiers, requested(leased), serverID(ours))...).ToBytes())
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		request, err := parse(data)
		if err != nil {
			return
		}
		for _, mode := range []bootconfig.Mode{bootconfig.Proxy, bootconfig.Authoritative} {
			for _, in := range arrivals {
				b := booter(networkBoot)
				s := server(mode, b)
				x, err := s.handle(t.Context(), request, in)
				s.logResult(x, resultOf(x, err), err)
				if err != nil {
					continue
				}
				reply, err := dhcpv4.FromBytes(x.reply.ToBytes())
				if err != nil {
					t.Fatalf("the answer cannot be read: %v", err)
				}
				promises(t, s, b, request, reply, in)
			}
		}
	})
}
