package e2e_test

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	. "github.com/onsi/gomega"
)

// dhcpPackets returns the DHCP packets that were on the server's link so far (QEMU writes them in the format of libpcap).
func (c *chassis) dhcpPackets(t *testing.T) []*dhcpv4.DHCPv4 {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(c.file("packets"))
	g.Expect(err).NotTo(HaveOccurred())
	const fileHeader, recordHeader, ethernet, udp = 24, 16, 14, 8
	g.Expect(len(content)).To(BeNumerically(">=", fileHeader))
	var packets []*dhcpv4.DHCPv4
	for content = content[fileHeader:]; len(content) >= recordHeader; {
		size := int(binary.LittleEndian.Uint32(content[8:]))
		if len(content) < recordHeader+size {
			break // it is being written
		}
		frame := content[recordHeader : recordHeader+size]
		content = content[recordHeader+size:]
		if len(frame) < ethernet+20+udp || frame[12] != 8 || frame[13] != 0 || frame[ethernet+9] != 17 {
			continue // no UDP over IPv4
		}
		datagram := frame[ethernet+int(frame[ethernet]&15)*4:]
		if port := binary.BigEndian.Uint16(datagram[2:]); port != dhcpv4.ServerPort && port != dhcpv4.ClientPort {
			continue
		}
		packet, err := dhcpv4.FromBytes(datagram[udp:])
		g.Expect(err).NotTo(HaveOccurred())
		packets = append(packets, packet)
	}
	return packets
}
