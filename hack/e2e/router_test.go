package e2e_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

// advertise answers router solicitations as the IPv6 router of a rack would which routes nothing: iPXE waits 16 s for an
// answer before it continues with its IPv4 address. On a network of IPv6 it announces that DHCPv6 gives the addresses. It ends
// with the test.
func advertise(t *testing.T, w *wire) {
	t.Helper()
	g := NewWithT(t)
	device, err := net.InterfaceByName(w.bridge)
	g.Expect(err).NotTo(HaveOccurred())
	raw, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "ip6:ipv6-icmp", "::")
	g.Expect(err).NotTo(HaveOccurred())
	conn := ipv6.NewPacketConn(raw)
	allRouters := &net.IPAddr{IP: net.IPv6linklocalallrouters}
	g.Expect(conn.JoinGroup(device, allRouters)).To(Succeed())
	var only ipv6.ICMPFilter
	only.SetAll(true)
	only.Accept(ipv6.ICMPTypeRouterSolicitation)
	g.Expect(conn.SetICMPFilter(&only)).To(Succeed())
	g.Expect(conn.SetControlMessage(ipv6.FlagInterface, true)).To(Succeed())
	done := make(chan struct{})
	stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
	t.Cleanup(func() {
		stop()
		_ = conn.Close() // it may be closed
		<-done
	})

	message := icmp.Message{Type: ipv6.ICMPTypeRouterAdvertisement, Body: &icmp.RawBody{Data: advertisement(w.prefix)}}
	packet, err := message.Marshal(nil) // the kernel adds the checksum
	g.Expect(err).NotTo(HaveOccurred())
	everyone := &net.IPAddr{IP: net.IPv6linklocalallnodes, Zone: w.bridge}
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			_, from, _, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			if from != nil && from.IfIndex != device.Index {
				continue // of another network
			}
			// Receivers take it only with the hop limit 255: it then comes from their own link.
			if _, err := conn.WriteTo(packet, &ipv6.ControlMessage{HopLimit: 255, IfIndex: device.Index}, everyone); err != nil {
				t.Errorf("advertise a router: %v", err)
			}
		}
	}()
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
	body = append(body, 3, 4, byte(prefix.Bits()), onLink) // the option's type, its length in units of 8 bytes
	for range 2 {                                          // valid, preferred
		body = binary.BigEndian.AppendUint32(body, 3600)
	}
	return append(append(body, 0, 0, 0, 0), prefix.Addr().AsSlice()...)
}
