package dhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	// probeTimeout is the timeout for an answer. Machines on the same link answer within milliseconds.
	probeTimeout = 500 * time.Millisecond
	// probePort is the port of the discard service, which no machine runs: machines refuse packets to it.
	probePort = 9
)

// Probe returns whether a machine on a local link uses an address, and its MAC address if the kernel knows it. It needs no privileges: it sends a packet, for
// which the kernel resolves the address by ARP. A machine with the address refuses the packet, or at least answers the ARP request. Probe does not notice a
// machine that was in the kernel's neighbour table already and that does not answer.
func Probe(ctx context.Context, from, address netip.Addr) (owner net.HardwareAddr, used bool, err error) {
	local := &net.UDPAddr{IP: from.AsSlice()}
	conn, err := (&net.Dialer{LocalAddr: local}).DialContext(ctx, "udp4", netip.AddrPortFrom(address, probePort).String())
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte{0}); err != nil {
		return nil, false, err
	}
	end := time.Now().Add(probeTimeout)
	buffer := make([]byte, 1)
	for time.Now().Before(end) && ctx.Err() == nil {
		if err := conn.SetReadDeadline(time.Now().Add(probeTimeout / 20)); err != nil {
			return nil, false, err
		}
		_, err := conn.Read(buffer)
		owner, reachable, lookErr := neighbour(address)
		switch {
		case lookErr != nil:
			return nil, false, lookErr
		case err == nil || errors.Is(err, syscall.ECONNREFUSED) || reachable:
			return owner, true, nil
		case errors.Is(err, syscall.EHOSTUNREACH):
			return nil, false, nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, false, err
		}
	}
	return nil, false, ctx.Err()
}

// neighbour returns the MAC address for an address in the kernel's neighbour table, and whether it was confirmed recently.
func neighbour(address netip.Addr) (net.HardwareAddr, bool, error) {
	neighbours, err := netlink.NeighList(0, netlink.FAMILY_V4)
	if err != nil {
		return nil, false, fmt.Errorf("read the kernel's neighbour table: %w", err)
	}
	for _, n := range neighbours {
		if addrOf(n.IP) == address && n.State&netlink.NUD_REACHABLE != 0 {
			return n.HardwareAddr, true, nil
		}
	}
	return nil, false, nil
}
