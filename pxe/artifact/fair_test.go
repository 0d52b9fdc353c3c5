package artifact

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// slowly permits that nothing comes.
var slowly = origin.MinRate{BytesPerSecond: 1, Window: time.Hour}

// hanging starts an origin that sends one byte of each file and then nothing until release. It counts the hanging requests, and their maximum.
func hanging(t *testing.T) (origin *httptest.Server, now, most *atomic.Int32, release chan struct{}) {
	t.Helper()
	now, most, release = &atomic.Int32{}, &atomic.Int32{}, make(chan struct{})
	var mu sync.Mutex
	origin = serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		most.Store(max(most.Load(), now.Add(1)))
		mu.Unlock()
		defer now.Add(-1)
		_, _ = io.WriteString(w, r.URL.Path[:1])
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
			_, _ = io.WriteString(w, r.URL.Path[1:])
		case <-r.Context().Done():
		}
	})
	return origin, now, most, release
}

// TestDrippingOrigins: one namespace uses all shared slots while it is alone. Then the file of another namespace is fetched at once, even from
// an origin that the first keeps busy.
func TestDrippingOrigins(t *testing.T) {
	g := NewWithT(t)
	well := echo(t)
	var busy []*atomic.Int32
	var slow []*httptest.Server
	for range origin.FetchBounds.Shared {
		origin, now, _, _ := hanging(t)
		slow, busy = append(slow, origin), append(busy, now)
	}
	cache := newCache(t, Options{Outbound: loopback, MinRate: slowly})
	for i := range 10 * origin.FetchBounds.Shared {
		_, err := cache.Open("mallory", Artifact{fmt.Sprintf("%s/%d", slow[i%len(slow)].URL, i), sum(strconv.Itoa(i))})
		g.Expect(err).To(MatchError(ErrNotYet))
	}
	hang := func() (n int) {
		for _, now := range busy {
			n += int(now.Load())
		}
		return n
	}
	g.Eventually(hang).Should(Equal(origin.FetchBounds.Shared))
	g.Expect(readFor(t, cache, "dc", Artifact{well.URL + "/kernel", sum("/kernel")})).To(Equal("/kernel"))
	_, err := cache.Open("mallory", Artifact{well.URL + "/another", sum("/another")})
	g.Expect(err).To(MatchError(ErrNotYet))
	g.Expect(readFor(t, cache, "dc", Artifact{well.URL + "/another", sum("/another")})).To(Equal("/another"), "although another namespace waits for the same file")
	g.Expect(hang()).To(Equal(origin.FetchBounds.Shared), "all of that while these hang")
	cache.Close() // before the origins
}

// TestFetchesOfAnOrigin: two files are fetched from one origin at once, so that a slow one does not delay the namespace's other origins.
func TestFetchesOfAnOrigin(t *testing.T) {
	g := NewWithT(t)
	slow, now, most, release := hanging(t)
	well := echo(t)
	cache := newCache(t, Options{Outbound: loopback, MinRate: slowly})
	for i := range 3 * origin.FetchBounds.Shared {
		path := fmt.Sprintf("/%d", i)
		_, err := cache.Open("dc", Artifact{slow.URL + path, sum(path)})
		g.Expect(err).To(MatchError(ErrNotYet))
	}
	g.Eventually(now.Load).Should(BeEquivalentTo(2))
	g.Expect(read(t, cache, Artifact{well.URL + "/kernel", sum("/kernel")})).To(Equal("/kernel"))
	g.Expect(now.Load()).To(BeEquivalentTo(2))
	close(release)
	for i := range 3 * origin.FetchBounds.Shared {
		path := fmt.Sprintf("/%d", i)
		g.Expect(read(t, cache, Artifact{slow.URL + path, sum(path)})).To(Equal(path))
	}
	g.Expect(most.Load()).To(BeEquivalentTo(2))
}

// TestMinRate: a fetch from an origin that sends too slowly is ended. A byte now and then does not prevent it.
func TestMinRate(t *testing.T) {
	g := NewWithT(t)
	drip := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "k")
			_ = http.NewResponseController(w).Flush()
		}
	})
	cache := newCache(t, Options{Outbound: loopback, MinRate: origin.MinRate{BytesPerSecond: 1 << 40, Window: 20 * time.Millisecond}})
	_, err := read(t, cache, Artifact{drip.URL, sum("kernel")})
	g.Expect(err).To(MatchError(ContainSubstring("it came slower than 1099511627776 bytes a second for 20ms")))
	cache.Close() // before the origin
	g.Expect(partialBytes(cache)).To(BeZero())
}

// TestSharedFile: a file of two namespaces is fetched and stored once. It is kept while one of them uses no more than its share.
func TestSharedFile(t *testing.T) {
	g := NewWithT(t)
	var requests atomic.Int32
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.WriteString(w, r.URL.Path)
	})
	file := func(name string) Artifact { return Artifact{origin.URL + "/" + name, sum("/" + name)} } // of 5 bytes
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 20, Retention: time.Hour})
	for _, name := range []string{"both", "own1", "own2", "own3"} {
		g.Expect(readFor(t, cache, "mallory", file(name))).To(Equal("/" + name))
	}
	g.Expect(readFor(t, cache, "dc", file("both"))).To(Equal("/both"))
	for _, name := range []string{"own1", "own2", "own3"} {
		g.Expect(readFor(t, cache, "mallory", file(name))).To(Equal("/" + name))
	}
	g.Expect(requests.Load()).To(BeEquivalentTo(4))
	g.Expect(os.ReadDir(cache.opts.Dir)).To(HaveLen(4))
	g.Expect(readFor(t, cache, "another", file("more"))).To(Equal("/more"))
	g.Expect(pathOf(cache, file("both"))).To(BeAnExistingFile(), "it is the least recently used file, and one of its namespaces has its share of it")
}

// TestFetchGivesWay: incomplete files count too: the fetch of a namespace with more than its share ends if another one needs the space.
func TestFetchGivesWay(t *testing.T) {
	g := NewWithT(t)
	sent := make(chan struct{})
	endless := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 20))
		_ = http.NewResponseController(w).Flush()
		close(sent)
		<-r.Context().Done()
	})
	well := echo(t)
	log, lines := logged()
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 20, MinRate: slowly, RetryAfter: time.Hour, Log: log})
	large := Artifact{endless.URL, sum("large")}
	_, err := cache.Open("mallory", large)
	g.Expect(err).To(MatchError(ErrNotYet))
	<-sent
	g.Eventually(func() int64 { return partialBytes(cache) }).Should(BeEquivalentTo(20))
	g.Expect(readFor(t, cache, "dc", Artifact{well.URL + "/kernel", sum("/kernel")})).To(Equal("/kernel"))
	_, err = readFor(t, cache, "mallory", large)
	g.Expect(err).To(MatchError(errRevoked))
	g.Expect(lines()).To(ContainSubstring("gave way"))
	cache.Close()
	g.Expect(partialBytes(cache)).To(BeZero())
	g.Expect(os.ReadDir(cache.opts.Dir)).To(HaveLen(1))
}
