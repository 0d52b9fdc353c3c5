package pxetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// The ports that FreePort chooses from are below those that Linux uses for outgoing connections.
const firstPort, lastPort = 20000, 32000

// taken reserves the ports that FreePort returned, so that no process gets them again during the life of this one.
var taken struct {
	sync.Mutex
	marks []net.Listener
}

// FreePort returns a port on which nothing listens at an address, neither for TCP nor for UDP. It never returns the same port again, so that a program that
// starts later can use it.
func FreePort(address netip.Addr) (uint16, error) {
	taken.Lock()
	defer taken.Unlock()
	for range 1000 {
		port := uint16(firstPort + rand.IntN(lastPort-firstPort))            //nolint:gosec // no secret, and within bounds
		mark, err := net.Listen("unix", fmt.Sprintf("@capbm-port-%d", port)) //nolint:noctx // returns at once
		if err != nil {
			continue // another process has it
		}
		taken.marks = append(taken.marks, mark)
		at := netip.AddrPortFrom(address, port)
		tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		if err != nil {
			continue
		}
		udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if err != nil {
			_ = tcp.Close()
			continue
		}
		return port, errors.Join(tcp.Close(), udp.Close())
	}
	return 0, errors.New("no port is free for both TCP and UDP")
}
