package pxe

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// gate is a Booter with one seed, which only the token "right" opens. It records the clients.
type gate struct {
	err error // for clients with the token

	mu    sync.Mutex
	asked []netip.Addr
}

func (g *gate) open(token string, from netip.Addr) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, from)
	if token != "right" {
		return errors.Join(ErrRefused, errors.New("wrong token"))
	}
	return g.err
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asked)
}

func (g *gate) Lookup(context.Context, net.HardwareAddr) (Answer, error)    { return Answer{}, nil }
func (g *gate) Lease(context.Context, LeaseRequest) (Lease, error)          { return Lease{}, ErrRefused }
func (g *gate) Decline(context.Context, net.HardwareAddr, netip.Addr) error { return nil }
func (g *gate) Admit(context.Context, net.HardwareAddr, netip.Addr) error   { return ErrRefused }
func (g *gate) ObserveStage(net.HardwareAddr, Stage, netip.Addr, string)    {}
func (g *gate) ObserveWaiting(net.HardwareAddr, netip.Addr, int)            {}
func (g *gate) ObserveFailure(net.HardwareAddr, error)                      {}
func (g *gate) Script(context.Context, net.HardwareAddr, netip.Addr) (Script, error) {
	return Script{}, ErrRefused
}

func (g *gate) KnowsSeedToken(_ context.Context, _, token string) bool { return token == "right" }

func (g *gate) BootstrapData(_ context.Context, _, token, _ string, from netip.Addr) (seed.Data, error) {
	return seed.Data{UserData: []byte("the bootstrap data")}, g.open(token, from)
}

func (g *gate) Report(_ context.Context, _, token string, _ Outcome, from netip.Addr) error {
	return g.open(token, from)
}

func newHandler(g *gate) *Handler {
	return &Handler{Booter: g, Log: logr.Discard(), BaseURL: func(netip.Addr) string { return "http://192.0.2.1" }}
}

// ask is a request from an address.
func ask(handler http.Handler, method, path, from string, header http.Header) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", strings.NewReader(""))
	request.Method, request.URL, request.RemoteAddr = method, &url.URL{Path: path}, from
	maps.Copy(request.Header, header)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

// TestOneRefusal: whatever the reason of a refusal is, the answer is the same to the last byte.
func TestOneRefusal(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(newHandler(&gate{}).Mux())
	defer server.Close()
	var answers []string
	for _, request := range []struct{ method, path string }{
		{http.MethodGet, "/seed/dc/h/wrong/user-data"},
		{http.MethodGet, "/seed/dc/unknown/wrong/meta-data"},
		{http.MethodGet, "/seed/dc/h/right/nothing-of-that-name"},
		{http.MethodGet, "/seed/dc/h/right"},
		{http.MethodPost, "/report/dc/h/wrong/up"},
		{http.MethodPost, "/report/dc/h/right/perhaps"},
		{http.MethodGet, "/report/dc/h/right/up"},
		{http.MethodGet, "/ipxe/52-54-00-00-00-01"},
		{http.MethodGet, "/ipxe/garbage"},
		{http.MethodPut, "/ipxe/52-54-00-00-00-01"},
		{http.MethodGet, "/boot/52-54-00-00-00-01/0"},
		{http.MethodGet, "/boot/52-54-00-00-00-01/first"},
		{http.MethodGet, "/boot/garbage/0"},
		{http.MethodGet, "/"},
		{http.MethodGet, "/anything"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), request.method, server.URL+request.path, nil)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(r)
		g.Expect(err).NotTo(HaveOccurred())
		body, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		response.Header.Del("Date")
		var answer strings.Builder
		answer.WriteString(response.Status + "\n")
		g.Expect(response.Header.Write(&answer)).To(Succeed()) // sorted
		answers = append(answers, answer.String()+string(body))
	}
	g.Expect(answers).To(HaveEach(answers[0]))
	g.Expect(answers[0]).To(Equal("403 Forbidden\nCache-Control: no-store\r\nContent-Length: 8\r\nContent-Type: text/plain; charset=utf-8\r\nrefused\n"))
}

// TestErrorsTellNothing: an internal error is logged, and never sent to the client.
func TestErrorsTellNothing(t *testing.T) {
	g := NewWithT(t)
	answer := ask(newHandler(&gate{err: errors.New("the API server says: something")}).Mux(), http.MethodGet, "/seed/dc/h/right/user-data", "192.0.2.9:1", nil)
	g.Expect(answer.Code).To(Equal(http.StatusServiceUnavailable), "an operating system asks again")
	g.Expect(answer.Body.String()).To(Equal("not now\n"))
}

// TestGuessing: after twenty failed attempts an address is refused without a check, with the same bytes. Other addresses are not, and it can try again later.
func TestGuessing(t *testing.T) {
	g := NewWithT(t)
	booter := &gate{}
	mux := newHandler(booter).Mux()
	limited := testutil.ToFloat64(requests.WithLabelValues("seed", outcomeLimited))
	answers := map[string]int{}
	for range 100 {
		answer := ask(mux, http.MethodGet, "/seed/dc/h/guess/user-data", "192.0.2.9:1", nil)
		answers[answer.Result().Status+answer.Body.String()]++
	}
	g.Expect(answers).To(HaveLen(1), "a limited client sees no difference")
	g.Expect(booter.count()).To(And(BeNumerically(">=", failureBurst), BeNumerically("<", failureBurst+10)))
	g.Expect(testutil.ToFloat64(requests.WithLabelValues("seed", outcomeLimited)) - limited).To(BeNumerically(">", 70))
	spend := func() { // one attempt comes back each second
		for heard := -1; heard != booter.count(); {
			heard = booter.count()
			ask(mux, http.MethodGet, "/seed/dc/h/guess/user-data", "192.0.2.9:1", nil)
		}
	}
	spend()
	g.Expect(ask(mux, http.MethodGet, "/seed/dc/h/right/user-data", "192.0.2.9:1", nil).Code).To(Equal(http.StatusForbidden), "not even with the token")
	spend()
	g.Expect(ask(mux, http.MethodPost, "/report/dc/h/right/up", "192.0.2.9:1", nil).Code).To(Equal(http.StatusForbidden), "nor elsewhere")
	g.Expect(ask(mux, http.MethodGet, "/seed/dc/h/right/user-data", "192.0.2.10:1", nil).Code).To(Equal(http.StatusOK))
	g.Eventually(func() int { return ask(mux, http.MethodGet, "/seed/dc/h/right/user-data", "192.0.2.9:1", nil).Code }, "10s").Should(Equal(http.StatusOK))
}

// TestNamesOfNothing: a name that no object can have is a failed attempt: it gets the same answer, and counts against the limit.
func TestNamesOfNothing(t *testing.T) {
	for _, path := range []string{"/seed/dc/b%25/TOKEN/user-data", "/seed/d%2Fc/h/TOKEN/user-data", "/seed/dc/H/TOKEN/user-data", "/report/dc/h%20/TOKEN/up"} {
		g := NewWithT(t)
		booter := &gate{}
		mux := newHandler(booter).Mux()
		method := http.MethodGet
		if strings.HasPrefix(path, "/report/") {
			method = http.MethodPost
		}
		limited := testutil.ToFloat64(requests.WithLabelValues(strings.Split(path, "/")[1], outcomeLimited))
		for range 3 * failureBurst {
			g.Expect(ask(mux, method, path, "192.0.2.9:1", nil).Code).To(Equal(http.StatusForbidden), path)
		}
		g.Expect(booter.count()).To(BeZero(), "the Booter was not called")
		g.Expect(testutil.ToFloat64(requests.WithLabelValues(strings.Split(path, "/")[1], outcomeLimited)) - limited).To(BeNumerically(">", failureBurst))
	}
}

// TestAskingAgain: a client with the right token may ask any number of times, also for files that its seed does not have, and during an
// internal error.
func TestAskingAgain(t *testing.T) {
	g := NewWithT(t)
	booter := &gate{}
	mux := newHandler(booter).Mux()
	for range 3 * failureBurst {
		g.Expect(ask(mux, http.MethodGet, "/seed/dc/h/right/meta-data", "192.0.2.9:1", nil).Code).To(Equal(http.StatusOK))
		g.Expect(ask(mux, http.MethodGet, "/seed/dc/h/right/nothing", "192.0.2.9:1", nil).Code).To(Equal(http.StatusForbidden))
		g.Expect(ask(mux, http.MethodGet, "/boot/52-54-00-00-00-01/0", "192.0.2.9:1", nil).Code).To(Equal(http.StatusForbidden))
		g.Expect(ask(mux, http.MethodGet, "/grub/x86_64-efi/command.lst", "192.0.2.9:1", nil).Code).To(Equal(http.StatusForbidden), "GRUB looks for much")
	}
	booter.err = errors.New("the API server is away")
	for range 3 * failureBurst {
		g.Expect(ask(mux, http.MethodGet, "/seed/dc/h/right/meta-data", "192.0.2.9:1", nil).Code).To(Equal(http.StatusServiceUnavailable))
	}
	booter.err = nil
	g.Expect(ask(mux, http.MethodGet, "/seed/dc/h/right/user-data", "192.0.2.9:1", nil).Code).To(Equal(http.StatusOK))
}

// TestHead: a HEAD binds nothing: the Booter is not called.
func TestHead(t *testing.T) {
	g := NewWithT(t)
	booter := &gate{}
	for _, path := range []string{"/seed/dc/h/right/user-data", "/ipxe/52-54-00-00-00-01", "/report/dc/h/right/up"} {
		answer := ask(newHandler(booter).Mux(), http.MethodHead, path, "192.0.2.9:1", nil)
		g.Expect(answer.Code).To(Equal(http.StatusForbidden))
	}
	g.Expect(booter.count()).To(BeZero())
}

// TestClientAddress: the address is that of the connection, in a canonical form, and headers are ignored. A connection without
// an address gets nothing.
func TestClientAddress(t *testing.T) {
	for from, want := range map[string]string{
		"192.0.2.9:4711": "192.0.2.9", "[::ffff:192.0.2.9]:4711": "192.0.2.9", "[2001:db8::9]:1": "2001:db8::9",
		"[2001:DB8:0::9]:1": "2001:db8::9", "[fe80::9%eth0]:1": "fe80::9", "[fe80::9]:1": "fe80::9",
	} {
		t.Run(from, func(t *testing.T) {
			g := NewWithT(t)
			booter := &gate{}
			forged := http.Header{}
			for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Client-Ip", "True-Client-Ip"} {
				forged.Set(name, "198.51.100.1")
			}
			forged.Set("Forwarded", "for=198.51.100.1")
			g.Expect(ask(newHandler(booter).Mux(), http.MethodGet, "/seed/dc/h/right/user-data", from, forged).Code).To(Equal(http.StatusOK))
			g.Expect(booter.asked).To(Equal([]netip.Addr{netip.MustParseAddr(want)}))
		})
	}
	g := NewWithT(t)
	booter := &gate{}
	g.Expect(ask(newHandler(booter).Mux(), http.MethodGet, "/seed/dc/h/right/user-data", "@", nil).Code).To(Equal(http.StatusForbidden))
	g.Expect(booter.count()).To(BeZero())
}

// TestAnswersAreNotKept: no cache stores an answer, and secrets are not compressed together with data that a stranger chooses.
func TestAnswersAreNotKept(t *testing.T) {
	g := NewWithT(t)
	mux := newHandler(&gate{}).Mux()
	for method, path := range map[string]string{http.MethodGet: "/seed/dc/h/right/user-data", http.MethodPost: "/report/dc/h/right/up"} {
		answer := ask(mux, method, path, "192.0.2.9:1", http.Header{"Accept-Encoding": {"gzip"}})
		g.Expect(answer.Code / 100).To(Equal(2))
		g.Expect(answer.Header().Get("Cache-Control")).To(Equal("no-store"))
		g.Expect(answer.Header()).NotTo(HaveKey("Content-Encoding"))
	}
}

// TestLogOfRefusals: the number of log lines is bounded, and none contains a token.
func TestLogOfRefusals(t *testing.T) {
	g := NewWithT(t)
	var lines []string
	handler := newHandler(&gate{})
	handler.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 10})
	mux := handler.Mux()
	for range 1000 {
		ask(mux, http.MethodGet, "/seed/dc/h/guessed-token/user-data", "192.0.2.9:1", nil)
	}
	g.Expect(len(lines)).To(And(BeNumerically(">=", 50), BeNumerically("<", 100)))
	g.Expect(lines).To(HaveEach(And(ContainSubstring("192.0.2.9"), Not(ContainSubstring("guessed-token")))))
}

// TestTriesAreBounded: a client with many addresses cannot fill the memory.
func TestTriesAreBounded(t *testing.T) {
	g := NewWithT(t)
	tries := newAttemptLimiter()
	address := netip.MustParseAddr("2001:db8::")
	for range 2 * maxLimiters {
		address = address.Next()
		tries.countFailure(address)
	}
	g.Expect(tries.addresses.Len()).To(Equal(maxLimiters))
	for i := range 2 * maxLimiters {
		tries.countFailure(netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(i >> 8), byte(i)}))
	}
	g.Expect(tries.prefixes.Len()).To(Equal(maxLimiters))
}

// TestTriesOfALink: 64 servers of a rack whose addresses are in one IPv6 /64 have the failed attempts of one address each, and none is refused. One client that
// uses another address of the /64 for each attempt is refused soon.
func TestTriesOfALink(t *testing.T) {
	g := NewWithT(t)
	booting := newAttemptLimiter()
	server := netip.MustParseAddr("2001:db8::")
	for range 64 {
		server = server.Next()
		for range failureBurst {
			g.Expect(booting.allowed(server)).To(BeTrue())
			booting.countFailure(server)
		}
	}

	guessing := newAttemptLimiter()
	address, heard := netip.MustParseAddr("2001:db8::"), 0
	for range 10_000 {
		address = address.Next()
		if guessing.allowed(address) {
			heard++
			guessing.countFailure(address)
		}
	}
	g.Expect(heard).To(BeNumerically("<", 5000))
	g.Expect(guessing.allowed(netip.MustParseAddr("2001:db8:0:1::1"))).To(BeTrue(), "another /64")
	g.Expect(guessing.allowed(netip.MustParseAddr("192.0.2.1"))).To(BeTrue())
}

// FuzzHandler: no request makes the server panic, and no client gets the seed without its token.
func FuzzHandler(f *testing.F) {
	for _, path := range []string{
		"/seed/dc/h/guess/user-data", "/seed/dc/h/right/user-data", "/seed/../../right", "/ipxe/52-54-00-00-00-01", "/ipxe/%", "/boot/52-54-00-00-00-01/-1",
		"/boot/52-54-00-00-00-01/99999999999999999999", "/loader/52-54-00-00-00-01/../../etc/passwd", "/report/dc/h/right/up", "//", "",
	} {
		f.Add(http.MethodGet, path, "192.0.2.9:1")
	}
	f.Add(http.MethodPost, "/report/dc/h/wrong/up", "[fe80::1%0]:x")
	f.Add(http.MethodConnect, "*", "")
	f.Fuzz(func(t *testing.T, method, path, from string) {
		handler := newHandler(&gate{})
		answer := ask(handler.Mux(), method, path, from, nil)
		if strings.Contains(answer.Body.String(), "the bootstrap data") && !strings.Contains(path, "/right/") {
			t.Fatalf("%s %q from %q got the seed", method, path, from)
		}
	})
}
