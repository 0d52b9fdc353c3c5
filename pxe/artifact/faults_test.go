package artifact

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
)

// serve starts an origin.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	origin := httptest.NewServer(handler)
	t.Cleanup(origin.Close)
	return origin
}

// echo is an origin whose files hold their paths.
func echo(t *testing.T) *httptest.Server {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
}

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

// TestTruncated: a body that ends before its length is rejected, whatever its checksum is. The log has its length, which users do not see.
func TestTruncated(t *testing.T) {
	g := NewWithT(t)
	origin := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "kernel")
	})
	log, lines := logged()
	cache := newCache(t, Options{Outbound: loopback, Log: log})
	_, err := read(t, cache, Artifact{origin.URL, sum("kernel")})
	g.Expect(err).To(MatchError("fetch " + origin.URL + ": " + errNoFile.Error()))
	g.Expect(lines()).To(ContainSubstring("transfer of 100 bytes early"))
	cache.Close() // the client that got the error started another fetch
	g.Expect(os.ReadDir(cache.opts.Dir)).To(BeEmpty())
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

// TestOriginVanishesOrChanges: a cached file is still served, and the error for another file names its origin.
func TestOriginVanishesOrChanges(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	content.Store("kernel")
	origin := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, content.Load().(string)) })
	cache := newCache(t, Options{Outbound: loopback})
	a := Artifact{origin.URL + "/k?token=secret", sum("kernel")}
	g.Expect(read(t, cache, a)).To(Equal("kernel"))
	content.Store("another kernel")
	g.Expect(read(t, cache, a)).To(Equal("kernel"))
	_, err := read(t, newCache(t, Options{Outbound: loopback}), a)
	g.Expect(err).To(MatchError(ErrChecksum))
	origin.Close()
	g.Expect(read(t, cache, a)).To(Equal("kernel"))
	_, err = read(t, newCache(t, Options{Outbound: loopback}), a)
	g.Expect(err).To(MatchError(And(ContainSubstring("fetch "+origin.URL+"/k: "), ContainSubstring(errNoFile.Error()))))
	g.Expect(err.Error()).NotTo(ContainSubstring("secret"))
}

// TestEndless: an origin that sends without end is stopped at the maximum size, and leaves no file.
func TestEndless(t *testing.T) {
	g := NewWithT(t)
	origin := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<16); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 1 << 20})
	_, err := read(t, cache, Artifact{origin.URL, sum("x")})
	g.Expect(err).To(MatchError(ContainSubstring("the cache may have 1048576 bytes, and has no room for it")))
	cache.Close() // as in TestTruncated
	g.Expect(os.ReadDir(cache.opts.Dir)).To(BeEmpty())
	g.Expect(partialBytes(cache)).To(BeZero())
}

// TestRestart: files of an earlier process are verified before they are served, and fetched again if they are damaged.
func TestRestart(t *testing.T) {
	g := NewWithT(t)
	var requests atomic.Int32
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, r.URL.Path)
	})
	dir := t.TempDir()
	before := newCache(t, Options{Outbound: loopback, Dir: dir})
	names := []string{"/good", "/flipped", "/truncated", "/gone"}
	paths := map[string]string{}
	for _, name := range names {
		g.Expect(read(t, before, Artifact{origin.URL + name, sum(name)})).To(Equal(name))
		paths[name] = pathOf(before, Artifact{Checksum: sum(name)})
	}
	before.Close()
	g.Expect(os.WriteFile(paths["/flipped"], []byte("/flopped"), 0o600)).To(Succeed())
	g.Expect(os.Truncate(paths["/truncated"], 3)).To(Succeed())
	g.Expect(os.Remove(paths["/gone"])).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(dir, partialPrefix+"1"), []byte("half"), 0o600)).To(Succeed())

	after := newCache(t, Options{Outbound: loopback, Dir: dir})
	for _, name := range names {
		g.Expect(read(t, after, Artifact{origin.URL + name, sum(name)})).To(Equal(name))
	}
	g.Expect(requests.Load()).To(BeEquivalentTo(len(names)+3), "/good was not fetched again")
	entries, err := os.ReadDir(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(HaveLen(len(names)))
	g.Expect(completeBytes(after)).To(BeEquivalentTo(len(strings.Join(names, ""))))

	// A running process notices a file whose size changes, and an emptied folder.
	g.Expect(os.Truncate(paths["/good"], 2)).To(Succeed())
	g.Expect(read(t, after, Artifact{origin.URL + "/good", sum("/good")})).To(Equal("/good"))
	g.Expect(os.Remove(paths["/good"])).To(Succeed())
	g.Expect(read(t, after, Artifact{origin.URL + "/good", sum("/good")})).To(Equal("/good"))
}

// TestRetention: a file that a server is booting is kept until the server had time to load it, and the error for a file that does not fit says so.
func TestRetention(t *testing.T) {
	g := NewWithT(t)
	origin := echo(t)
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 10, Retention: time.Hour})
	one, two := Artifact{origin.URL + "/first", sum("/first")}, Artifact{origin.URL + "/second", sum("/second")}
	g.Expect(read(t, cache, one)).To(Equal("/first"))
	_, err := read(t, cache, two)
	g.Expect(err).To(MatchError(ContainSubstring("no room for it beside what servers boot now; or the namespace has used its share: raise artifacts.maxSize")))
	g.Expect(read(t, cache, one)).To(Equal("/first"))
	cache.Close()
	path := pathOf(cache, one)
	old := time.Now().Add(-2 * time.Hour)
	g.Expect(os.Chtimes(path, old, old)).To(Succeed())
	cache = newCache(t, Options{Outbound: loopback, Dir: cache.opts.Dir, MaxBytes: 10, Retention: time.Hour})
	g.Eventually(func() (string, error) { return read(t, cache, two) }).Should(Equal("/second"))
	g.Expect(path).NotTo(BeAnExistingFile())
}

// TestManyReaders: hundreds of servers load at once while files come and go. Each gets a whole file, and the cache keeps its bound.
func TestManyReaders(t *testing.T) {
	const size, kinds, readers, most = 1 << 16, 8, 200, 3
	content := func(kind int) string { return strings.Repeat(strconv.Itoa(kind), size) }
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) {
		kind, _ := strconv.Atoi(r.URL.Path[1:])
		_, _ = io.WriteString(w, content(kind))
	})
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: most * size, Retention: 1})
	var wanted [kinds]Artifact
	for kind := range wanted {
		wanted[kind] = Artifact{fmt.Sprintf("%s/%d", origin.URL, kind), sum(content(kind))}
	}
	var wg sync.WaitGroup
	var whole atomic.Int32
	for i := range readers {
		wg.Go(func() {
			g := NewGomega(func(message string, _ ...int) { t.Error(message) })
			kind := i % kinds
			g.Eventually(func() error { // as a boot loader does that asks again
				opened, err := cache.Open("dc", wanted[kind])
				if err != nil {
					return err
				}
				got, err := io.ReadAll(opened)
				_ = opened.Close()
				if err != nil || string(got) != content(kind) {
					t.Errorf("%d bytes of %d, %v", len(got), kind, err)
				}
				whole.Add(1)
				return nil
			}, "1m", "1ms").Should(Succeed())
		})
	}
	wg.Wait()
	g := NewWithT(t)
	g.Expect(whole.Load()).To(BeEquivalentTo(readers))
	cache.Close()
	g.Expect(completeBytes(cache)).To(BeNumerically("<=", most*size))
	var total int64
	entries, err := os.ReadDir(cache.opts.Dir)
	g.Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		info, err := entry.Info()
		g.Expect(err).NotTo(HaveOccurred())
		total += info.Size()
	}
	g.Expect(total).To(Equal(completeBytes(cache)), "what is counted is what is there")
}

// TestOpenFileStays: an open file stays readable when the cache deletes it.
func TestOpenFileStays(t *testing.T) {
	g := NewWithT(t)
	origin := echo(t)
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 10, Retention: 1})
	one := Artifact{origin.URL + "/first", sum("/first")}
	g.Expect(read(t, cache, one)).To(Equal("/first"))
	opened, err := cache.Open("dc", one)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = opened.Close() }()
	g.Expect(read(t, cache, Artifact{origin.URL + "/second", sum("/second")})).To(Equal("/second"))
	g.Expect(opened.Name()).NotTo(BeAnExistingFile())
	g.Expect(io.ReadAll(opened)).To(BeEquivalentTo("/first"))
}

// TestDiskFull: the message names the disk, and the remedy. The incomplete file is deleted. A full disk is /dev/full.
func TestDiskFull(t *testing.T) {
	g := NewWithT(t)
	cache := newCache(t, Options{})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = full.Close() }()
	_, err = cache.write(full, strings.NewReader("kernel"))
	g.Expect(err).To(MatchError(syscall.ENOSPC))
	g.Expect(err).To(MatchError(ContainSubstring("the disk with " + cache.opts.Dir + " is full")))
}
