package dhcp

import (
	"net"
	"net/netip"
	"testing"

	"github.com/go-logr/logr"
	"github.com/insomniacslk/dhcp/dhcpv4"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// rooms are four networks: two heard at an interface that has their address, one at a named one, and one behind relays.
func rooms() *Server {
	a := bootconfig.Network{Name: "a", Mode: bootconfig.Authoritative, Address: netip.MustParseAddr("10.1.0.1"), Subnet: netip.MustParsePrefix("10.1.0.0/16")}
	b := bootconfig.Network{Name: "b", Mode: bootconfig.Proxy, Address: netip.MustParseAddr("10.2.0.1")}
	c := bootconfig.Network{Name: "c", Mode: bootconfig.Authoritative, Interface: "eth3", Address: netip.MustParseAddr("10.9.0.1"), Subnet: netip.MustParsePrefix("10.3.0.0/16")}
	far := bootconfig.Network{
		Name: "far", Mode: bootconfig.Authoritative, Address: a.Address, Subnet: netip.MustParsePrefix("10.4.0.0/16"), Relays: []netip.Addr{netip.MustParseAddr("172.16.0.1")},
	}
	six := bootconfig.Network{Name: "six", Mode: bootconfig.Authoritative, Interface: "eth1", Address: netip.MustParseAddr("2001:db8::1"), Subnet: netip.MustParsePrefix("2001:db8::/64")}
	s := &Server{Networks: []bootconfig.Network{six, a, b, c, far}, Log: logr.Discard()}
	s.devices.readDevice = func(index int) Device {
		return map[int]Device{
			1: device("eth1", "192.168.0.1/24", "10.1.0.1/16"), 2: device("eth2", "10.2.0.1/24"), 3: device("eth3"), 4: device("eth4", "192.168.4.1/24"),
		}[index]
	}
	return s
}

func device(name string, prefixes ...string) Device {
	d := Device{Name: name}
	for _, p := range prefixes {
		d.Prefixes = append(d.Prefixes, netip.MustParsePrefix(p))
	}
	return d
}

func link(a string) dhcpv4.Option {
	return dhcpv4.OptGeneric(dhcpv4.LinkSelectionSubOption, netip.MustParseAddr(a).AsSlice())
}

func selection(a string) dhcpv4.Modifier {
	return dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionSubnetSelection, netip.MustParseAddr(a).AsSlice()))
}

func TestNetworkOf(t *testing.T) {
	circuit := dhcpv4.OptGeneric(dhcpv4.AgentCircuitIDSubOption, []byte("port 7"))
	atFar := netip.MustParseAddr("10.4.0.77")
	for name, test := range map[string]struct {
		device  int
		request []dhcpv4.Modifier
		want    string
	}{
		"the interface that has the address":        {1, nil, "a"},
		"another such":                              {2, nil, "b"},
		"the interface that is named":               {3, nil, "c"},
		"an interface of none":                      {4, nil, ""},
		"an interface that is gone":                 {5, nil, ""},
		"no interface":                              {0, nil, ""},
		"a relay in the network":                    {4, []dhcpv4.Modifier{relayed("10.3.0.9", circuit)}, "c"},
		"a relay elsewhere that is named":           {4, []dhcpv4.Modifier{relayed("172.16.0.1")}, "far"},
		"a relay elsewhere that is not":             {1, []dhcpv4.Modifier{relayed("172.16.0.2")}, ""},
		"a relay with a link":                       {1, []dhcpv4.Modifier{relayed("172.16.0.1", circuit, link("10.4.0.0"))}, "far"},
		"a relay with a link that it may not name":  {1, []dhcpv4.Modifier{relayed("172.16.0.1", link("10.3.0.0"))}, ""},
		"a relay with an unknown link":              {1, []dhcpv4.Modifier{relayed("10.4.0.9", link("10.77.0.0"))}, ""},
		"a relay with a selection":                  {1, []dhcpv4.Modifier{relayed("172.16.0.1"), selection("10.4.0.0")}, "far"},
		"a link goes before a selection":            {1, []dhcpv4.Modifier{relayed("172.16.0.1", link("10.4.0.0")), selection("10.3.0.0")}, "far"},
		"a link without a relay says nothing":       {1, []dhcpv4.Modifier{dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(link("10.4.0.0")))}, "a"},
		"broken relay information":                  {1, []dhcpv4.Modifier{relayed("10.4.0.9"), dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionRelayAgentInformation, []byte{5, 9, 1}))}, "far"},
		"a link of an odd length":                   {1, []dhcpv4.Modifier{relayed("10.4.0.9", dhcpv4.OptGeneric(dhcpv4.LinkSelectionSubOption, []byte{1}))}, "far"},
		"a selection of this network":               {1, []dhcpv4.Modifier{selection("10.1.0.0")}, "a"},
		"a selection of another network":            {1, []dhcpv4.Modifier{selection("10.3.0.0")}, ""},
		"a client with an unknown address":          {3, []dhcpv4.Modifier{ciaddr(netip.MustParseAddr("10.77.0.77"))}, "c"},
		"a client that came from another network":   {1, []dhcpv4.Modifier{ciaddr(atFar)}, "a"},
		"a broadcast of a network behind a router":  {4, []dhcpv4.Modifier{ciaddr(atFar)}, ""},
		"a client that was in another network here": {2, []dhcpv4.Modifier{ciaddr(netip.MustParseAddr("10.1.0.77"))}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := arrival{Arrival: Arrival{Device: test.device, Target: limitedBroadcast, Source: atServer.Source}}
			n, ok := rooms().claimedNetwork(discover(t, test.request...), in)
			g.Expect(n.Name).To(Equal(test.want))
			g.Expect(ok).To(Equal(test.want != ""))
		})
	}
	g := NewWithT(t)
	n, _ := rooms().claimedNetwork(discover(t, ciaddr(atFar)), arrival{Arrival: Arrival{Device: 4, Target: ours, Source: netip.AddrPortFrom(atFar, clientPort)}})
	g.Expect(n.Name).To(Equal("far"), "a client that renews from behind a router")
}

// TestSingleNetwork: a request of no known network belongs to the only one.
func TestSingleNetwork(t *testing.T) {
	s := server(bootconfig.Proxy, nil)
	of := func(device int, modifiers ...dhcpv4.Modifier) bool {
		_, ok := s.claimedNetwork(discover(t, modifiers...), arrival{Arrival: Arrival{Device: device, Target: limitedBroadcast}})
		return ok
	}
	g := NewWithT(t)
	g.Expect(of(99)).To(BeTrue())
	g.Expect(of(99, relayed("192.0.2.9"))).To(BeTrue())
	g.Expect(of(99, relayed("10.0.0.9"))).To(BeFalse(), "the configuration does not name this relay agent")
	s.Networks[0].Subnet = netip.Prefix{}
	g.Expect(of(99, relayed("10.0.0.9"))).To(BeTrue(), "nothing is known of the network")
	s.Networks[0].Interface = "eth0"
	s.devices.readDevice = func(index int) Device { return map[int]Device{1: device("eth0"), 2: device("eth1")}[index] }
	g.Expect(of(1)).To(BeTrue())
	g.Expect(of(2)).To(BeFalse())
}

// TestDevices: the kernel is asked at most once per interval, and knows this machine's loopback interface.
func TestDevices(t *testing.T) {
	g := NewWithT(t)
	asked := 0
	d := Devices{readDevice: func(index int) Device {
		asked++
		return kernelDevice(index)
	}}
	lo, err := net.InterfaceByName("lo")
	g.Expect(err).NotTo(HaveOccurred())
	for range 3 {
		found := d.Get(lo.Index)
		g.Expect(found.Name).To(Equal("lo"))
		g.Expect(found.Addresses()).To(ContainElement(netip.MustParseAddr("127.0.0.1")))
		g.Expect(found.Neighbors(netip.MustParseAddr("127.1.2.3"))).To(BeTrue())
		g.Expect(found.Neighbors(netip.MustParseAddr("192.0.2.1"))).To(BeFalse())
	}
	g.Expect(asked).To(Equal(1))
	g.Expect(d.Get(1 << 30)).To(Equal(Device{}))
}

// TestRelay: the answer returns the relay agent's information, and the agent may replace the server identifier by its own.
func TestRelay(t *testing.T) {
	g := NewWithT(t)
	proxy := netip.MustParseAddr("192.0.2.3")
	circuit := dhcpv4.OptGeneric(dhcpv4.AgentCircuitIDSubOption, []byte("port 7"))
	override := dhcpv4.OptGeneric(dhcpv4.ServerIdentifierOverrideSubOption, proxy.AsSlice())
	s := server(bootconfig.Authoritative, booter(networkBoot))
	request := discover(t, relayed("192.0.2.3", circuit, override), selection("192.0.2.0"))
	offer, _ := ask(t, s, request, byRelay("192.0.2.3"))
	g.Expect(offer.Options.Get(dhcpv4.OptionRelayAgentInformation)).To(Equal(request.Options.Get(dhcpv4.OptionRelayAgentInformation)))
	g.Expect(offer.Options.Get(dhcpv4.OptionSubnetSelection)).To(Equal([]byte{192, 0, 2, 0}))
	g.Expect(addrOf(offer.GatewayIPAddr)).To(Equal(proxy))
	g.Expect(addrOf(offer.ServerIdentifier())).To(Equal(proxy))

	_, what := ask(t, s, message(t, dhcpv4.MessageTypeRequest, relayed("192.0.2.3", circuit, override), serverID(proxy), requested(leased)), byRelay("192.0.2.3"))
	g.Expect(what).To(Equal(ResultAnswered))
	_, what = ask(t, s, message(t, dhcpv4.MessageTypeRequest, relayed("192.0.2.3", circuit), serverID(proxy), requested(leased)), byRelay("192.0.2.3"))
	g.Expect(what).To(Equal(ResultElsewhere), "no relay said so")
	_, what = ask(t, s, message(t, dhcpv4.MessageTypeRequest, dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(override)), serverID(proxy), requested(leased)), atServer)
	g.Expect(what).To(Equal(ResultElsewhere), "a client cannot say so")
}

func TestDestination(t *testing.T) {
	const everyone = "255.255.255.255:68"
	port := dhcpv4.OptGeneric(dhcpv4.RelaySourcePortSubOption, nil)
	from := func(text string, proxy bool) arrival {
		return arrival{Arrival: Arrival{Device: 7, Source: netip.MustParseAddrPort(text)}, proxy: proxy}
	}
	for name, test := range map[string]struct {
		request *dhcpv4.DHCPv4
		in      arrival
		kind    dhcpv4.MessageType
		want    string
	}{
		"everyone":                    {discover(t), from("0.0.0.0:68", false), dhcpv4.MessageTypeOffer, everyone},
		"a relay":                     {discover(t, relayed("192.0.2.200")), from("192.0.2.200:4000", false), dhcpv4.MessageTypeOffer, "192.0.2.200:67"},
		"a relay that names ports":    {discover(t, relayed("192.0.2.200", port)), from("192.0.2.200:4000", false), dhcpv4.MessageTypeOffer, "192.0.2.200:4000"},
		"a relay, a NAK":              {discover(t, relayed("192.0.2.200")), from("192.0.2.200:67", false), dhcpv4.MessageTypeNak, "192.0.2.200:67"},
		"who has an address":          {discover(t, ciaddr(stranger)), from("0.0.0.0:68", false), dhcpv4.MessageTypeAck, "192.0.2.9:68"},
		"who has it, at another port": {discover(t, ciaddr(stranger)), from("192.0.2.9:1068", false), dhcpv4.MessageTypeAck, "192.0.2.9:1068"},
		"who may not keep it":         {discover(t, ciaddr(stranger)), from("192.0.2.9:68", false), dhcpv4.MessageTypeNak, everyone},
		"who asks the proxy port":     {discover(t, ciaddr(stranger)), from("192.0.2.9:4011", true), dhcpv4.MessageTypeAck, "192.0.2.9:4011"},
		"who leaves its address out":  {discover(t), from("192.0.2.9:68", true), dhcpv4.MessageTypeAck, "192.0.2.9:68"},
		"who has no address at all":   {discover(t), from("0.0.0.0:68", true), dhcpv4.MessageTypeAck, everyone},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			reply, err := dhcpv4.NewReplyFromRequest(test.request, dhcpv4.WithMessageType(test.kind))
			g.Expect(err).NotTo(HaveOccurred())
			target, out := destination(&exchange{request: test.request, reply: reply, in: test.in, network: network(bootconfig.Authoritative)})
			g.Expect(target.String()).To(Equal(test.want))
			g.Expect(out.Src.String()).To(Equal("192.0.2.1"), "clients hear from the address that they know")
			if test.want == everyone {
				g.Expect(out.IfIndex).To(Equal(7), "the answer goes out by the interface that the request came in by")
			} else {
				g.Expect(out.IfIndex).To(BeZero(), "the routes say by which")
			}
		})
	}
}
