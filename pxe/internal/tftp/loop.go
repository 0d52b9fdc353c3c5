package tftp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/ipv4"
)

// sweepInterval is how often the transfers are searched for those whose timeout has passed.
const sweepInterval = 50 * time.Millisecond

// limitedBroadcast is the destination of requests that RFC 1123, section 4.2.3.5, says to ignore.
var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// errRestarted ends a transfer whose client requests a file again, or another file.
var errRestarted = errors.New("the client sent a new request")

// loop serves one socket with one goroutine: a transfer is a few variables, and costs no goroutine, no socket and no timer. Its functions must not block.
type loop struct {
	server    *Server
	socket    *socket
	transfers map[netip.AddrPort]*transfer // by client
	// wake is when the loop is woken for the next sweep. It is zero while no transfer is running.
	wake time.Time
}

func newLoop(server *Server, s *socket) *loop {
	l := &loop{server: server, socket: s, transfers: map[netip.AddrPort]*transfer{}}
	s.failed = func(owner *transfer, err error) {
		if owner != nil {
			l.finish(owner, err)
		}
	}
	return l
}

// run serves until ctx ends, which closes the socket, or until the socket cannot be read.
func (l *loop) run(ctx context.Context) error {
	failures := 0 // in a row
	for {
		n, err := l.socket.receive()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of ctx has closed the socket
		}
		switch {
		case err == nil:
			failures = 0
		case errors.Is(err, os.ErrDeadlineExceeded):
		case errors.Is(err, net.ErrClosed), failures >= maxFailures:
			return err
		default:
			failures++
			l.server.Log.Error(err, "Failed to read a TFTP packet")
		}
		now := time.Now()
		for i := range n {
			l.handle(&l.socket.received[i], now)
		}
		l.sweep(now)
		l.socket.flush()
	}
}

// close ends the transfers without a packet.
func (l *loop) close() {
	for from, t := range l.transfers {
		t.ended = true
		l.server.leave(from)
	}
	clear(l.transfers)
}

// handle handles a packet. A client has one transfer at a time: packets with its address and port belong to that.
func (l *loop) handle(m *ipv4.Message, now time.Time) {
	packet, from := m.Buffers[0][:m.N], clientOf(m)
	kind := kindOf(packet)
	isRequest := kind == opRead || kind == opWrite
	t := l.transfers[from]
	switch {
	case t == nil && (kind == opAck || kind == opError): // of a transfer that has ended
	case t == nil:
		l.begin(packet, m, from, now)
	case !isRequest:
		if over, err := t.receive(packet, now, l.socket); over {
			l.finish(t, err)
		}
	case t.isRepeated(packet):
		requests.WithLabelValues(outcomeBusy).Inc()
	default:
		// The client has started again from the same port. It must not get blocks of the earlier transfer.
		l.finish(t, errRestarted)
		l.begin(packet, m, from, now)
	}
}

// kindOf returns the kind of a packet, 0 for a shorter one.
func kindOf(packet []byte) uint16 {
	if len(packet) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(packet)
}

// begin answers a request.
func (l *loop) begin(packet []byte, m *ipv4.Message, from netip.AddrPort, now time.Time) {
	r, err := parseRequest(packet)
	local := l.socket.localOf(m)
	switch {
	case err != nil, local.IsMulticast(), local == limitedBroadcast:
		requests.WithLabelValues(outcomeMalformed).Inc()
		return
	case !l.server.enter(from):
		requests.WithLabelValues(outcomeBusy).Inc()
		return
	}
	if local.IsLinkLocalUnicast() {
		local = local.WithZone(from.Addr().Zone())
	}
	t := &transfer{request: r, packet: bytes.Clone(packet), from: from, peer: newPeer(from, local)}
	if err := l.server.open(t, local); err != nil {
		if refused := (refusal{}); errors.As(err, &refused) {
			l.socket.queue(nil, t.peer, errorPacket(refused.code, refused.answer), nil)
		}
		l.finish(t, err)
		return
	}
	l.transfers[from] = t
	t.begin(now, l.socket)
}

// finish ends a transfer, and records its result.
func (l *loop) finish(t *transfer, err error) {
	if t.ended {
		return
	}
	t.ended = true
	delete(l.transfers, t.from)
	l.server.record(t, err)
	l.server.leave(t.from)
}

// sweep repeats what clients did not acknowledge in time, and sets the time of the next sweep.
func (l *loop) sweep(now time.Time) {
	if now.Before(l.wake) && len(l.transfers) > 0 {
		return
	}
	for _, t := range l.transfers {
		if now.Before(t.deadline) && now.Before(t.end) {
			continue
		}
		if err := t.repeat(now, l.socket); err != nil {
			l.finish(t, err)
		}
	}
	var wake time.Time
	if len(l.transfers) > 0 {
		wake = now.Add(sweepInterval)
	}
	if wake.IsZero() && l.wake.IsZero() {
		return
	}
	l.wake = wake
	_ = l.socket.conn.SetReadDeadline(wake) // it fails only if the socket is closed, which the next read reports
}
