// Package tftp serves boot loaders over TFTP (RFC 1350, with the options of RFC 2347 to 2349 and 7440). Larger files go over HTTP. It is read-only, and its files
// are in memory: no name leads to a disk. All packets of all transfers come from the port that the server listens on: docs/decisions/0013 has the reasons.
//
// It does not use github.com/pin/tftp because v3.2.0 starts a goroutine for each request before it calls a handler, answers error packets with errors, sends only the
// error code 1, and supports neither the timeout of RFC 2349 nor the window of RFC 7440. No upstream issue was found. Delete this package when pin/tftp can limit
// transfers before it allocates for them, and supports both options.
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

	"github.com/go-logr/logr"

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
	// Open returns the file with a name, or false without such a file. local is the server's address that received the request. It must not block, as all transfers
	// wait for it.
	Open func(name string, local netip.Addr) ([]byte, bool)
	// Fetched is called when a client has fetched a file, or when all but the last blocks are acknowledged and the last are sent. The first part of the name, up
	// to a slash, is the server's MAC address with dashes: DHCP puts it there, because TFTP does not identify the client. It must not block either.
	Fetched func(mac net.HardwareAddr, from netip.Addr, file string)
	Log     logr.Logger

	maxTransfers int // 0 means the constant maxTransfers

	mu      sync.Mutex
	running map[netip.AddrPort]bool // by client
	clients quota.Clients
}

// Serve answers requests until ctx ends. It closes conn, which must be a UDP socket. It may be called for several sockets at once.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	defer func() { _ = conn.Close() }() // it may be closed already
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	socket, err := newSocket(conn)
	if err != nil {
		return err
	}
	l := newLoop(s, socket)
	defer l.close()
	return l.run(ctx)
}

// enter records a transfer to a client. It returns false if there are too many, or if this client has one already, which another socket serves.
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

// refusal ends a request with an error packet.
type refusal struct {
	outcome string
	code    uint16
	answer  string // for the client
	why     string // for the log
}

func (r refusal) Error() string { return r.why }

// open finds the file of a request that was received at a local address.
func (s *Server) open(t *transfer, local netip.Addr) error {
	switch {
	case t.request.write:
		return refusal{outcomeRefused, codeViolation, "read only", "it asked to write"}
	case t.request.mode != "octet":
		return refusal{outcomeRefused, codeIllegal, "octet only", "it asked for the mode " + clip(t.request.mode)}
	}
	mac, name := SplitName(t.request.name)
	content, ok := s.Open(name, local)
	if !ok {
		return refusal{outcomeNotFound, codeNotFound, "no such boot loader", "there is no such boot loader"}
	}
	t.content = content
	if mac != nil && s.Fetched != nil {
		t.fetched = func() { s.Fetched(mac, t.from.Addr(), name) }
	}
	return nil
}

// record counts and logs the result of a request.
func (s *Server) record(t *transfer, err error) {
	outcome := outcomeOf(err)
	requests.WithLabelValues(outcome).Inc()
	sentBytes.Add(float64(t.sent))
	log := s.Log.WithValues("client", t.from.String(), "file", clip(t.request.name))
	switch outcome {
	case outcomeSent, outcomeSize:
		log.V(4).Info("Answered a TFTP request", "outcome", outcome)
	case outcomeFailed:
		log.Error(err, "Failed to send a boot loader")
	default:
		// The client is the cause, and any client can cause these.
		log.V(2).Info("Did not serve a TFTP request", "outcome", outcome, "why", err.Error())
	}
}

// outcomeOf returns the result of a request that ended with an error, or with nil.
func outcomeOf(err error) string {
	var refused refusal
	switch {
	case err == nil:
		return outcomeSent
	case errors.Is(err, errSizeOnly):
		return outcomeSize
	case errors.As(err, &refused):
		return refused.outcome
	case errors.As(err, new(clientError)), errors.Is(err, errRestarted):
		return outcomeAborted
	case errors.As(err, new(timeoutError)):
		return outcomeTimeout
	default:
		return outcomeFailed
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
