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
	// answerTimeout is the timeout of an answer. Clients repeat their requests after some seconds.
	answerTimeout = 3 * time.Second
)

// groups are the multicast groups that clients and relay agents send to (RFC 8415, section 7.1).
var groups = []net.IP{net.ParseIP("ff02::1:2"), net.ParseIP("ff05::1:3")}

// Server answers DHCPv6. Use New to complete it.
type Server struct {
	Networks []bootconfig.Network
	Booter   pxe.Booter
	Log      logr.Logger
	// Metrics counts requests by their result. Nil counts nothing.
	Metrics *Metrics

	acknowledged                pxe.Acknowledged
	deviceOfNetwork             map[string]int // the index of the interface that receives a network's multicasts, by the name of the network
	devices                     dhcp.Devices
	noBootFileLogs, failureLogs rate.Sometimes // limit the messages about clients without a boot file, and about errors
	untrustedLogs               rate.Sometimes // limits the messages about untrusted requests
}

// New completes a Server whose exported fields are set. The interfaces of its networks must exist.
func New(s *Server) (*Server, error) {
	s.deviceOfNetwork = map[string]int{}
	s.noBootFileLogs, s.failureLogs = rate.Sometimes{First: 10, Interval: time.Minute}, rate.Sometimes{First: 10, Interval: time.Minute}
	s.untrustedLogs = rate.Sometimes{First: 10, Interval: time.Minute}
	for _, n := range s.Networks {
		if n.Mode == bootconfig.Off || !onLink(n) {
			continue
		}
		device, err := deviceOf(n)
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", n.Name, err)
		}
		s.deviceOfNetwork[n.Name] = device
	}
	return s, nil
}

// deviceOf returns the index of a network's interface.
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
			continue // it was removed
		}
		for _, a := range addresses {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr() == n.Address {
				return device.Index, nil
			}
		}
	}
	return 0, fmt.Errorf("no interface has the address %s: give the network's interface", n.Address)
}

// Serve answers requests until ctx ends. It closes conn. It drops bad packets, and packets above the limit of concurrent answers.
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
				s.Metrics.request("", dhcpv6.MessageTypeNone, dhcp.ResultMalformed)
				s.Log.V(4).Info("Dropped a malformed DHCPv6 packet", "source", in.Source.String(), "error", err.Error())
				return nil, nil
			}
			return func() { s.answer(ctx, packets, packet, in) }, func() {
				s.Metrics.request("", dhcpv6.MessageTypeNone, dhcp.ResultOverloaded)
				s.Log.V(2).Info("Dropped a DHCPv6 packet: too many at once", "source", in.Source.String())
			}
		},
	}.Run(ctx)
}

// join joins the multicast groups of all networks, and lets the socket report the interface of each packet.
func (s *Server) join(packets *ipv6.PacketConn) error {
	if err := packets.SetControlMessage(ipv6.FlagInterface|ipv6.FlagDst, true); err != nil {
		return err
	}
	joined := map[int]bool{}
	for name, device := range s.deviceOfNetwork {
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

// parse decodes a packet. A panic of the codec is an error of that packet: malformed packets made the DHCPv4 codec panic before (insomniacslk/dhcp#382).
func parse(packet []byte) (request dhcpv6.DHCPv6, err error) {
	defer func() {
		if p := recover(); p != nil {
			request, err = nil, fmt.Errorf("the codec panics: %v", p)
		}
	}()
	return dhcpv6.FromBytes(packet)
}

func (s *Server) answer(ctx context.Context, conn *ipv6.PacketConn, packet dhcpv6.DHCPv6, in dhcp.Arrival) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			s.Metrics.request("", dhcpv6.MessageTypeNone, dhcp.ResultPanicked)
			s.Log.Error(fmt.Errorf("%v", p), "Panicked while answering DHCPv6: this is a bug", "stack", string(debug.Stack()))
		}
	}()
	x, err := s.handle(ctx, packet, in)
	what := dhcp.ResultOf(err)
	s.Metrics.request(x.network.Name, x.request.MessageType, what)
	s.logResult(x, what, err)
	s.recordStage(x, what)
	if err != nil {
		return
	}
	reply, err := wrap(x.reply, x.relays)
	if err != nil {
		s.Log.Error(err, "Failed to answer DHCPv6")
		return
	}
	target := x.destination()
	if _, err := conn.WriteTo(reply.ToBytes(), nil, net.UDPAddrFromAddrPort(target)); err != nil {
		s.Log.Error(err, "Failed to send the answer", "target", target.String(), "network", x.network.Name)
	}
}

// recordStage records a request of firmware, with or without a boot file in the answer.
func (s *Server) recordStage(x *exchange, what dhcp.Result) {
	client := x.client.String() + " over IPv6"
	switch {
	case x.url != "" && what == dhcp.ResultAnswered:
		s.Booter.ObserveStage(x.mac, pxe.StageDHCP, x.address, client)
	case x.mac != nil && x.client.Boots():
		s.Booter.ObserveStage(x.mac, pxe.StageFirmware, netip.Addr{}, client)
	}
}

// destination returns where an answer goes (RFC 8415, section 18.3): to the client's source address and port, or to the relay agent, at its source port if it
// asks for that (RFC 8357).
func (x *exchange) destination() netip.AddrPort {
	if len(x.relays) > 0 && x.relays[0].Options.RelayPort() == nil {
		return netip.AddrPortFrom(x.in.Source.Addr(), serverPort)
	}
	return x.in.Source
}

// logResult logs the result of a request. Messages that a client can cause repeatedly are limited.
func (s *Server) logResult(x *exchange, what dhcp.Result, err error) {
	log := s.Log.WithValues("mac", x.mac.String(), "kind", x.request.MessageType.String(), "client", x.client.String(), "network", x.network.Name,
		"source", x.in.Source.String())
	switch {
	case what == dhcp.ResultAnswered:
		log.V(4).Info("Answered", "answer", x.reply.MessageType.String(), "address", x.address.String(), "file", x.url)
	case what == dhcp.ResultFailed:
		s.failureLogs.Do(func() { log.Error(err, "Failed to answer DHCPv6") })
	case what == dhcp.ResultUntrusted:
		s.untrustedLogs.Do(func() { log.Info("Dropped a DHCPv6 request from an untrusted source", "why", err.Error()) })
	case x.client.Boots() && (what == dhcp.ResultUnknown || what == dhcp.ResultNoNetwork || what == dhcp.ResultNothing):
		s.noBootFileLogs.Do(func() { log.Info("A network boot client got no boot file", "why", err.Error()) })
	default:
		log.V(5).Info("Sent no answer", "why", err.Error())
	}
}
