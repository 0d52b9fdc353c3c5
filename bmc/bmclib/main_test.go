package bmclib

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	username = "admin"
	password = "correct horse staple"
)

// settle is how long a power command may take. These protocols do not show a fast restart, so the conformance suite waits for the whole time.
const settle = 3 * time.Second

// testDriver may connect to this machine, and has a short timeout.
func testDriver() *Driver {
	return &Driver{Permit: bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, CallTimeout: 10 * time.Second}
}

// impatient is a driver with a short timeout.
func impatient() *Driver {
	d := testDriver()
	d.CallTimeout = 300 * time.Millisecond
	return d
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// serveTLS serves a handler with TLS, and returns its address and its certificate.
func serveTLS(t *testing.T, handler http.Handler) (host string, ca []byte) {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// tarPit accepts connections and never answers.
func tarPit(t *testing.T) (host string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String() // the kernel takes the connections
}

// nobody is an address at which no program listens.
func nobody(t *testing.T) (host string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	return listener.Addr().String()
}

type openFunc func(context.Context, bmc.Endpoint) (bmc.Client, error)

// expectKind opens a BMC and expects an error in time and without secrets.
func expectKind(t *testing.T, open openFunc, endpoint bmc.Endpoint, want bmc.Kind) {
	t.Helper()
	g := NewWithT(t)
	start := time.Now()
	c, err := open(t.Context(), endpoint)
	g.Expect(err).To(HaveOccurred())
	g.Expect(c).To(BeNil())
	g.Expect(bmc.KindOf(err)).To(Equal(want), "%v", err)
	g.Expect(time.Since(start)).To(BeNumerically("<", 8*time.Second))
	if endpoint.Password != "" {
		g.Expect(err.Error()).NotTo(ContainSubstring(endpoint.Password))
	}
	g.Expect(len(err.Error())).To(BeNumerically("<", 500))
}

// webServerFaults are faults of HTTP servers.
func webServerFaults(t *testing.T, scheme, suffix string, open func(*Driver) openFunc) {
	t.Helper()
	endpoint := func(host string, ca []byte) bmc.Endpoint {
		return bmc.Endpoint{URL: parse(t, scheme+"://"+host+suffix), Username: username, Password: password, CA: ca}
	}
	t.Run("nobody listens", func(t *testing.T) {
		expectKind(t, open(testDriver()), endpoint(nobody(t), nil), bmc.Unreachable)
	})
	t.Run("tar pit", func(t *testing.T) {
		expectKind(t, open(impatient()), endpoint(tarPit(t), nil), bmc.Unreachable)
	})
	t.Run("the address is not permitted", func(t *testing.T) {
		host, ca := serveTLS(t, http.NotFoundHandler())
		expectKind(t, open(&Driver{}), endpoint(host, ca), bmc.Unreachable)
	})
	t.Run("the certificate does not verify", func(t *testing.T) {
		host, _ := serveTLS(t, http.NotFoundHandler())
		expectKind(t, open(testDriver()), endpoint(host, nil), bmc.BadCertificate)
	})
	t.Run("the CA is no certificate", func(t *testing.T) {
		expectKind(t, open(testDriver()), endpoint("127.0.0.1:1", []byte("x")), bmc.BadCertificate)
	})
	for _, c := range []struct {
		name  string
		want  bmc.Kind
		serve http.HandlerFunc
	}{
		{"not found", bmc.NotFound, http.NotFound},
		{"redirect", bmc.Failed, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://192.0.2.1/", http.StatusTemporaryRedirect)
		}},
		{"garbage", bmc.Failed, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Digest realm`)
			_, _ = w.Write([]byte("<html>\x00{]"))
		}},
		{"endless body", bmc.Failed, func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write([]byte(strings.Repeat("x", 4096))); err != nil {
					return
				}
			}
		}},
		{"the connection ends", bmc.Unreachable, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			host, ca := serveTLS(t, c.serve)
			expectKind(t, open(testDriver()), endpoint(host, ca), c.want)
		})
	}
	t.Run("busy says when to come back", func(t *testing.T) {
		host, ca := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
		_, err := open(testDriver())(t.Context(), endpoint(host, ca))
		g := NewWithT(t)
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
		g.Expect(bmc.RetryAfter(err)).To(Equal(7 * time.Second))
	})
}

func itoa(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
