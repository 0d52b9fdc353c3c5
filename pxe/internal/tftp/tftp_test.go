package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	client "github.com/pin/tftp/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/quota"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// lab is a server with one boot loader.
type lab struct {
	*Server

	t       *testing.T
	address netip.AddrPort
	loader  []byte
	fetched chan string
}

func start(t *testing.T, size int) *lab {
	t.Helper()
	g := NewWithT(t)
	l := &lab{t: t, loader: make([]byte, size), fetched: make(chan string, 1000)}
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(l.loader)
	l.Server = &Server{
		Log: logr.Discard(),
		Open: func(name string, local netip.Addr) ([]byte, bool) {
			if local.String() != "127.0.0.1" {
				t.Errorf("asked at %s", local)
			}
			return l.loader, name == "snponly.efi"
		},
		Fetched: func(mac net.HardwareAddr, from netip.Addr, file string) {
			l.fetched <- mac.String() + " " + from.String() + " " + file
		},
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	l.address = conn.LocalAddr().(*net.UDPAddr).AddrPort()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx, conn) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	return l
}

// receive fetches a file with the client of github.com/pin/tftp.
func (l *lab) receive(address, name string, blockSize int, size bool) ([]byte, error) {
	c, err := client.NewClient(address)
	if err != nil {
		return nil, err
	}
	c.SetTimeout(500 * time.Millisecond)
	c.SetRetries(20)
	c.SetBackoff(func(int) time.Duration { return 0 })
	if blockSize != 0 {
		c.SetBlockSize(blockSize)
	}
	c.RequestTSize(size)
	from, err := c.Receive(name, "octet")
	if err != nil {
		return nil, err
	}
	if told, ok := from.(client.IncomingTransfer).Size(); size && (!ok || int(told) != len(l.loader)) {
		return nil, fmt.Errorf("the size that was told is %d", told)
	}
	var content bytes.Buffer
	_, err = from.WriteTo(&content)
	return content.Bytes(), err
}

func TestServe(t *testing.T) {
	g := NewWithT(t)
	for _, size := range []int{0, 1, 511, 512, 513, 1024, 1448, 1449, 100_000} {
		l := start(t, size)
		for _, blockSize := range []int{0, 512, 1024, 1448, 65464} {
			content, err := l.receive(l.address.String(), JoinName(net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, "snponly.efi"), blockSize, size > 0)
			g.Expect(err).NotTo(HaveOccurred(), "%d bytes in blocks of %d", size, blockSize)
			g.Expect(bytes.Equal(content, l.loader)).To(BeTrue(), "%d bytes in blocks of %d", size, blockSize)
			g.Expect(<-l.fetched).To(Equal("52:54:00:00:00:01 127.0.0.1 snponly.efi"))
		}
		g.Expect(l.receive(l.address.String(), `\snponly.efi`, 0, false)).To(Equal(l.loader), "a loader needs no MAC address")
	}
}

// TestBothFamilies: one socket serves IPv4 and IPv6, each from the address that was asked.
func TestBothFamilies(t *testing.T) {
	g := NewWithT(t)
	l := &lab{t: t, loader: []byte("loader"), fetched: make(chan string, 2)}
	l.Server = &Server{
		Log: logr.Discard(),
		Open: func(name string, local netip.Addr) ([]byte, bool) {
			return l.loader, name == "at-"+strings.ReplaceAll(local.String(), ":", "-")
		},
		Fetched: func(_ net.HardwareAddr, from netip.Addr, file string) { l.fetched <- from.String() + " " + file },
	}
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", ":0")
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Serve(ctx, conn) }()
	port := strconv.FormatUint(uint64(conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()), 10)
	for _, address := range []string{"127.0.0.1", "127.0.0.9", "::1"} {
		name := "at-" + strings.ReplaceAll(address, ":", "-")
		g.Expect(l.receive(net.JoinHostPort(address, port), "52-54-00-00-00-01/"+name, 0, false)).To(Equal(l.loader), address)
		g.Expect(<-l.fetched).To(HaveSuffix(" " + name))
	}
	cancel()
	g.Expect(<-done).To(Succeed())
}

// TestManyBlocks: block numbers have 16 bits, and wrap around.
func TestManyBlocks(t *testing.T) {
	g := NewWithT(t)
	l := start(t, 65537*512+1)
	content, err := l.receive(l.address.String(), "snponly.efi", 512, false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Equal(content, l.loader)).To(BeTrue())
}

func TestNames(t *testing.T) {
	g := NewWithT(t)
	l := start(t, 10)
	for _, name := range []string{
		"../secret", `..\secret`, "/etc/passwd", ".", "", "/", "52-54-00-00-00-01/../../secret", "no.efi", "SNPONLY.EFI", "x/snponly.efi",
		strings.Repeat("a/", 150),
	} {
		_, err := l.receive(l.address.String(), name, 0, false)
		g.Expect(err).To(MatchError(ContainSubstring("no such boot loader")), name)
	}
}

// testPeer is a client that the test controls.
type testPeer struct {
	g      Gomega
	conn   *net.UDPConn
	server *net.UDPAddr
}

func (l *lab) peer() *testPeer {
	g := NewWithT(l.t)
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	g.Expect(err).NotTo(HaveOccurred())
	l.t.Cleanup(func() { _ = conn.Close() })
	return &testPeer{g: g, conn: conn, server: net.UDPAddrFromAddrPort(l.address)}
}

func (p *testPeer) send(op uint16, rest ...string) {
	packet := binary.BigEndian.AppendUint16(nil, op)
	packet = append(packet, strings.Join(rest, "\x00")...)
	_, err := p.conn.WriteToUDP(append(packet, 0), p.server)
	p.g.Expect(err).NotTo(HaveOccurred())
}

func (p *testPeer) ack(block uint16) {
	packet := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, opAck), block)
	_, err := p.conn.WriteToUDP(packet, p.server)
	p.g.Expect(err).NotTo(HaveOccurred())
}

func (p *testPeer) read() []byte {
	buffer := make([]byte, 2000)
	p.g.Expect(p.conn.SetReadDeadline(time.Now().Add(20 * time.Second))).To(Succeed())
	n, from, err := p.conn.ReadFromUDP(buffer)
	p.g.Expect(err).NotTo(HaveOccurred())
	p.g.Expect(from.String()).To(Equal(p.server.String()), "answers come from the port that was asked")
	return buffer[:n]
}

// silent is true if nothing arrives for some time.
func (p *testPeer) silent(d time.Duration) bool {
	p.g.Expect(p.conn.SetReadDeadline(time.Now().Add(d))).To(Succeed())
	_, _, err := p.conn.ReadFromUDP(make([]byte, 2000))
	return err != nil
}

func data(block uint16, content []byte) []byte {
	return append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, opData), block), content...)
}

// TestOptions covers RFC 2347 to 2349 and 7440: supported options are acknowledged, others are ignored.
func TestOptions(t *testing.T) {
	l := start(t, 5000)
	for options, want := range map[string]string{
		"blksize 1448 tsize 0":              "blksize 1448 tsize 5000",
		"BLKSIZE 9000 windowsize 4":         "blksize 1448 windowsize 4",
		"timeout 2 rollover 0 windowsize 0": "timeout 2",
		"tsize 0 tsize 0 windowsize 1000":   "tsize 5000 windowsize 16",
		"timeout 255 tsize 0 odd":           "tsize 5000",
	} {
		p := l.peer()
		p.send(opRead, append([]string{"snponly.efi", "OCTET"}, strings.Fields(options)...)...)
		answer := p.read()
		p.g.Expect(binary.BigEndian.Uint16(answer)).To(Equal(opOptionAck))
		p.g.Expect(strings.Join(strings.Split(strings.TrimRight(string(answer[2:]), "\x00"), "\x00"), " ")).To(Equal(want), options)
		p.send(opError, "\x00\x00over")
	}
	p := l.peer()
	p.send(opRead, "snponly.efi", "octet", "blksize", "8", "tsize", "x")
	p.g.Expect(p.read()).To(Equal(data(1, l.loader[:512])), "no option was understood: there is nothing to acknowledge")
	p.send(opError, "\x00\x00over")
}

// TestWindow: a window of blocks is sent at once, and after a loss the transfer continues after the last block that arrived.
func TestWindow(t *testing.T) {
	l := start(t, 512*6)
	p := l.peer()
	// With the timeout that the client requests, the server does not retransmit because this machine is slow.
	p.send(opRead, "snponly.efi", "octet", "windowsize", "3", "timeout", "10")
	p.g.Expect(binary.BigEndian.Uint16(p.read())).To(Equal(opOptionAck))
	p.ack(0)
	for _, block := range []uint16{1, 2, 3} {
		p.g.Expect(p.read()).To(Equal(data(block, l.loader[(block-1)*512:block*512])))
	}
	p.ack(2)
	for _, block := range []uint16{3, 4, 5} {
		p.g.Expect(p.read()).To(Equal(data(block, l.loader[(block-1)*512:block*512])))
	}
	p.ack(5)
	p.g.Expect(p.read()).To(Equal(data(6, l.loader[5*512:])))
	p.g.Expect(p.read()).To(Equal(data(7, nil)), "a full last block is followed by an empty one")
	p.ack(7)
	p.g.Eventually(l.idle).Should(BeTrue())
}

func (l *lab) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running) == 0
}

// TestDuplicates: a repeated acknowledgement causes no second block. Otherwise every packet would be sent twice from then on
// (the Sorcerer's Apprentice, RFC 1123).
func TestDuplicates(t *testing.T) {
	l := start(t, 3000)
	p := l.peer()
	p.send(opRead, "snponly.efi", "octet", "timeout", "5")
	p.g.Expect(binary.BigEndian.Uint16(p.read())).To(Equal(opOptionAck))
	p.ack(0)
	p.g.Expect(p.read()).To(Equal(data(1, l.loader[:512])))
	p.ack(1)
	p.g.Expect(p.read()).To(Equal(data(2, l.loader[512:1024])))
	p.ack(1)
	p.ack(1)
	p.ack(7)
	p.g.Expect(p.silent(200 * time.Millisecond)).To(BeTrue())
	p.g.Expect(p.read()).To(Equal(data(2, l.loader[512:1024])), "it is sent again when time is up")
	p.send(opError, "\x00\x00over")
	p.g.Eventually(l.idle).Should(BeTrue())
}

// TestStartsAgain: a client that sends another request from the same port gets no block of its earlier transfer, and a repeated request starts nothing.
func TestStartsAgain(t *testing.T) {
	l := start(t, 5000)
	aborted, busy := testutil.ToFloat64(requests.WithLabelValues(outcomeAborted)), testutil.ToFloat64(requests.WithLabelValues(outcomeBusy))
	p := l.peer()
	p.send(opRead, "snponly.efi", "octet", "timeout", "10")
	p.g.Expect(binary.BigEndian.Uint16(p.read())).To(Equal(opOptionAck))
	p.ack(0)
	p.g.Expect(p.read()).To(Equal(data(1, l.loader[:512])))
	p.send(opRead, "snponly.efi", "octet", "timeout", "10") // late
	p.ack(1)
	p.g.Expect(p.read()).To(Equal(data(2, l.loader[512:1024])))
	p.g.Expect(testutil.ToFloat64(requests.WithLabelValues(outcomeBusy))).To(Equal(busy + 1))
	p.send(opRead, "snponly.efi", "octet", "blksize", "1024", "timeout", "10")
	p.g.Expect(string(p.read())).To(Equal("\x00\x06blksize\x001024\x00timeout\x0010\x00"))
	p.ack(0)
	p.g.Expect(p.read()).To(Equal(data(1, l.loader[:1024])))
	p.g.Expect(testutil.ToFloat64(requests.WithLabelValues(outcomeAborted))).To(Equal(aborted + 1))
	for block := uint16(1); block < 5; block++ {
		p.ack(block)
		p.g.Expect(p.read()).To(Equal(data(block+1, l.loader[int(block)*1024:min(int(block+1)*1024, 5000)])))
	}
	// The last acknowledgement is lost, and the client wants the same file again.
	p.send(opRead, "snponly.efi", "octet", "blksize", "1024", "timeout", "10")
	p.g.Expect(binary.BigEndian.Uint16(p.read())).To(Equal(opOptionAck))
	p.send(opError, "\x00\x00over")
	p.g.Eventually(l.idle).Should(BeTrue())
}

// TestManyClients: many clients with windows of several sizes get their file at once from one socket.
func TestManyClients(t *testing.T) {
	l := start(t, 200_000)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			g := NewGomega(func(message string, _ ...int) { t.Error(message) })
			// Each has its own address, as 16 transfers of one are the maximum.
			conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 1, byte(1+i))})
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = conn.Close() }()
			c := &pxetest.TFTPClient{Conn: conn, Server: l.address, BlockSize: 1448, Window: i % 20}
			for range 3 {
				var content bytes.Buffer
				g.Expect(c.Fetch("snponly.efi", &content)).To(Succeed())
				g.Expect(bytes.Equal(content.Bytes(), l.loader)).To(BeTrue())
			}
		})
	}
	wg.Wait()
	NewWithT(t).Eventually(l.idle).Should(BeTrue())
}

// TestReadOnly: a write request is refused with the code of RFC 1350 for it.
func TestReadOnly(t *testing.T) {
	l := start(t, 10)
	p := l.peer()
	p.send(opWrite, "snponly.efi", "octet")
	p.g.Expect(p.read()).To(Equal([]byte("\x00\x05\x00\x02read only\x00")))
	p = l.peer()
	p.send(opRead, "snponly.efi", "netascii")
	p.g.Expect(p.read()).To(Equal([]byte("\x00\x05\x00\x04octet only\x00")))
}

// TestSizeOnly: UEFI firmware asks for the size, ends that transfer with error 8, and asks again. This is no failure.
func TestSizeOnly(t *testing.T) {
	l := start(t, 10)
	sized, aborted := testutil.ToFloat64(requests.WithLabelValues(outcomeSize)), testutil.ToFloat64(requests.WithLabelValues(outcomeAborted))
	p := l.peer()
	p.send(opRead, "snponly.efi", "octet", "tsize", "0", "timeout", "10")
	p.g.Expect(string(p.read())).To(Equal("\x00\x06tsize\x0010\x00timeout\x0010\x00"))
	p.send(opError, "\x00\x08User aborted the transfer")
	p.g.Eventually(l.idle).Should(BeTrue())
	p.g.Expect(testutil.ToFloat64(requests.WithLabelValues(outcomeSize))).To(Equal(sized + 1))
	p.g.Expect(testutil.ToFloat64(requests.WithLabelValues(outcomeAborted))).To(Equal(aborted))
	p.g.Expect(p.silent(100*time.Millisecond)).To(BeTrue(), "an error is not answered")
	p.g.Expect(l.fetched).To(BeEmpty())
}

// TestLastAcknowledgement: a client that has all blocks and leaves without an acknowledgement has fetched its boot loader.
func TestLastAcknowledgement(t *testing.T) {
	l := start(t, 600)
	p := l.peer()
	p.send(opRead, "52-54-00-00-00-01/snponly.efi", "octet", "timeout", "3")
	p.g.Expect(binary.BigEndian.Uint16(p.read())).To(Equal(opOptionAck))
	p.ack(0)
	p.g.Expect(p.read()).To(Equal(data(1, l.loader[:512])))
	p.g.Expect(l.fetched).To(BeEmpty())
	p.ack(1)
	p.g.Expect(p.read()).To(Equal(data(2, l.loader[512:])))
	p.g.Eventually(l.fetched).Should(Receive(Equal("52:54:00:00:00:01 127.0.0.1 snponly.efi")))
	p.g.Expect(p.read()).To(Equal(data(2, l.loader[512:])), "it may be lost, and is sent again")
	p.send(opError, "\x00\x00over")
	p.g.Eventually(l.idle).Should(BeTrue())
	p.g.Expect(l.fetched).To(BeEmpty(), "it is called once")
}

// TestBounds: a client that asks and does not answer uses a few transfers for a few seconds, and others are served in the meantime.
func TestBounds(t *testing.T) {
	g := NewWithT(t)
	l := start(t, 10)
	l.mu.Lock()
	l.running, l.clients = map[netip.AddrPort]bool{}, quota.Clients{PerAddress: 4}
	l.mu.Unlock()
	before := testutil.ToFloat64(requests.WithLabelValues(outcomeBusy))
	for range 10 {
		l.peer().send(opRead, "snponly.efi", "octet", "timeout", "1")
	}
	g.Eventually(func() float64 { return testutil.ToFloat64(requests.WithLabelValues(outcomeBusy)) }).Should(Equal(before + 6))
	l.mu.Lock()
	g.Expect(l.running).To(HaveLen(4))
	l.mu.Unlock()
	g.Eventually(l.idle, "30s").Should(BeTrue(), "who never answered is given up soon")

	p := l.peer()
	for range 3 {
		p.send(opRead, "snponly.efi", "octet", "timeout", "10")
	}
	p.g.Expect(binary.BigEndian.Uint16(p.read())).To(Equal(opOptionAck))
	p.ack(0)
	p.g.Expect(p.read()).To(Equal(data(1, l.loader)))
	p.g.Expect(p.silent(300*time.Millisecond)).To(BeTrue(), "a request that is repeated is one")
	p.ack(1)
	g.Eventually(l.idle).Should(BeTrue())
}

// TestTransfersOfAClient: an address may have a few transfers at once, and an IPv6 client with all addresses of its /64 a part of all. 64 servers of a rack
// in one /64 have what their firmware needs.
func TestTransfersOfAClient(t *testing.T) {
	g := NewWithT(t)
	s := &Server{}
	enter := func(format string, address, transfers int) (entered int) {
		for port := range transfers {
			if s.enter(netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf(format, address)), uint16(port))) {
				entered++
			}
		}
		return entered
	}
	g.Expect(enter("192.0.2.%d", 1, 100)).To(Equal(16))
	g.Expect(enter("192.0.2.%d", 2, 1)).To(Equal(1))
	g.Expect(enter("2001:db8::%x", 1, 100)).To(Equal(16))
	for server := range 64 {
		g.Expect(enter("2001:db8:0:1::%x", server, 4)).To(Equal(4))
	}
	transfers := 0
	for address := range 1000 {
		transfers += enter("2001:db8:0:2::%x", address, 1)
	}
	g.Expect(transfers).To(Equal(maxTransfers / 4))
	s.leave(netip.MustParseAddrPort("[2001:db8:0:2::]:0"))
	g.Expect(enter("2001:db8:0:2::%x", 1000, 2)).To(Equal(1))
}

// TestStops: the server stops with its context, whatever transfers are running.
func TestStops(t *testing.T) {
	l := start(t, 10)
	l.peer().send(opRead, "snponly.efi", "octet")
	NewWithT(t).Eventually(l.idle).Should(BeFalse())
}

// TestLoss: over a network that loses packets in both directions, clients still get their loaders.
func TestLoss(t *testing.T) {
	l := start(t, 60_000)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			g := NewWithT(t)
			relay := newLossy(t, l.address, 5+i)
			content, err := l.receive(relay, "snponly.efi", 1448, true)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(bytes.Equal(content, l.loader)).To(BeTrue())
		})
	}
	wg.Wait()
}

// newLossy returns the address of a relay between one client and the server that drops every n-th packet.
func newLossy(t *testing.T, server netip.AddrPort, n int) string {
	t.Helper()
	g := NewWithT(t)
	outer, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	g.Expect(err).NotTo(HaveOccurred())
	inner, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _, _ = outer.Close(), inner.Close() })
	var packets atomic.Int64
	var client, transfer atomic.Pointer[net.UDPAddr]
	transfer.Store(net.UDPAddrFromAddrPort(server))
	copyPackets := func(from, to *net.UDPConn, seen, target *atomic.Pointer[net.UDPAddr]) {
		buffer := make([]byte, 2000)
		for {
			size, sender, err := from.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			seen.Store(sender)
			if packets.Add(1)%int64(n) != 0 {
				_, _ = to.WriteToUDP(buffer[:size], target.Load())
			}
		}
	}
	go copyPackets(outer, inner, &client, &transfer)
	go copyPackets(inner, outer, &transfer, &client)
	return outer.LocalAddr().String()
}

// FuzzRequest: whatever a packet contains, the decoded request is within its bounds.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x00\x01snponly.efi\x00octet\x00blksize\x001468\x00tsize\x000\x00"))
	f.Add([]byte("\x00\x02x\x00octet\x00"))
	f.Add([]byte("\x00\x01x\x00netascii\x00timeout\x00-1\x00windowsize\x0099999999999999999999\x00"))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := parseRequest(packet)
		if err != nil {
			return
		}
		if r.block < defaultBlock || r.block > maxBlock || r.window < 1 || r.window > maxWindow || r.timeout < 0 || r.timeout > maxTimeout {
			t.Fatalf("%+v", r)
		}
		if len(r.options) > 4 || len(r.optionAck(1<<30)) > maxRequest || strings.Contains(r.name, "\x00") {
			t.Fatalf("%+v", r)
		}
	})
}

// FuzzSplitName: every name that DHCP gives can be split again, and no name makes the server panic.
func FuzzSplitName(f *testing.F) {
	f.Add("52-54-00-00-00-01/snponly.efi")
	f.Add(`\52-54-00-00-00-01\x`)
	f.Add("../..")
	f.Fuzz(func(t *testing.T, name string) {
		mac, file := SplitName(name)
		if mac == nil || file == "" || strings.ContainsAny(file, `\`) {
			return
		}
		if again, sameFile := SplitName(JoinName(mac, file)); again.String() != mac.String() || sameFile != file {
			t.Fatalf("%q became %s and %q, then %s and %q", name, mac, file, again, sameFile)
		}
	})
}
