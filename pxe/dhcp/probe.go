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
	// probeTime is how long an answer is waited for. Machines on the same link answer within milliseconds.
	probeTime = 500 * time.Millisecond
	// probePort is that of the service discard, which nobody runs: what comes to it is refused.
	probePort = 9
)

// Probe says whether a machine on a link of ours uses an address, and which one where the kernel knows. It needs no privileges: to
// send a packet there, the kernel asks for the address by ARP, and a machine that is there refuses the packet or at least
// answers for its address. A machine that the kernel has met before and that stays silent is not noticed.
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
	end := time.Now().Add(probeTime)
	buffer := make([]byte, 1)
	for time.Now().Before(end) && ctx.Err() == nil {
		if err := conn.SetReadDeadline(time.Now().Add(probeTime / 20)); err != nil {
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

// neighbour returns who the kernel knows to have an address, and whether that was confirmed lately.
func neighbour(address netip.Addr) (net.HardwareAddr, bool, error) {
	neighbours, err := netlink.NeighList(0, netlink.FAMILY_V4)
	if err != nil {
		return nil, false, fmt.Errorf("read the kernel's table of neighbours: %w", err)
	}
	for _, n := range neighbours {
		if addrOf(n.IP) == address && n.State&netlink.NUD_REACHABLE != 0 {
			return n.HardwareAddr, true, nil
		}
	}
	return nil, false, nil
}
