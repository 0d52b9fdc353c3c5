package netns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

// Router answers the router solicitations of a network.
type Router struct {
	conn   *ipv6.PacketConn
	device int
	answer []byte
	to     net.Addr
	done   chan struct{}
	err    error // of an answer; valid after done
}

// Advertise answers router solicitations on a device as the IPv6 router of a rack would which routes nothing: iPXE waits 16 s for an answer before it
// continues with its IPv4 address. On a network of IPv6 it announces that DHCPv6 gives the addresses. Close it.
func Advertise(device string, prefix netip.Prefix) (*Router, error) {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	message := icmp.Message{Type: ipv6.ICMPTypeRouterAdvertisement, Body: &icmp.RawBody{Data: advertisement(prefix)}}
	answer, err := message.Marshal(nil) // the kernel adds the checksum
	if err != nil {
		return nil, err
	}
	raw, err := net.ListenPacket("ip6:ipv6-icmp", "::") //nolint:noctx // returns at once
	if err != nil {
		return nil, err
	}
	r := &Router{
		conn: ipv6.NewPacketConn(raw), device: link.Index, answer: answer, to: &net.IPAddr{IP: net.IPv6linklocalallnodes, Zone: device}, done: make(chan struct{}),
	}
	var only ipv6.ICMPFilter
	only.SetAll(true)
	only.Accept(ipv6.ICMPTypeRouterSolicitation)
	if err := errors.Join(r.conn.JoinGroup(link, &net.IPAddr{IP: net.IPv6linklocalallrouters}), r.conn.SetICMPFilter(&only),
		r.conn.SetControlMessage(ipv6.FlagInterface, true)); err != nil {
		return nil, errors.Join(err, r.conn.Close())
	}
	go r.run()
	return r, nil
}

func (r *Router) run() {
	defer close(r.done)
	buffer := make([]byte, 1500)
	for {
		_, from, _, err := r.conn.ReadFrom(buffer)
		if err != nil {
			return // closed
		}
		if from != nil && from.IfIndex != r.device {
			continue // of another network
		}
		// Receivers take it only with the hop limit 255: it then comes from their own link.
		if _, err := r.conn.WriteTo(r.answer, &ipv6.ControlMessage{HopLimit: 255, IfIndex: r.device}, r.to); err != nil {
			r.err = errors.Join(r.err, fmt.Errorf("advertise a router: %w", err))
		}
	}
}

// Close ends the answers. It returns the errors of answers that could not be sent.
func (r *Router) Close() error {
	err := r.conn.Close()
	<-r.done
	return errors.Join(err, r.err)
}

// advertisement is the body of a router advertisement (RFC 4861, section 4.2): hop limit 64, and a lifetime of 0, since this is no default
// router. With a prefix of IPv6 it has the flags M and O, by which addresses and the rest come from DHCPv6, and announces that
// the prefix is on this link (section 4.6.2), for an hour.
func advertisement(prefix netip.Prefix) []byte {
	body := []byte{64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if prefix.Addr().Is4() {
		return body
	}
	const managed, other, onLink = 0x80, 0x40, 0x80
	body[1] = managed | other
	body = append(body, 3, 4, byte(prefix.Bits()), onLink) //nolint:gosec // at most 128; the option's type, its length in units of 8 bytes
	for range 2 {                                          // valid, preferred
		body = binary.BigEndian.AppendUint32(body, 3600)
	}
	return append(append(body, 0, 0, 0, 0), prefix.Addr().AsSlice()...)
}
