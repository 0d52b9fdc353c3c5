package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// writeCertificate writes a certificate for the boot server, and returns a pool that trusts it.
func writeCertificate(t *testing.T, dir string, serial int64) *x509.CertPool {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "boot"}, IPAddresses: []net.IP{bootAddress.AsSlice()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalPKCS8PrivateKey(key)
	g.Expect(err).NotTo(HaveOccurred())
	// As kubelet does it: the new file replaces the old one atomically.
	put := func(name, kind string, content []byte) []byte {
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content})
		g.Expect(os.WriteFile(filepath.Join(dir, "new"), text, 0o600)).To(Succeed())
		g.Expect(os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, name))).To(Succeed())
		return text
	}
	put("tls.key", "PRIVATE KEY", private)
	pool := x509.NewCertPool()
	g.Expect(pool.AppendCertsFromPEM(put("tls.crt", "CERTIFICATE", certificate))).To(BeTrue())
	return pool
}

func httpsClient(pool *x509.CertPool) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
}

// TestHTTPS: with a certificate, bootstrap data and reports use HTTPS only, scripts name HTTPS URLs, and a replaced certificate is
// used without a restart.
func TestHTTPS(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	content.Store("good")
	booter := newBooter(t, &content)
	dir, loaders := t.TempDir(), t.TempDir()
	first := writeCertificate(t, dir, 1)
	g.Expect(pxetest.WriteLoaders(loaders, "snponly.efi")).To(Succeed())
	at := func() string { return netip.AddrPortFrom(bootAddress, freePort(t)).String() }
	plain, secure := at(), at()
	s := &server.Server{Booter: booter, Log: logr.Discard(), Config: server.Config{
		Networks:    []bootconfig.Network{{Name: "test", Mode: bootconfig.Off, Address: bootAddress, URL: "http://" + plain}},
		HTTPAddress: plain, LoaderDirs: []string{loaders},
		HTTPSAddress: secure, HTTPSBaseURL: "https://" + secure, CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
		Artifacts: artifact.Options{Dir: t.TempDir(), Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, RetryAfter: 1},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	g.Expect(s.Ready(nil)).To(MatchError(ContainSubstring("does not listen yet")))
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	g.Eventually(func() error { return s.Ready(nil) }).Should(Succeed())

	get := func(client *http.Client, url string) (int, string, error) {
		response, err := client.Get(url) //nolint:noctx // the lab's own
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, string(body), err
	}
	script := "/ipxe/52-54-00-00-00-01"
	g.Eventually(func() (string, error) {
		_, body, err := get(http.DefaultClient, "http://"+plain+script)
		return body, err
	}, "30s").Should(And(
		ContainSubstring("kernel --name kernel http://"+plain+"/boot/"), ContainSubstring("ds=nocloud;dsmode=net;s=https://"+secure+"/seed/dc/h/token/ ")))
	_, body, err := get(httpsClient(first), "https://"+secure+script)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(body).To(ContainSubstring("kernel --name kernel https://"+secure+"/boot/"), "a client that came over HTTPS gets HTTPS URLs")

	seed := pxe.SeedPath("dc/h", "token") + "/"
	code, _, err := get(http.DefaultClient, "http://"+plain+seed+"user-data")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(code).To(Equal(http.StatusForbidden), "the token is not even looked at")
	code, body, err = get(httpsClient(first), "https://"+secure+seed+"user-data")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(body).To(Equal("#cloud-config\n"))
	_, body, err = get(httpsClient(first), "https://"+secure+seed+"vendor-data")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(body).To(ContainSubstring("https://" + secure + "/report/"))
	response, err := http.Post("http://"+plain+pxe.ReportPath("dc/h", "token", pxe.Up), "", nil) //nolint:noctx // the lab's own
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	g.Expect(response.StatusCode).To(Equal(http.StatusForbidden))
	g.Expect(booter.Reports()).To(BeZero())

	second := writeCertificate(t, dir, 2)
	g.Eventually(func() error {
		_, _, err := get(httpsClient(second), "https://"+secure+script)
		return err
	}, "30s").Should(Succeed())
	_, _, err = get(httpsClient(first), "https://"+secure+script)
	g.Expect(err).To(MatchError(ContainSubstring("certificate")), "the old one is gone")
}

// TestStart: an error of a certificate or a listener ends the start, and the error names it.
func TestStart(t *testing.T) {
	g := NewWithT(t)
	booter := &pxetest.Booter{}
	s := &server.Server{Booter: booter, Log: logr.Discard(), Config: server.Config{
		Networks: []bootconfig.Network{{Name: "test", Mode: bootconfig.Off}}, HTTPAddress: "127.0.80.1:0", HTTPSAddress: "127.0.80.1:0", CertFile: "/nowhere", Artifacts: artifact.Options{Dir: t.TempDir()},
	}}
	g.Expect(s.Start(t.Context())).To(MatchError(ContainSubstring("read the certificate of HTTPS: open /nowhere")))
}

// TestLoaderThatIsWrong: the server starts without an invalid boot loader, and is not ready: the other loaders are served, and operators notice.
func TestLoaderThatIsWrong(t *testing.T) {
	g := NewWithT(t)
	loaders := t.TempDir()
	g.Expect(pxetest.WriteLoaders(loaders, "snponly.efi", "undionly.kpxe")).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(loaders, "snponly.efi"), []byte("something else"), 0o600)).To(Succeed())
	address := netip.AddrPortFrom(bootAddress, freePort(t)).String()
	s := &server.Server{Booter: &pxetest.Booter{}, Log: logr.Discard(), Config: server.Config{
		Networks: []bootconfig.Network{{Name: "test", Mode: bootconfig.Off}}, HTTPAddress: address, LoaderDirs: []string{loaders}, Artifacts: artifact.Options{Dir: t.TempDir()},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	g.Eventually(func() error { return s.Ready(nil) }).Should(MatchError(ContainSubstring("boot loader " + loaders + "/snponly.efi is not served: its SHA-256 checksum is")))
	for file, want := range map[string]int{"snponly.efi": http.StatusForbidden, "undionly.kpxe": http.StatusOK} {
		response, err := http.Get("http://" + address + "/loader/" + file) //nolint:noctx // the lab's own
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(want), file)
	}
	cancel()
	g.Expect(<-done).To(Succeed())
}
