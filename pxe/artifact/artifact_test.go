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
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// In tests, origin is a server.
var errNoFile, errRefused = origin.ErrNoFile, origin.ErrRefused

var loopback = outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

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

func completeBytes(cache *Cache) int64 {
	complete, _ := cache.space.Bytes()
	return complete
}

func partialBytes(cache *Cache) int64 {
	_, partial := cache.space.Bytes()
	return partial
}

// pathOf is where the cache has a complete file.
func pathOf(cache *Cache, a Artifact) string {
	return filepath.Join(cache.opts.Dir, strings.Replace(a.Checksum, ":", "-", 1))
}

func sum(content string) string {
	s := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(s[:])
}

// read waits for a file of the namespace dc while it is being fetched.
func read(t *testing.T, cache *Cache, a Artifact) (string, error) {
	t.Helper()
	return readFor(t, cache, "dc", a)
}

func readFor(t *testing.T, cache *Cache, namespace string, a Artifact) (string, error) {
	t.Helper()
	var content []byte
	var err error
	NewWithT(t).Eventually(func() bool {
		var file *os.File
		if file, err = cache.Open(namespace, a); err == nil {
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
	cache := newCache(t, Options{Outbound: loopback})
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
	cache := newCache(t, Options{Outbound: loopback})
	a := Artifact{origin.URL, sum("kernel")}
	_, err := read(t, cache, a)
	g.Expect(err).To(MatchError(ErrChecksum))
	// The client that got the error started another fetch by its request.
	g.Eventually(func() ([]os.DirEntry, error) { return os.ReadDir(cache.opts.Dir) }).Should(BeEmpty())
	content.Store("kernel")
	g.Eventually(func() (string, error) { return read(t, cache, a) }).Should(Equal("kernel"))
}

// TestUse: a use without opening keeps a file as Open does. It is on the disk for the next process, but not each time.
func TestUse(t *testing.T) {
	g := NewWithT(t)
	origin := echo(t)
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 10, Retention: time.Hour})
	one, two := Artifact{origin.URL + "/first", sum("/first")}, Artifact{origin.URL + "/second", sum("/second")}
	g.Expect(cache.Use("dc", one)).To(BeFalse(), "it is not here yet")
	g.Expect(cache.Use("dc", Artifact{Checksum: "sha256:x"})).To(BeFalse())
	g.Expect(read(t, cache, one)).To(Equal("/first"))
	g.Expect(cache.Use("dc", one)).To(BeTrue())
	old := time.Now().Add(-2 * time.Hour)
	g.Expect(os.Chtimes(pathOf(cache, one), old, old)).To(Succeed())
	g.Expect(cache.Use("dc", one)).To(BeTrue())
	g.Expect(read(t, cache, one)).To(Equal("/first"))
	info, err := os.Stat(pathOf(cache, one))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.ModTime()).To(BeTemporally("~", old, time.Second), "it was saved less than a minute ago")
	_, err = read(t, cache, two)
	g.Expect(err).To(MatchError(ContainSubstring("no room for it")), "the first one is in use")

	cache.Close()
	cache = newCache(t, Options{Outbound: loopback, Dir: cache.opts.Dir, MaxBytes: 10, Retention: time.Hour})
	g.Expect(cache.Use("dc", one)).To(BeFalse(), "it is not verified yet")
	g.Expect(read(t, cache, one)).To(Equal("/first"))
	info, err = os.Stat(pathOf(cache, one))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.ModTime()).To(BeTemporally("~", time.Now(), time.Minute))
}

func TestErrors(t *testing.T) {
	g := NewWithT(t)
	origin := httptest.NewServer(http.NotFoundHandler())
	defer origin.Close()
	cache := newCache(t, Options{Outbound: loopback})
	_, err := read(t, cache, Artifact{origin.URL, sum("kernel")})
	g.Expect(err).To(MatchError(errNoFile))
	_, err = read(t, newCache(t, Options{}), Artifact{origin.URL, sum("kernel")})
	g.Expect(err).To(MatchError(errRefused), "by default")
	_, err = cache.Open("dc", Artifact{origin.URL, "sha256:../../etc/passwd"})
	g.Expect(err).To(MatchError(ContainSubstring("no checksum")))
	_, err = read(t, cache, Artifact{origin.URL + "/%zz?token=secret", sum("kernel")})
	g.Expect(err).To(MatchError(And(ContainSubstring("the URL is not valid"), Not(ContainSubstring("secret")))))
}

func TestBound(t *testing.T) {
	g := NewWithT(t)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) }))
	defer origin.Close()
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 10, Retention: 1})
	for _, path := range []string{"/one", "/two", "/three"} {
		g.Expect(read(t, cache, Artifact{origin.URL + path, sum(path)})).To(Equal(path))
	}
	entries, err := os.ReadDir(cache.opts.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(HaveLen(2), "4 + 6 bytes fit into 10, 4 + 4 + 6 don't")
	_, err = read(t, cache, Artifact{origin.URL + "/far-too-large", sum("/far-too-large")})
	g.Expect(err).To(MatchError(ContainSubstring("/far-too-large: it is larger than the cache, which may have 10 bytes: raise artifacts.maxSize")))
}
