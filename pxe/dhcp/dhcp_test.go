package dhcp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"
	"golang.org/x/net/ipv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

var (
	mac   = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}
	other = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2}
)

func config(mode Mode) Config {
	return Config{
		Mode: mode, Address: netip.MustParseAddr("192.0.2.1"), BaseURL: "http://192.0.2.1:8080", Network: netip.MustParsePrefix("192.0.2.0/24"),
		Router: netip.MustParseAddr("192.0.2.254"), DNS: []netip.Addr{netip.MustParseAddr("192.0.2.53")},
	}
}

func booter(answer pxe.Answer) *pxetest.Booter {
	return &pxetest.Booter{MAC: mac, Answer: answer, Address: netip.MustParseAddr("192.0.2.77")}
}

func pxeClient(arch iana.Arch) []dhcpv4.Modifier {
	return []dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00007:UNDI:003016")), dhcpv4.WithOption(dhcpv4.OptClientArch(arch)),
		dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientMachineIdentifier, append([]byte{0}, make([]byte, 16)...))),
	}
}

func httpClient() []dhcpv4.Modifier {
	return []dhcpv4.Modifier{
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("HTTPClient:Arch:00016:UNDI:003001")), dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_X86_64_HTTP)),
	}
}

func ipxeClient() []dhcpv4.Modifier {
	return append(pxeClient(iana.INTEL_X86PC), dhcpv4.WithUserClass("iPXE", false))
}

func discover(t *testing.T, from net.HardwareAddr, modifiers ...dhcpv4.Modifier) *dhcpv4.DHCPv4 {
	t.Helper()
	packet, err := dhcpv4.NewDiscovery(from, modifiers...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return packet
}

func TestBootFiles(t *testing.T) {
	network := pxe.Answer{Known: true, Boot: pxe.Network}
	legacyDisk := pxe.Answer{Known: true, Boot: pxe.Disk, Legacy: true}
	for name, test := range map[string]struct {
		client []dhcpv4.Modifier
		answer pxe.Answer
		file   string
		class  string
	}{
		"BIOS":                  {pxeClient(iana.INTEL_X86PC), network, "52-54-00-00-00-01/undionly.kpxe", "PXEClient"},
		"UEFI x64":              {pxeClient(iana.EFI_X86_64), network, "52-54-00-00-00-01/snponly.efi", "PXEClient"},
		"UEFI x64, as RFC 4578": {pxeClient(iana.EFI_BC), network, "52-54-00-00-00-01/snponly.efi", "PXEClient"},
		"UEFI arm64":            {pxeClient(iana.EFI_ARM64), network, "52-54-00-00-00-01/snponly-arm64.efi", "PXEClient"},
		"UEFI HTTP":             {httpClient(), network, "http://192.0.2.1:8080/loader/52-54-00-00-00-01/snponly.efi", "HTTPClient"},
		"iPXE":                  {ipxeClient(), network, "http://192.0.2.1:8080/ipxe/52-54-00-00-00-01", ""},
		"iPXE, disk":            {ipxeClient(), pxe.Answer{Known: true, Boot: pxe.Disk}, "http://192.0.2.1:8080/ipxe/52-54-00-00-00-01", ""},
		"iPXE, nothing":         {ipxeClient(), pxe.Answer{Known: true}, "", ""},
		"an unknown arch":       {pxeClient(iana.EFI_IA32), network, "", ""},
		"UEFI, disk":            {pxeClient(iana.EFI_X86_64), pxe.Answer{Known: true, Boot: pxe.Disk}, "", ""},
		"BIOS, disk":            {pxeClient(iana.INTEL_X86PC), legacyDisk, "52-54-00-00-00-01/undionly.kpxe", "PXEClient"},
		"BIOS, nothing":         {pxeClient(iana.INTEL_X86PC), pxe.Answer{Known: true}, "", ""},
		"an operating system":   {nil, network, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request := discover(t, mac, test.client...)
			reply, err := config(Authoritative).Reply(t.Context(), booter(test.answer), request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reply.BootFileName).To(Equal(test.file), "in the header")
			g.Expect(reply.BootFileNameOption()).To(Equal(test.file), "in the options")
			g.Expect(reply.ClassIdentifier()).To(Equal(test.class))
			g.Expect(reply.YourIPAddr.String()).To(Equal("192.0.2.77"))
			g.Expect(reply.Options.Get(dhcpv4.OptionClientMachineIdentifier)).To(Equal(request.Options.Get(dhcpv4.OptionClientMachineIdentifier)))

			reply, err = config(Proxy).Reply(t.Context(), booter(test.answer), request)
			if test.file == "" {
				g.Expect(silent(err)).To(BeTrue(), "a proxy with no boot file keeps silent")
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reply.BootFileName).To(Equal(test.file))
			g.Expect(reply.YourIPAddr.IsUnspecified()).To(BeTrue(), "a proxy gives no address")
			g.Expect(reply.IPAddressLeaseTime(0)).To(BeZero())
		})
	}
}

func TestAddress(t *testing.T) {
	g := NewWithT(t)
	b := booter(pxe.Answer{Known: true})
	offer, err := config(Authoritative).Reply(t.Context(), b, discover(t, mac))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(offer.MessageType()).To(Equal(dhcpv4.MessageTypeOffer))
	g.Expect(offer.IPAddressLeaseTime(0)).To(Equal(time.Hour))
	g.Expect(offer.SubnetMask().String()).To(Equal("ffffff00"))
	g.Expect(offer.Router()[0].String()).To(Equal("192.0.2.254"))
	g.Expect(offer.DNS()[0].String()).To(Equal("192.0.2.53"))

	request, err := dhcpv4.NewRequestFromOffer(offer)
	g.Expect(err).NotTo(HaveOccurred())
	ack, err := config(Authoritative).Reply(t.Context(), b, request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ack.MessageType()).To(Equal(dhcpv4.MessageTypeAck))

	b.Address = netip.MustParseAddr("192.0.2.78")
	nak, err := config(Authoritative).Reply(t.Context(), b, request)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(nak.MessageType()).To(Equal(dhcpv4.MessageTypeNak))
	g.Expect(nak.YourIPAddr.IsUnspecified()).To(BeTrue())
}

func TestSilence(t *testing.T) {
	known := pxe.Answer{Known: true, Boot: pxe.Network}
	elsewhere := func(p *dhcpv4.DHCPv4) { p.UpdateOption(dhcpv4.OptServerIdentifier(net.IP{192, 0, 2, 9})) }
	for name, request := range map[string]*dhcpv4.DHCPv4{
		"another machine": discover(t, other, pxeClient(iana.EFI_X86_64)...),
		"another server":  discover(t, mac, append(pxeClient(iana.EFI_X86_64), elsewhere)...),
		"a release":       discover(t, mac, dhcpv4.WithMessageType(dhcpv4.MessageTypeRelease)),
		"a reply":         discover(t, mac, func(p *dhcpv4.DHCPv4) { p.OpCode = dhcpv4.OpcodeBootReply }),
		"no Ethernet":     discover(t, net.HardwareAddr{1, 2, 3, 4, 5, 6, 7, 8}),
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []Mode{Proxy, Authoritative} {
				_, err := config(mode).Reply(t.Context(), booter(known), request)
				NewWithT(t).Expect(silent(err)).To(BeTrue(), "%v", err)
			}
		})
	}
}

func TestDestination(t *testing.T) {
	from := &net.UDPAddr{IP: net.IP{192, 0, 2, 200}, Port: 4000}
	relayed := func(p *dhcpv4.DHCPv4) { p.GatewayIPAddr = net.IP{192, 0, 2, 200} }
	port := dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.RelaySourcePortSubOption, nil)))
	for name, test := range map[string]struct {
		request *dhcpv4.DHCPv4
		kind    dhcpv4.MessageType
		want    string
	}{
		"everyone":                 {discover(t, mac), dhcpv4.MessageTypeOffer, "255.255.255.255:68"},
		"a relay":                  {discover(t, mac, relayed), dhcpv4.MessageTypeOffer, "192.0.2.200:67"},
		"a relay that names ports": {discover(t, mac, relayed, port), dhcpv4.MessageTypeOffer, "192.0.2.200:4000"},
		"who has an address":       {discover(t, mac, dhcpv4.WithClientIP(net.IP{192, 0, 2, 5})), dhcpv4.MessageTypeAck, "192.0.2.5:68"},
		"who asks port 4011":       {discover(t, mac, dhcpv4.WithClientIP(net.IP{192, 0, 2, 200})), dhcpv4.MessageTypeAck, "192.0.2.200:4000"},
		"who may not keep it":      {discover(t, mac, dhcpv4.WithClientIP(net.IP{192, 0, 2, 5})), dhcpv4.MessageTypeNak, "255.255.255.255:68"},
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := dhcpv4.NewReplyFromRequest(test.request, dhcpv4.WithMessageType(test.kind))
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			target, out := destination(test.request, reply, &ipv4.ControlMessage{IfIndex: 7}, from)
			g.Expect(target.String()).To(Equal(test.want))
			if test.want == "255.255.255.255:68" {
				g.Expect(out.IfIndex).To(Equal(7), "the answer goes out by the interface that the request came in by")
			}
		})
	}
}

// FuzzReply: no packet brings the server down, and every answer can be read again.
func FuzzReply(f *testing.F) {
	for _, modifiers := range [][]dhcpv4.Modifier{nil, pxeClient(iana.EFI_X86_64), ipxeClient(), httpClient()} {
		packet, err := dhcpv4.NewDiscovery(mac, modifiers...)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet.ToBytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		request, err := dhcpv4.FromBytes(data)
		if err != nil {
			return
		}
		for _, mode := range []Mode{Proxy, Authoritative} {
			reply, err := config(mode).Reply(t.Context(), booter(pxe.Answer{Known: true, Boot: pxe.Network}), request)
			if err != nil {
				continue
			}
			if _, err := dhcpv4.FromBytes(reply.ToBytes()); err != nil {
				t.Fatalf("the answer cannot be read: %v", err)
			}
			destination(request, reply, nil, &net.UDPAddr{IP: net.IP{192, 0, 2, 3}, Port: 68})
		}
	})
}
