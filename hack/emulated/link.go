package emulated

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// link is the network card of a server: it forwards connections to the boot server, and they come from the address of the server.
type link struct {
	url      string
	listener net.Listener
	dialer   *net.Dialer
	to       string
	limiter  *rate.Limiter // nil without a limit
	cancel   context.CancelFunc
	running  sync.WaitGroup
}

// burst is how many bytes pass a link at once.
const burst = 64 << 10

func newLink(ctx context.Context, address netip.Addr, to string, bytesPerSecond int) (*link, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &link{
		listener: listener, to: to, cancel: cancel,
		dialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: address.AsSlice()}, Timeout: 15 * time.Second},
	}
	if bytesPerSecond > 0 {
		l.limiter = rate.NewLimiter(rate.Limit(bytesPerSecond), burst)
	}
	l.running.Go(func() { l.accept(ctx) })
	return l, nil
}

func (l *link) address() string { return l.listener.Addr().String() }

// close ends all connections.
func (l *link) close() {
	l.cancel()
	_ = l.listener.Close()
	l.running.Wait()
}

func (l *link) accept(ctx context.Context) {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return // it was closed
		}
		l.running.Go(func() { l.forward(ctx, conn) })
	}
}

// forward forwards a connection until one side closes it. A boot server that cannot be reached closes it too: the agent tries again.
func (l *link) forward(ctx context.Context, client net.Conn) {
	server, err := l.dialer.DialContext(ctx, "tcp", l.to)
	if err != nil {
		_ = client.Close()
		return
	}
	end := func() { _ = errors.Join(client.Close(), server.Close()) }
	defer context.AfterFunc(ctx, end)()
	defer end()
	l.running.Go(func() {
		defer end()
		_, _ = io.Copy(server, client) // the agent sees the end
	})
	_, _ = io.Copy(client, &limited{server, l.limiter, ctx})
}

// limited reads no faster than its limit.
type limited struct {
	from    io.Reader
	limiter *rate.Limiter
	ctx     context.Context //nolint:containedctx // of one connection
}

func (l *limited) Read(b []byte) (int, error) {
	n, err := l.from.Read(b[:min(len(b), burst)])
	if l.limiter == nil || n == 0 {
		return n, err
	}
	return n, errors.Join(err, l.limiter.WaitN(l.ctx, n))
}
