package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestConnections: a client that opens too many connections loses only those above the bound, and other clients are served.
func TestConnections(t *testing.T) {
	g := NewWithT(t)
	limits := newConnections(5, 3, 4)
	web := (&Server{}).newHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") }), limits)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	var wg sync.WaitGroup
	wg.Go(func() { _ = web.Serve(listener) })
	t.Cleanup(func() { _ = web.Close(); wg.Wait() })
	open := func(from byte) net.Conn {
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}, Timeout: time.Minute}
		conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	served := func(conn net.Conn) bool {
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return false
		}
		n, _ := conn.Read(make([]byte, 500))
		return n > 0
	}
	var first []net.Conn
	for range 3 {
		first = append(first, open(2))
		g.Expect(served(first[len(first)-1])).To(BeTrue())
	}
	g.Expect(served(open(2))).To(BeFalse(), "a fourth of one address")
	for _, conn := range first {
		g.Expect(served(conn)).To(BeTrue(), "those that were there stay")
	}
	g.Expect(served(open(3))).To(BeTrue())
	g.Expect(served(open(4))).To(BeTrue())
	g.Expect(served(open(5))).To(BeFalse(), "a sixth of all")
	g.Expect(first[0].Close()).To(Succeed())
	g.Eventually(func() bool { return served(open(5)) }).Should(BeTrue(), "there is room again")
}

// remote is a connection from an address.
type remote struct {
	net.Conn

	address net.Addr
	closed  *bool
}

func (r remote) RemoteAddr() net.Addr { return r.address }

func (r remote) Close() error {
	*r.closed = true
	return nil
}

// TestConnectionsOfALink: 64 servers of a rack whose addresses are in one IPv6 /64 have more connections than a boot needs. One client with all
// addresses of a /64 has a part of all connections, and the next link has its own.
func TestConnectionsOfALink(t *testing.T) {
	g := NewWithT(t)
	limits := newConnections(maxConnections, maxPerAddress, maxPerPrefix)
	connect := func(prefix string, server int) bool {
		closed := false
		address := &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("%s%x", prefix, server+1)), Port: 1}
		limits.changed(remote{address: address, closed: &closed}, http.StateNew)
		return !closed
	}
	for server := range 64 {
		for range 32 {
			g.Expect(connect("2001:db8:0:1::", server)).To(BeTrue())
		}
	}
	open := 0
	for address := range maxConnections {
		if connect("2001:db8:0:2::", address) {
			open++
		}
	}
	g.Expect(open).To(Equal(maxConnections / 4))
	g.Expect(connect("2001:db8:0:3::", 0)).To(BeTrue())
}
