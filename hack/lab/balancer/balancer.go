// Package balancer is the load balancer of the lab. It has the control plane endpoints of all clusters, and forwards TCP connections to the API servers of the
// cluster.
package balancer

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// downAfter is how many checks of a backend must fail in a row until it gets no connections. On a busy machine one may fail.
	downAfter = 3
	// dialTimeout is how long a backend may take to accept a connection. After it the next backend is tried.
	dialTimeout = 2 * time.Second
	// acceptDelay is the time after a connection that could not be accepted, as without a free file descriptor.
	acceptDelay = 100 * time.Millisecond
)

// Balancer forwards connections from endpoints to their backends.
type Balancer struct {
	interval time.Duration
	check    func(ctx context.Context, backend string) error

	mu        sync.Mutex
	endpoints map[string]*endpoint // by address
}

// New makes a balancer without endpoints. check is called for each backend with its address after each interval. Its error means that the backend does not serve.
func New(interval time.Duration, check func(ctx context.Context, backend string) error) *Balancer {
	return &Balancer{interval: interval, check: check, endpoints: map[string]*endpoint{}}
}

// Add adds a backend, which serves already, to an endpoint. Both are addresses with a port. The endpoint is open from its first backend until its last one is
// removed. remove removes the backend, and closes the connections to it.
func (b *Balancer) Add(ctx context.Context, address, backendAddress string) (remove func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx = context.WithoutCancel(ctx) // the endpoint may be open longer than its first backend lives
	e := b.endpoints[address]
	if e == nil {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		e = &endpoint{listener: listener}
		b.endpoints[address] = e
		e.running.Go(func() { e.accept(ctx) })
	}
	checking, cancel := context.WithCancel(ctx)
	added := &backend{address: backendAddress, cancel: cancel, sessions: map[*session]bool{}}
	e.add(added)
	e.running.Go(func() { e.watch(checking, added, b.interval, b.check) })
	return sync.OnceFunc(func() { b.remove(address, e, added) }), nil
}

// remove removes a backend, and closes its endpoint if no other one is left.
func (b *Balancer) remove(address string, e *endpoint, removed *backend) {
	removed.cancel()
	b.mu.Lock()
	last := e.remove(removed)
	if last {
		delete(b.endpoints, address)
		_ = e.listener.Close()
	}
	b.mu.Unlock()
	if last {
		e.running.Wait()
	}
}

// endpoint is an address to which clients connect.
type endpoint struct {
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	backends []*backend
	accepted int // the number of connections
}

// backend is a server behind an endpoint. The mutex of the endpoint protects it.
type backend struct {
	address  string
	cancel   context.CancelFunc // ends its checks
	failures int                // the failed checks since the last one that succeeded
	sessions map[*session]bool
}

func (b *backend) down() bool { return b.failures >= downAfter }

// closeSessions closes all connections to the backend. A client of a server that does not answer would wait for an answer until its own timeout.
func (b *backend) closeSessions() {
	for s := range b.sessions {
		s.close()
	}
	clear(b.sessions)
}

// session is the connection of a client and that to its backend.
type session struct{ client, server net.Conn }

func (s *session) close() { _ = errors.Join(s.client.Close(), s.server.Close()) }

func (e *endpoint) add(b *backend) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.backends = append(e.backends, b)
}

// remove removes a backend, and returns whether no other one is left.
func (e *endpoint) remove(b *backend) (last bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.backends = slices.DeleteFunc(e.backends, func(other *backend) bool { return other == b })
	b.closeSessions()
	return len(e.backends) == 0
}

// watch checks a backend until ctx ends.
func (e *endpoint) watch(ctx context.Context, b *backend, interval time.Duration, check func(context.Context, string) error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		err := check(ctx, b.address)
		if ctx.Err() == nil {
			e.record(b, err)
		}
	}
}

// record records the result of a check.
func (e *endpoint) record(b *backend, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		b.failures = 0
		return
	}
	b.failures++
	if b.down() {
		b.closeSessions()
	}
}

// accept accepts connections until the listener is closed.
func (e *endpoint) accept(ctx context.Context) {
	for {
		client, err := e.listener.Accept()
		switch {
		case err == nil:
			e.running.Go(func() { e.forward(ctx, client) })
		case errors.Is(err, net.ErrClosed):
			return
		default:
			time.Sleep(acceptDelay) // accept is not a reconcile, and the end of the lab does not wait longer than this
		}
	}
}

// forward forwards a connection until one side closes it. Without a backend it is closed.
func (e *endpoint) forward(ctx context.Context, client net.Conn) {
	b, s := e.connect(ctx, client)
	if s == nil {
		_ = client.Close()
		return
	}
	defer e.end(b, s)
	e.running.Go(func() {
		defer s.close()
		_, _ = io.Copy(s.server, client) // both sides see the end
	})
	_, _ = io.Copy(client, s.server)
}

// connect connects a client to the first backend that accepts the connection; nil if none does.
func (e *endpoint) connect(ctx context.Context, client net.Conn) (*backend, *session) {
	for _, b := range e.candidates() {
		server, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", b.address)
		if err != nil {
			continue
		}
		s := &session{client, server}
		if e.begin(b, s) {
			return b, s
		}
		_ = server.Close()
	}
	return nil, nil
}

// candidates returns the backends that are not down, and begins with another one for each connection.
func (e *endpoint) candidates() []*backend {
	e.mu.Lock()
	defer e.mu.Unlock()
	var up []*backend
	for i := range e.backends {
		if b := e.backends[(e.accepted+i)%len(e.backends)]; !b.down() {
			up = append(up, b)
		}
	}
	e.accepted++
	return up
}

// begin records a session. It returns false if the backend was removed or is down since the connection was made.
func (e *endpoint) begin(b *backend, s *session) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b.down() || !slices.Contains(e.backends, b) {
		return false
	}
	b.sessions[s] = true
	return true
}

// end closes a session, and forgets it.
func (e *endpoint) end(b *backend, s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(b.sessions, s)
	s.close()
}
