package dhcp

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/go-logr/logr"
)

const (
	// workers bounds the packets that are answered at once. More are dropped: clients ask again.
	workers = 64
	// maxFailures is how many reads in a row may fail. One is normal; so many mean that the socket is of no use.
	maxFailures = 100
)

// Loop reads packets and has them answered. A bad packet is dropped, and so is one that comes while too many are being answered.
type Loop struct {
	Log logr.Logger
	// Read reads a packet.
	Read func(buffer []byte) (n int, in Arrival, err error)
	// Take returns what answers a packet, and what notes that there is no time to. A nil answer drops it. The packet is gone when
	// Take returns.
	Take func(packet []byte, in Arrival) (answer, overload func())
}

// Arrival is how a packet came in.
type Arrival struct {
	// Device is the index of the interface, 0 if it is not known.
	Device int
	// Target is the address that it was sent to: one of this machine, or everyone's. It is invalid if it is not known.
	Target netip.Addr
	// Source is who sent it: the client, or a relay agent.
	Source netip.AddrPort
}

// NewArrival returns an Arrival of what a socket says of a packet.
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
	free := make(chan struct{}, workers)
	buffer := make([]byte, 1<<16)
	failures := 0 // in a row
	for {
		n, in, err := l.Read(buffer)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the socket was closed because the end was asked for
		case errors.Is(err, net.ErrClosed), err != nil && failures >= maxFailures:
			return err
		case err != nil:
			failures++
			l.Log.Error(err, "Read a packet") // an ICMP error of an earlier answer, say
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
