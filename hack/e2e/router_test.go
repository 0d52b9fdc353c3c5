package e2e_test

import (
	"context"
	"net"
	"testing"

	. "github.com/onsi/gomega"
	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv6"
)

// advertise answers router solicitations as the IPv6 router of a rack would which routes nothing: iPXE waits 16 s for an
// answer before it goes on with the IPv4 address that it has. It ends with the test.
func advertise(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	device, err := net.InterfaceByName(bridge)
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
	done := make(chan struct{})
	stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
	t.Cleanup(func() {
		stop()
		_ = conn.Close() // it may be closed
		<-done
	})

	// RFC 4861, section 4.2: hop limit 64, no flags, and a lifetime of 0: this is no default router.
	message := icmp.Message{Type: ipv6.ICMPTypeRouterAdvertisement, Body: &icmp.RawBody{Data: []byte{64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}}
	packet, err := message.Marshal(nil) // the kernel adds the checksum
	g.Expect(err).NotTo(HaveOccurred())
	everyone := &net.IPAddr{IP: net.IPv6linklocalallnodes, Zone: bridge}
	go func() {
		defer close(done)
		buffer := make([]byte, 1500)
		for {
			if _, _, _, err := conn.ReadFrom(buffer); err != nil {
				return
			}
			// Receivers take it only with the hop limit 255: it then comes from their own link.
			if _, err := conn.WriteTo(packet, &ipv6.ControlMessage{HopLimit: 255, IfIndex: device.Index}, everyone); err != nil {
				t.Errorf("advertise a router: %v", err)
			}
		}
	}()
}
