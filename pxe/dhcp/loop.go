package dhcp

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/go-logr/logr"
)

const (
	// maxWorkers is how many packets are answered at once. More are dropped: clients repeat their requests.
	maxWorkers = 64
	// maxFailures is how many reads in a row may fail. A single failure is normal; this many mean that the socket is unusable.
	maxFailures = 100
)

// Loop reads packets and answers them. It drops bad packets, and packets above the limit of concurrent answers.
type Loop struct {
	Log logr.Logger
	// Read reads a packet.
	Read func(buffer []byte) (n int, in Arrival, err error)
	// Take returns a function that answers a packet, and one that records an overload. A nil answer drops the packet. packet is invalid after Take returned.
	Take func(packet []byte, in Arrival) (answer, overload func())
}

// Arrival is how a packet arrived.
type Arrival struct {
	// Device is the index of the interface, 0 if it is not known.
	Device int
	// Target is the destination address: one of this machine, or a broadcast or multicast address. It is invalid if it is not known.
	Target netip.Addr
	// Source is the sender: the client, or a relay agent.
	Source netip.AddrPort
}

// NewArrival returns an Arrival from the control message of a socket.
func NewArrival(device int, target net.IP, source net.Addr) Arrival {
	in := Arrival{Device: device}
	if a, ok := netip.AddrFromSlice(target); ok {
		in.Target = a.Unmap()
	}
	if udp, ok := source.(*net.UDPAddr); ok {
		in.Source = netip.AddrPortFrom(udp.AddrPort().Addr().Unmap(), udp.AddrPort().Port())
	}
	return in
}

// Run runs until ctx ends or the socket is closed.
func (l Loop) Run(ctx context.Context) error {
	free := make(chan struct{}, maxWorkers)
	buffer := make([]byte, 1<<16)
	failures := 0 // in a row
	for {
		n, in, err := l.Read(buffer)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx closed the socket
		case errors.Is(err, net.ErrClosed), err != nil && failures >= maxFailures:
			return err
		case err != nil:
			failures++
			l.Log.Error(err, "Failed to read a packet") // for example an ICMP error for an earlier answer
			continue
		}
		failures = 0
		answer, overload := l.Take(buffer[:n], in)
		if answer == nil {
			continue
		}
		select {
		case free <- struct{}{}:
			go func() {
				defer func() { <-free }()
				answer()
			}()
		default:
			overload()
		}
	}
}
