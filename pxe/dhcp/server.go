// Package dhcp answers the DHCPv4 requests (RFC 2131) of servers that boot over the network (PXE 2.1, RFC 4578). In each network it works either beside another
// DHCP server, which gives the addresses (proxy), or alone (authoritative).
//
// One socket serves all networks. The kernel reports the interface at which a request arrived, and takes the interface and source address of the answer
// (IP_PKTINFO). A socket for each interface would need CAP_NET_RAW, would have to follow interfaces that come and go, and would miss clients behind a router
// that renew their lease.
package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/ipv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

const (
	serverPort, clientPort = 67, 68
	// answerTimeout is the timeout of an answer. Clients repeat their requests after some seconds.
	answerTimeout = 3 * time.Second
)

// Server answers DHCP.
type Server struct {
	// Networks are those that are served. IPv6 networks are ignored.
	Networks []bootconfig.Network
	Booter   pxe.Booter
	Log      logr.Logger
	// Metrics counts requests by their result. Nil counts nothing.
	Metrics *Metrics
	// Probe returns whether a machine on the link with the address from uses an address. Defaults to the function Probe.
	Probe func(ctx context.Context, from, address netip.Addr) (owner net.HardwareAddr, used bool, err error)

	acknowledged pxe.Acknowledged

	devices       Devices
	logs          repeatLimiter
	untrustedLogs repeatLimiter // limits the messages about untrusted requests
}

// Serve answers requests at the DHCP port until ctx ends. It closes conn. It drops bad packets, and packets above the limit of concurrent answers.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, false)
}

// ServeProxy is Serve for the proxy port.
func (s *Server) ServeProxy(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, true)
}

func (s *Server) serve(ctx context.Context, conn net.PacketConn, proxy bool) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	for i := range s.Networks {
		s.Metrics.initConflicts(s.Networks[i].Name)
	}
	packets := ipv4.NewPacketConn(conn)
	if err := packets.SetControlMessage(ipv4.FlagInterface|ipv4.FlagDst, true); err != nil {
		return errors.Join(err, conn.Close())
	}
	return Loop{
		Log: s.Log,
		Read: func(buffer []byte) (int, Arrival, error) {
			n, control, source, err := packets.ReadFrom(buffer)
			if control == nil {
				control = &ipv4.ControlMessage{}
			}
			return n, NewArrival(control.IfIndex, control.Dst, source), err
		},
		Take: func(packet []byte, in Arrival) (answer, overload func()) {
			request, err := parse(packet)
			if err != nil {
				s.Metrics.request("", dhcpv4.MessageTypeNone, ResultMalformed)
				s.Log.V(4).Info("Dropped a malformed DHCP packet", "source", in.Source.String(), "error", err.Error())
				return nil, nil
			}
			return func() { s.answer(ctx, packets, request, arrival{in, proxy}) }, func() {
				s.Metrics.request("", request.MessageType(), ResultOverloaded)
				s.Log.V(2).Info("Dropped a DHCP packet: too many at once", "mac", request.ClientHWAddr.String())
			}
		},
	}.Run(ctx)
}

// parse decodes a packet. A panic of the codec is an error of that packet: malformed packets made it panic before (insomniacslk/dhcp#382, fixed in 2020).
func parse(packet []byte) (request *dhcpv4.DHCPv4, err error) {
	defer func() {
		if p := recover(); p != nil {
			request, err = nil, fmt.Errorf("the codec panics: %v", p)
		}
	}()
	return dhcpv4.FromBytes(packet)
}

func (s *Server) answer(ctx context.Context, conn *ipv4.PacketConn, request *dhcpv4.DHCPv4, in arrival) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.Metrics.request("", request.MessageType(), ResultPanicked)
			s.Log.Error(fmt.Errorf("%v", p), "Panicked while answering DHCP: this is a bug", "stack", string(debug.Stack()))
		}
	}()
	x, err := s.handle(ctx, request, in)
	what := resultOf(x, err)
	s.Metrics.request(x.network.Name, request.MessageType(), what)
	s.logResult(x, what, err)
	s.recordStage(x, what)
	if err != nil {
		return
	}
	target, out := destination(x)
	if _, err := conn.WriteTo(x.reply.ToBytes(), out, target); err != nil && s.logs.allow("send "+x.network.Name) {
		s.Log.Error(err, "Failed to send the answer: does this machine have the network's address?", "target", target.String(), "network", x.network.Name, "address", x.network.Address.String())
	}
}

// recordStage records a request of firmware, with or without a boot file in the answer. Requests from none of the networks are not recorded.
func (s *Server) recordStage(x *exchange, what Result) {
	switch {
	case what == ResultNoNetwork || what == ResultUntrusted:
	case x.file != "" && what == ResultAnswered:
		s.Booter.ObserveStage(x.request.ClientHWAddr, pxe.StageDHCP, addrOf(x.reply.YourIPAddr), x.client.String())
	case x.client.Boots() && x.request.OpCode == dhcpv4.OpcodeBootRequest:
		s.Booter.ObserveStage(x.request.ClientHWAddr, pxe.StageFirmware, netip.Addr{}, x.client.String())
	}
}

// logResult logs the result of a request. Messages that a client can cause repeatedly are limited.
func (s *Server) logResult(x *exchange, what Result, err error) {
	log := s.Log.WithValues("mac", x.request.ClientHWAddr.String(), "kind", x.request.MessageType().String(), "client", x.client.String(), "network", x.network.Name)
	notable := what == ResultFailed || x.client.Boots() && (what == ResultUnknown || what == ResultNoNetwork || what == ResultNothing)
	switch {
	case what == ResultUntrusted && s.untrustedLogs.allow(x.in.Source.Addr().String()):
		log.Info("Dropped a DHCP request from an untrusted source", "why", err.Error(), "source", x.in.Source.String(), "giaddr", relayOf(x.request).String())
	case what == ResultAnswered || what == ResultRefused:
		log.V(4).Info("Answered", "address", x.reply.YourIPAddr.String(), "file", x.file)
	case !notable || !s.logs.allow(x.request.ClientHWAddr.String()+string(what)):
		log.V(5).Info("Sent no answer", "why", err.Error())
	case what == ResultFailed:
		log.Error(err, "Failed to answer DHCP")
	default:
		log.Info("A network boot client got no boot file", "why", err.Error())
	}
}

// destination returns where an answer goes (RFC 2131, section 4.1). It goes to the relay agent, at its source port if it asks for that (RFC 8357); to the
// client's address if it has one; otherwise as a broadcast to the interface of the request. The answer at the proxy port goes back to the source of the
// request. All answers come from the address that the clients know.
func destination(x *exchange) (net.Addr, *ipv4.ControlMessage) {
	out := &ipv4.ControlMessage{Src: x.network.Address.AsSlice()}
	source, relay, client := x.in.Source, relayOf(x.request), addrOf(x.request.ClientIPAddr)
	switch {
	case relay.IsValid():
		target := netip.AddrPortFrom(relay, serverPort)
		if _, ok := relayOption(x.request, dhcpv4.RelaySourcePortSubOption); ok && source.IsValid() {
			target = netip.AddrPortFrom(relay, source.Port())
		}
		return net.UDPAddrFromAddrPort(target), out
	case x.in.proxy && source.IsValid() && !source.Addr().IsUnspecified():
		return net.UDPAddrFromAddrPort(source), out
	case x.reply.MessageType() != dhcpv4.MessageTypeNak && client.IsValid():
		if source.Addr() == client {
			return net.UDPAddrFromAddrPort(source), out
		}
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(client, clientPort)), out
	default:
		out.IfIndex = x.in.Device
		return &net.UDPAddr{IP: net.IPv4bcast, Port: clientPort}, out
	}
}
