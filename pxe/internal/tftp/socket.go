package tftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

const (
	// batchSize is how many packets one system call receives or sends at most (recvmmsg, sendmmsg).
	batchSize = 32
	// sendTimeout is how long the server waits for space in the socket's send buffer. Then it drops packets, as a network does: clients that do not answer ARP fill
	// the buffer, and must not stop the transfers of the others.
	sendTimeout = 20 * time.Millisecond
	// socketBuffer is the size of the socket's buffers in bytes. The kernel reduces it to net.core.rmem_max and net.core.wmem_max.
	socketBuffer = 1 << 20
)

// batchConn reads and writes several packets with one system call. ipv4.Message and ipv6.Message are the same type.
type batchConn interface {
	ReadBatch(messages []ipv4.Message, flags int) (int, error)
	WriteBatch(messages []ipv4.Message, flags int) (int, error)
}

// socket is the socket of all transfers. It is not safe for concurrent use.
type socket struct {
	conn    net.PacketConn
	packets batchConn
	v4      bool // the socket receives only IPv4

	received []ipv4.Message // of the last receive

	queued   []ipv4.Message // the part of messages that flush sends
	messages [batchSize]ipv4.Message
	owners   [batchSize]*transfer // nil for a packet of no transfer
	headers  [batchSize][headerLength]byte
	parts    [batchSize][2][]byte
	// failed is called for a packet that could not be sent. It must not queue packets.
	failed func(owner *transfer, err error)
}

// peer is a client to which packets are sent, and the control message with the address that they are sent from.
type peer struct {
	address *net.UDPAddr
	control []byte
}

func newSocket(conn net.PacketConn) (*socket, error) {
	bound, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("%T is no UDP socket", conn)
	}
	s := &socket{conn: conn, v4: bound.IP.To4() != nil}
	var err error
	var control int // the size of a control message
	if s.v4 {
		packets := ipv4.NewPacketConn(conn)
		s.packets, control, err = packets, len(ipv4.NewControlMessage(ipv4.FlagDst)), packets.SetControlMessage(ipv4.FlagDst, true)
	} else {
		packets := ipv6.NewPacketConn(conn)
		s.packets, control, err = packets, len(ipv6.NewControlMessage(ipv6.FlagDst)), packets.SetControlMessage(ipv6.FlagDst, true)
	}
	if err != nil {
		return nil, err
	}
	if buffered, ok := conn.(*net.UDPConn); ok {
		_, _ = buffered.SetReadBuffer(socketBuffer), buffered.SetWriteBuffer(socketBuffer) // with smaller buffers more packets are repeated
	}
	s.allocate(control)
	return s, nil
}

// allocate makes the buffers, for control messages of a size.
func (s *socket) allocate(control int) {
	s.queued = s.messages[:0]
	s.received = make([]ipv4.Message, batchSize)
	for i := range s.received {
		// A request that fills its buffer is too long.
		s.received[i] = ipv4.Message{Buffers: [][]byte{make([]byte, maxRequest+1)}, OOB: make([]byte, control)}
	}
}

// receive waits for packets. It returns how many are in s.received.
func (s *socket) receive() (int, error) {
	n, err := s.packets.ReadBatch(s.received, 0)
	if err != nil {
		return 0, err
	}
	return n, nil
}

// clientOf returns the source of a packet.
func clientOf(m *ipv4.Message) netip.AddrPort {
	udp, ok := m.Addr.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	from := udp.AddrPort()
	return netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
}

// localOf returns the address that a packet was sent to, or an invalid address if it is not known.
func (s *socket) localOf(m *ipv4.Message) netip.Addr {
	var to net.IP
	if control := m.OOB[:m.NN]; s.v4 {
		var c ipv4.ControlMessage
		if c.Parse(control) == nil {
			to = c.Dst
		}
	} else {
		var c ipv6.ControlMessage
		if c.Parse(control) == nil {
			to = c.Dst
		}
	}
	local, _ := netip.AddrFromSlice(to)
	return local.Unmap()
}

// newPeer returns a client whose packets are sent from a local address: a client accepts the answer only from the address that it asked. Without a local address the
// kernel chooses one. On a socket for both families, Linux takes the control message of IPv4 for a packet to an IPv4 address (ip_cmsg_send), and x/net makes
// none of IPv6 for a mapped address.
func newPeer(from netip.AddrPort, local netip.Addr) peer {
	p := peer{address: net.UDPAddrFromAddrPort(from)}
	switch {
	case local.Is4():
		p.control = (&ipv4.ControlMessage{Src: local.AsSlice()}).Marshal()
	case local.Is6():
		p.control = (&ipv6.ControlMessage{Src: local.AsSlice()}).Marshal()
	default:
	}
	return p
}

// queue adds a packet of a transfer, which may be nil. It sends the queued packets first if there is no space for another one.
func (s *socket) queue(owner *transfer, to peer, head, body []byte) {
	i := s.slot()
	s.add(i, owner, to, head, body)
}

// queueBlock adds a block of a transfer. Its content is not copied.
func (s *socket) queueBlock(t *transfer, number uint16, content []byte) {
	i := s.slot()
	head := s.headers[i][:]
	binary.BigEndian.PutUint16(head, opData)
	binary.BigEndian.PutUint16(head[2:], number)
	s.add(i, t, t.peer, head, content)
}

// slot returns the index of the next packet.
func (s *socket) slot() int {
	if len(s.queued) == batchSize {
		s.flush()
	}
	return len(s.queued)
}

func (s *socket) add(i int, owner *transfer, to peer, head, body []byte) {
	s.queued = s.messages[:i+1]
	s.owners[i], s.parts[i] = owner, [2][]byte{head, body}
	parts := s.parts[i][:]
	if len(body) == 0 {
		parts = parts[:1]
	}
	s.messages[i] = ipv4.Message{Buffers: parts, OOB: to.control, Addr: to.address}
}

// flush sends the queued packets. What the kernel does not take within sendTimeout is lost, and repeated after its timeout.
func (s *socket) flush() {
	queued, owners := s.queued, s.owners[:len(s.queued)]
	for len(queued) > 0 {
		n, err := s.write(queued)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
			n = len(queued)
		case err != nil:
			// sendmmsg returns an error only for the first packet. The next call returns that of a later one.
			n = 1
			s.failed(owners[0], err)
		default:
			n = max(n, 1)
		}
		queued, owners = queued[n:], owners[n:]
	}
	s.queued = s.messages[:0]
}

// write sends packets, and returns how many were sent.
func (s *socket) write(packets []ipv4.Message) (int, error) {
	n, err := s.packets.WriteBatch(packets, syscall.MSG_DONTWAIT)
	if !errors.Is(err, syscall.EAGAIN) {
		return n, err
	}
	if err := s.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return 0, err
	}
	n, err = s.packets.WriteBatch(packets, 0)
	return n, errors.Join(err, s.conn.SetWriteDeadline(time.Time{}))
}
