package dhcp

import (
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// racks are networks of each kind: one at an interface, one there of which only the address is known, two behind routers. Requests from other places arrive
// at interface 9.
func racks(b pxe.Booter) *Server {
	at := func(name, address, subnet string, relays ...string) bootconfig.Network {
		n := bootconfig.Network{Name: name, Mode: bootconfig.Proxy, Address: netip.MustParseAddr(address), URL: "http://" + address}
		if subnet != "" {
			n.Subnet = netip.MustParsePrefix(subnet)
		}
		for _, r := range relays {
			n.Relays = append(n.Relays, netip.MustParseAddr(r))
		}
		return n
	}
	s := &Server{Booter: b, Log: logr.Discard(), Networks: []bootconfig.Network{
		at("link", "192.0.2.1", "192.0.2.0/24"), at("bare", "10.2.0.1", ""), at("far", "192.0.2.1", "198.51.100.0/24"),
		at("named", "192.0.2.1", "203.0.113.0/24", "10.0.0.9", "172.16.0.1"),
	}}
	s.devices.readDevice = func(index int) Device {
		return map[int]Device{1: device("eth1", "192.0.2.1/24"), 2: device("eth2", "10.2.0.1/24"), 9: device("eth9", "192.168.0.1/24")}[index]
	}
	return s
}

// TestBelieved: a request that a router forwarded is accepted only if its source is an address of the network, or a known relay agent. Any other request is
// dropped, and has no effect: a client that can only reach the boot server over IP cannot pretend to be a server that sends DHCP.
func TestBelieved(t *testing.T) {
	const everyone, alone = "255.255.255.255", "192.0.2.1"
	from := func(device int, target, source string) Arrival {
		return Arrival{Device: device, Target: netip.MustParseAddr(target), Source: netip.AddrPortFrom(netip.MustParseAddr(source), 68)}
	}
	has := func(address string) []dhcpv4.Modifier { return []dhcpv4.Modifier{ciaddr(netip.MustParseAddr(address))} }
	via := func(giaddr string, sub ...dhcpv4.Option) []dhcpv4.Modifier {
		return []dhcpv4.Modifier{relayed(giaddr, sub...)}
	}
	const outside = "10.9.8.7"
	for name, test := range map[string]struct {
		in      Arrival
		request []dhcpv4.Modifier
		network string
		what    Result
	}{
		"a broadcast": {from(1, everyone, "0.0.0.0"), nil, "link", ResultAnswered},
		"a broadcast of a client with an address":         {from(1, everyone, "192.0.2.77"), has("192.0.2.77"), "link", ResultAnswered},
		"a broadcast of a client from another network":    {from(1, everyone, outside), nil, "link", ResultAnswered},
		"a broadcast that claims another network":         {from(2, everyone, "0.0.0.0"), has("192.0.2.77"), "bare", ResultAnswered},
		"a broadcast that claims a network behind others": {from(9, everyone, "0.0.0.0"), has("198.51.100.77"), "", ResultNoNetwork},
		"unicast without an address":                      {from(1, alone, "0.0.0.0"), nil, "link", ResultAnswered},
		"unicast on the link":                             {from(1, alone, "192.0.2.77"), nil, "link", ResultAnswered},
		"renewing on the link":                            {from(1, alone, "192.0.2.77"), has("192.0.2.77"), "link", ResultAnswered},
		"unicast on the link, without a subnet":           {from(2, "10.2.0.1", "10.2.0.66"), nil, "bare", ResultAnswered},
		"renewing behind a router":                        {from(9, alone, "198.51.100.77"), has("198.51.100.77"), "far", ResultAnswered},
		"renewing behind a router with named relays":      {from(9, alone, "203.0.113.77"), has("203.0.113.77"), "named", ResultAnswered},

		"routed by a router on the link":               {from(1, alone, outside), nil, "link", ResultUntrusted},
		"routed, with an address of the link":          {from(1, alone, outside), has("192.0.2.77"), "link", ResultUntrusted},
		"routed, without a subnet":                     {from(2, "10.2.0.1", outside), nil, "bare", ResultUntrusted},
		"routed to the subnet's broadcast address":     {from(1, "192.0.2.255", outside), nil, "link", ResultUntrusted},
		"routed to where nobody knows":                 {Arrival{Device: 1, Source: netip.MustParseAddrPort(outside + ":68")}, nil, "link", ResultUntrusted},
		"from nowhere":                                 {Arrival{Device: 1, Target: ours}, nil, "link", ResultUntrusted},
		"routed by elsewhere":                          {from(9, alone, outside), nil, "", ResultNoNetwork},
		"routed by elsewhere, with an address":         {from(9, alone, outside), has("192.0.2.77"), "", ResultNoNetwork},
		"forged, by another interface than the link's": {from(9, alone, "192.0.2.77"), has("192.0.2.77"), "", ResultNoNetwork},
		"routed, for a network behind a router":        {from(9, alone, outside), has("198.51.100.77"), "far", ResultUntrusted},
		"on a link, for a network behind a router":     {from(1, alone, "192.0.2.66"), has("198.51.100.77"), "far", ResultUntrusted},

		"a relay":             {from(9, alone, "198.51.100.1"), via("198.51.100.1"), "far", ResultAnswered},
		"a relay of the link": {from(1, alone, "192.0.2.9"), via("192.0.2.9"), "link", ResultAnswered},
		"a relay that sends from a named address": {from(9, alone, "10.0.0.9"), via("203.0.113.1"), "named", ResultAnswered},
		"a relay that is named":                   {from(9, alone, "172.16.0.1"), via("172.16.0.1"), "named", ResultAnswered},
		"a named relay that names the link":       {from(9, alone, "10.0.0.9"), via("172.16.0.1", link("203.0.113.0")), "named", ResultAnswered},

		"no relay, with the giaddr of one":               {from(9, alone, outside), via("198.51.100.1"), "far", ResultUntrusted},
		"no relay, with a giaddr of the link":            {from(1, alone, outside), via("192.0.2.9"), "link", ResultUntrusted},
		"no relay, with the giaddr of a named one":       {from(9, alone, outside), via("172.16.0.1"), "named", ResultUntrusted},
		"no relay, with its own giaddr":                  {from(9, alone, outside), via(outside), "", ResultNoNetwork},
		"no relay, with its own giaddr and a link":       {from(9, alone, outside), via(outside, link("203.0.113.0")), "", ResultNoNetwork},
		"no relay, with a named giaddr and a link":       {from(9, alone, outside), via("172.16.0.1", link("203.0.113.0")), "named", ResultUntrusted},
		"a relay that is not named, where others are":    {from(9, alone, "203.0.113.1"), via("203.0.113.1"), "named", ResultUntrusted},
		"a relay that is named for another network":      {from(9, alone, "10.0.0.9"), via("198.51.100.1"), "far", ResultUntrusted},
		"a relay that sends from another of its network": {from(9, alone, "198.51.100.2"), via("198.51.100.1"), "far", ResultUntrusted},
		"a giaddr in a broadcast":                        {from(1, everyone, "0.0.0.0"), via("198.51.100.1"), "far", ResultUntrusted},
		"a giaddr and an address of the network":         {from(9, alone, outside), append(via("198.51.100.1"), has("198.51.100.77")...), "far", ResultUntrusted},
	} {
		for port, proxy := range map[string]bool{"67": false, "4011": true} {
			t.Run(name+", port "+port, func(t *testing.T) {
				g := NewWithT(t)
				b := booter(networkBoot)
				s := racks(b)
				kind := dhcpv4.MessageTypeDiscover
				if proxy {
					kind = dhcpv4.MessageTypeRequest
				}
				request := message(t, kind, with(pxeClient(iana.EFI_X86_64), test.request...)...)
				x, err := s.handle(t.Context(), request, arrival{test.in, proxy})
				g.Expect(resultOf(x, err)).To(Equal(test.what))
				g.Expect(x.network.Name).To(Equal(test.network))
				s.recordStage(x, resultOf(x, err))
				if test.what == ResultAnswered {
					g.Expect(b.Stages()).To(Equal([]pxe.Stage{pxe.StageDHCP}))
				} else {
					g.Expect(b.Stages()).To(BeEmpty())
				}
			})
		}
	}
}

// TestBelievedAlone: a single network of which only the address is known receives requests of every interface, and accepts only relay agents on its links.
func TestBelievedAlone(t *testing.T) {
	for name, test := range map[string]struct {
		source, giaddr string
		what           Result
	}{
		"a relay on a link":             {"192.168.0.9", "192.168.0.9", ResultAnswered},
		"a relay on another link":       {"10.2.0.9", "10.2.0.9", ResultUntrusted},
		"a relay elsewhere":             {"10.9.8.7", "10.9.8.7", ResultUntrusted},
		"the giaddr of one on the link": {"10.9.8.7", "192.168.0.9", ResultUntrusted},
		"a client on a link":            {"192.168.0.66", "", ResultAnswered},
		"a client elsewhere":            {"10.9.8.7", "", ResultUntrusted},
	} {
		t.Run(name, func(t *testing.T) {
			s := racks(booter(networkBoot))
			s.Networks = s.Networks[1:2]
			request := discover(t, pxeClient(iana.EFI_X86_64)...)
			if test.giaddr != "" {
				relayed(test.giaddr)(request)
			}
			in := Arrival{Device: 9, Target: ours, Source: netip.AddrPortFrom(netip.MustParseAddr(test.source), serverPort)}
			_, what := ask(t, s, request, arrival{in, false})
			NewWithT(t).Expect(what).To(Equal(test.what))
		})
	}
}

// TestSharedLink: if two networks are on one link, the address of a client determines its network.
func TestSharedLink(t *testing.T) {
	s := racks(booter(networkBoot))
	s.Networks = s.Networks[:2]
	s.devices.readDevice = func(int) Device { return device("eth1", "192.0.2.1/24", "10.2.0.1/24") }
	for client, want := range map[string]string{"": "", "192.0.2.77": "link"} {
		g := NewWithT(t)
		request := discover(t, pxeClient(iana.EFI_X86_64)...)
		if client != "" {
			ciaddr(netip.MustParseAddr(client))(request)
		}
		x, err := s.handle(t.Context(), request, atServer)
		g.Expect(x.network.Name).To(Equal(want))
		g.Expect(err == nil).To(Equal(want != ""))
	}
}

// TestUntrusted: over a real socket, an untrusted request is counted, is no stage of a boot, and is logged at most once per interval for each source.
func TestUntrusted(t *testing.T) {
	g := NewWithT(t)
	var mu sync.Mutex
	var lines []string
	logged := func() []string { mu.Lock(); defer mu.Unlock(); return append([]string(nil), lines...) }
	metrics := newMetrics(t)
	booter := &pxetest.Booter{MAC: mac, Answer: networkBoot, Address: netip.MustParseAddr("127.0.88.77")}
	s := &Server{Networks: []bootconfig.Network{loopback(88, bootconfig.Proxy)}, Booter: booter, Metrics: metrics}
	s.Log = funcr.New(func(_, line string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, line) }, funcr.Options{Verbosity: 1})
	server := run(t, "127.0.88.1:0", s.Serve)
	r := newRelay(t, "127.0.88.2")
	forged := discover(t, append(pxeClient(iana.EFI_X86_64), relayed("127.0.88.3"))...).ToBytes()
	for range 3 {
		r.forward(t, forged, server)
	}
	metrics.awaitCount(t, "net-88", "discover", ResultUntrusted, 3)
	r.forward(t, discover(t, append(pxeClient(iana.EFI_X86_64), r.via)...).ToBytes(), server)
	offer, _ := r.answer(t)
	g.Expect(offer.BootFileName).NotTo(BeEmpty(), "a request that is believed is answered")
	g.Eventually(booter.Stages).Should(Equal([]pxe.Stage{pxe.StageDHCP}))
	g.Expect(logged()).To(ConsistOf(And(ContainSubstring("sent it from 127.0.88.2"), ContainSubstring("127.0.88.3"))))
}

// TestBroadcastIsHeard: the socket distinguishes broadcasts from unicast packets.
func TestBroadcastIsHeard(t *testing.T) {
	g := NewWithT(t)
	metrics := newMetrics(t)
	n := loopback(89, bootconfig.Proxy)
	n.Subnet = netip.MustParsePrefix("10.89.0.0/24") // so that the loopback addresses are not in it
	s := &Server{Networks: []bootconfig.Network{n}, Booter: booter(networkBoot), Log: logr.Discard(), Metrics: metrics}
	port := run(t, "0.0.0.0:0", s.Serve).Port()
	client := listen(t, "127.0.89.9:0")
	raw, err := client.SyscallConn()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(raw.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), "lo") })).To(Succeed())
	g.Expect(err).NotTo(HaveOccurred())
	packet := discover(t, pxeClient(iana.EFI_X86_64)...).ToBytes()
	send := func(target net.IP) {
		t.Helper()
		_, err := client.WriteTo(packet, &net.UDPAddr{IP: target, Port: int(port)})
		g.Expect(err).NotTo(HaveOccurred())
	}
	send(net.IPv4(127, 0, 89, 1))
	metrics.awaitCount(t, n.Name, "discover", ResultUntrusted, 1)
	send(net.IPv4bcast)
	metrics.awaitCount(t, n.Name, "discover", ResultAnswered, 1)
}
