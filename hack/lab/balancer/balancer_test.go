package balancer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// fake is a backend that writes its name to each connection, and keeps it open until the client closes it. Its checks fail on demand.
type fake struct {
	name     string
	listener net.Listener

	mu      sync.Mutex
	failing bool
	checks  int
}

func startFake(t *testing.T, name string) *fake {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // of this test
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	f := &fake{name: name, listener: listener}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.WriteString(conn, name+"\n")
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	return f
}

func (f *fake) address() string { return f.listener.Addr().String() }

func (f *fake) fail(failing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failing = failing
}

func (f *fake) checked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.checks
}

// rig is a balancer in front of fakes.
type rig struct {
	*testing.T

	balancer *Balancer
	mu       sync.Mutex
	fakes    map[string]*fake
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, fakes: map[string]*fake{}}
	r.balancer = New(5*time.Millisecond, func(_ context.Context, address string) error {
		r.mu.Lock()
		f := r.fakes[address]
		r.mu.Unlock()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.checks++
		if f.failing {
			return errors.New("it fails on demand")
		}
		return nil
	})
	return r
}

// freeAddress returns an address on which nothing listens.
func (r *rig) freeAddress() string {
	r.Helper()
	loopback := netip.MustParseAddr("127.0.0.1")
	port, err := pxetest.FreePort(loopback)
	NewWithT(r.T).Expect(err).NotTo(HaveOccurred())
	return netip.AddrPortFrom(loopback, port).String()
}

// add adds a new fake to an endpoint. The backend is removed with the test, or by the returned function.
func (r *rig) add(endpoint, name string) (*fake, func()) {
	r.Helper()
	f := startFake(r.T, name)
	r.mu.Lock()
	r.fakes[f.address()] = f
	r.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	remove, err := r.balancer.Add(ctx, endpoint, f.address())
	cancel() // the backend stays until it is removed
	NewWithT(r.T).Expect(err).NotTo(HaveOccurred())
	r.Cleanup(remove)
	return f, remove
}

// dial returns the name of the backend that a new connection reaches, and the connection; no name if it is refused or closed.
func (r *rig) dial(endpoint string) (string, net.Conn) {
	r.Helper()
	conn, err := net.Dial("tcp", endpoint) //nolint:noctx // returns at once
	if err != nil {
		return "", nil
	}
	r.Cleanup(func() { _ = conn.Close() })
	name, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", nil
	}
	return name[:len(name)-1], conn
}

// reached counts which backends some new connections reach.
func (r *rig) reached(endpoint string, connections int) map[string]int {
	r.Helper()
	counts := map[string]int{}
	for range connections {
		name, conn := r.dial(endpoint)
		counts[name]++
		if conn != nil {
			_ = conn.Close()
		}
	}
	return counts
}

// closed is true when a connection was closed by the other side.
func closed(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	return err != nil && (!errors.As(err, &timeout) || !timeout.Timeout())
}

// TestEndpoints: each endpoint has its own backends, and spreads connections evenly over them.
func TestEndpoints(t *testing.T) {
	g := NewWithT(t)
	r := newRig(t)
	one, two := r.freeAddress(), r.freeAddress()
	r.add(one, "a")
	r.add(one, "b")
	r.add(one, "c")
	r.add(two, "other")
	g.Expect(r.reached(one, 9)).To(Equal(map[string]int{"a": 3, "b": 3, "c": 3}))
	g.Expect(r.reached(two, 3)).To(Equal(map[string]int{"other": 3}))
}

// TestDown: a backend whose checks fail loses its connections and gets no new ones, until a check succeeds. The other one keeps its connections.
func TestDown(t *testing.T) {
	g := NewWithT(t)
	r := newRig(t)
	endpoint := r.freeAddress()
	a, _ := r.add(endpoint, "a")
	r.add(endpoint, "b")
	connections := map[string]net.Conn{}
	for len(connections) < 2 {
		name, conn := r.dial(endpoint)
		g.Expect(name).NotTo(BeEmpty())
		connections[name] = conn
	}
	a.fail(true)
	g.Eventually(func() bool { return closed(connections["a"]) }).Should(BeTrue())
	g.Expect(r.reached(endpoint, 4)).To(Equal(map[string]int{"b": 4}))
	g.Expect(closed(connections["b"])).To(BeFalse())
	a.fail(false)
	g.Eventually(func() int { return r.reached(endpoint, 2)["a"] }).Should(Equal(1))
}

// TestFewFailures: a backend whose checks fail less than downAfter times in a row keeps its connections.
func TestFewFailures(t *testing.T) {
	g := NewWithT(t)
	e := &endpoint{}
	b := &backend{sessions: map[*session]bool{}}
	e.add(b)
	client, other := net.Pipe()
	server, _ := net.Pipe()
	t.Cleanup(func() { _ = errors.Join(client.Close(), other.Close(), server.Close()) })
	g.Expect(e.begin(b, &session{client, server})).To(BeTrue())
	for range 3 {
		for range downAfter - 1 {
			e.record(b, errors.New("busy"))
		}
		e.record(b, nil)
	}
	g.Expect(b.sessions).To(HaveLen(1))
	for range downAfter {
		e.record(b, errors.New("gone"))
	}
	g.Expect(b.sessions).To(BeEmpty())
	g.Expect(e.candidates()).To(BeEmpty())
	g.Expect(e.begin(b, &session{client, server})).To(BeFalse())
}

// TestUnreachable: a connection goes to another backend if the first one does not accept it, also before its checks have failed. Without a backend it is closed.
func TestUnreachable(t *testing.T) {
	g := NewWithT(t)
	r := newRig(t)
	endpoint := r.freeAddress()
	a, _ := r.add(endpoint, "a")
	b, _ := r.add(endpoint, "b")
	g.Expect(a.listener.Close()).To(Succeed())
	g.Expect(r.reached(endpoint, 4)).To(Equal(map[string]int{"b": 4}))
	g.Expect(b.listener.Close()).To(Succeed())
	g.Expect(r.reached(endpoint, 2)).To(Equal(map[string]int{"": 2}))
}

// TestRemove: a backend that is removed loses its connections, and is not checked again. The endpoint closes with its last backend, and can be opened again.
func TestRemove(t *testing.T) {
	g := NewWithT(t)
	r := newRig(t)
	endpoint := r.freeAddress()
	a, removeA := r.add(endpoint, "a")
	_, removeB := r.add(endpoint, "b")
	var conn net.Conn
	for name := ""; name != "a"; {
		name, conn = r.dial(endpoint)
	}
	g.Eventually(a.checked).Should(BeNumerically(">", 0))
	removeA()
	removeA() // again
	g.Eventually(func() bool { return closed(conn) }).Should(BeTrue())
	g.Expect(r.reached(endpoint, 4)).To(Equal(map[string]int{"b": 4}))
	removeB()
	checks := a.checked()
	_, err := net.Dial("tcp", endpoint) //nolint:noctx // returns at once
	g.Expect(err).To(HaveOccurred())
	g.Consistently(a.checked, "50ms", "10ms").Should(Equal(checks))
	r.add(endpoint, "c")
	g.Expect(r.reached(endpoint, 2)).To(Equal(map[string]int{"c": 2}))
}

// TestTaken: an endpoint at which something else listens is an error.
func TestTaken(t *testing.T) {
	f := startFake(t, "a")
	_, err := newRig(t).balancer.Add(t.Context(), f.address(), "127.0.0.1:1")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("address already in use")))
}
