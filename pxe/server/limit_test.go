package server

import (
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestConnections: who opens too many connections loses those beyond the bound and not the others, and others are served.
func TestConnections(t *testing.T) {
	g := NewWithT(t)
	limits := &connections{most: 5, perAddress: 3}
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
