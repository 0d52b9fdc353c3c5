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

// maxPacket bounds a packet. IPMI messages over LAN have less than 300 bytes.
const maxPacket = 1500

// buffers are for packets that are read. An idle connection holds none.
var buffers = sync.Pool{New: func() any { return new([maxPacket]byte) }}

// socket is a UDP socket that is connected to a BMC: the kernel drops what comes from elsewhere.
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

// errNoAnswer is the error when no answer came.
var errNoAnswer = errors.New("the BMC did not answer in time")

// exchange sends a packet until accept takes a packet that came back, for as long as the timeout of a request and ctx last. With
// once it sends one packet only. build makes the packet for each time it is sent. What accept does not take is dropped: it is late, or
// forged.
func (s *socket) exchange(ctx context.Context, once bool, build func() ([]byte, error), accept func(packet []byte) bool) error {
	if err := s.endpoint.Wait(ctx); err != nil {
		return &bmc.Error{Kind: bmc.Unreachable, Op: "Wait for a turn", Err: err}
	}
	end := time.Now().Add(s.timeout)
	defer s.interrupt(ctx)()
	buffer := buffers.Get().(*[maxPacket]byte) //nolint:forcetypeassert // it holds nothing else
	defer buffers.Put(buffer)
	for again := s.repeatAfter; ; again *= 2 { // a BMC that is slow must not drown in repeats
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
	// What interrupts may have come before the deadline was set anew.
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

// interrupt makes the end of ctx wake up who reads. The function that it returns undoes it, and waits where it is under way.
func (s *socket) interrupt(ctx context.Context) func() {
	if ctx.Done() == nil {
		return func() {}
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		_ = s.SetReadDeadline(time.Unix(1, 0)) // a closed socket wakes up as well
	})
	return func() {
		if !stop() {
			<-woken
		}
	}
}

// exchangeError gives the errors of an exchange their kind.
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

// unwrapNet leaves out of a network error what names our own address and port, which change each time: conditions that hold the text
// would change with them.
func unwrapNet(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return &net.OpError{Op: op.Op, Net: op.Net, Addr: op.Addr, Err: op.Err}
	}
	return err
}
