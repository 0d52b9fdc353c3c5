// Package tftp serves boot loaders over TFTP (RFC 1350, with the options of RFC 2347 to 2349 and 7440), and nothing else: all
// that is larger goes over HTTP. It only reads, and its files are in memory: no name leads to a disk.
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

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/quota"
)

// Bounds on what is done at once. A request too many is dropped: clients ask again, and would give up at an error. Firmware asks for the size of a file,
// then for the file, and often for two files. An IPv6 client has all addresses of its /64, in which may be a rack: 64 servers have 4 transfers each there,
// and one client a quarter of all.
const (
	mostTransfers = 1024
	mostPerClient = 16
	mostPerPrefix = 256
	// mostFailures is how many reads in a row may fail. One is normal; so many mean that the socket is of no use.
	mostFailures = 100
)

// Server serves boot loaders.
type Server struct {
	// Open returns the file with a name, false if there is none. local is the server's address that was asked.
	Open func(name string, local netip.Addr) ([]byte, bool)
	// Fetched is called when a client has fetched a file, or all but its last blocks, which were sent. The first part of the name, up to a slash, is the server's MAC
	// address with dashes: DHCP puts it there, for TFTP does not tell who asks.
	Fetched func(mac net.HardwareAddr, from netip.Addr, file string)
	Log     logr.Logger

	most int // mostTransfers where it is 0

	mu      sync.Mutex
	running map[netip.AddrPort]bool // by client
	clients quota.Clients
}

// Serve answers requests until ctx ends. It closes conn, which must be a UDP socket. Several may be served at once.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx) // also when reading fails: the transfers end too
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	read, err := reader(conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	buffer := make([]byte, longestRequest+1) // a request that fills it is too long
	failures := 0                            // in a row
	for {
		n, dst, source, err := read(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed), err != nil && failures >= mostFailures:
			return err
		case err != nil:
			failures++
			s.Log.Error(err, "Read a TFTP packet")
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
	address, _ := netip.AddrFromSlice(ip) // where it is not known, the system chooses
	return netip.AddrPortFrom(address.Unmap(), 0)
}

func portOf(a net.Addr) netip.AddrPort {
	udp, ok := a.(*net.UDPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(udp.AddrPort().Addr().Unmap(), udp.AddrPort().Port())
}

// packetReader reads a packet. It says which address of this machine it was for, where that is known: the answer must come from
// there, or the client does not take it.
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

// enter notes a transfer to a client. It returns false when there is one already, which the client asks for again because it
// has no answer yet, or when there are too many.
func (s *Server) enter(from netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running, s.clients = map[netip.AddrPort]bool{}, quota.Clients{PerAddress: mostPerClient, PerPrefix: mostPerPrefix}
	}
	if s.running[from] || len(s.running) >= cmp.Or(s.most, mostTransfers) || !s.clients.Enter(from.Addr()) {
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

// answer sends what is asked for, and notes how it ended.
func (s *Server) answer(ctx context.Context, r request, local, from netip.AddrPort) {
	log := s.Log.WithValues("client", from.String(), "file", clip(r.name))
	if local.Addr().IsLinkLocalUnicast() {
		local = netip.AddrPortFrom(local.Addr().WithZone(from.Addr().Zone()), 0)
	}
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(local), net.UDPAddrFromAddrPort(from))
	if err != nil {
		requests.WithLabelValues(outcomeFailed).Inc()
		log.Error(err, "Answer a TFTP request")
		return
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	outcome, err := s.send(r, conn, local.Addr(), from.Addr())
	requests.WithLabelValues(outcome).Inc()
	switch {
	case err == nil, ctx.Err() != nil:
		log.V(4).Info("TFTP request answered", "outcome", outcome)
	case outcome == outcomeFailed:
		log.Error(err, "Send a boot loader")
	default:
		// These are the client's doing, and anybody can cause them.
		log.V(2).Info("TFTP request not carried out", "outcome", outcome, "why", err.Error())
	}
}

// send sends a file, or why there is none. It returns how that ended.
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

// clip makes what a client sent fit for a log.
func clip(text string) string { return fmt.Sprintf("%.100q", text) }

// JoinName returns the name that a server asks TFTP for a boot loader with.
func JoinName(mac net.HardwareAddr, file string) string {
	return strings.ReplaceAll(mac.String(), ":", "-") + "/" + file
}

// SplitName returns the MAC address and the boot loader in a name. A name without a MAC address is that of a boot loader. Some
// firmware writes the slash of another system, or one before the name.
func SplitName(name string) (net.HardwareAddr, string) {
	name = strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/")
	first, rest, found := strings.Cut(name, "/")
	if mac, err := net.ParseMAC(first); found && err == nil && len(mac) == 6 {
		return mac, strings.TrimLeft(rest, "/")
	}
	return nil, name
}
