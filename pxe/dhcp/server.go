package dhcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/net/ipv4"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

const (
	serverPort, clientPort = 67, 68
	// workers bounds the packets that are answered at once. More are dropped: clients ask again.
	workers = 64
	// maxFailures is how many reads in a row may fail. One is normal; so many mean that the socket is of no use.
	maxFailures = 100
	// patience bounds the answer to a packet. Clients ask again after some seconds.
	patience = 3 * time.Second
)

// Server answers DHCP.
type Server struct {
	Config Config
	Booter pxe.Booter
	Log    logr.Logger
}

// Serve answers requests until ctx ends. It closes conn. A bad packet is dropped, and so is one that comes while too many are
// being answered.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	packets := ipv4.NewPacketConn(conn)
	if err := packets.SetControlMessage(ipv4.FlagInterface, true); err != nil {
		return errors.Join(err, conn.Close())
	}
	free := make(chan struct{}, workers)
	buffer := make([]byte, 1<<16)
	failures := 0 // in a row
	for {
		n, control, source, err := packets.ReadFrom(buffer)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed), err != nil && failures >= maxFailures:
			return err
		case err != nil:
			failures++
			s.Log.Error(err, "Read a DHCP packet") // an ICMP error of an earlier answer, say
			continue
		}
		failures = 0
		request, err := dhcpv4.FromBytes(buffer[:n])
		if err != nil {
			s.Log.V(4).Info("Dropping what is no DHCP packet", "source", source.String(), "error", err.Error())
			continue
		}
		select {
		case free <- struct{}{}:
			go func() {
				defer func() { <-free }()
				s.answer(ctx, packets, request, control, source)
			}()
		default:
			s.Log.V(2).Info("Dropping a DHCP packet: too many at once", "mac", request.ClientHWAddr.String())
		}
	}
}

func (s *Server) answer(ctx context.Context, conn *ipv4.PacketConn, request *dhcpv4.DHCPv4, in *ipv4.ControlMessage, source net.Addr) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	log := s.Log.WithValues("mac", request.ClientHWAddr.String(), "kind", request.MessageType().String())
	reply, err := s.Config.Reply(ctx, s.Booter, request)
	switch {
	case err != nil && silent(err):
		log.V(5).Info("No answer", "why", err.Error())
		return
	case err != nil:
		log.Error(err, "Answer DHCP")
		return
	}
	if reply.BootFileName != "" {
		address, _ := netip.AddrFromSlice(reply.YourIPAddr.To4())
		s.Booter.Saw(request.ClientHWAddr, pxe.StageDHCP, address, Classify(request).String())
	}
	target, out := destination(request, reply, in, source)
	log.V(4).Info("Answering", "target", target.String(), "address", reply.YourIPAddr.String(), "file", reply.BootFileName)
	if _, err := conn.WriteTo(reply.ToBytes(), out, target); err != nil {
		log.Error(err, "Send the answer", "target", target.String())
	}
}

// destination returns where an answer goes (RFC 2131, section 4.1): to the relay, at the port that it sent from if it says so
// (RFC 8357); to the client's address if it has one; else to everyone on the interface that the request came in by. The
// answer to port 4011 goes back to where the request came from (PXE 2.1).
func destination(request, reply *dhcpv4.DHCPv4, in *ipv4.ControlMessage, source net.Addr) (net.Addr, *ipv4.ControlMessage) {
	from, _ := source.(*net.UDPAddr)
	relay := request.GatewayIPAddr
	switch {
	case !relay.IsUnspecified() && relay != nil:
		target := &net.UDPAddr{IP: relay, Port: serverPort}
		if info := request.RelayAgentInfo(); info != nil && info.Has(dhcpv4.RelaySourcePortSubOption) && from != nil {
			target.Port = from.Port
		}
		return target, nil
	case reply.MessageType() != dhcpv4.MessageTypeNak && !request.ClientIPAddr.IsUnspecified() && request.ClientIPAddr != nil:
		if from != nil && from.IP.Equal(request.ClientIPAddr) {
			return from, nil
		}
		return &net.UDPAddr{IP: request.ClientIPAddr, Port: clientPort}, nil
	default:
		out := &ipv4.ControlMessage{}
		if in != nil {
			out.IfIndex = in.IfIndex
		}
		return &net.UDPAddr{IP: net.IPv4bcast, Port: clientPort}, out
	}
}
