package dhcp6

import (
	"net/netip"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// TestBelieved: a request that a router forwarded is accepted only if its source is an address of the network, or a known relay agent. Any other request is
// dropped, and has no effect.
func TestBelieved(t *testing.T) {
	const outside = "2001:db8:9::7"
	client := func() dhcpv6.DHCPv6 {
		return message(dhcpv6.MessageTypeSolicit, firmware(classPXE, iana.EFI_X86_64))
	}
	via := func(link string) dhcpv6.DHCPv6 { return through(client(), link, "fe80::1") }
	multicast := func(in dhcp.Arrival, group string) dhcp.Arrival {
		in.Target = netip.MustParseAddr(group)
		return in
	}
	behind := network(bootconfig.Proxy)
	behind.Name, behind.Interface, behind.Subnet = "rack-2", "", netip.MustParsePrefix("2001:db8:2::/64")
	named := behind
	named.Name, named.Subnet, named.Relays = "rack-3", netip.MustParsePrefix("2001:db8:3::/64"), []netip.Addr{netip.MustParseAddr("2001:db8:8::1"), netip.MustParseAddr("fe80::9")}
	for name, test := range map[string]struct {
		packet  dhcpv6.DHCPv6
		in      dhcp.Arrival
		network string
		what    dhcp.Result
	}{
		"a link-local address":                    {client(), from("fe80::1"), "rack-1", dhcp.ResultAnswered},
		"a link-local address with a zone":        {client(), from("fe80::1%lo"), "rack-1", dhcp.ResultAnswered},
		"all servers of the link":                 {client(), multicast(from(outside), "ff02::1:2"), "rack-1", dhcp.ResultAnswered},
		"an address of the subnet":                {client(), from("2001:db8::66"), "rack-1", dhcp.ResultAnswered},
		"an address of the link":                  {client(), from("::1"), "rack-1", dhcp.ResultAnswered},
		"routed":                                  {client(), from(outside), "rack-1", dhcp.ResultUntrusted},
		"routed to all servers of the site":       {client(), multicast(from(outside), "ff05::1:3"), "rack-1", dhcp.ResultUntrusted},
		"a switch that forwards":                  {via("::"), from("fe80::1"), "rack-1", dhcp.ResultAnswered},
		"routed, as if by a switch":               {via("::"), from(outside), "rack-1", dhcp.ResultUntrusted},
		"a relay":                                 {via("2001:db8:2::1"), from("2001:db8:2::1"), "rack-2", dhcp.ResultAnswered},
		"a relay before a relay":                  {through(via("2001:db8:2::1"), "2001:db8:2::2", "2001:db8:2::1"), from("2001:db8:2::2"), "rack-2", dhcp.ResultAnswered},
		"a named relay":                           {via("2001:db8:3::1"), from("2001:db8:8::1"), "rack-3", dhcp.ResultAnswered},
		"a named relay of an unknown link":        {via("2001:db8:7::1"), from("2001:db8:8::1"), "rack-3", dhcp.ResultAnswered},
		"a named relay with a link-local address": {via("2001:db8:3::1"), from("fe80::9%lo"), "rack-3", dhcp.ResultAnswered},
		"no relay":                                {via("2001:db8:2::1"), from(outside), "rack-2", dhcp.ResultUntrusted},
		"no relay, of a network with one":         {via("2001:db8:3::1"), from(outside), "rack-3", dhcp.ResultUntrusted},
		"no relay, of the link":                   {via("2001:db8::1"), from(outside), "rack-1", dhcp.ResultUntrusted},
		"no relay, with its own link":             {via(outside), from(outside), "", dhcp.ResultNoNetwork},
		"no relay, around one":                    {through(via("2001:db8:2::1"), outside, "fe80::1"), from(outside), "rack-2", dhcp.ResultUntrusted},
		"a relay that is not named":               {via("2001:db8:3::1"), from("2001:db8:3::1"), "rack-3", dhcp.ResultUntrusted},
		"a relay that sends from elsewhere":       {via("2001:db8:2::1"), from("2001:db8:2::9"), "rack-2", dhcp.ResultUntrusted},
		"a relay that another network names":      {via("2001:db8:2::1"), from("2001:db8:8::1"), "rack-2", dhcp.ResultUntrusted},
		"a link-local address, as if a relay":     {via("2001:db8:2::1"), from("fe80::1"), "rack-2", dhcp.ResultUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			booter := newBooter(bootsUp)
			s, err := New(&Server{Networks: []bootconfig.Network{network(bootconfig.Proxy), behind, named}, Booter: booter, Log: logr.Discard()})
			g.Expect(err).NotTo(HaveOccurred())
			x, err := s.handle(t.Context(), test.packet, test.in)
			g.Expect(dhcp.ResultOf(err)).To(Equal(test.what))
			g.Expect(x.network.Name).To(Equal(test.network))
			s.recordStage(x, dhcp.ResultOf(err))
			if test.what == dhcp.ResultAnswered {
				g.Expect(booter.Stages()).To(Equal([]pxe.Stage{pxe.StageDHCP}))
			} else {
				g.Expect(booter.Stages()).To(BeEmpty())
			}
		})
	}
}

// TestUntrusted: over a real socket, an untrusted request is counted, is no stage of a boot, and its log is bounded.
func TestUntrusted(t *testing.T) {
	g := NewWithT(t)
	booter := newBooter(bootsUp)
	w := newWire(t, booter, network(bootconfig.Proxy))
	const packets = 30
	for range packets {
		w.send(through(message(dhcpv6.MessageTypeSolicit, firmware(classPXE, iana.EFI_X86_64)), "2001:db8::1", "fe80::1"))
	}
	g.Eventually(func() float64 { return w.counted("solicit", "untrusted") }).Should(Equal(float64(packets)))
	g.Expect(booter.Stages()).To(BeEmpty())

	lines := 0
	s, err := New(&Server{
		Networks: []bootconfig.Network{network(bootconfig.Proxy)}, Booter: booter, Log: funcr.New(func(string, string) { lines++ }, funcr.Options{Verbosity: 1}),
	})
	g.Expect(err).NotTo(HaveOccurred())
	for range packets {
		x, err := s.handle(t.Context(), message(dhcpv6.MessageTypeSolicit), from("2001:db8:9::7"))
		s.logResult(x, dhcp.ResultOf(err), err)
	}
	g.Expect(lines).To(Equal(10))
}
