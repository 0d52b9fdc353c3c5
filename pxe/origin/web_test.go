package origin

import (
	"context"
	"errors"
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

	. "github.com/onsi/gomega"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

var loopback = outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// serve starts an origin.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	origin := httptest.NewServer(handler)
	t.Cleanup(origin.Close)
	return origin
}

func webFile(t *testing.T, transport *http.Transport, rawURL string) *WebFile {
	t.Helper()
	from, err := url.Parse(rawURL)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return NewWebFile(from, &http.Client{Transport: transport})
}

// fetch reads a file.
func fetch(t *testing.T, transport *http.Transport, rawURL string) (string, error) {
	t.Helper()
	body, err := webFile(t, transport, rawURL).Open(t.Context(), 0)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(body)
	return string(content), errors.Join(err, body.Close())
}

// TestPortScan: users read the same text for all failures before a file, and the cause, which is for the log, has no query of a URL.
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
		"hangs up":     {serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }).URL, "EOF"},
		"redirect to nowhere": {serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, closed.URL+"/?token=x", http.StatusFound)
		}).URL, "connection refused"},
		"redirects for ever": {serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }).URL, "stopped after 10 redirects"},
		"redirect to a file": {serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}).URL, "unsupported protocol scheme"},
		"redirect to no URL": {serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://%zz/internal-secret")
			w.WriteHeader(http.StatusFound)
		}).URL, "failed to parse Location header"},
		"no such name": {"http://nothing.invalid", "nothing.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			transport := NewTransport(loopback)
			if test.url == silent.URL {
				transport.ResponseHeaderTimeout = time.Millisecond
			}
			_, err := fetch(t, transport, test.url+"/x?token=x")
			g.Expect(err).To(MatchError(ErrNoFile.Error()))
			failure := new(Error)
			g.Expect(errors.As(err, &failure)).To(BeTrue())
			g.Expect(failure.Cause).To(MatchError(And(ContainSubstring(test.cause), Not(ContainSubstring("token=x")))))
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
			got, err := fetch(t, NewTransport(test.policy), test.url)
			if test.permitted {
				g.Expect(got, err).To(Equal("internal"))
				return
			}
			g.Expect(err).To(MatchError(ErrRefused))
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
	transport := NewTransport(outbound.Policy{AllowHosts: []string{"rebind.test"}, AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	_, err = fetch(t, transport, strings.Replace(origin.URL, "127.0.0.2", "rebind.test.", 1))
	g.Expect(err).To(MatchError(ErrRefused))
	g.Expect(outer.Load()).To(BeEquivalentTo(1), "the first address is permitted")
	g.Expect(inner.Load()).To(BeZero())
}

// TestResume: a download continues where it ended if the file is the same, and otherwise begins again.
func TestResume(t *testing.T) {
	g := NewWithT(t)
	var etag atomic.Value
	etag.Store(`"one"`)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Etag", etag.Load().(string))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader("0123456789"))
	})
	f := webFile(t, NewTransport(loopback), server.URL+"/file?token=x")
	g.Expect(f.Name()).To(Equal(server.URL + "/file"))
	read := func(offset int64) (string, int64) {
		body, err := f.Open(t.Context(), offset)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = body.Close() }()
		g.Expect(body.Size).To(BeEquivalentTo(10))
		content, err := io.ReadAll(body)
		g.Expect(err).NotTo(HaveOccurred())
		return string(content), body.Offset
	}
	content, offset := read(0)
	g.Expect(content).To(Equal("0123456789"))
	g.Expect(offset).To(BeZero())
	content, offset = read(4)
	g.Expect(content).To(Equal("456789"))
	g.Expect(offset).To(BeEquivalentTo(4))
	etag.Store(`"two"`)
	content, offset = read(4)
	g.Expect(content).To(Equal("0123456789"))
	g.Expect(offset).To(BeZero())
	etag.Store(`W/"two"`)
	_, _ = read(0)
	_, offset = read(4)
	g.Expect(offset).To(BeZero(), "a weak validator is not enough")
}
