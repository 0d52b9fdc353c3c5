package artifact

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func newCache(t *testing.T, opts Options) *Cache {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	if opts.RetryAfter == 0 {
		opts.RetryAfter = time.Millisecond
	}
	cache, err := New(opts)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(cache.Close)
	return cache
}

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(s[:])
}

// read waits for a file while it is being fetched.
func read(t *testing.T, cache *Cache, a Artifact) (string, error) {
	t.Helper()
	var content []byte
	var err error
	NewWithT(t).Eventually(func() bool {
		var file *os.File
		if file, err = cache.Open(a); err == nil {
			content, err = io.ReadAll(file)
			_ = file.Close()
		}
		return !errors.Is(err, ErrNotYet)
	}).Should(BeTrue())
	return string(content), err
}

func TestFetchedOnce(t *testing.T) {
	g := NewWithT(t)
	var requests atomic.Int32
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		_, _ = w.Write([]byte("kernel"))
	}))
	defer origin.Close()
	cache := newCache(t, Options{AllowNetworks: loopback})
	for range 3 {
		g.Expect(read(t, cache, Artifact{origin.URL, sum("kernel")})).To(Equal("kernel"))
	}
	g.Expect(requests.Load()).To(Equal(int32(1)))
	long := sha512.Sum512([]byte("kernel"))
	g.Expect(read(t, cache, Artifact{origin.URL, "sha512:" + hex.EncodeToString(long[:])})).To(Equal("kernel"))
}

func TestWrongFileIsNeverServedAndHeals(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	content.Store("virus")
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content.Load().(string))) }))
	defer origin.Close()
	cache := newCache(t, Options{AllowNetworks: loopback})
	a := Artifact{origin.URL, sum("kernel")}
	_, err := read(t, cache, a)
	g.Expect(err).To(MatchError(ErrChecksum))
	// Who was told the error began another fetch by asking.
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(cache.opts.Dir) }).Should(BeEmpty())
	content.Store("kernel")
	g.Eventually(func() (string, error) { return read(t, cache, a) }).Should(Equal("kernel"))
}

func TestErrors(t *testing.T) {
	g := NewWithT(t)
	origin := httptest.NewServer(http.NotFoundHandler())
	defer origin.Close()
	cache := newCache(t, Options{AllowNetworks: loopback})
	_, err := read(t, cache, Artifact{origin.URL, sum("kernel")})
	g.Expect(err).To(MatchError(ContainSubstring("404")))
	for _, checksum := range []string{"", "sha256", "sha256:../../etc/passwd", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:00"} {
		_, err := cache.Open(Artifact{origin.URL, checksum})
		g.Expect(err).To(MatchError(ContainSubstring("no checksum")), checksum)
	}
}

// TestInnerAddressesAreRefused: a tenant's URL must not make the provider ask itself or its neighbours, also by a redirect.
func TestInnerAddressesAreRefused(t *testing.T) {
	g := NewWithT(t)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	}))
	defer origin.Close()
	_, err := read(t, newCache(t, Options{}), Artifact{origin.URL, sum("x")})
	g.Expect(err).To(MatchError(ContainSubstring("127.0.0.1 is a loopback or link-local address")))
	_, err = read(t, newCache(t, Options{AllowNetworks: loopback}), Artifact{origin.URL, sum("x")})
	g.Expect(err).To(MatchError(ContainSubstring("169.254.169.254 is a loopback or link-local address")))
}

func TestBound(t *testing.T) {
	g := NewWithT(t)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) }))
	defer origin.Close()
	cache := newCache(t, Options{AllowNetworks: loopback, MaxBytes: 10, Hold: 1})
	for _, path := range []string{"/one", "/two", "/three"} {
		g.Expect(read(t, cache, Artifact{origin.URL + path, sum(path)})).To(Equal(path))
	}
	entries, err := os.ReadDir(cache.opts.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(HaveLen(2), "4 + 6 bytes fit into 10, 4 + 4 + 6 don't")
	_, err = read(t, cache, Artifact{origin.URL + "/far-too-large", sum("/far-too-large")})
	g.Expect(err).To(MatchError(ContainSubstring("/far-too-large has 14 bytes: the cache may have 10 bytes")))
}

// TestSlowOrigins: an origin that stops sending is given up, and meanwhile the others are fetched.
func TestSlowOrigins(t *testing.T) {
	g := NewWithT(t)
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("ker"))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close) // after the caches, which hang up
	well := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("kernel")) }))
	t.Cleanup(well.Close)
	cache := newCache(t, Options{AllowNetworks: loopback, Stall: time.Hour})
	for i := range 2 * mostFetches {
		_, err := cache.Open(Artifact{slow.URL, sum(string(rune('a' + i)))})
		g.Expect(err).To(MatchError(ErrNotYet))
	}
	g.Expect(read(t, cache, Artifact{well.URL, sum("kernel")})).To(Equal("kernel"), "while the slow ones hang")

	impatient := newCache(t, Options{AllowNetworks: loopback, Stall: 20 * time.Millisecond})
	_, err := read(t, impatient, Artifact{slow.URL, sum("kernel")})
	g.Expect(err).To(MatchError(ContainSubstring("it sent nothing for 20ms")))
}
