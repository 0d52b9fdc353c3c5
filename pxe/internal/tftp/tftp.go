// Package tftp serves boot loaders over TFTP (RFC 1350, with the options of RFC 2347 to 2349 and 7440). Larger files go over HTTP. It is read-only, and its files
// are in memory: no name leads to a disk.
//
// It does not use github.com/pin/tftp because v3.2.0 opens a socket and starts a goroutine for each packet before it calls a handler, answers error packets with
// errors, sends only the error code 1, and supports neither the timeout of RFC 2349 nor the window of RFC 7440. No upstream issue was found. Delete this package
// when pin/tftp can limit transfers before it allocates for them, and supports both options.
package tftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"

	"github.com/go-logr/logr"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/quota"
)

// Bounds on concurrent transfers. A request above them is dropped: clients repeat it, and would give up after an error. Firmware asks for the size of a file,
// then for the file, and often for two files. An IPv6 client can use all addresses of its /64, which may also have a rack: 64 servers then have 4 transfers each,
// and one client has at most a quarter of all.
const (
	maxTransfers = 1024
	maxPerClient = 16
	maxPerPrefix = 256
	// maxFailures is how many reads in a row may fail. A single failure is normal; this many mean that the socket is unusable.
	maxFailures = 100
)

// Server serves boot loaders.
type Server struct {
	// Open returns the file with a name, false if there is none. local is the server's address that received the request.
	Open func(name string, local netip.Addr) ([]byte, bool)
	// Fetched is called when a client has fetched a file, or when all but the last blocks are acknowledged and the last are sent. The first part of the name, up
	// to a slash, is the server's MAC address with dashes: DHCP puts it there, because TFTP does not identify the client.
	Fetched func(mac net.HardwareAddr, from netip.Addr, file string)
	Log     logr.Logger

	maxTransfers int // 0 means the constant maxTransfers

	mu      sync.Mutex
	running map[netip.AddrPort]bool // by client
	clients quota.Clients
}

// Serve answers requests until ctx ends. It closes conn, which must be a UDP socket. It may be called for several sockets at once.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx) // ends the transfers if reading fails
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	read, err := reader(conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	buffer := make([]byte, maxRequest+1) // a request that fills it is too long
	failures := 0                        // in a row
	for {
		n, dst, source, err := read(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed), err != nil && failures >= maxFailures:
			return err
		case err != nil:
			failures++
			s.Log.Error(err, "Failed to read a TFTP packet")
			continue
		}
		failures = 0
		request, err := parseRequest(buffer[:n])
		local, from := addressOf(dst), portOf(source)
		if err != nil || dst.IsMulticast() || dst.Equal(net.IPv4bcast) {
			requests.WithLabelValues(outcomeMalformed).Inc()
			continue
		}
		if !s.enter(from) {
			requests.WithLabelValues(outcomeBusy).Inc()
			continue
		}
		wg.Go(func() {
			defer s.leave(from)
			s.answer(ctx, request, local, from)
		})
	}
}

func addressOf(ip net.IP) netip.AddrPort {
	address, _ := netip.AddrFromSlice(ip) // if it is not known, the kernel chooses one
	return netip.AddrPortFrom(address.Unmap(), 0)
}

func portOf(a net.Addr) netip.AddrPort {
	udp, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(udp.AddrPort().Addr().Unmap(), udp.AddrPort().Port())
}

// packetReader reads a packet. It returns the local address that received the packet, if that is known: a client accepts the answer only from there.
type packetReader func([]byte) (n int, local net.IP, from net.Addr, err error)

func reader(conn net.PacketConn) (packetReader, error) {
	bound, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return nil, fmt.Errorf("%T is no UDP socket", conn)
	}
	if bound.IP.To4() != nil {
		packets := ipv4.NewPacketConn(conn)
		return func(b []byte) (int, net.IP, net.Addr, error) {
			n, control, from, err := packets.ReadFrom(b)
			if control == nil {
				control = &ipv4.ControlMessage{}
			}
			return n, control.Dst, from, err
		}, packets.SetControlMessage(ipv4.FlagDst, true)
	}
	packets := ipv6.NewPacketConn(conn)
	return func(b []byte) (int, net.IP, net.Addr, error) {
		n, control, from, err := packets.ReadFrom(b)
		if control == nil {
			control = &ipv6.ControlMessage{}
		}
		return n, control.Dst, from, err
	}, packets.SetControlMessage(ipv6.FlagDst, true)
}

// enter records a transfer to a client. It returns false if there are too many, or if this client has one already: a client repeats its request until it has an
// answer.
func (s *Server) enter(from netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running, s.clients = map[netip.AddrPort]bool{}, quota.Clients{PerAddress: maxPerClient, PerPrefix: maxPerPrefix}
	}
	if s.running[from] || len(s.running) >= cmp.Or(s.maxTransfers, maxTransfers) || !s.clients.Enter(from.Addr()) {
		return false
	}
	s.running[from] = true
	return true
}

func (s *Server) leave(from netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, from)
	s.clients.Leave(from.Addr())
}

// answer serves a request, and records the result.
func (s *Server) answer(ctx context.Context, r request, local, from netip.AddrPort) {
	log := s.Log.WithValues("client", from.String(), "file", clip(r.name))
	if local.Addr().IsLinkLocalUnicast() {
		local = netip.AddrPortFrom(local.Addr().WithZone(from.Addr().Zone()), 0)
	}
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(local), net.UDPAddrFromAddrPort(from))
	if err != nil {
		requests.WithLabelValues(outcomeFailed).Inc()
		log.Error(err, "Failed to answer a TFTP request")
		return
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	outcome, err := s.send(r, conn, local.Addr(), from.Addr())
	requests.WithLabelValues(outcome).Inc()
	switch {
	case err == nil, ctx.Err() != nil:
		log.V(4).Info("Answered a TFTP request", "outcome", outcome)
	case outcome == outcomeFailed:
		log.Error(err, "Failed to send a boot loader")
	default:
		// The client is the cause, and any client can cause these.
		log.V(2).Info("Did not serve a TFTP request", "outcome", outcome, "why", err.Error())
	}
}

// send sends a file, or an error packet. It returns the result.
func (s *Server) send(r request, conn *net.UDPConn, local, from netip.Addr) (string, error) {
	t := &transfer{conn: conn, request: r}
	switch {
	case r.write:
		return outcomeRefused, errors.Join(errors.New("it asked to write"), t.write(errorPacket(codeViolation, "read only")))
	case r.mode != "octet":
		return outcomeRefused, errors.Join(fmt.Errorf("it asked for the mode %s", clip(r.mode)), t.write(errorPacket(codeIllegal, "octet only")))
	}
	mac, name := SplitName(r.name)
	content, ok := s.Open(name, local)
	if !ok {
		return outcomeNotFound, errors.Join(errors.New("there is no such boot loader"), t.write(errorPacket(codeNotFound, "no such boot loader")))
	}
	t.content = content
	if mac != nil && s.Fetched != nil {
		t.fetched = func() { s.Fetched(mac, from, name) }
	}
	err := t.run()
	sentBytes.Add(float64(t.sent))
	switch {
	case err == nil:
		return outcomeSent, nil
	case errors.Is(err, errSizeOnly):
		return outcomeSize, nil
	case errors.As(err, new(clientError)):
		return outcomeAborted, err
	case errors.As(err, new(timeoutError)), errors.Is(err, syscall.ECONNREFUSED):
		return outcomeTimeout, err
	default:
		return outcomeFailed, err
	}
}

// clip shortens and quotes a client's text for a log.
func clip(text string) string { return fmt.Sprintf("%.100q", text) }

// JoinName returns the TFTP name of a boot loader for one server.
func JoinName(mac net.HardwareAddr, file string) string {
	return strings.ReplaceAll(mac.String(), ":", "-") + "/" + file
}

// SplitName returns the MAC address and the boot loader in a name. A name without a MAC address is that of a boot loader. Some firmware writes a backslash
// instead of the slash, or a slash before the name.
func SplitName(name string) (net.HardwareAddr, string) {
	name = strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/")
	first, rest, found := strings.Cut(name, "/")
	if mac, err := net.ParseMAC(first); found && err == nil && len(mac) == 6 {
		return mac, strings.TrimLeft(rest, "/")
	}
	return nil, name
}
