package pxetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
)

// The ports that FreePort chooses from lie below those that Linux gives to outgoing connections, which come and go.
const firstPort, lastPort = 20000, 32000

// taken keeps the ports that FreePort returned from being returned again, by this process or another, as long as this one lives.
var taken struct {
	sync.Mutex
	marks []net.Listener
}

// FreePort returns a port that nothing listens on at an address, neither for TCP nor for UDP, and that it never returns again: for a program that
// is started later and has to be told its port.
func FreePort(address netip.Addr) (uint16, error) {
	taken.Lock()
	defer taken.Unlock()
	for range 1000 {
		port := uint16(firstPort + rand.IntN(lastPort-firstPort))            //nolint:gosec // no secret, and within bounds
		mark, err := net.Listen("unix", fmt.Sprintf("@capbm-port-%d", port)) //nolint:noctx // returns at once
		if err != nil {
			continue // another has it
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
