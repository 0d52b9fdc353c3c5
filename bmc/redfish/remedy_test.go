package redfish_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

// TestWrongAddress: the error of a wrong address names the server that answers, and the remedy.
func TestWrongAddress(t *testing.T) {
	plain := httptest.NewServer(bmctest.NewMachine(bmctest.Options{Name: "s"}))
	t.Cleanup(plain.Close)
	secure := httptest.NewTLSServer(bmctest.NewMachine(bmctest.Options{Name: "s"}))
	t.Cleanup(secure.Close)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/redfish/v1/" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "\n<!DOCTYPE html><html><body>Welcome, secret visitor</body></html>")
	}))
	t.Cleanup(page.Close)
	missing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<html>404</html>")
	}))
	t.Cleanup(missing.Close)
	ca := newCA(t)
	named := httptest.NewUnstartedServer(bmctest.NewMachine(bmctest.Options{Name: "s"}))
	named.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(t, time.Now().Add(time.Hour), []string{"bmc.example"}, nil)}, MinVersion: tls.VersionTLS12}
	named.StartTLS()
	t.Cleanup(named.Close)
	ssh := speaker(t, "SSH-2.0-OpenSSH_9.2\r\n")
	for name, test := range map[string]struct {
		address, scheme string
		kind            bmc.Kind
		says            string
	}{
		"HTTPS to a port of HTTP": {plain.URL, redfish.Scheme, bmc.Failed, "write redfish+http://"},
		"HTTP to a port of HTTPS": {secure.URL, redfish.SchemeInsecure, bmc.Failed, "write redfish:// instead of redfish+http://"},
		"a web page":              {page.URL, redfish.SchemeInsecure, bmc.Failed, "the server answered with a web page instead of a Redfish resource: use the host and port"},
		"a web page of an error":  {missing.URL, redfish.SchemeInsecure, bmc.NotFound, "404 Not Found with a web page: use the host and port"},
		"HTTPS to SSH":            {"http://" + ssh, redfish.Scheme, bmc.Failed, "an SSH server answers there"},
		"HTTP to SSH":             {"http://" + ssh, redfish.SchemeInsecure, bmc.Failed, "the answer is not HTTP: an SSH server answers there"},
		"something else":          {"http://" + speaker(t, "220 visitor ready\r\n"), redfish.SchemeInsecure, bmc.Failed, "the answer is not HTTP: use the host and port"},
		"another name":            {named.URL, redfish.Scheme, bmc.BadCertificate, "use a name in the address that the certificate contains"},
		"an unknown issuer":       {secure.URL, redfish.Scheme, bmc.BadCertificate, "signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			u, err := url.Parse(test.address)
			g.Expect(err).NotTo(HaveOccurred())
			u.Scheme = test.scheme
			endpoint := bmc.Endpoint{URL: u, Username: "admin", Password: "secret"}
			if name == "another name" {
				endpoint.CA = ca.pem
			}
			_, err = newDriver(t).Open(t.Context(), endpoint)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(bmc.KindOf(err)).To(Equal(test.kind), "%v", err)
			g.Expect(bmc.WrongCertificate(err)).To(Equal(name == "another name"))
			g.Expect(err.Error()).NotTo(ContainSubstring("visitor"), "what a stranger says is not quoted")
		})
	}
}

// speaker listens, and answers each connection with a text after the first byte of the client.
func speaker(t *testing.T, banner string) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, 1))
			_, _ = io.WriteString(c, banner)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return listener.Addr().String()
}

// TestMessageOnce: a message that a BMC repeats, or refers to, is quoted once.
func TestMessageOnce(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"code":"Base.1.8.PropertyUnknown","message":"No such property","@Message.ExtendedInfo":[{"MessageId":"Base.1.8.PropertyUnknown","Message":"No such property"}]}}`:                       "the BMC answered 400 Bad Request: No such property",
		`{"error":{"code":"Base.1.8.GeneralError","message":"See @Message.ExtendedInfo for more information.","@Message.ExtendedInfo":[{"Message":"The port is busy."},{"Message":"The port is busy."}]}}`: "the BMC answered 400 Bad Request: The port is busy.",
		`{"error":{"code":"iLO.0.10.ExtendedInfo","message":"See @Message.ExtendedInfo","@Message.ExtendedInfo":[{"MessageId":"iLO.2.14.PropertyNotWritable","MessageArgs":["Mode"]}]}}`:                   "the BMC answered 400 Bad Request: iLO.2.14.PropertyNotWritable Mode",
		`{"error":{"code":"X","message":"Only this"}}`: "the BMC answered 400 Bad Request: Only this",
		`{"error":7}`: "the BMC answered 400 Bad Request",
	} {
		g := NewWithT(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/redfish/v1/" {
				_, _ = io.WriteString(w, "{}")
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, body)
		}))
		endpoint := endpointOf(t, server, redfish.SchemeInsecure)
		endpoint.URL.Path = "/redfish/v1/Systems/1"
		_, err := newDriver(t).Open(t.Context(), endpoint)
		g.Expect(err).To(MatchError("Read system /redfish/v1/Systems/1: " + want))
		server.Close()
	}
}
