package artifact

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// logged returns a logger, and its output.
func logged() (logr.Logger, func() string) {
	var mu sync.Mutex
	var lines strings.Builder
	return funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			lines.WriteString(line + "\n")
		}, funcr.Options{}), func() string {
			mu.Lock()
			defer mu.Unlock()
			return lines.String()
		}
}

// TestReadOracle: users learn nothing from a server that only the boot server reaches: neither the checksum nor the size of its response. With the checksum, the
// next request could fetch the response. The log shows it to operators.
func TestReadOracle(t *testing.T) {
	g := NewWithT(t)
	const secret = "internal secret"
	origin := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, secret) })
	log, lines := logged()
	_, err := read(t, newCache(t, Options{Outbound: loopback, Log: log}), Artifact{origin.URL + "/v1?token=of-the-URL", sum("a guess")})
	g.Expect(err).To(MatchError(ErrChecksum))
	g.Expect(err.Error()).To(Equal("fetch " + origin.URL + "/v1: the checksum differs: it should be " + sum("a guess")))
	g.Expect(lines()).To(ContainSubstring(sum(secret)))
	g.Expect(lines()).To(And(ContainSubstring(`"namespace"="dc"`), ContainSubstring(`"origin"="`+origin.URL+`/v1"`), Not(ContainSubstring("of-the-URL"))))
}

// TestPortScan: users read the same text for all failures before a response, and the log has the cause.
func TestPortScan(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				// An answer that comes before its request is another error of the client, and a connection may stay without one.
				_ = conn.SetDeadline(time.Now().Add(time.Second))
				_, _ = conn.Read(make([]byte, 1))
				_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.2p1\r\n")
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); wg.Wait() })
	silent := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for name, test := range map[string]struct{ url, cause string }{
		"refused":      {closed.URL, "connection refused"},
		"silent":       {silent.URL, "timeout awaiting response headers"},
		"not HTTP":     {"http://" + listener.Addr().String(), "malformed HTTP"},
		"not TLS":      {"https://" + listener.Addr().String(), "tls: "},
		"404":          {serve(t, http.NotFound).URL, "the origin answered 404"},
		"unauthorized": {serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }).URL, "the origin answered 401"},
		"hangs up": {serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "kernel")
		}).URL, "transfer of 100 bytes early"},
		"redirect to nowhere": {serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, closed.URL+"/?token=x", http.StatusFound)
		}).URL, "connection refused"},
		"redirects for ever": {serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }).URL, "stopped after 10 redirects"},
		"redirect to a file": {serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}).URL, "unsupported protocol scheme"},
		"no such name": {"http://nothing.invalid", "nothing.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			log, lines := logged()
			cache := newCache(t, Options{Outbound: loopback, Log: log})
			if test.url == silent.URL {
				cache.client.Transport.(*http.Transport).ResponseHeaderTimeout = time.Millisecond
			}
			_, err := read(t, cache, Artifact{test.url + "/x", sum("x")})
			g.Expect(err).To(MatchError("fetch " + test.url + "/x: no file came from the origin: the log of the boot server has the cause"))
			g.Expect(lines()).To(ContainSubstring(test.cause))
			g.Expect(lines()).NotTo(ContainSubstring("token=x"))
		})
	}
}

// TestWhereFrom: the policy applies to URLs and to redirects, and the refusal names the setting that permits an address.
func TestWhereFrom(t *testing.T) {
	var inner atomic.Int32
	internal := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		inner.Add(1)
		_, _ = io.WriteString(w, "internal")
	})
	byName := strings.Replace(internal.URL, "127.0.0.1", "localhost", 1)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	outer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
	}))
	_ = outer.Listener.Close()
	outer.Listener = listener
	outer.Start()
	t.Cleanup(outer.Close)
	redirect := func(to string) string { return outer.URL + "/?to=" + url.QueryEscape(to) }
	only := outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}
	for name, test := range map[string]struct {
		policy    outbound.Policy
		url       string
		permitted bool
	}{
		"by default":             {outbound.Policy{}, internal.URL, false},
		"a name":                 {outbound.Policy{}, byName, false},
		"a name that is listed":  {outbound.Policy{AllowHosts: []string{"localhost"}}, byName, false},
		"metadata":               {only, redirect("http://169.254.169.254/latest/meta-data"), false},
		"metadata over IPv6":     {only, redirect("http://[fd00:ec2::254]/latest/meta-data"), false},
		"another network":        {only, internal.URL, false},
		"redirected":             {only, redirect(internal.URL), false},
		"redirected to a name":   {only, redirect(byName), false},
		"denied":                 {outbound.Policy{AllowNetworks: only.AllowNetworks, DenyNetworks: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, redirect("http://192.0.2.1/"), false},
		"allowed":                {loopback, internal.URL, true},
		"allowed and redirected": {loopback, redirect(internal.URL), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := inner.Load()
			got, err := read(t, newCache(t, Options{Outbound: test.policy}), Artifact{test.url, sum("internal")})
			if test.permitted {
				g.Expect(got, err).To(Equal("internal"))
				return
			}
			g.Expect(err).To(MatchError(errRefused))
			g.Expect(err).To(MatchError(ContainSubstring("artifacts.allowNetworks or artifacts.allowHosts")))
			g.Expect(inner.Load()).To(Equal(before))
		})
	}
}

// nameServer is the address of the DNS server that the process asks, or nil for those of the machine. The resolver of the process is set once, because a
// client may still look a name up in a goroutine when the test that started it has ended.
var nameServer atomic.Pointer[string]

func TestMain(m *testing.M) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if server := nameServer.Load(); server != nil {
			network, address = "udp4", *server
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	m.Run()
}

// names starts a DNS server for the process whose answer for each name is the next of the addresses, and the last of them from then on.
func names(t *testing.T, addresses ...string) {
	t.Helper()
	g := NewWithT(t)
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	var wg sync.WaitGroup
	wg.Go(func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if err := m.Unpack(buffer[:n]); err != nil {
				t.Error(err)
				return
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: netip.MustParseAddr(addresses[0]).As4()},
				}}
				addresses = addresses[min(1, len(addresses)-1):]
			}
			packed, err := m.Pack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = conn.WriteTo(packed, from)
		}
	})
	address := conn.LocalAddr().String()
	nameServer.Store(&address)
	t.Cleanup(func() {
		nameServer.Store(nil)
		_ = conn.Close()
		wg.Wait()
	})
}

// TestRebinding: a name that first resolves to a permitted address and then to another one gives no access to the latter.
func TestRebinding(t *testing.T) {
	g := NewWithT(t)
	names(t, "127.0.0.2", "127.0.0.1")
	var inner atomic.Int32
	internal := serve(t, func(http.ResponseWriter, *http.Request) { inner.Add(1) })
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	g.Expect(err).NotTo(HaveOccurred())
	target := strings.Replace(internal.URL, "127.0.0.1", "rebind.test.", 1)
	var outer atomic.Int32
	origin := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		outer.Add(1)
		http.Redirect(w, r, target, http.StatusFound)
	}))
	_ = origin.Listener.Close()
	origin.Listener = listener
	origin.Start()
	t.Cleanup(origin.Close)
	cache := newCache(t, Options{RetryAfter: time.Hour, Outbound: outbound.Policy{
		AllowHosts: []string{"rebind.test"}, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
	}})
	_, err = read(t, cache, Artifact{strings.Replace(origin.URL, "127.0.0.2", "rebind.test.", 1), sum("x")})
	g.Expect(err).To(MatchError(errRefused))
	g.Expect(outer.Load()).To(BeEquivalentTo(1), "the first address is permitted")
	g.Expect(inner.Load()).To(BeZero())
}

// TestErrorsHaveNoContent: no error for users contains a byte of an origin's response, or the query of the URL.
func TestErrorsHaveNoContent(t *testing.T) {
	g := NewWithT(t)
	const secret = "internal-secret"
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://%zz/"+secret)
		w.Header().Set("Content-Length", "15")
		status := http.StatusOK
		if r.URL.Path == "/redirect" {
			status = http.StatusFound
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, secret)
	})
	for _, path := range []string{"/redirect", "/other", "/%zz"} {
		_, err := read(t, newCache(t, Options{Outbound: loopback, MaxBytes: 15}), Artifact{origin.URL + path + "?token=secret", sum("x")})
		g.Expect(err).To(HaveOccurred())
		g.Expect(err.Error()).To(And(Not(ContainSubstring("secret")), Not(ContainSubstring(sum(secret)))))
	}
}
