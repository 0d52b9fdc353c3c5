package ipmi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// maxPacket is the maximum size of a packet. IPMI messages over LAN have less than 300 bytes.
const maxPacket = 1500

// buffers are for received packets. An idle connection holds no buffer.
var buffers = sync.Pool{New: func() any { return new([maxPacket]byte) }}

// socket is a UDP socket that is connected to a BMC: the kernel drops packets from other addresses.
type socket struct {
	net.Conn

	endpoint             bmc.Endpoint
	timeout, repeatAfter time.Duration
}

func (d *Driver) dial(ctx context.Context, endpoint bmc.Endpoint, address string) (*socket, error) {
	c, err := d.Permit.Dial(ctx, d.requestTimeout(), "udp", address)
	if err != nil {
		return nil, err
	}
	return &socket{Conn: c, endpoint: endpoint, timeout: d.requestTimeout(), repeatAfter: d.repeatAfter()}, nil
}

// errNoAnswer is the error of a timeout.
var errNoAnswer = errors.New("the BMC did not answer in time")

// exchange sends a request, and repeats it until accept returns true for a received packet, or until the request timeout or ctx ends.
// With once it does not repeat the request. build makes the packet each time it is sent. Packets that accept rejects are dropped: they
// are late or forged.
func (s *socket) exchange(ctx context.Context, once bool, build func() ([]byte, error), accept func(packet []byte) bool) error {
	if err := s.endpoint.Wait(ctx); err != nil {
		return &bmc.Error{Kind: bmc.Unreachable, Op: "Wait for the request rate", Err: err}
	}
	end := time.Now().Add(s.timeout)
	defer s.interrupt(ctx)()
	buffer := buffers.Get().(*[maxPacket]byte) //nolint:forcetypeassert // it holds nothing else
	defer buffers.Put(buffer)
	for again := s.repeatAfter; ; again *= 2 { // repeats must not overload a slow BMC
		packet, err := build()
		if err != nil {
			return err
		}
		if _, err := s.Write(packet); err != nil {
			return fmt.Errorf("send to the BMC: %w", unwrapNet(err))
		}
		until := time.Now().Add(again)
		if once || until.After(end) {
			until = end
		}
		err = s.receive(ctx, until, buffer[:], accept)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("receive from the BMC: %w", unwrapNet(err))
		case !until.Before(end):
			return errNoAnswer
		}
		if err := s.endpoint.Wait(ctx); err != nil {
			return errNoAnswer
		}
	}
}

// receive reads packets until one is accepted.
func (s *socket) receive(ctx context.Context, until time.Time, buffer []byte, accept func([]byte) bool) error {
	if err := s.SetReadDeadline(until); err != nil {
		return err
	}
	// interrupt may have set its deadline before SetReadDeadline replaced it.
	for ctx.Err() == nil {
		n, err := s.Read(buffer)
		if err != nil {
			return err
		}
		if accept(buffer[:n]) {
			return nil
		}
	}
	return ctx.Err()
}

// interrupt makes a blocked read return when ctx ends. The returned function stops that, and waits for an interrupt in progress.
func (s *socket) interrupt(ctx context.Context) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = s.SetReadDeadline(time.Unix(1, 0)) // on a closed socket, the read returns anyway
	})
	return func() {
		if !stop() {
			<-woken
		}
	}
}

// exchangeError returns the error of an exchange with its kind.
func exchangeError(op string, err error) error {
	var known *bmc.Error
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, errNoAnswer), errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return &bmc.Error{Kind: bmc.Unreachable, Op: op, Err: err}
	default:
		return bmc.Wrap(op, err)
	}
}

// unwrapNet removes the local address and port from a network error. They change with each connection, and conditions with the text
// would change with them.
func unwrapNet(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return &net.OpError{Op: op.Op, Net: op.Net, Addr: op.Addr, Err: op.Err}
	}
	return err
}
