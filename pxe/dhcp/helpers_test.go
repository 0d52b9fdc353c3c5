package dhcp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

var (
	mac   = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}
	other = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2}

	ours   = netip.MustParseAddr("192.0.2.1")
	leased = netip.MustParseAddr("192.0.2.77")

	networkBoot = pxe.Answer{Known: true, Boot: pxe.Network}
	diskBoot    = pxe.Answer{Known: true, Boot: pxe.Disk}
	known       = pxe.Answer{Known: true}
)

func network(mode bootconfig.Mode) bootconfig.Network {
	return bootconfig.Network{
		Name: "test", Mode: mode, Address: ours, URL: "http://192.0.2.1:8480", Subnet: netip.MustParsePrefix("192.0.2.0/24"),
		Router: netip.MustParseAddr("192.0.2.254"), DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")}, Domain: "example.com",
		NTP: []netip.Addr{netip.MustParseAddr("192.0.2.123")}, MTU: 9000, LeaseTime: time.Hour,
	}
}

func booter(answer pxe.Answer) *pxetest.Booter {
	return &pxetest.Booter{MAC: mac, Answer: answer, Address: leased}
}

func server(mode bootconfig.Mode, b pxe.Booter) *Server {
	s := &Server{Networks: []bootconfig.Network{network(mode)}, Booter: b, Log: logr.Discard()}
	s.devices.readDevice = func(int) Device { return Device{} } // no interface of this machine is known
	return s
}

// The ports at which a request may arrive.
var (
	atServer = arrival{Arrival: Arrival{Device: 7, Target: limitedBroadcast, Source: netip.MustParseAddrPort("0.0.0.0:68")}}
	atProxy  = arrival{Arrival: Arrival{Device: 7, Target: ours, Source: netip.MustParseAddrPort("192.0.2.200:4011")}, proxy: true}
)

// byRelay is the arrival of a request that a relay agent sends from an address.
func byRelay(address string) arrival {
	return arrival{Arrival: Arrival{Device: 7, Target: ours, Source: netip.AddrPortFrom(netip.MustParseAddr(address), serverPort)}}
}

func pxeClient(arch iana.Arch) []dhcpv4.Modifier {
	return []dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003016")), dhcpv4.WithOption(dhcpv4.OptClientArch(arch)),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, append([]byte{0}, make([]byte, 16)...))),
	}
}

func httpClient(arch iana.Arch) []dhcpv4.Modifier {
	return []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptClassIdentifier("HTTPClient:Arch:00016:UNDI:003001")), dhcpv4.WithOption(dhcpv4.OptClientArch(arch))}
}

// ipxeOptions are iPXE's own options with some features.
func ipxeOptions(features ...byte) dhcpv4.Modifier {
	var data []byte
	for _, f := range features {
		data = append(data, f, 1, 1)
	}
	return dhcpv4.WithOption(dhcpv4.OptGeneric(optionIPXE, data))
}

func ipxeClient() []dhcpv4.Modifier {
	return append(pxeClient(iana.INTEL_X86PC), dhcpv4.WithUserClass("iPXE", false), ipxeOptions(ipxeHTTP, 24))
}

func message(tb testing.TB, kind dhcpv4.MessageType, modifiers ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	tb.Helper()
	packet, err := dhcpv4.New(append([]dhcpv4.Modifier{dhcpv4.WithHwAddr(mac), dhcpv4.WithMessageType(kind)}, modifiers...)...)
	NewWithT(tb).Expect(err).NotTo(HaveOccurred())
	return packet
}

func discover(tb testing.TB, modifiers ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	tb.Helper()
	return message(tb, dhcpv4.MessageTypeDiscover, modifiers...)
}

func with(modifiers []dhcpv4.Modifier, more ...dhcpv4.Modifier) []dhcpv4.Modifier {
	return append(append([]dhcpv4.Modifier(nil), modifiers...), more...)
}

func requested(a netip.Addr) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptRequestedIPAddress(a.AsSlice()))
}

func serverID(a netip.Addr) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptServerIdentifier(a.AsSlice()))
}

func ciaddr(a netip.Addr) dhcpv4.Modifier { return dhcpv4.WithClientIP(a.AsSlice()) }

func relayed(giaddr string, sub ...dhcpv4.Option) dhcpv4.Modifier {
	return func(p *dhcpv4.DHCPv4) {
		p.GatewayIPAddr = netip.MustParseAddr(giaddr).AsSlice()
		if len(sub) > 0 {
			p.UpdateOption(dhcpv4.OptRelayAgentInfo(sub...))
		}
	}
}

// ask encodes a request, gives it to the server, and returns the decoded answer.
func ask(tb testing.TB, s *Server, request *dhcpv4.DHCPv4, in arrival) (*dhcpv4.DHCPv4, Result) {
	tb.Helper()
	g := NewWithT(tb)
	read, err := parse(request.ToBytes())
	g.Expect(err).NotTo(HaveOccurred())
	x, err := s.handle(tb.Context(), read, in)
	what := resultOf(x, err)
	if err != nil {
		return nil, what
	}
	reply, err := dhcpv4.FromBytes(x.reply.ToBytes())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reply.OpCode).To(Equal(dhcpv4.OpcodeBootReply))
	g.Expect(reply.TransactionID).To(Equal(request.TransactionID))
	g.Expect(reply.ClientHWAddr).To(Equal(request.ClientHWAddr))
	return reply, what
}
