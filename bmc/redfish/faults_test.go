package redfish_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

// TestUnwell: faults that the driver cannot work around are errors of the right kind, in time.
func TestUnwell(t *testing.T) {
	for fault, kind := range map[bmctest.Fault]bmc.Kind{
		bmctest.Down:              bmc.Unreachable,
		bmctest.Hang:              bmc.Unreachable,
		bmctest.Drip:              bmc.Unreachable,
		bmctest.EndlessBody:       bmc.Failed,
		bmctest.TruncatedJSON:     bmc.Failed,
		bmctest.Busy503:           bmc.Unreachable,
		bmctest.RedirectElsewhere: bmc.Failed,
	} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			machine, endpoint := newMachine(t)
			driver := newDriver(t)
			driver.RequestTimeout = time.Minute
			if fault == bmctest.Hang || fault == bmctest.Drip {
				driver.RequestTimeout = 3 * time.Second // only time ends these
			}
			opened, err := driver.Open(t.Context(), endpoint)
			g.Expect(err).NotTo(HaveOccurred())
			misbehave(t, machine, fault, -1)
			_, err = opened.PowerState(t.Context())
			g.Expect(err).To(HaveOccurred())
			g.Expect(bmc.KindOf(err)).To(Equal(kind), "%v", err)
			var typed *bmc.Error
			g.Expect(errors.As(err, &typed)).To(BeTrue(), "every error says what it is: %v", err)
			_, err = driver.Open(t.Context(), endpoint)
			g.Expect(err).To(HaveOccurred())
			g.Expect(bmc.KindOf(err)).To(Equal(kind), "%v", err)
			g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
		})
	}
}

// TestBusy: after 503 with a short Retry-After, requests and commands are repeated. A permanent 503 is an error with the time to
// retry.
func TestBusy(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t)
	c := open(t, endpoint)
	misbehave(t, machine, bmctest.Busy503, 1)
	g.Expect(c.PowerOn(t.Context())).To(Succeed())
	g.Expect(machine.CommandNames()).To(Equal([]string{"On"}))
	misbehave(t, machine, bmctest.Busy503, -1)
	_, err := c.PowerState(t.Context())
	g.Expect(bmc.RetryAfter(err)).To(Equal(time.Second))
}

// TestSlow: the driver waits for a slow BMC.
func TestSlow(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newMachine(t, bmctest.Slow)
	g.Expect(open(t, endpoint).PowerState(t.Context())).To(Equal(bmc.PowerOff))
}

// TestRedirect: no credentials go to another host.
func TestRedirect(t *testing.T) {
	g := NewWithT(t)
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(bad.Close)
	_, err := newDriver(t).Open(t.Context(), endpointOf(t, bad, redfish.SchemeInsecure))
	g.Expect(err).To(MatchError(ContainSubstring("the BMC redirects to another host")))
	g.Expect(asked.Load()).To(BeZero())
}

// TestLinksElsewhere: links cannot send the credentials to another host.
func TestLinksElsewhere(t *testing.T) {
	g := NewWithT(t)
	var leaked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Store(true) }))
	t.Cleanup(elsewhere.Close)
	host := strings.TrimPrefix(elsewhere.URL, "http://")
	for _, target := range []string{elsewhere.URL + "/x", "@" + host + "/x", "//" + host + "/x", ":x@" + host + "/x"} {
		bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/redfish/v1" || r.URL.Path == "/redfish/v1/" {
				_, _ = w.Write([]byte(`{"Systems":{"@odata.id":"/redfish/v1/Systems"}}`))
				return
			}
			_, _ = w.Write([]byte(`{"Members":[{"@odata.id":"` + target + `"}],"Members@odata.nextLink":"` + target + `"}`))
		}))
		_, err := newDriver(t).Open(t.Context(), endpointOf(t, bad, redfish.SchemeInsecure))
		g.Expect(err).To(HaveOccurred())
		bad.Close()
	}
	g.Expect(leaked.Load()).To(BeFalse())
}

// TestSessionElsewhere: the paths of the session collection and of a session cannot send the credentials to another host.
func TestSessionElsewhere(t *testing.T) {
	g := NewWithT(t)
	var leaked atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Store(true) }))
	t.Cleanup(elsewhere.Close)
	host := "@" + strings.TrimPrefix(elsewhere.URL, "http://")
	for _, where := range []struct{ sessions, location string }{{host + "/s", "/s/1"}, {"/s", host + "/s/1"}, {"/s", elsewhere.URL + "/s/1"}, {"/s", ""}} {
		bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.Header().Set("X-Auth-Token", "token")
				w.Header().Set("Location", where.location)
				w.WriteHeader(http.StatusCreated)
				return
			}
			_, _ = w.Write([]byte(`{"Links":{"Sessions":{"@odata.id":"` + where.sessions + `"}},"PowerState":"On"}`))
		}))
		endpoint := endpointOf(t, bad, redfish.SchemeInsecure)
		endpoint.URL.RawQuery, endpoint.URL.Path = "auth=session", "/redfish/v1/Systems/1"
		c, err := newDriver(t).Open(t.Context(), endpoint)
		if err == nil {
			_ = c.Close(t.Context()) // the test checks that it is refused
		}
		bad.Close()
	}
	g.Expect(leaked.Load()).To(BeFalse())
}

// TestRefusedInMidJob: a password change during a job causes one refusal, and no inventory.
func TestRefusedInMidJob(t *testing.T) {
	for _, query := range []string{"", "auth=session"} {
		g := NewWithT(t)
		machine := bmctest.NewMachine(bmctest.Options{Name: "s", Username: "admin", Password: "secret"})
		var asked atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 6 {
				machine.SetPassword("changed")
				if err := machine.Misbehave(bmctest.Unauthorized401, 1); err != nil {
					t.Error(err)
				}
			}
			machine.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		endpoint := endpointOf(t, server, redfish.SchemeInsecure)
		endpoint.URL.RawQuery = query
		c := open(t, endpoint)
		_, err := c.Inspect(t.Context())
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized), "%v", err)
		_, err = c.PowerState(t.Context())
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
		g.Expect(machine.Refused()).To(Equal(1))
		g.Expect(machine.Sessions()).To(BeZero())
	}
}

// TestGoneInMidJob: if the BMC becomes unreachable during an inspection, there is no incomplete inventory.
func TestGoneInMidJob(t *testing.T) {
	g := NewWithT(t)
	machine := bmctest.NewMachine(bmctest.Options{Name: "s", Username: "admin", Password: "secret"})
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) > 8 {
			panic(http.ErrAbortHandler)
		}
		machine.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	_, err := open(t, endpointOf(t, server, redfish.SchemeInsecure)).Inspect(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable), "%v", err)
	g.Expect(asked.Load()).To(BeNumerically("<=", 10), "it is not asked for the rest")
}

// TestForbidden: a missing privilege is not a refused login: the next request may be allowed.
func TestForbidden(t *testing.T) {
	g := NewWithT(t)
	machine, _ := newMachine(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		machine.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := open(t, endpointOf(t, server, redfish.SchemeInsecure))
	err := c.PowerOn(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
	g.Expect(err).To(MatchError(ContainSubstring("the account may lack the privilege")))
	g.Expect(c.PowerState(t.Context())).To(Equal(bmc.PowerOff))
}

// TestPendingOverride: a pending override of the settings object is returned.
func TestPendingOverride(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t, bmctest.OverrideAtSettings)
	c := open(t, endpoint)
	_, err := c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}, "")
	g.Expect(err).NotTo(HaveOccurred())
	override, err := c.BootOverride(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(override.Target).To(Equal(bmc.BootPXE))
	_, err = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootNone}, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(machine.Override().Target).To(Equal(bmc.BootNone))
}

// TestSessions: a session is closed even if Open fails. A session that the BMC has ended is replaced once for a request.
func TestSessions(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t)
	endpoint.URL.RawQuery = "auth=session"
	c := open(t, endpoint)
	g.Expect(machine.Sessions()).To(Equal(1))
	misbehave(t, machine, bmctest.Unauthorized401, 1)
	g.Expect(c.PowerOn(t.Context())).To(Succeed())
	g.Expect(machine.CommandNames()).To(Equal([]string{"On"}))
	g.Expect(machine.Sessions()).To(Equal(1))
	misbehave(t, machine, bmctest.Unauthorized401, -1)
	_, err := c.PowerState(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
	misbehave(t, machine, bmctest.Unauthorized401, 0)

	nowhere := endpoint
	u := *endpoint.URL
	u.Path, nowhere.URL = "/redfish/v1/Systems/7", &u
	before := machine.Sessions()
	_, err = newDriver(t).Open(t.Context(), nowhere)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.NotFound))
	g.Expect(machine.Sessions()).To(Equal(before))
}

// TestWrongPasswordOnce: one login attempt causes one refusal, with and without sessions.
func TestWrongPasswordOnce(t *testing.T) {
	for _, query := range []string{"", "auth=session"} {
		g := NewWithT(t)
		machine, endpoint := newMachine(t)
		endpoint.URL.RawQuery, endpoint.Password = query, "guess"
		_, err := newDriver(t).Open(t.Context(), endpoint)
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
		g.Expect(machine.Refused()).To(Equal(1))
		g.Expect(err.Error()).NotTo(ContainSubstring("guess"))
	}
}

// TestRebootMidCall: a command without a response is not repeated, because it took effect.
func TestRebootMidCall(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t)
	endpoint.URL.RawQuery = "auth=session"
	c := open(t, endpoint)
	misbehave(t, machine, bmctest.RebootMidCall, 1)
	err := c.PowerOn(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable), "%v", err)
	g.Expect(machine.CommandNames()).To(Equal([]string{"On"}))
	g.Expect(c.PowerState(t.Context())).To(Equal(bmc.PowerOn), "the session that the BMC forgot is replaced")
}

// TestPermit: addresses of this machine are refused, also by name.
func TestPermit(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t)
	strict := newDriver(t)
	strict.Permit = bmc.AllowList{}
	_, err := strict.Open(t.Context(), endpoint)
	g.Expect(err).To(MatchError(ContainSubstring("127.0.0.1 is a loopback, link-local, multicast or reserved address: the provider connects to BMCs there only if bmcs.allowNetworks")))
	endpoint.URL.Host = strings.Replace(endpoint.URL.Host, "127.0.0.1", "localhost", 1)
	_, err = strict.Open(t.Context(), endpoint)
	g.Expect(err).To(HaveOccurred())
	g.Expect(machine.Refused()).To(BeZero())
}

// TestCertificates: expired, for another name, by an unknown issuer: refused. By the CA that is given, for the name or for the IP
// address: taken; and another CA is used from the next connection on.
func TestCertificates(t *testing.T) {
	g := NewWithT(t)
	machine, _ := newMachine(t)
	ca, other := newCA(t), newCA(t)
	serve := func(certificate tls.Certificate) bmc.Endpoint {
		server := httptest.NewUnstartedServer(machine)
		server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		server.StartTLS()
		t.Cleanup(server.Close)
		endpoint := endpointOf(t, server, redfish.Scheme)
		endpoint.CA = ca.pem
		return endpoint
	}
	tomorrow := time.Now().Add(24 * time.Hour)
	byIP := serve(ca.issue(t, tomorrow, nil, net.IPv4(127, 0, 0, 1)))
	open(t, byIP)
	byName := serve(ca.issue(t, tomorrow, []string{"localhost"}, nil))
	byName.URL.Host = strings.Replace(byName.URL.Host, "127.0.0.1", "localhost", 1)
	open(t, byName)
	for name, endpoint := range map[string]bmc.Endpoint{
		"expired":        serve(ca.issue(t, time.Now().Add(-time.Hour), nil, net.IPv4(127, 0, 0, 1))),
		"another name":   serve(ca.issue(t, tomorrow, []string{"bmc.example"}, nil)),
		"unknown issuer": serve(other.issue(t, tomorrow, nil, net.IPv4(127, 0, 0, 1))),
	} {
		_, err := newDriver(t).Open(t.Context(), endpoint)
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.BadCertificate), "%s: %v", name, err)
	}
	// One driver, the CA in the Secret replaced: no restart.
	driver := newDriver(t)
	rotated := serve(other.issue(t, tomorrow, nil, net.IPv4(127, 0, 0, 1)))
	_, err := driver.Open(t.Context(), rotated)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.BadCertificate))
	rotated.CA = other.pem
	_, err = driver.Open(t.Context(), rotated)
	g.Expect(err).NotTo(HaveOccurred())
}

// authority is a certificate authority for tests.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newCA(t *testing.T) authority {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA"}, NotAfter: time.Now().Add(time.Hour * 48),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	certificate, err := x509.ParseCertificate(der)
	g.Expect(err).NotTo(HaveOccurred())
	return authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a authority) issue(t *testing.T, until time.Time, names []string, ip net.IP) tls.Certificate {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: until, DNSNames: names}
	if ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	g.Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// severalSystems is a service of two servers.
func severalSystems() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/redfish/v1", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) })
	mux.HandleFunc("/redfish/v1/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"PowerState":"On"}`)) })
	mux.HandleFunc("/redfish/v1/Systems", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"Members":[{"@odata.id":"/redfish/v1/Systems/1"},{"@odata.id":"/redfish/v1/Systems/2"}]}`))
	})
	return mux
}
