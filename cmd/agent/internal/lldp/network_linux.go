package lldp

import (
	"fmt"
	"net"

	"github.com/mdlayher/packet"
	"github.com/safchain/ethtool"
	"golang.org/x/sys/unix"
)

// Kernel is the network of this server, by packet sockets (packet(7)) and ethtool's ioctls.
type Kernel struct{}

// groups are the addresses to which switches send LLDP frames (IEEE 802.1AB-2016, table 7-1). All-multicast would receive them too, with much else.
var groups = []net.HardwareAddr{
	{0x01, 0x80, 0xc2, 0, 0, 0x0e}, {0x01, 0x80, 0xc2, 0, 0, 0x03}, {0x01, 0x80, 0xc2, 0, 0, 0x00},
}

const (
	etherTypeLLDP = 0x88cc
	// maxFrame is the maximum size of a frame with jumbo frames, in bytes.
	maxFrame = 9216
	// keepFirmwareOff is the private flag of i40e with which frames go to the kernel. It ends with a reset of the adapter.
	keepFirmwareOff = "disable-fw-lldp"
)

type conn struct {
	*packet.Conn

	buffer []byte
}

// Open implements Network.
func (Kernel) Open(name string) (Conn, error) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	c, err := packet.Listen(i, packet.Datagram, etherTypeLLDP, nil)
	if err != nil {
		return nil, err
	}
	if err := join(c, i.Index); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("join the multicast groups of LLDP: %w", err)
	}
	return &conn{c, make([]byte, maxFrame)}, nil
}

// join makes the interface accept the multicast groups. The kernel leaves them with the socket.
func join(c *packet.Conn, index int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		for _, g := range groups {
			request := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(g))} //nolint:gosec // an index is small
			copy(request.Address[:], g)
			if err := unix.SetsockoptPacketMreq(int(fd), unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &request); err != nil {
				failed = err
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return failed
}

// Receive implements Conn.
func (c *conn) Receive() ([]byte, error) {
	n, _, err := c.ReadFrom(c.buffer)
	return c.buffer[:n], err
}

// ReleaseFrames implements Network.
func (Kernel) ReleaseFrames(name string) (bool, error) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return false, err
	}
	defer tool.Close()
	flags, err := tool.PrivFlags(name)
	if err != nil {
		return false, err
	}
	on, ok := flags[keepFirmwareOff]
	if !ok || on {
		return ok, nil
	}
	return true, tool.UpdatePrivFlags(name, map[string]bool{keepFirmwareOff: true})
}
