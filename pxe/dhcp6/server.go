package dhcp6

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/insomniacslk/dhcp/dhcpv6"
	"golang.org/x/net/ipv6"
	"golang.org/x/time/rate"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

const (
	serverPort = 547
	// patience bounds the answer to a packet. Clients ask again after some seconds.
	patience = 3 * time.Second
)

// groups are where clients and relay agents send to (RFC 8415, section 7.1).
var groups = []net.IP{net.ParseIP("ff02::1:2"), net.ParseIP("ff05::1:3")}

// Server answers DHCPv6. Make it with New.
type Server struct {
	Networks []bootconfig.Network
	Booter   pxe.Booter
	Log      logr.Logger
	// Metrics count what becomes of requests. Nil counts nothing.
	Metrics *Metrics

	acknowledged        pxe.Acknowledged
	heard               map[string]int // the index of the interface that a network's multicasts are heard at
	devices             dhcp.Devices
	strangers, failures rate.Sometimes // what is logged of them
	dropped             rate.Sometimes // what is logged of requests whose sender is not believed
}

// New returns a Server of what is exported in s. The interfaces of its networks must be there.
func New(s *Server) (*Server, error) {
	s.heard = map[string]int{}
	s.strangers, s.failures = rate.Sometimes{First: 10, Interval: time.Minute}, rate.Sometimes{First: 10, Interval: time.Minute}
	s.dropped = rate.Sometimes{First: 10, Interval: time.Minute}
	for _, n := range s.Networks {
		if n.Mode == bootconfig.Off || !onLink(n) {
			continue
		}
		device, err := deviceOf(n)
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", n.Name, err)
		}
		s.heard[n.Name] = device
	}
	return s, nil
}

// deviceOf returns the index of the interface that a network is at.
func deviceOf(n bootconfig.Network) (int, error) {
	if n.Interface != "" {
		device, err := net.InterfaceByName(n.Interface)
		if err != nil {
			return 0, fmt.Errorf("interface %s: %w", n.Interface, err)
		}
		return device.Index, nil
	}
	devices, err := net.Interfaces()
	if err != nil {
		return 0, err
	}
	for _, device := range devices {
		addresses, err := device.Addrs()
		if err != nil {
			continue // it is gone
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == n.Address {
				return device.Index, nil
			}
		}
	}
	return 0, fmt.Errorf("no interface has the address %s: name the interface that the network is at", n.Address)
}

// Serve answers requests until ctx ends. It closes conn. A bad packet is dropped, and so is one that comes while too many are being
// answered.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	packets := ipv6.NewPacketConn(conn)
	if err := s.join(packets); err != nil {
		return errors.Join(err, conn.Close())
	}
	return dhcp.Loop{
		Log: s.Log,
		Read: func(buffer []byte) (int, dhcp.Arrival, error) {
			n, control, source, err := packets.ReadFrom(buffer)
			if control == nil {
				control = &ipv6.ControlMessage{}
			}
			return n, dhcp.NewArrival(control.IfIndex, control.Dst, source), err
		},
		Take: func(content []byte, in dhcp.Arrival) (answer, overload func()) {
			packet, err := parse(content)
			if err != nil {
				s.Metrics.request("", dhcpv6.MessageTypeNone, malformed)
				s.Log.V(4).Info("Dropping what is no DHCPv6 packet", "source", in.Source.String(), "error", err.Error())
				return nil, nil
			}
			return func() { s.answer(ctx, packets, packet, in) }, func() {
				s.Metrics.request("", dhcpv6.MessageTypeNone, overloaded)
				s.Log.V(2).Info("Dropping a DHCPv6 packet: too many at once", "source", in.Source.String())
			}
		},
	}.Run(ctx)
}

// join makes the socket hear the multicasts of all networks, and tell by which interface a packet came in.
func (s *Server) join(packets *ipv6.PacketConn) error {
	if err := packets.SetControlMessage(ipv6.FlagInterface|ipv6.FlagDst, true); err != nil {
		return err
	}
	joined := map[int]bool{}
	for name, device := range s.heard {
		if joined[device] {
			continue
		}
		joined[device] = true
		for _, group := range groups {
			if err := packets.JoinGroup(&net.Interface{Index: device}, &net.UDPAddr{IP: group}); err != nil {
				return fmt.Errorf("network %s: join %s: %w", name, group, err)
			}
		}
	}
	return nil
}

// parse reads a packet. A panic of the codec is an error of that packet.
func parse(packet []byte) (request dhcpv6.DHCPv6, err error) {
	defer func() {
		if p := recover(); p != nil {
			request, err = nil, fmt.Errorf("the codec panics: %v", p)
		}
	}()
	return dhcpv6.FromBytes(packet)
}

func (s *Server) answer(ctx context.Context, conn *ipv6.PacketConn, packet dhcpv6.DHCPv6, in dhcp.Arrival) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.Metrics.request("", dhcpv6.MessageTypeNone, panicked)
			s.Log.Error(fmt.Errorf("%v", p), "Answer DHCPv6: this is a bug", "stack", string(debug.Stack()))
		}
	}()
	x, err := s.handle(ctx, packet, in)
	what := resultOf(err)
	s.Metrics.request(x.network.Name, x.request.MessageType, what)
	s.tell(x, what, err)
	s.saw(x, what)
	if err != nil {
		return
	}
	reply, err := wrap(x.reply, x.relays)
	if err != nil {
		s.Log.Error(err, "Answer DHCPv6")
		return
	}
	target := x.destination()
	if _, err := conn.WriteTo(reply.ToBytes(), nil, net.UDPAddrFromAddrPort(target)); err != nil {
		s.Log.Error(err, "Send the answer", "target", target.String(), "network", x.network.Name)
	}
}

// saw notes that firmware asked: for a boot file that it is told, or for one that it is not.
func (s *Server) saw(x *exchange, what result) {
	client := x.client.String() + " over IPv6"
	switch {
	case x.url != "" && what == answered:
		s.Booter.ObserveStage(x.mac, pxe.StageDHCP, x.address, client)
	case x.mac != nil && x.client.Boots():
		s.Booter.ObserveStage(x.mac, pxe.StageFirmware, netip.Addr{}, client)
	}
}

// destination returns where an answer goes (RFC 8415, section 18.3): to the client where it asked from, or to the relay agent, at the
// port that it asked from if it says so (RFC 8357).
func (x *exchange) destination() netip.AddrPort {
	if len(x.relays) > 0 && x.relays[0].Options.RelayPort() == nil {
		return netip.AddrPortFrom(x.in.Source.Addr(), serverPort)
	}
	return x.in.Source
}

// tell logs what became of a request. What anybody on the wire can bring about again and again is told seldom.
func (s *Server) tell(x *exchange, what result, err error) {
	log := s.Log.WithValues("mac", x.mac.String(), "kind", x.request.MessageType.String(), "client", x.client.String(), "network", x.network.Name,
		"source", x.in.Source.String())
	switch {
	case what == answered:
		log.V(4).Info("Answering", "answer", x.reply.MessageType.String(), "address", x.address.String(), "file", x.url)
	case what == failed:
		s.failures.Do(func() { log.Error(err, "Answer DHCPv6") })
	case what == untrusted:
		s.dropped.Do(func() { log.Info("Dropped a DHCPv6 request whose sender is not believed", "why", err.Error()) })
	case x.client.Boots() && (what == unknown || what == noNetwork || what == nothing):
		s.strangers.Do(func() { log.Info("A machine that wants to boot gets no boot file", "why", err.Error()) })
	default:
		log.V(5).Info("No answer", "why", err.Error())
	}
}
