package tftp

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/net/ipv4"
)

// stub is a server without a network, whose loop the test runs at times of its choice.
type stub struct {
	net.PacketConn

	loop *loop
	now  time.Time
	sent []string // "PORT PACKET"
	// unreachable is the port of a client to which no packet can be sent.
	unreachable int
	// full is true while the send buffer is full.
	full bool
}

func newStub(content []byte) *stub {
	s := &stub{now: time.Unix(1_000_000, 0)}
	k := &socket{conn: s, packets: s, v4: true}
	k.allocate(0)
	s.loop = newLoop(&Server{Log: logr.Discard(), Open: func(string, netip.Addr) ([]byte, bool) { return content, true }}, k)
	return s
}

func (s *stub) ReadBatch([]ipv4.Message, int) (int, error) { return 0, net.ErrClosed }

// WriteBatch sends as the kernel does: an error is that of the first packet, and a later one ends the batch.
func (s *stub) WriteBatch(messages []ipv4.Message, flags int) (int, error) {
	switch {
	case s.full && flags&syscall.MSG_DONTWAIT != 0:
		return -1, syscall.EAGAIN
	case s.full:
		return 0, os.ErrDeadlineExceeded
	}
	for i, m := range messages {
		port := m.Addr.(*net.UDPAddr).Port
		if port == s.unreachable && i > 0 {
			return i, nil
		} else if port == s.unreachable {
			return -1, syscall.ENETUNREACH
		}
		s.sent = append(s.sent, net.JoinHostPort("", string(rune('0'+port)))+" "+string(bytes.Join(m.Buffers, nil)))
	}
	return len(messages), nil
}

func (s *stub) SetReadDeadline(time.Time) error  { return nil }
func (s *stub) SetWriteDeadline(time.Time) error { return nil }

// receive hands packets of a client to the loop, as one batch, and returns what was sent.
func (s *stub) receive(port int, packets ...string) []string {
	s.sent = nil
	for _, packet := range packets {
		s.loop.handle(&ipv4.Message{
			Buffers: [][]byte{[]byte(packet)}, N: len(packet), Addr: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: port},
		}, s.now)
	}
	s.loop.socket.flush()
	return s.sent
}

// pass lets time pass in small steps. It returns after which time something was sent.
func (s *stub) pass(d time.Duration) (at []time.Duration) {
	start := s.now
	for end := s.now.Add(d); s.now.Before(end); {
		s.now, s.sent = s.now.Add(sweepInterval), nil
		s.loop.sweep(s.now)
		if s.loop.socket.flush(); len(s.sent) > 0 {
			at = append(at, s.now.Sub(start))
		}
	}
	return at
}

func stubData(port string, block uint16, content []byte) string {
	return ":" + port + " " + string(data(block, content))
}

const plainRequest = "\x00\x01snponly.efi\x00octet\x00"

func ackOf(block uint16) string {
	return string(binary.BigEndian.AppendUint16([]byte{0, byte(opAck)}, block))
}

// TestTimeouts: a packet is sent 3 times to a client that never answered, and 6 times to another one, with growing intervals that begin at the round trip.
func TestTimeouts(t *testing.T) {
	g := NewWithT(t)
	content := make([]byte, 600)
	s := newStub(content)
	before := testutil.ToFloat64(requests.WithLabelValues(outcomeTimeout))
	g.Expect(s.receive(1, plainRequest)).To(Equal([]string{stubData("1", 1, content[:512])}))
	g.Expect(s.pass(10 * time.Second)).To(Equal([]time.Duration{time.Second, 3 * time.Second}))
	g.Expect(s.loop.transfers).To(BeEmpty())
	g.Expect(s.loop.server.running).To(BeEmpty())
	g.Expect(s.loop.wake.IsZero()).To(BeTrue(), "nothing wakes a server at rest")

	s.receive(1, plainRequest)
	s.now = s.now.Add(10 * time.Millisecond)
	g.Expect(s.receive(1, ackOf(1))).To(Equal([]string{stubData("1", 2, content[512:])}))
	sent := s.pass(20 * time.Second)
	g.Expect(sent).To(HaveLen(5))
	for i, ms := range []int{200, 600, 1400, 3000, 6200} { // intervals of 200, 400, 800, 1600 and 3200
		g.Expect(sent[i]).To(BeNumerically("~", time.Duration(ms)*time.Millisecond, 6*sweepInterval))
	}
	g.Expect(s.loop.transfers).To(BeEmpty())

	s.receive(1, "\x00\x01snponly.efi\x00octet\x00timeout\x002\x00")
	g.Expect(s.pass(10*time.Second)).To(Equal([]time.Duration{2 * time.Second, 4 * time.Second}), "the client chose the interval")
	g.Expect(testutil.ToFloat64(requests.WithLabelValues(outcomeTimeout))).To(Equal(before + 3))
}

// TestTransferEnds: a client that acknowledges a block now and then does not keep a transfer.
func TestTransferEnds(t *testing.T) {
	g := NewWithT(t)
	s := newStub(make([]byte, 1<<20))
	s.receive(1, "\x00\x01snponly.efi\x00octet\x00timeout\x0010\x00")
	s.receive(1, ackOf(0))
	for block := uint16(1); len(s.loop.transfers) > 0; block++ {
		g.Expect(block).To(BeNumerically("<", 100))
		s.pass(9 * time.Second)
		s.receive(1, ackOf(block))
	}
}

// TestUnreachable: a packet that cannot be sent ends its transfer only.
func TestUnreachable(t *testing.T) {
	g := NewWithT(t)
	content := make([]byte, 600)
	s := newStub(content)
	s.unreachable = 2
	failed := testutil.ToFloat64(requests.WithLabelValues(outcomeFailed))
	for _, port := range []int{1, 2, 3} {
		s.loop.handle(&ipv4.Message{Buffers: [][]byte{[]byte(plainRequest)}, N: len(plainRequest), Addr: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: port}}, s.now)
	}
	s.loop.socket.flush()
	g.Expect(s.sent).To(Equal([]string{stubData("1", 1, content[:512]), stubData("3", 1, content[:512])}))
	g.Expect(s.loop.transfers).To(HaveLen(2))
	g.Expect(testutil.ToFloat64(requests.WithLabelValues(outcomeFailed))).To(Equal(failed + 1))
}

// TestFullBuffer: packets that the kernel does not take are lost, and are sent again.
func TestFullBuffer(t *testing.T) {
	g := NewWithT(t)
	s := newStub(make([]byte, 600))
	s.full = true
	g.Expect(s.receive(1, plainRequest)).To(BeEmpty())
	g.Expect(s.loop.transfers).To(HaveLen(1))
	s.full = false
	g.Expect(s.pass(2 * time.Second)).To(Equal([]time.Duration{time.Second}))
}

// TestFullBatch: more packets than fit into one system call are all sent, in their order.
func TestFullBatch(t *testing.T) {
	g := NewWithT(t)
	content := make([]byte, 512*40)
	for i := range content {
		content[i] = byte(i / 512)
	}
	s := newStub(content)
	requested := "\x00\x01snponly.efi\x00octet\x00windowsize\x0016\x00"
	s.receive(1, requested)
	s.receive(2, requested)
	s.receive(3, requested)
	s.sent = nil
	for _, port := range []int{1, 2, 3} {
		s.loop.handle(&ipv4.Message{Buffers: [][]byte{[]byte(ackOf(0))}, N: headerLength, Addr: &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: port}}, s.now)
	}
	s.loop.socket.flush()
	var want []string
	for _, port := range []string{"1", "2", "3"} {
		for block := range 16 {
			want = append(want, stubData(port, uint16(block+1), content[block*512:(block+1)*512]))
		}
	}
	g.Expect(slices.Equal(s.sent, want)).To(BeTrue())
}

// TestStrayPackets: an acknowledgement or an error of no transfer is neither answered nor counted: those of the last packets of a transfer arrive after its end.
func TestStrayPackets(t *testing.T) {
	g := NewWithT(t)
	s := newStub(nil)
	before := testutil.ToFloat64(requests.WithLabelValues(outcomeMalformed))
	g.Expect(s.receive(1, ackOf(7), "\x00\x05\x00\x00x\x00")).To(BeEmpty())
	g.Expect(testutil.ToFloat64(requests.WithLabelValues(outcomeMalformed))).To(Equal(before))
	g.Expect(s.receive(1, "", "\x00", "\x00\x03\x00\x01x", "\x00\x01x\x00")).To(BeEmpty())
	g.Expect(testutil.ToFloat64(requests.WithLabelValues(outcomeMalformed))).To(Equal(before + 4))
}

// FuzzPackets: whatever clients send, the transfers keep their bounds.
func FuzzPackets(f *testing.F) {
	f.Add(plainRequest, ackOf(1), "\x00\x05\x00\x00x\x00")
	f.Add("\x00\x01x\x00octet\x00windowsize\x003\x00blksize\x00600\x00", ackOf(0), ackOf(2))
	f.Add("\x00\x01x\x00octet\x00tsize\x000\x00timeout\x001\x00", "\x00\x05\x00\x08x\x00", plainRequest)
	f.Fuzz(func(t *testing.T, first, second, third string) {
		s := newStub(make([]byte, 5000))
		for i := range 12 {
			packet := []string{first, second, third}[i%3]
			for _, sent := range s.receive(1+i%2, packet[:min(len(packet), maxRequest+1)]) {
				if len(sent) > len(":1 ")+headerLength+maxBlock {
					t.Fatalf("%d bytes were sent", len(sent))
				}
			}
			if len(s.sent) > maxWindow {
				t.Fatalf("%d packets answer one", len(s.sent))
			}
			if len(s.loop.transfers) > 2 || len(s.loop.transfers) != len(s.loop.server.running) {
				t.Fatalf("%d transfers, %d counted", len(s.loop.transfers), len(s.loop.server.running))
			}
			for _, transfer := range s.loop.transfers {
				if transfer.acked < 0 || transfer.acked > transfer.until || transfer.until > transfer.last() || transfer.ended {
					t.Fatalf("%+v", transfer)
				}
			}
			s.pass(500 * time.Millisecond)
		}
		s.pass(2 * time.Minute)
		if len(s.loop.transfers) != 0 || len(s.loop.server.running) != 0 {
			t.Fatalf("%d transfers do not end", len(s.loop.transfers))
		}
	})
}
