// Package dhcp answers the DHCPv4 (RFC 2131) of servers that boot over the network (PXE 2.1, RFC 4578), in each network either beside
// another DHCP server, which gives the addresses (proxy), or alone (authoritative).
//
// One socket serves all networks: the kernel tells by which interface a request came in, and is told by which one and from which
// address the answer leaves (IP_PKTINFO). A socket for each interface would need CAP_NET_RAW, would have to follow interfaces
// that come and go, and would miss clients that renew their lease from behind a router.
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
	// patience bounds the answer to a packet. Clients ask again after some seconds.
	patience = 3 * time.Second
)

// Server answers DHCP.
type Server struct {
	// Networks are those that are served. Those of IPv6 are passed over.
	Networks []bootconfig.Network
	Booter   pxe.Booter
	Log      logr.Logger
	// Metrics count what becomes of requests. Nil counts nothing.
	Metrics *Metrics
	// Probe says whether a machine on a link of ours, where we have the address from, uses an address. Defaults to the function Probe.
	Probe func(ctx context.Context, from, address netip.Addr) (owner net.HardwareAddr, used bool, err error)

	acknowledged pxe.Acknowledged

	devices Devices
	seldom  seldom
	dropped seldom // whose requests were logged because the sender is not believed
}

// Serve answers what comes to the port of DHCP until ctx ends. It closes conn. A bad packet is dropped, and so is one that comes
// while too many are being answered.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, false)
}

// ServeProxy answers as Serve does, what comes to the port of proxies.
func (s *Server) ServeProxy(ctx context.Context, conn net.PacketConn) error {
	return s.serve(ctx, conn, true)
}

func (s *Server) serve(ctx context.Context, conn net.PacketConn, proxy bool) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	for i := range s.Networks {
		s.Metrics.expect(s.Networks[i].Name)
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
				s.Metrics.request("", dhcpv4.MessageTypeNone, malformed)
				s.Log.V(4).Info("Dropping what is no DHCP packet", "source", in.Source.String(), "error", err.Error())
				return nil, nil
			}
			return func() { s.answer(ctx, packets, request, arrival{in, proxy}) }, func() {
				s.Metrics.request("", request.MessageType(), overloaded)
				s.Log.V(2).Info("Dropping a DHCP packet: too many at once", "mac", request.ClientHWAddr.String())
			}
		},
	}.Run(ctx)
}

// parse reads a packet. A panic of the codec is an error of that packet.
func parse(packet []byte) (request *dhcpv4.DHCPv4, err error) {
	defer func() {
		if p := recover(); p != nil {
			request, err = nil, fmt.Errorf("the codec panics: %v", p)
		}
	}()
	return dhcpv4.FromBytes(packet)
}

func (s *Server) answer(ctx context.Context, conn *ipv4.PacketConn, request *dhcpv4.DHCPv4, in arrival) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.Metrics.request("", request.MessageType(), panicked)
			s.Log.Error(fmt.Errorf("%v", p), "Answer DHCP: this is a bug", "stack", string(debug.Stack()))
		}
	}()
	x, err := s.handle(ctx, request, in)
	what := resultOf(x, err)
	s.Metrics.request(x.network.Name, request.MessageType(), what)
	s.tell(x, what, err)
	s.saw(x, what)
	if err != nil {
		return
	}
	target, out := destination(x)
	if _, err := conn.WriteTo(x.reply.ToBytes(), out, target); err != nil && s.seldom.allow("send "+x.network.Name) {
		s.Log.Error(err, "Send the answer: is the network's address one of this machine?", "target", target.String(), "network", x.network.Name, "address", x.network.Address.String())
	}
}

// saw notes that firmware asked: for a boot file that it is told, or for one that it is not. What did not come from one of the networks counts for nothing.
func (s *Server) saw(x *exchange, what result) {
	switch {
	case what == noNetwork || what == untrusted:
	case x.file != "" && what == answered:
		s.Booter.ObserveStage(x.request.ClientHWAddr, pxe.StageDHCP, addrOf(x.reply.YourIPAddr), x.client.String())
	case x.client.Boots() && x.request.OpCode == dhcpv4.OpcodeBootRequest:
		s.Booter.ObserveStage(x.request.ClientHWAddr, pxe.StageFirmware, netip.Addr{}, x.client.String())
	}
}

// tell logs what became of a request. What anybody on the wire can bring about again and again is told seldom.
func (s *Server) tell(x *exchange, what result, err error) {
	log := s.Log.WithValues("mac", x.request.ClientHWAddr.String(), "kind", x.request.MessageType().String(), "client", x.client.String(), "network", x.network.Name)
	notable := what == failed || x.client.Boots() && (what == unknown || what == noNetwork || what == nothing)
	switch {
	case what == untrusted && s.dropped.allow(x.in.Source.Addr().String()):
		log.Info("Dropped a DHCP request whose sender is not believed", "why", err.Error(), "source", x.in.Source.String(), "giaddr", relayOf(x.request).String())
	case what == answered || what == refused:
		log.V(4).Info("Answering", "address", x.reply.YourIPAddr.String(), "file", x.file)
	case !notable || !s.seldom.allow(x.request.ClientHWAddr.String()+string(what)):
		log.V(5).Info("No answer", "why", err.Error())
	case what == failed:
		log.Error(err, "Answer DHCP")
	default:
		log.Info("A machine that wants to boot gets no boot file", "why", err.Error())
	}
}

// destination returns where an answer goes (RFC 2131, section 4.1): to the relay, at the port that it sent from if it says so
// (RFC 8357); to the client's address if it has one; else to everyone on the interface that the request came in by. The
// answer to the port of proxies goes back to where the request came from. All come from the address that the clients know.
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
