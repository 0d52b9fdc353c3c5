package dhcp

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// loopback is a network of loopback addresses, 127.0.N.0/24, with the server at its first address.
func loopback(n byte, mode bootconfig.Mode) bootconfig.Network {
	address := netip.AddrFrom4([4]byte{127, 0, n, 1})
	return bootconfig.Network{
		Name: fmt.Sprintf("net-%d", n), Mode: mode, Address: address, URL: "http://" + address.String(), Subnet: netip.PrefixFrom(address, 24).Masked(), LeaseTime: time.Hour,
	}
}

func listen(t *testing.T, address string) *net.UDPConn {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", address)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.UDPConn)
}

// run runs a server until the end of the test, and returns where it listens.
func run(t *testing.T, address string, serve func(context.Context, net.PacketConn) error) netip.AddrPort {
	t.Helper()
	conn := listen(t, address)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// relay is a relay agent which names the port that it asks from.
type relay struct {
	*net.UDPConn
	via dhcpv4.Modifier
}

func newRelay(t *testing.T, address string) relay {
	t.Helper()
	return relay{UDPConn: listen(t, address+":0"), via: relayed(address, dhcpv4.OptGeneric(dhcpv4.RelaySourcePortSubOption, nil))}
}

// forward sends a packet to each of the servers.
func (r relay) forward(t *testing.T, packet []byte, servers ...netip.AddrPort) {
	t.Helper()
	for _, s := range servers {
		_, err := r.WriteToUDPAddrPort(packet, s)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
}

// answer waits for the next answer, and returns it with who sent it.
func (r relay) answer(t *testing.T) (*dhcpv4.DHCPv4, netip.AddrPort) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(r.SetReadDeadline(time.Now().Add(time.Minute))).To(Succeed())
	buffer := make([]byte, 1500)
	n, from, err := r.ReadFromUDPAddrPort(buffer)
	g.Expect(err).NotTo(HaveOccurred(), "no answer comes")
	answer, err := dhcpv4.FromBytes(buffer[:n])
	g.Expect(err).NotTo(HaveOccurred())
	return answer, from
}

func newMetrics(t *testing.T) *Metrics {
	t.Helper()
	m, err := NewMetrics(prometheus.NewRegistry())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return m
}

// awaitCount waits until a result was counted that often.
func (m *Metrics) awaitCount(t *testing.T, network, kind string, what Result, want int) {
	t.Helper()
	NewWithT(t).Eventually(func() float64 {
		return testutil.ToFloat64(m.requests.WithLabelValues(network, kind, string(what)))
	}).Should(BeEquivalentTo(want), "%s %s", kind, what)
}

// TestTwoServers: two managers on one link offer the same address, and only the one that the client chooses answers its REQUEST.
func TestTwoServers(t *testing.T) {
	g := NewWithT(t)
	r := newRelay(t, "127.0.82.2")
	booter := &pxetest.Booter{MAC: mac, Answer: networkBoot, Address: netip.MustParseAddr("127.0.82.77")}
	var servers []netip.AddrPort
	var metrics []*Metrics
	for i, address := range []string{"127.0.82.1", "127.0.82.3"} {
		n := loopback(82, bootconfig.Authoritative)
		n.Address = netip.MustParseAddr(address)
		metrics = append(metrics, newMetrics(t))
		s := &Server{Networks: []bootconfig.Network{n}, Booter: booter, Log: logr.Discard(), Metrics: metrics[i]}
		servers = append(servers, run(t, address+":0", s.Serve))
	}
	r.forward(t, discover(t, r.via).ToBytes(), servers...)
	seen := map[netip.AddrPort]bool{}
	for range servers {
		offer, from := r.answer(t)
		seen[from] = true
		g.Expect(addrOf(offer.YourIPAddr)).To(Equal(booter.Address))
		g.Expect(addrOf(offer.ServerIdentifier())).To(Equal(from.Addr()))
	}
	g.Expect(seen).To(HaveLen(2))
	chosen := servers[1]
	r.forward(t, message(t, dhcpv4.MessageTypeRequest, r.via, serverID(chosen.Addr()), requested(booter.Address)).ToBytes(), servers...)
	ack, from := r.answer(t)
	g.Expect(ack.MessageType()).To(Equal(dhcpv4.MessageTypeAck))
	g.Expect(from).To(Equal(chosen))
	metrics[0].awaitCount(t, "net-82", "request", ResultElsewhere, 1)

	// Without a server identifier both answer, with the same content.
	r.forward(t, message(t, dhcpv4.MessageTypeRequest, r.via, requested(booter.Address)).ToBytes(), servers...)
	for range servers {
		ack, _ := r.answer(t)
		g.Expect(ack.MessageType()).To(Equal(dhcpv4.MessageTypeAck))
		g.Expect(addrOf(ack.YourIPAddr)).To(Equal(booter.Address))
	}
}

// TestSeveralNetworks: one socket serves several networks, each from its own address.
func TestSeveralNetworks(t *testing.T) {
	g := NewWithT(t)
	booter := &pxetest.Booter{MAC: mac, Answer: networkBoot}
	booter.Leases = func(r pxe.LeaseRequest) (pxe.Lease, error) {
		a := r.Pool.Prefix.Addr().As4()
		return pxe.Lease{Address: netip.AddrFrom4([4]byte{a[0], a[1], a[2], 77})}, nil
	}
	s := &Server{Networks: []bootconfig.Network{loopback(83, bootconfig.Authoritative), loopback(84, bootconfig.Authoritative)}, Booter: booter, Log: logr.Discard()}
	port := run(t, "0.0.0.0:0", s.Serve).Port()
	for _, n := range s.Networks {
		r := newRelay(t, n.Address.Next().String())
		server := netip.AddrPortFrom(n.Address, port)
		r.forward(t, discover(t, r.via).ToBytes(), server)
		offer, from := r.answer(t)
		g.Expect(from).To(Equal(server), "the answer comes from the network's address")
		g.Expect(n.Subnet.Contains(addrOf(offer.YourIPAddr))).To(BeTrue())
		g.Expect(addrOf(offer.ServerIdentifier())).To(Equal(n.Address))
	}
	// A request to one address of this machine for the network of another is answered from the address that the client expects.
	r := newRelay(t, "127.0.84.2")
	r.forward(t, discover(t, r.via).ToBytes(), netip.AddrPortFrom(s.Networks[0].Address, port))
	_, from := r.answer(t)
	g.Expect(from.Addr()).To(Equal(s.Networks[1].Address))
}

// fragile panics for one machine.
type fragile struct {
	*pxetest.Booter
}

func (f fragile) Lookup(ctx context.Context, hw net.HardwareAddr) (pxe.Answer, error) {
	if hw.String() == other.String() {
		panic("a bug")
	}
	return f.Booter.Lookup(ctx, hw)
}

// TestUnkillable: neither malformed packets nor a bug end the loop, and both are counted.
func TestUnkillable(t *testing.T) {
	g := NewWithT(t)
	metrics := newMetrics(t)
	booter := fragile{&pxetest.Booter{MAC: mac, Answer: networkBoot, Address: netip.MustParseAddr("127.0.85.77")}}
	s := &Server{Networks: []bootconfig.Network{loopback(85, bootconfig.Authoritative)}, Booter: booter, Log: logr.Discard(), Metrics: metrics}
	server := run(t, "127.0.85.1:0", s.Serve)
	r := newRelay(t, "127.0.85.2")
	whole := discover(t, r.via).ToBytes()
	for _, packet := range [][]byte{nil, {1}, whole[:100], whole[:241], append(whole[:240:240], 53, 200, 1)} {
		r.forward(t, packet, server)
	}
	r.forward(t, discover(t, r.via, dhcpv4.WithHwAddr(other)).ToBytes(), server)
	metrics.awaitCount(t, "", "discover", ResultPanicked, 1)
	metrics.awaitCount(t, "", "other", ResultMalformed, 5)
	r.forward(t, discover(t, r.via).ToBytes(), server)
	offer, _ := r.answer(t)
	g.Expect(offer.ClientHWAddr).To(Equal(mac))
	metrics.awaitCount(t, "net-85", "discover", ResultAnswered, 1)
	g.Expect(booter.Stages()).To(BeEmpty(), "a client that boots nothing is no stage of a boot")
}

func TestMetricsAreRegistered(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	_, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = NewMetrics(registry)
	g.Expect(err).To(HaveOccurred())
}

// TestStages: an answer with a boot file is a stage of the client's boot, with the address of the answer.
func TestStages(t *testing.T) {
	g := NewWithT(t)
	booter := &pxetest.Booter{MAC: mac, Answer: networkBoot, Address: netip.MustParseAddr("127.0.86.77")}
	s := &Server{Networks: []bootconfig.Network{loopback(86, bootconfig.Authoritative)}, Booter: booter, Log: logr.Discard()}
	server := run(t, "127.0.86.1:0", s.ServeProxy)
	client := listen(t, "127.0.86.9:0")
	request := message(t, dhcpv4.MessageTypeRequest, pxeClient(iana.EFI_X86_64)...)
	_, err := client.WriteToUDPAddrPort(request.ToBytes(), server)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.SetReadDeadline(time.Now().Add(time.Minute))).To(Succeed())
	buffer := make([]byte, 1500)
	n, from, err := client.ReadFromUDPAddrPort(buffer)
	g.Expect(err).NotTo(HaveOccurred(), "the answer comes to the port that was asked from, although the request names no address")
	g.Expect(from).To(Equal(server))
	reply, err := dhcpv4.FromBytes(buffer[:n])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reply.BootFileName).To(Equal("52-54-00-00-00-01/snponly.efi"))
	g.Expect(booter.Stages()).To(Equal([]pxe.Stage{pxe.StageDHCP}))
}

// TestOverload: requests above the limit of concurrent answers are dropped and counted, and the loop continues.
func TestOverload(t *testing.T) {
	metrics := newMetrics(t)
	booter := &pxetest.Booter{MAC: mac, Answer: networkBoot}
	gate := make(chan struct{})
	booter.Leases = func(pxe.LeaseRequest) (pxe.Lease, error) {
		<-gate
		return pxe.Lease{Address: netip.MustParseAddr("127.0.87.77")}, nil
	}
	s := &Server{Networks: []bootconfig.Network{loopback(87, bootconfig.Authoritative)}, Booter: booter, Log: logr.Discard(), Metrics: metrics}
	server := run(t, "127.0.87.1:0", s.Serve)
	r := newRelay(t, "127.0.87.2")
	packet := discover(t, r.via).ToBytes()
	for range maxWorkers + 10 {
		r.forward(t, packet, server)
	}
	metrics.awaitCount(t, "", "discover", ResultOverloaded, 10)
	close(gate)
	metrics.awaitCount(t, "net-87", "discover", ResultAnswered, maxWorkers)
}

// TestDeadSocket: an unusable socket ends the server with an error.
func TestDeadSocket(t *testing.T) {
	conn := listen(t, "127.0.0.1:0")
	g := NewWithT(t)
	g.Expect(conn.Close()).To(Succeed())
	g.Expect(server(bootconfig.Proxy, nil).Serve(t.Context(), conn)).NotTo(Succeed())
}

// TestLogOfResults: a failure of a machine is logged at most once per interval, ordinary DHCP of unknown machines is not logged, and memory is bounded.
func TestLogOfResults(t *testing.T) {
	var mu sync.Mutex
	var lines []string
	told := func() int { mu.Lock(); defer mu.Unlock(); return len(lines) }
	s := server(bootconfig.Authoritative, booter(known))
	s.Log = funcr.New(func(_, line string) { mu.Lock(); defer mu.Unlock(); lines = append(lines, line) }, funcr.Options{})
	say := func(request *dhcpv4.DHCPv4) {
		x, err := s.handle(t.Context(), request, atServer)
		s.logResult(x, resultOf(x, err), err)
	}
	g := NewWithT(t)
	for range 3 {
		say(discover(t, dhcpv4.WithHwAddr(other)))
		say(discover(t))
	}
	g.Expect(told()).To(BeZero())
	for range 3 {
		say(discover(t, with(pxeClient(iana.EFI_X86_64), dhcpv4.WithHwAddr(other))...))
	}
	g.Expect(lines).To(ConsistOf(And(ContainSubstring("52:54:00:00:00:02"), ContainSubstring("not a server of the inventory"))))

	for i := range 3 * maxRepeatKeys {
		hw := net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i)}
		say(discover(t, with(pxeClient(iana.EFI_X86_64), dhcpv4.WithHwAddr(hw))...))
	}
	g.Expect(told()).To(Equal(maxRepeatKeys))
	g.Expect(s.logs.current).To(HaveLen(maxRepeatKeys))
	s.logs.since = time.Now().Add(-repeatInterval)
	say(discover(t, with(pxeClient(iana.EFI_X86_64), dhcpv4.WithHwAddr(other))...))
	g.Expect(told()).To(Equal(maxRepeatKeys), "the last message is too recent")
	for key := range s.logs.previous {
		s.logs.previous[key] = time.Now().Add(-repeatInterval)
	}
	say(discover(t, with(pxeClient(iana.EFI_X86_64), dhcpv4.WithHwAddr(other))...))
	g.Expect(told()).To(Equal(maxRepeatKeys + 1))
}
