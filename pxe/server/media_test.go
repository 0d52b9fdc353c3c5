package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// mediaLab is a boot server that serves boot media over HTTP and HTTPS.
type mediaLab struct {
	plain, secure string // URLs
	pool          *x509.CertPool
	media         *pxetest.Media
}

func newMediaLab(t *testing.T) *mediaLab {
	t.Helper()
	g := NewWithT(t)
	dir, loaders, agents := t.TempDir(), t.TempDir(), t.TempDir()
	l := &mediaLab{pool: writeCertificate(t, dir, 1), media: pxetest.NewMedia()}
	g.Expect(pxetest.WriteMediaLoaders(loaders)).To(Succeed())
	_, err := pxetest.WriteAgent(agents)
	g.Expect(err).NotTo(HaveOccurred())
	plain, secure := netip.AddrPortFrom(bootAddress, freePort(t)).String(), netip.AddrPortFrom(bootAddress, freePort(t)).String()
	l.plain, l.secure = "http://"+plain, "https://"+secure
	s := &server.Server{Booter: &pxetest.Booter{}, Media: l.media, Log: logr.Discard(), Config: server.Config{
		Networks:    []bootconfig.Network{{Name: "test", Mode: bootconfig.Off, Address: bootAddress, URL: l.plain}},
		HTTPAddress: plain, LoaderDirs: []string{loaders}, Agent: bootconfig.Agent{Dir: agents}, Artifacts: artifact.Options{Dir: t.TempDir()},
		HTTPSAddress: secure, HTTPSBaseURL: l.secure, CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
	}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	g.Eventually(func() error { return s.Ready(nil) }).Should(Succeed())
	return l
}

// received is an answer without its body, which was read.
type received struct {
	StatusCode, ProtoMajor int
	ContentLength          int64
	Header                 http.Header
	TLS                    *tls.ConnectionState
}

// read requests a medium, or a range of it, and returns the answer and its body.
func read(t *testing.T, client *http.Client, url, ranges string) (received, []byte, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return received{}, nil, err
	}
	if ranges != "" {
		request.Header.Set("Range", ranges)
	}
	answer, err := client.Do(request)
	if err != nil {
		return received{}, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return received{answer.StatusCode, answer.ProtoMajor, answer.ContentLength, answer.Header, answer.TLS}, body, err
}

// TestMediaOverHTTPS: a medium has the same bytes and the same ETag over HTTP and HTTPS, as a whole and in ranges, also for a client that has TLS 1.2 at most, as
// many BMCs do. Over both, its system finds the boot server by HTTPS.
func TestMediaOverHTTPS(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	path := pxe.MediaPath("dc/h", "token-h")
	plain, whole, err := read(t, http.DefaultClient, l.plain+path, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plain.StatusCode).To(Equal(http.StatusOK))
	g.Expect(string(whole)).To(ContainSubstring("'capbm.server=" + l.secure + "'"))
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		client := httpsClient(l.pool)
		client.Transport.(*http.Transport).TLSClientConfig.MaxVersion = version
		answer, body, err := read(t, client, l.secure+path, "")
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(answer.TLS.Version).To(Equal(version))
		g.Expect(answer.StatusCode).To(Equal(http.StatusOK), name)
		g.Expect(answer.ProtoMajor).To(Equal(1), name)
		g.Expect(bytes.Equal(body, whole)).To(BeTrue(), name)
		for _, header := range []string{"ETag", "Content-Length", "Content-Type", "Last-Modified", "Accept-Ranges"} {
			g.Expect(answer.Header.Get(header)).To(And(Not(BeEmpty()), Equal(plain.Header.Get(header))), header)
		}
		for _, start := range []int{0, 1, 32768, 65535, len(whole) - 2000} {
			end := min(start+64<<10, len(whole)) - 1
			answer, body, err := read(t, client, l.secure+path, fmt.Sprintf("bytes=%d-%d", start, end))
			g.Expect(err).NotTo(HaveOccurred(), name)
			g.Expect(answer.StatusCode).To(Equal(http.StatusPartialContent), name)
			g.Expect(answer.Header.Get("Content-Range")).To(Equal(fmt.Sprintf("bytes %d-%d/%d", start, end, len(whole))))
			g.Expect(bytes.Equal(body, whole[start:end+1])).To(BeTrue(), "%s, from %d", name, start)
		}
	}
	_, _, err = read(t, httpsClient(x509.NewCertPool()), l.secure+path, "")
	g.Expect(err).To(MatchError(ContainSubstring("certificate")), "a BMC that verifies certificates needs the CA")
}

// clientFrom is a client with one connection, which comes from an address.
func clientFrom(from netip.Addr) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}, Timeout: time.Minute}
	return &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: dialer.DialContext}}
}

// TestThousandClients: a thousand BMCs read their media at once, each in ranges over one connection from its own address, and the memory does not grow with the media.
// The boot server bounds the connections of one address: see TestConnections.
func TestThousandClients(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	answer, _, err := read(t, http.DefaultClient, l.plain+pxe.MediaPath("dc/h", "token-h"), "")
	g.Expect(err).NotTo(HaveOccurred())
	size := answer.ContentLength
	const clients, part, ranges = 1000, 64 << 10, 8
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	problems := make(chan error, clients)
	ready.Add(clients)
	for n := range clients {
		done.Go(func() {
			client := clientFrom(netip.AddrFrom4([4]byte{127, 81, byte(n / 250), byte(1 + n%250)}))
			defer client.CloseIdleConnections()
			url := l.plain + pxe.MediaPath(fmt.Sprintf("dc/h%d", n), fmt.Sprintf("token-h%d", n))
			err := readRange(t, client, url, 0, 1)
			ready.Done()
			<-start
			for i := int64(0); i < ranges && err == nil; i++ {
				err = readRange(t, client, url, (int64(n)*7919+i*part)%(size-part), part)
			}
			problems <- err
		})
	}
	ready.Wait() // all have a connection and a medium
	runtime.GC()
	runtime.ReadMemStats(&during)
	close(start)
	done.Wait()
	for range clients {
		g.Expect(<-problems).To(Succeed())
	}
	grown := (int64(during.HeapAlloc) - int64(before.HeapAlloc)) / clients
	t.Logf("%d KiB of heap for each of %d clients, with both ends of its connection", grown>>10, clients)
	g.Expect(grown).To(BeNumerically("<", 128<<10))
}

func readRange(t *testing.T, client *http.Client, url string, start, length int64) error {
	t.Helper()
	answer, body, err := read(t, client, url, fmt.Sprintf("bytes=%d-%d", start, start+length-1))
	if err == nil && (answer.StatusCode != http.StatusPartialContent || int64(len(body)) != length) {
		err = fmt.Errorf("status %d, %d bytes", answer.StatusCode, len(body))
	}
	return err
}
