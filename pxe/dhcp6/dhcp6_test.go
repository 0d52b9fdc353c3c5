package dhcp6

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

var (
	mac     = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}
	other   = net.HardwareAddr{0x52, 0x54, 0, 0, 0, 2}
	bootsUp = pxe.Answer{Known: true, Boot: pxe.Network}
	leased  = netip.MustParseAddr("2001:db8::77")
)

func network(mode bootconfig.Mode) bootconfig.Network {
	return bootconfig.Network{
		Name: "rack-1", Mode: mode, Interface: "lo", Subnet: netip.MustParsePrefix("2001:db8::/64"), Address: netip.MustParseAddr("2001:db8::5"),
		URL: "http://[2001:db8::5]:8480", DNS: []netip.Addr{netip.MustParseAddr("2001:db8::53")}, Domain: "example.com",
		NTP: []netip.Addr{netip.MustParseAddr("2001:db8::123")}, LeaseTime: 40 * time.Minute,
	}
}

func newBooter(answer pxe.Answer) *pxetest.Booter {
	return &pxetest.Booter{MAC: mac, Answer: answer, Address: leased}
}

// wire is a server at a loopback address with a client.
type wire struct {
	*Server

	t       *testing.T
	booter  *pxetest.Booter
	metrics *prometheus.Registry
	client  net.PacketConn
	at      net.Addr
}

func newWire(t *testing.T, booter *pxetest.Booter, networks ...bootconfig.Network) *wire {
	t.Helper()
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())
	s, err := New(&Server{Networks: networks, Booter: booter, Log: logr.Discard(), Metrics: metrics})
	g.Expect(err).NotTo(HaveOccurred())
	conn, err := net.ListenPacket("udp6", "[::1]:0") //nolint:noctx // returns at once
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, conn) }()
	client, err := net.ListenPacket("udp6", "[::1]:0") //nolint:noctx // returns at once
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
		_ = client.Close()
	})
	return &wire{Server: s, t: t, booter: booter, metrics: registry, client: client, at: conn.LocalAddr()}
}

func (w *wire) send(packet dhcpv6.DHCPv6) {
	_, err := w.client.WriteTo(packet.ToBytes(), w.at)
	NewWithT(w.t).Expect(err).NotTo(HaveOccurred())
}

// receive returns the next answer.
func (w *wire) receive() dhcpv6.DHCPv6 {
	g := NewWithT(w.t)
	buffer := make([]byte, 1<<16)
	g.Expect(w.client.SetReadDeadline(time.Now().Add(10 * time.Second))).To(Succeed())
	n, _, err := w.client.ReadFrom(buffer)
	g.Expect(err).NotTo(HaveOccurred())
	packet, err := dhcpv6.FromBytes(buffer[:n])
	g.Expect(err).NotTo(HaveOccurred())
	return packet
}

func (w *wire) exchange(request *dhcpv6.Message) *dhcpv6.Message {
	w.send(request)
	reply, ok := w.receive().(*dhcpv6.Message)
	g := NewWithT(w.t)
	g.Expect(ok).To(BeTrue())
	g.Expect(reply.TransactionID).To(Equal(request.TransactionID))
	g.Expect(reply.Options.ServerID()).To(Equal(identifierOf(w.Networks[0])))
	if request.Options.ClientID() != nil {
		g.Expect(reply.Options.ClientID()).To(Equal(request.Options.ClientID()))
	}
	return reply
}

// silent sends a request without an answer, and then one with an answer.
func (w *wire) expectSilence(packet dhcpv6.DHCPv6) {
	w.send(packet)
	w.exchange(message(dhcpv6.MessageTypeSolicit))
}

// counted returns a counter. Another worker may increase it after the answer left, so a test waits for it.
func (w *wire) counted(kind, what string) float64 {
	return testutil.ToFloat64(w.Metrics.requests.WithLabelValues("rack-1", kind, what))
}

// message returns a message of a client with a DUID-LL, an identity association and a request for all options.
func message(kind dhcpv6.MessageType, modifiers ...dhcpv6.Modifier) *dhcpv6.Message {
	m, err := dhcpv6.NewMessage(append([]dhcpv6.Modifier{
		dhcpv6.WithClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: mac}),
		dhcpv6.WithIAID([4]byte{1, 2, 3, 4}),
		dhcpv6.WithRequestedOptions(dhcpv6.OptionDNSRecursiveNameServer, dhcpv6.OptionDomainSearchList, dhcpv6.OptionNTPServer),
	}, modifiers...)...)
	if err != nil {
		panic(err)
	}
	m.MessageType = kind
	return m
}

func toUs(d dhcpv6.DHCPv6) {
	d.UpdateOption(dhcpv6.OptServerID(identifierOf(network(bootconfig.Authoritative))))
}

func has(addresses ...string) dhcpv6.Modifier {
	return func(d dhcpv6.DHCPv6) {
		ia := &dhcpv6.OptIANA{IaId: [4]byte{1, 2, 3, 4}}
		for _, a := range addresses {
			ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(a), PreferredLifetime: time.Minute, ValidLifetime: time.Minute})
		}
		d.UpdateOption(ia)
	}
}

func without(code dhcpv6.OptionCode) dhcpv6.Modifier {
	return func(d dhcpv6.DHCPv6) { d.(*dhcpv6.Message).Options.Del(code) }
}

func firmware(class string, arch iana.Arch) dhcpv6.Modifier {
	return func(d dhcpv6.DHCPv6) {
		d.AddOption(&dhcpv6.OptVendorClass{EnterpriseNumber: intelEnterprise, Data: [][]byte{[]byte(class + ":Arch:00007:UNDI:003001")}})
		if arch != noArch {
			d.AddOption(dhcpv6.OptClientArchType(arch))
		}
	}
}

var iPXE = dhcpv6.WithUserClass([]byte("iPXE"))

// expectLease checks that an answer has the address that the server keeps.
func expectLease(g Gomega, reply *dhcpv6.Message) *dhcpv6.OptIANA {
	ia := reply.Options.OneIANA()
	g.Expect(ia).NotTo(BeNil())
	g.Expect(ia.IaId).To(Equal([4]byte{1, 2, 3, 4}))
	g.Expect(ia.T1).To(Equal(20 * time.Minute))
	g.Expect(ia.T2).To(Equal(32 * time.Minute))
	a := ia.Options.OneAddress()
	g.Expect(a).NotTo(BeNil())
	g.Expect(a.IPv6Addr.String()).To(Equal(leased.String()))
	g.Expect(a.ValidLifetime).To(Equal(40 * time.Minute))
	g.Expect(a.PreferredLifetime).To(Equal(40 * time.Minute))
	return ia
}

// TestMessages: each kind of message over a real socket, in the mode authoritative.
func TestMessages(t *testing.T) {
	g := NewWithT(t)
	w := newWire(t, newBooter(pxe.Answer{Known: true}), network(bootconfig.Authoritative))

	advertise := w.exchange(message(dhcpv6.MessageTypeSolicit))
	g.Expect(advertise.MessageType).To(Equal(dhcpv6.MessageTypeAdvertise))
	expectLease(g, advertise)
	g.Expect(advertise.Options.Preference()).To(Equal(uint8(255)))
	g.Expect(advertise.Options.DNS()).To(HaveLen(1))
	g.Expect(advertise.Options.DomainSearchList().Labels).To(Equal([]string{"example.com"}))
	g.Expect(advertise.Options.NTPServers()[0].String()).To(Equal("2001:db8::123"))

	rapid := w.exchange(message(dhcpv6.MessageTypeSolicit, dhcpv6.WithRapidCommit))
	g.Expect(rapid.MessageType).To(Equal(dhcpv6.MessageTypeReply))
	g.Expect(rapid.GetOneOption(dhcpv6.OptionRapidCommit)).NotTo(BeNil())
	expectLease(g, rapid)

	for _, kind := range []dhcpv6.MessageType{dhcpv6.MessageTypeRequest, dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind} {
		m := message(kind, has("2001:db8::77"))
		if kind != dhcpv6.MessageTypeRebind {
			toUs(m)
		}
		reply := w.exchange(m)
		g.Expect(reply.MessageType).To(Equal(dhcpv6.MessageTypeReply))
		g.Expect(expectLease(g, reply).Options.Addresses()).To(HaveLen(1))
	}
	for _, kind := range []dhcpv6.MessageType{dhcpv6.MessageTypeRenew, dhcpv6.MessageTypeRebind} {
		m := message(kind, has("2001:db8::66", "2001:db8:1::1"))
		if kind != dhcpv6.MessageTypeRebind {
			toUs(m)
		}
		addresses := expectLease(g, w.exchange(m)).Options.Addresses()
		g.Expect(addresses).To(HaveLen(3))
		for _, a := range addresses[1:] {
			g.Expect(a.ValidLifetime+a.PreferredLifetime).To(BeZero(), "it stops using what is not its")
		}
	}
	elsewhere := w.exchange(message(dhcpv6.MessageTypeRequest, toUs, has("2001:db8:1::1"))).Options.OneIANA()
	g.Expect(elsewhere.Options.Status().StatusCode).To(Equal(iana.StatusNotOnLink))
	g.Expect(elsewhere.Options.Addresses()).To(BeEmpty())

	g.Expect(w.exchange(message(dhcpv6.MessageTypeConfirm, has("2001:db8::66"))).Options.Status().StatusCode).To(Equal(iana.StatusSuccess))
	g.Expect(w.exchange(message(dhcpv6.MessageTypeConfirm, has("2001:db8::66", "2001:db8:1::1"))).Options.Status().StatusCode).To(Equal(iana.StatusNotOnLink))
	g.Expect(w.exchange(message(dhcpv6.MessageTypeRelease, toUs, has("2001:db8::77"))).Options.Status().StatusCode).To(Equal(iana.StatusSuccess))
	decline := message(dhcpv6.MessageTypeDecline, toUs, has("2001:db8::77"))
	w.exchange(message(dhcpv6.MessageTypeRequest, toUs, has("2001:db8::77")))
	g.Expect(w.exchange(decline).Options.Status().StatusCode).To(Equal(iana.StatusSuccess))
	g.Expect(w.booter.Declined()).To(Equal([]netip.Addr{leased}))
	for _, before := range []*dhcpv6.Message{message(dhcpv6.MessageTypeRenew, toUs, has("2001:db8::77")), message(dhcpv6.MessageTypeSolicit)} {
		w.exchange(before)
		g.Expect(w.exchange(decline).Options.Status().StatusCode).To(Equal(iana.StatusSuccess))
		g.Expect(w.booter.Declined()).To(HaveLen(1), "a server that only renewed its address, or was offered one, declines it")
	}

	information := w.exchange(message(dhcpv6.MessageTypeInformationRequest, without(dhcpv6.OptionIANA)))
	g.Expect(information.MessageType).To(Equal(dhcpv6.MessageTypeReply))
	g.Expect(information.Options.DNS()).To(HaveLen(1))
	g.Expect(information.Options.OneIANA()).To(BeNil())
	g.Eventually(func() float64 { return w.counted("information-request", "answered") }).Should(Equal(1.0))
}

// TestIdentities: a server gets one address, and nothing else.
func TestIdentities(t *testing.T) {
	g := NewWithT(t)
	w := newWire(t, newBooter(pxe.Answer{Known: true}), network(bootconfig.Authoritative))
	many := func(d dhcpv6.DHCPv6) {
		for i := range byte(40) {
			d.AddOption(&dhcpv6.OptIANA{IaId: [4]byte{9, 9, 9, i}})
			d.AddOption(&dhcpv6.OptIATA{IaId: [4]byte{9, 9, 9, i}})
			d.AddOption(&dhcpv6.OptIAPD{IaId: [4]byte{9, 9, 9, i}})
		}
	}
	options := w.exchange(message(dhcpv6.MessageTypeSolicit, many)).Options
	g.Expect(options.IANA()).To(HaveLen(maxIdentities))
	g.Expect(options.IANA()[0].Options.Addresses()).To(HaveLen(1))
	for _, ia := range options.IANA()[1:] {
		g.Expect(ia.Options.Status().StatusCode).To(Equal(iana.StatusNoAddrsAvail))
		g.Expect(ia.Options.Addresses()).To(BeEmpty())
	}
	g.Expect(options.OneIATA().Options.Status().StatusCode).To(Equal(iana.StatusNoAddrsAvail))
	g.Expect(options.OneIAPD().Options.Status().StatusCode).To(Equal(iana.StatusNoPrefixAvail))
}

// TestWanted: the lease request has the network and the address of the client.
func TestWanted(t *testing.T) {
	g := NewWithT(t)
	booter := newBooter(pxe.Answer{Known: true})
	requests := make(chan pxe.LeaseRequest, 3)
	answers := make(chan pxe.Lease, 3)
	booter.Leases = func(r pxe.LeaseRequest) (pxe.Lease, error) {
		requests <- r
		lease, ok := <-answers
		if !ok {
			return pxe.Lease{}, errors.New("no API server")
		}
		return lease, nil
	}
	w := newWire(t, booter, network(bootconfig.Authoritative))
	answers <- pxe.Lease{Address: leased}
	w.exchange(message(dhcpv6.MessageTypeSolicit, has("2001:db8:1::1", "2001:db8::66")))
	g.Expect(<-requests).To(Equal(pxe.LeaseRequest{MAC: mac, Pool: network(bootconfig.Authoritative).Pool(), Wanted: netip.MustParseAddr("2001:db8::66")}))
	answers <- pxe.Lease{Address: network(bootconfig.Authoritative).Address}
	w.send(message(dhcpv6.MessageTypeSolicit))
	g.Eventually(func() float64 { return w.counted("solicit", "failed") }).Should(Equal(1.0), "the address of the boot server is never leased")
	close(answers)
	w.send(message(dhcpv6.MessageTypeRenew, toUs, has(leased.String())))
	g.Eventually(func() float64 { return w.counted("renew", "failed") }).Should(Equal(1.0), "it keeps its address until a server answers")
}

// TestBootFiles: the boot file of each kind of client, in each mode.
func TestBootFiles(t *testing.T) {
	const (
		tftp   = "tftp://[2001:db8::5]/52-54-00-00-00-01/"
		web    = "http://[2001:db8::5]:8480/loader/52-54-00-00-00-01/"
		script = "http://[2001:db8::5]:8480/ipxe/52-54-00-00-00-01"
	)
	secure := pxe.Answer{Known: true, Boot: pxe.Network, SecureBoot: true}
	disk := pxe.Answer{Known: true, Boot: pxe.Disk}
	for name, c := range map[string]struct {
		client []dhcpv6.Modifier
		answer pxe.Answer
		url    string
		class  string
	}{
		"UEFI x64":               {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_X86_64)}, bootsUp, tftp + "snponly.efi", ""},
		"UEFI x64, as RFC 4578":  {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_BC)}, bootsUp, tftp + "snponly.efi", ""},
		"UEFI x64, by its class": {[]dhcpv6.Modifier{firmware(classPXE, noArch)}, bootsUp, tftp + "snponly.efi", ""},
		"UEFI arm64":             {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_ARM64)}, bootsUp, tftp + "snponly-arm64.efi", ""},
		"UEFI HTTP":              {[]dhcpv6.Modifier{firmware(classHTTP, iana.EFI_X86_64_HTTP)}, bootsUp, web + "snponly.efi", classHTTP},
		"UEFI HTTP arm64":        {[]dhcpv6.Modifier{firmware(classHTTP, iana.EFI_ARM64_HTTP)}, bootsUp, web + "snponly-arm64.efi", classHTTP},
		"Secure Boot":            {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_X86_64)}, secure, tftp + "shimx64.efi", ""},
		"Secure Boot HTTP":       {[]dhcpv6.Modifier{firmware(classHTTP, iana.EFI_ARM64_HTTP)}, secure, web + "shimaa64.efi", classHTTP},
		"iPXE":                   {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_X86_64), iPXE}, bootsUp, script, ""},
		"iPXE started by HTTP":   {[]dhcpv6.Modifier{firmware(classHTTP, iana.EFI_X86_64_HTTP), iPXE}, bootsUp, script, ""},
		"iPXE, disk":             {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_X86_64), iPXE}, disk, script, ""},
		"UEFI, disk":             {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_X86_64)}, disk, "", ""},
		"UEFI, nothing":          {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_X86_64)}, pxe.Answer{Known: true}, "", ""},
		"iPXE, nothing":          {[]dhcpv6.Modifier{iPXE}, pxe.Answer{Known: true}, "", ""},
		"a BIOS":                 {[]dhcpv6.Modifier{firmware(classPXE, iana.INTEL_X86PC)}, bootsUp, "", ""},
		"32-bit UEFI":            {[]dhcpv6.Modifier{firmware(classPXE, iana.EFI_IA32)}, bootsUp, "", ""},
		"an operating system":    {nil, bootsUp, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWire(t, newBooter(c.answer), network(bootconfig.Authoritative))
			class := func(m *dhcpv6.Message) string { return string(bytes.Join(m.Options.VendorClass(intelEnterprise), nil)) }
			reply := w.exchange(message(dhcpv6.MessageTypeSolicit, c.client...))
			expectLease(g, reply)
			g.Expect(reply.Options.BootFileURL()).To(Equal(c.url))
			// EDK2 asks port 4011 if an answer with an address has the class PXEClient.
			g.Expect(class(reply)).To(Equal(c.class))
			information := w.exchange(message(dhcpv6.MessageTypeInformationRequest, append(c.client, without(dhcpv6.OptionIANA))...))
			g.Expect(information.Options.BootFileURL()).To(Equal(c.url))
			switch {
			case c.url != "":
				g.Expect(w.booter.Stages()).To(Equal([]pxe.Stage{pxe.StageDHCP}))
			case c.client != nil:
				g.Expect(w.booter.Stages()).To(Equal([]pxe.Stage{pxe.StageFirmware}), "that firmware asked is seen all the same")
			default:
				g.Expect(w.booter.Stages()).To(BeEmpty())
			}

			proxy := newWire(t, newBooter(c.answer), network(bootconfig.Proxy))
			stateless := message(dhcpv6.MessageTypeInformationRequest, append(c.client, without(dhcpv6.OptionIANA))...)
			if c.url == "" {
				proxy.send(stateless)
				g.Eventually(func() float64 { return proxy.counted("information-request", "nothing") }).Should(Equal(1.0))
				return
			}
			g.Expect(proxy.exchange(stateless).Options.BootFileURL()).To(Equal(c.url))
		})
	}
}

// TestProxy: beside another DHCPv6 server, firmware gets its boot file in an ADVERTISE without addresses, and once more when it asks
// for it alone. All other messages are for the other server.
func TestProxy(t *testing.T) {
	g := NewWithT(t)
	w := newWire(t, newBooter(bootsUp), network(bootconfig.Proxy))
	for class, arch := range map[string]iana.Arch{classPXE: iana.EFI_X86_64, classHTTP: iana.EFI_X86_64_HTTP} {
		advertise := w.exchange(message(dhcpv6.MessageTypeSolicit, firmware(class, arch), dhcpv6.WithRapidCommit))
		g.Expect(advertise.MessageType).To(Equal(dhcpv6.MessageTypeAdvertise))
		g.Expect(advertise.Options.OneIANA()).To(BeNil())
		g.Expect(advertise.Options.VendorClass(intelEnterprise)).To(Equal([][]byte{[]byte(class)}))
		g.Expect(advertise.Options.BootFileURL()).NotTo(BeEmpty())
		g.Expect(advertise.Options.Preference()).To(BeZero())
	}
	again := w.exchange(message(dhcpv6.MessageTypeRequest, toUs, without(dhcpv6.OptionIANA), firmware(classPXE, iana.EFI_X86_64)))
	g.Expect(again.Options.BootFileURL()).To(Equal("tftp://[2001:db8::5]/52-54-00-00-00-01/snponly.efi"))
	for _, m := range []*dhcpv6.Message{
		message(dhcpv6.MessageTypeSolicit, firmware(classPXE, iana.EFI_X86_64), iPXE), message(dhcpv6.MessageTypeRebind, firmware(classPXE, iana.EFI_X86_64)),
		message(dhcpv6.MessageTypeRequest, toUs, firmware(classPXE, iana.EFI_X86_64)), message(dhcpv6.MessageTypeConfirm, iPXE),
	} {
		w.send(m)
	}
	g.Eventually(func() float64 {
		return w.counted("solicit", "elsewhere") + w.counted("rebind", "elsewhere") + w.counted("request", "elsewhere") + w.counted("confirm", "elsewhere")
	}).Should(Equal(4.0))
}

// TestSoon: firmware of a server that is not powered on yet gets no answer, so that it asks again. An operating system gets its address.
func TestSoon(t *testing.T) {
	notYet := pxe.Answer{Known: true, Boot: pxe.NotYet}
	for name, client := range map[string][]dhcpv6.Modifier{
		"UEFI": {firmware(classPXE, iana.EFI_X86_64)}, "UEFI HTTP": {firmware(classHTTP, iana.EFI_X86_64_HTTP)}, "iPXE": {firmware(classPXE, iana.EFI_X86_64), iPXE},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWire(t, newBooter(notYet), network(bootconfig.Authoritative))
			w.expectSilence(message(dhcpv6.MessageTypeSolicit, client...)) // an operating system is answered
			w.expectSilence(message(dhcpv6.MessageTypeInformationRequest, append(client, without(dhcpv6.OptionIANA))...))
			g.Eventually(func() float64 { return w.counted("solicit", "nothing") + w.counted("information-request", "nothing") }).Should(Equal(2.0))
			g.Expect(w.booter.Stages()).NotTo(ContainElement(pxe.StageDHCP))
		})
	}
}

// TestSilence: messages for other servers, and of unknown clients, get no answer, and are counted.
func TestSilence(t *testing.T) {
	stranger := func(d dhcpv6.DHCPv6) {
		d.UpdateOption(dhcpv6.OptClientID(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: other}))
	}
	anonymous := func(d dhcpv6.DHCPv6) { d.UpdateOption(dhcpv6.OptClientID(&dhcpv6.DUIDUUID{})) }
	for name, c := range map[string]struct {
		packet     *dhcpv6.Message
		kind, what string
	}{
		"a stranger":                      {message(dhcpv6.MessageTypeSolicit, stranger), "solicit", "unknown"},
		"nothing tells the MAC address":   {message(dhcpv6.MessageTypeSolicit, anonymous), "solicit", "unknown"},
		"SOLICIT without a client":        {message(dhcpv6.MessageTypeSolicit, without(dhcpv6.OptionClientID)), "solicit", "unsuitable"},
		"SOLICIT for one server":          {message(dhcpv6.MessageTypeSolicit, toUs), "solicit", "unsuitable"},
		"REBIND for one server":           {message(dhcpv6.MessageTypeRebind, toUs), "rebind", "unsuitable"},
		"REQUEST for no server":           {message(dhcpv6.MessageTypeRequest), "request", "unsuitable"},
		"RENEW for another server":        {message(dhcpv6.MessageTypeRenew, dhcpv6.WithServerID(&dhcpv6.DUIDUUID{})), "renew", "elsewhere"},
		"INFORMATION-REQUEST for another": {message(dhcpv6.MessageTypeInformationRequest, without(dhcpv6.OptionIANA), dhcpv6.WithServerID(&dhcpv6.DUIDUUID{})), "information-request", "elsewhere"},
		"INFORMATION-REQUEST with an IA":  {message(dhcpv6.MessageTypeInformationRequest), "information-request", "unsuitable"},
		"CONFIRM of nothing":              {message(dhcpv6.MessageTypeConfirm), "confirm", "unsuitable"},
		"ADVERTISE":                       {message(dhcpv6.MessageTypeAdvertise), "advertise", "unsuitable"},
		"RECONFIGURE":                     {message(dhcpv6.MessageTypeReconfigure), "reconfigure", "unsuitable"},
		"an unknown kind":                 {message(dhcpv6.MessageType(200)), "other", "unsuitable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, newBooter(bootsUp), network(bootconfig.Authoritative))
			before := w.counted(c.kind, c.what)
			w.expectSilence(c.packet)
			NewWithT(t).Eventually(func() float64 { return w.counted(c.kind, c.what) }).Should(Equal(before + 1))
		})
	}
	t.Run("off", func(t *testing.T) {
		g := NewWithT(t)
		s, err := New(&Server{Networks: []bootconfig.Network{network(bootconfig.Off)}, Booter: newBooter(bootsUp), Log: logr.Discard()})
		g.Expect(err).NotTo(HaveOccurred())
		relayed := through(message(dhcpv6.MessageTypeSolicit), "2001:db8::1", "fe80::1")
		_, err = s.handle(t.Context(), relayed, from("2001:db8::1"))
		g.Expect(err).To(MatchError("DHCPv6 is off in this network"))
	})
}

// from is the arrival of a packet at the loopback interface, to this machine alone.
func from(source string) dhcp.Arrival {
	return dhcp.Arrival{Device: loopback, Target: netip.MustParseAddr("2001:db8::5"), Source: netip.AddrPortFrom(netip.MustParseAddr(source), 546)}
}

// loopback is the index of the loopback interface, in every network namespace.
const loopback = 1

func through(packet dhcpv6.DHCPv6, link, peer string, options ...dhcpv6.Option) *dhcpv6.RelayMessage {
	relayed, err := dhcpv6.EncapsulateRelay(packet, dhcpv6.MessageTypeRelayForward, net.ParseIP(link), net.ParseIP(peer))
	if err != nil {
		panic(err)
	}
	for _, o := range options {
		relayed.AddOption(o)
	}
	return relayed
}

// TestRelays: an answer goes back through all relay agents, each of which gets its options. The network is that of the link address of the
// relay agent nearest to the client.
func TestRelays(t *testing.T) {
	g := NewWithT(t)
	rack2 := network(bootconfig.Authoritative)
	rack2.Name, rack2.Interface, rack2.Subnet = "rack-2", "", netip.MustParsePrefix("2001:db8:2::/64")
	rack2.Relays = []netip.Addr{netip.MustParseAddr("::1")}
	booter := newBooter(pxe.Answer{Known: true})
	asked := make(chan string, 1)
	booter.Leases = func(r pxe.LeaseRequest) (pxe.Lease, error) {
		asked <- r.Pool.Network
		return pxe.Lease{Address: leased}, nil
	}
	w := newWire(t, booter, network(bootconfig.Authoritative), rack2)
	request := message(dhcpv6.MessageTypeSolicit)
	inner := through(request, "::", "fe80::2", dhcpv6.OptInterfaceID([]byte("port 7")))
	middle := through(inner, "2001:db8:2::1", "fe80::3", dhcpv6.OptInterfaceID([]byte("vlan 5")))
	w.send(through(middle, "2001:db8::9", "2001:db8:2::1", dhcpv6.OptRelayPort(0), &dhcpv6.OptRemoteID{EnterpriseNumber: 9, RemoteID: []byte{1}}))
	packet := w.receive()
	g.Expect(<-asked).To(Equal("rack-2"))
	for i, want := range []struct{ link, peer, id string }{{"2001:db8::9", "2001:db8:2::1", ""}, {"2001:db8:2::1", "fe80::3", "vlan 5"}, {"::", "fe80::2", "port 7"}} {
		relay, ok := packet.(*dhcpv6.RelayMessage)
		g.Expect(ok).To(BeTrue())
		g.Expect(relay.MessageType).To(Equal(dhcpv6.MessageTypeRelayReply))
		g.Expect([]string{relay.LinkAddr.String(), relay.PeerAddr.String(), string(relay.Options.InterfaceID())}).To(Equal([]string{want.link, want.peer, want.id}))
		g.Expect(int(relay.HopCount)).To(Equal(2 - i))
		g.Expect(relay.Options.RelayPort() != nil).To(Equal(i == 0))
		packet = relay.Options.RelayMessage()
	}
	reply, ok := packet.(*dhcpv6.Message)
	g.Expect(ok).To(BeTrue())
	g.Expect(reply.TransactionID).To(Equal(request.TransactionID))

	w.send(through(request, "2001:db8:9::1", "fe80::2", dhcpv6.OptRelayPort(0)))
	w.receive()
	g.Expect(<-asked).To(Equal("rack-2"), "a relay that the configuration names is believed, whatever link it names")
	w.send(through(request, "::", "fe80::2", dhcpv6.OptRelayPort(0)))
	w.receive()
	g.Expect(<-asked).To(Equal("rack-1"), "one that names no link is on ours")

	deep := dhcpv6.DHCPv6(request)
	for range maxRelays + 1 {
		deep = through(deep, "2001:db8::9", "fe80::2")
	}
	_, _, err := unwrap(deep)
	g.Expect(err).To(HaveOccurred())
	_, _, err = unwrap(&dhcpv6.RelayMessage{MessageType: dhcpv6.MessageTypeRelayForward})
	g.Expect(err).To(HaveOccurred())
}

// TestDestination: a relay agent listens at the server port, unless it asks for its source port (RFC 8357).
func TestDestination(t *testing.T) {
	g := NewWithT(t)
	source := netip.MustParseAddrPort("[fe80::2%eth0]:546")
	g.Expect((&exchange{in: dhcp.Arrival{Source: source}}).destination()).To(Equal(source))
	source = netip.MustParseAddrPort("[2001:db8::9]:4000")
	plain := through(message(dhcpv6.MessageTypeSolicit), "::", "fe80::2")
	g.Expect((&exchange{in: dhcp.Arrival{Source: source}, relays: []*dhcpv6.RelayMessage{plain}}).destination().String()).To(Equal("[2001:db8::9]:547"))
	port := through(message(dhcpv6.MessageTypeSolicit), "::", "fe80::2", dhcpv6.OptRelayPort(0))
	g.Expect((&exchange{in: dhcp.Arrival{Source: source}, relays: []*dhcpv6.RelayMessage{port, plain}}).destination()).To(Equal(source))
}

// TestWhoAsks: the MAC address is found from the relay, the DUID, or the link-local address.
func TestWhoAsks(t *testing.T) {
	const eui64 = "fe80::5054:ff:fe00:1" // of mac
	id := func(d dhcpv6.DUID) dhcpv6.Modifier {
		return func(m dhcpv6.DHCPv6) { m.UpdateOption(dhcpv6.OptClientID(d)) }
	}
	uuid := id(&dhcpv6.DUIDUUID{UUID: [16]byte{1}})
	solicit := func(m ...dhcpv6.Modifier) *dhcpv6.Message { return message(dhcpv6.MessageTypeSolicit, m...) }
	seenMAC := func(m net.HardwareAddr) dhcpv6.Option {
		return dhcpv6.OptClientLinkLayerAddress(iana.HWTypeEthernet, m)
	}
	for name, c := range map[string]struct {
		packet dhcpv6.DHCPv6
		source string
		known  bool
	}{
		"DUID-LL":                             {solicit(), "fe80::1", true},
		"DUID-LLT":                            {solicit(id(&dhcpv6.DUIDLLT{HWType: iana.HWTypeEthernet, Time: 7, LinkLayerAddr: mac})), "fe80::1", true},
		"DUID-LL, not of Ethernet":            {solicit(id(&dhcpv6.DUIDLL{HWType: iana.HWTypeInfiniband, LinkLayerAddr: mac})), "fe80::1", false},
		"DUID-LL, too long":                   {solicit(id(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: append(mac[:6:6], 1, 2)})), "fe80::1", false},
		"DUID-UUID and EUI-64":                {solicit(uuid), eui64, true},
		"DUID-UUID and EUI-64 with a zone":    {solicit(uuid), eui64 + "%eth0", true},
		"DUID-UUID and a random address":      {solicit(uuid), "fe80::5054:1234:fe00:1", false},
		"DUID-UUID and a global address":      {solicit(uuid), "2001:db8::5054:ff:fe00:1", false},
		"DUID-LL of another interface":        {solicit(id(&dhcpv6.DUIDLL{HWType: iana.HWTypeEthernet, LinkLayerAddr: other})), eui64, true},
		"DUID of a future kind":               {solicit(id(&dhcpv6.DUIDOpaque{Type: 99, Data: []byte{1}})), eui64, true},
		"a relay saw it":                      {through(solicit(uuid), "2001:db8::1", "fe80::1", seenMAC(mac)), "2001:db8::1", true},
		"a relay saw another":                 {through(solicit(), "2001:db8::1", eui64, seenMAC(other)), "2001:db8::1", false},
		"a relay saw nothing, EUI-64":         {through(solicit(uuid), "2001:db8::1", eui64), "2001:db8::1", true},
		"a relay saw nothing, DUID-LL":        {through(solicit(), "2001:db8::1", "fe80::1"), "2001:db8::1", true},
		"a relay behind a relay saw it":       {through(through(solicit(uuid), "2001:db8::1", "fe80::1", seenMAC(mac)), "2001:db8::2", "2001:db8::1", seenMAC(other)), "2001:db8::2", true},
		"the relay's address is not a client": {through(solicit(uuid), "2001:db8::1", "fe80::1"), eui64, false},
		"no DUID, EUI-64":                     {message(dhcpv6.MessageTypeInformationRequest, without(dhcpv6.OptionClientID), without(dhcpv6.OptionIANA)), eui64, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := network(bootconfig.Authoritative)
			n.Relays = []netip.Addr{netip.MustParseAddr(eui64), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")}
			s, err := New(&Server{Networks: []bootconfig.Network{n}, Booter: newBooter(bootsUp), Log: logr.Discard()})
			g.Expect(err).NotTo(HaveOccurred())
			x, err := s.handle(t.Context(), c.packet, from(c.source))
			if c.known {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(x.mac).To(Equal(mac))
			} else {
				g.Expect(dhcp.ResultOf(err)).To(Equal(dhcp.ResultUnknown))
			}
		})
	}
}

// TestNetworks: the interface of a network must exist, and a packet from an unknown interface is of no network.
func TestNetworks(t *testing.T) {
	g := NewWithT(t)
	n := network(bootconfig.Authoritative)
	n.Interface = "no-such-interface"
	_, err := New(&Server{Networks: []bootconfig.Network{n}})
	g.Expect(err).To(MatchError(ContainSubstring("network rack-1: interface no-such-interface")))
	n.Interface = ""
	_, err = New(&Server{Networks: []bootconfig.Network{n}})
	g.Expect(err).To(MatchError("network rack-1: no interface has the address 2001:db8::5: give the network's interface"))
	n.Subnet = netip.MustParsePrefix("2001:db8:7::/64")
	s, err := New(&Server{Networks: []bootconfig.Network{n}, Booter: newBooter(bootsUp), Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred(), "a network behind a relay needs no interface")
	_, err = s.handle(t.Context(), message(dhcpv6.MessageTypeSolicit), from("fe80::1"))
	g.Expect(dhcp.ResultOf(err)).To(Equal(dhcp.ResultNoNetwork))
	n.Subnet, n.Address = netip.MustParsePrefix("::/64"), netip.IPv6Loopback()
	s, err = New(&Server{Networks: []bootconfig.Network{n}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.deviceOfNetwork).To(HaveKey("rack-1"))

	id := identifierOf(n)
	n.Address = netip.MustParseAddr("2001:db8::6")
	g.Expect(identifierOf(n).Equal(id)).To(BeFalse(), "two boot servers are two DHCPv6 servers")
	g.Expect(id.UUID[6] >> 4).To(Equal(byte(8)))
	g.Expect(id.UUID[8] >> 6).To(Equal(byte(2)))
}

// TestHostile: garbage, and a Booter that panics, do not affect the next request.
func TestHostile(t *testing.T) {
	g := NewWithT(t)
	booter := newBooter(pxe.Answer{Known: true})
	var bug atomic.Bool
	booter.Leases = func(pxe.LeaseRequest) (pxe.Lease, error) {
		if bug.Load() {
			panic("a bug")
		}
		return pxe.Lease{Address: leased}, nil
	}
	w := newWire(t, booter, network(bootconfig.Authoritative))
	for _, garbage := range [][]byte{{}, {1}, {1, 2, 3, 4, 0, 3, 0, 200}, bytes.Repeat([]byte{12}, 1200), {12, 0}} {
		_, err := w.client.WriteTo(garbage, w.at)
		g.Expect(err).NotTo(HaveOccurred())
	}
	bug.Store(true)
	w.send(message(dhcpv6.MessageTypeSolicit))
	count := func(kind, what string) float64 {
		return testutil.ToFloat64(w.Metrics.requests.WithLabelValues("", kind, what))
	}
	g.Eventually(func() float64 { return count("other", "panicked") }).Should(Equal(1.0))
	g.Expect(count("other", "malformed")).To(Equal(5.0))
	bug.Store(false)
	w.exchange(message(dhcpv6.MessageTypeSolicit))
}

func TestClientNames(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Classify(message(dhcpv6.MessageTypeSolicit))).To(Equal(dhcp.Client{Arch: noArch}))
	g.Expect(Classify(message(dhcpv6.MessageTypeSolicit, firmware("PXEClient:Arch:x", noArch))).PXE).To(BeTrue())
	several := message(dhcpv6.MessageTypeSolicit, firmware(classPXE, noArch))
	several.AddOption(dhcpv6.OptClientArchType(iana.EFI_IA32, iana.EFI_X86_64))
	g.Expect(Classify(several)).To(Equal(dhcp.Client{PXE: true, Arch: iana.EFI_X86_64}))
}

// FuzzHandle: no packet makes the server panic, and every answer can be decoded.
func FuzzHandle(f *testing.F) {
	for _, m := range []dhcpv6.DHCPv6{
		message(dhcpv6.MessageTypeSolicit, firmware(classPXE, iana.EFI_X86_64)), message(dhcpv6.MessageTypeRequest, toUs, has("2001:db8::77")),
		message(dhcpv6.MessageTypeRenew, toUs, has("2001:db8:1::1")), message(dhcpv6.MessageTypeConfirm, has("2001:db8::77"), iPXE),
		message(dhcpv6.MessageTypeDecline, toUs, has("2001:db8::77")), message(dhcpv6.MessageTypeInformationRequest, without(dhcpv6.OptionIANA), firmware(classHTTP, iana.EFI_X86_64_HTTP)),
		through(through(message(dhcpv6.MessageTypeSolicit), "::", "fe80::2", dhcpv6.OptInterfaceID([]byte("p"))), "2001:db8::1", "fe80::3", dhcpv6.OptRelayPort(0)),
	} {
		f.Add(m.ToBytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		packet, err := dhcpv6.FromBytes(data)
		if err != nil {
			return
		}
		for _, mode := range []bootconfig.Mode{bootconfig.Proxy, bootconfig.Authoritative} {
			s := &Server{Networks: []bootconfig.Network{network(mode)}, Booter: newBooter(bootsUp), Log: logr.Discard(), deviceOfNetwork: map[string]int{"rack-1": loopback}}
			source := "fe80::5054:ff:fe00:1"
			if packet.IsRelay() {
				source = "2001:db8::1"
			}
			x, err := s.handle(t.Context(), packet, from(source))
			if err != nil {
				continue
			}
			reply, err := wrap(x.reply, x.relays)
			if err != nil {
				t.Fatalf("the answer cannot be wrapped: %v", err)
			}
			x.destination()
			again, err := dhcpv6.FromBytes(reply.ToBytes())
			if err != nil {
				t.Fatalf("the answer cannot be read: %v", err)
			}
			if _, err := again.GetInnerMessage(); err != nil {
				t.Fatalf("the answer holds none: %v", err)
			}
		}
	})
}
