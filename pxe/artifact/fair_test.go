package artifact

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

// TestMain fixes the seed of the properties, so that failures are reproducible, and stores no files of failures, of which mutants have many.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// TestPropertyLanes: a namespace with fewer fetches than its own lanes does not wait for other namespaces unless all lanes are
// taken; no lane is free while a waiting fetch may use it; and the bounds hold.
func TestPropertyLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLanes()
		var inside []lane
		collect := func(before []*laneWaiter) {
			for _, w := range before {
				if !slices.Contains(l.waiting, w) {
					inside = append(inside, w.lane)
				}
			}
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if len(inside) > 0 && rapid.IntRange(0, 3).Draw(t, "leave") == 0 {
				i := rapid.IntRange(0, len(inside)-1).Draw(t, "which")
				left := inside[i]
				inside = slices.Delete(inside, i, i+1)
				before := slices.Clone(l.waiting)
				l.leave(left)
				collect(before)
			} else {
				w := &laneWaiter{
					lane:    lane{strconv.Itoa(rapid.IntRange(0, 80).Draw(t, "namespace")), strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "origin"))},
					entered: make(chan struct{}),
				}
				l.waiting = append(l.waiting, w)
				before := slices.Clone(l.waiting)
				l.admit()
				collect(before)
			}
			all, byNamespace, byLane := 0, map[string]int{}, map[lane]int{}
			for _, in := range inside {
				all++
				byNamespace[in.namespace]++
				byLane[in]++
			}
			if l.all != all || !maps.Equal(l.byNamespace, byNamespace) || !maps.Equal(l.byLane, byLane) {
				t.Fatalf("%d, %v, %v are counted, and inside are %v", l.all, l.byNamespace, l.byLane, inside)
			}
			if all > 128 {
				t.Fatalf("%d fetches", all)
			}
			for in, n := range byLane {
				if n > 2 {
					t.Fatalf("%d fetches of %v", n, in)
				}
			}
			for _, w := range l.waiting {
				n := byNamespace[w.lane.namespace]
				if byLane[w.lane] < 2 && all < 128 && (n < 2 || all < 16) {
					t.Fatalf("%v waits, with %d fetches of its namespace and %d in all", w.lane, n, all)
				}
			}
		}
	})
}

// TestLanesOfAll: each namespace has its own lanes while there are any.
func TestLanesOfAll(t *testing.T) {
	g := NewWithT(t)
	l := newLanes()
	for i := range maxFetches {
		l.waiting = append(l.waiting, &laneWaiter{lane: lane{strconv.Itoa(i / 2), strconv.Itoa(i)}, entered: make(chan struct{})})
		l.admit()
	}
	g.Expect(l.all).To(Equal(maxFetches))
	l.waiting = append(l.waiting, &laneWaiter{lane: lane{"another", "origin"}, entered: make(chan struct{})})
	l.admit()
	g.Expect(l.all).To(Equal(maxFetches))
	l.leave(lane{"0", "0"})
	g.Expect(l.all).To(Equal(maxFetches))
	g.Expect(l.byNamespace).To(HaveKeyWithValue("another", 1))
}

// TestLanesOrder: the namespace with the fewest fetches is next.
func TestLanesOrder(t *testing.T) {
	g := NewWithT(t)
	l := newLanes()
	for i := range sharedFetches {
		_, err := l.enter(t.Context(), lane{"many", strconv.Itoa(i)})
		g.Expect(err).NotTo(HaveOccurred())
	}
	wait := func(namespace string) *laneWaiter {
		w := &laneWaiter{lane: lane{namespace, "waits"}, entered: make(chan struct{})}
		l.waiting = append(l.waiting, w)
		return w
	}
	first, second := wait("many"), wait("few")
	l.leave(lane{"many", "0"})
	g.Expect(second.entered).To(BeClosed())
	g.Expect(first.entered).NotTo(BeClosed())
	l.leave(lane{"many", "1"})
	g.Expect(first.entered).To(BeClosed())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.enter(ctx, lane{"many", "none"})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(l.waiting).To(BeEmpty(), "a fetch that gave up does not wait")
	g.Expect(l.all).To(Equal(sharedFetches))
}

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

// TestDrippingOrigins: one namespace uses all shared lanes while it is alone. Then the file of another namespace is fetched at once, even from
// an origin that the first keeps busy.
func TestDrippingOrigins(t *testing.T) {
	g := NewWithT(t)
	well := echo(t)
	var busy []*atomic.Int32
	var slow []*httptest.Server
	for range sharedFetches {
		origin, now, _, _ := hanging(t)
		slow, busy = append(slow, origin), append(busy, now)
	}
	cache := newCache(t, Options{Outbound: loopback, RateWindow: time.Hour})
	for i := range 10 * sharedFetches {
		_, err := cache.Open("mallory", Artifact{fmt.Sprintf("%s/%d", slow[i%len(slow)].URL, i), sum(strconv.Itoa(i))})
		g.Expect(err).To(MatchError(ErrNotYet))
	}
	hang := func() (n int) {
		for _, now := range busy {
			n += int(now.Load())
		}
		return n
	}
	g.Eventually(hang).Should(Equal(sharedFetches))
	g.Expect(readFor(t, cache, "dc", Artifact{well.URL + "/kernel", sum("/kernel")})).To(Equal("/kernel"))
	_, err := cache.Open("mallory", Artifact{well.URL + "/another", sum("/another")})
	g.Expect(err).To(MatchError(ErrNotYet))
	g.Expect(readFor(t, cache, "dc", Artifact{well.URL + "/another", sum("/another")})).To(Equal("/another"), "although another namespace waits for the same file")
	g.Expect(hang()).To(Equal(sharedFetches), "all of that while these hang")
	cache.Close() // before the origins
}

// TestFetchesOfAnOrigin: two files are fetched from one origin at once, so that a slow one does not delay the namespace's other origins.
func TestFetchesOfAnOrigin(t *testing.T) {
	g := NewWithT(t)
	slow, now, most, release := hanging(t)
	well := echo(t)
	cache := newCache(t, Options{Outbound: loopback, RateWindow: time.Hour})
	for i := range 3 * sharedFetches {
		path := fmt.Sprintf("/%d", i)
		_, err := cache.Open("dc", Artifact{slow.URL + path, sum(path)})
		g.Expect(err).To(MatchError(ErrNotYet))
	}
	g.Eventually(now.Load).Should(BeEquivalentTo(2))
	g.Expect(read(t, cache, Artifact{well.URL + "/kernel", sum("/kernel")})).To(Equal("/kernel"))
	g.Expect(now.Load()).To(BeEquivalentTo(2))
	close(release)
	for i := range 3 * sharedFetches {
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
	cache := newCache(t, Options{Outbound: loopback, MinRate: 1 << 40, RateWindow: 20 * time.Millisecond})
	_, err := read(t, cache, Artifact{drip.URL, sum("kernel")})
	g.Expect(err).To(MatchError(ContainSubstring("it came slower than 1099511627776 bytes a second for 20ms")))
	cache.Close() // before the origin
	g.Expect(cache.partialBytes).To(BeZero())

	body := &metered{body: strings.NewReader("twelve bytes")}
	_, err = io.CopyN(io.Discard, body, 4)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(body.endWindow(4)).To(BeTrue())
	g.Expect(body.endWindow(4)).To(BeFalse(), "what came in a window counts for it alone")
	_, err = io.Copy(io.Discard, body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(body.endWindow(9)).To(BeFalse())
}

// TestShares: the boot files of one namespace do not keep out those of another one, and each namespace keeps what fits into its share.
func TestShares(t *testing.T) {
	g := NewWithT(t)
	origin := echo(t)
	file := func(name string) Artifact { return Artifact{origin.URL + "/" + name, sum("/" + name)} } // of 5 bytes
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 20, Retention: time.Hour, RetryAfter: time.Nanosecond})
	for _, name := range []string{"old1", "old2", "new1", "new2"} {
		g.Expect(readFor(t, cache, "mallory", file(name))).To(Equal("/"+name), "alone it may have all")
	}
	g.Expect(readFor(t, cache, "dc", file("one1"))).To(Equal("/one1"))
	g.Expect(readFor(t, cache, "dc", file("one2"))).To(Equal("/one2"))
	_, err := readFor(t, cache, "dc", file("one3"))
	g.Expect(err).To(MatchError(ContainSubstring("or the namespace has its share: raise artifacts.maxSize")))
	_, err = readFor(t, cache, "mallory", file("old1"))
	g.Expect(err).To(MatchError(ContainSubstring("or the namespace has its share")), "it does not take the room back")
	for _, name := range []string{"new1", "new2"} {
		g.Expect(readFor(t, cache, "mallory", file(name))).To(Equal("/"+name), "what it used last it keeps")
	}
	g.Expect(readFor(t, cache, "dc", file("one1"))).To(Equal("/one1"))
	cache.Close()
	g.Expect(cache.completeBytes).To(BeEquivalentTo(20))
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
	path, err := cache.path(file("both"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(path).To(BeAnExistingFile(), "it is the least recently used file, and one of its namespaces has its share of it")
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
	cache := newCache(t, Options{Outbound: loopback, MaxBytes: 20, RateWindow: time.Hour, RetryAfter: time.Hour, Log: log})
	large := Artifact{endless.URL, sum("large")}
	_, err := cache.Open("mallory", large)
	g.Expect(err).To(MatchError(ErrNotYet))
	<-sent
	g.Eventually(func() int64 {
		cache.mu.Lock()
		defer cache.mu.Unlock()
		return cache.partialBytes
	}).Should(BeEquivalentTo(20))
	g.Expect(readFor(t, cache, "dc", Artifact{well.URL + "/kernel", sum("/kernel")})).To(Equal("/kernel"))
	_, err = readFor(t, cache, "mallory", large)
	g.Expect(err).To(MatchError(errRevoked))
	g.Expect(lines()).To(ContainSubstring("gave way"))
	cache.Close()
	g.Expect(cache.partialBytes).To(BeZero())
	g.Expect(cache.reservations).To(BeEmpty())

	gone := &reservation{cache: cache, revoked: true} // its transfer may be at any point
	_, err = gone.Write([]byte("kernel"))
	g.Expect(err).To(MatchError(errRevoked))
	g.Expect(gone.commit("", "")).To(MatchError(errRevoked))
	g.Expect(os.ReadDir(cache.opts.Dir)).To(HaveLen(1))
}

// TestPropertyShares: a namespace whose files do not exceed its share always gets space for them, and that takes no file of another
// namespace that uses no more than its share.
func TestPropertyShares(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		const most = 1000
		cache, err := New(Options{Dir: dir, MaxBytes: most, Retention: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Close()
		now := time.Now()
		for i := range rapid.IntRange(1, 20).Draw(t, "files") {
			f := &file{size: rapid.Int64Range(1, most).Draw(t, "size"), holders: map[string]time.Time{}}
			if cache.completeBytes+f.size > most {
				continue
			}
			for range rapid.IntRange(1, 3).Draw(t, "holders") {
				at := now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
				f.holders[strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "namespace"))] = at
				if at.After(f.used) {
					f.used = at
				}
			}
			cache.files[filepath.Join(dir, strconv.Itoa(i))] = f
			cache.completeBytes += f.size
		}
		namespace, n := strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "who")), rapid.Int64Range(1, most).Draw(t, "bytes")
		before, use := maps.Clone(cache.files), cache.usage()
		use[namespace] += n
		share := most / int64(len(use))
		err = cache.freeSpace(namespace, n)
		if err == nil && cache.completeBytes+n > most {
			t.Fatalf("%d bytes and %d more are too many", cache.completeBytes, n)
		}
		if err != nil && use[namespace] <= share {
			t.Fatalf("%s would have %d of its share of %d, and: %v", namespace, use[namespace], share, err)
		}
		for path, f := range before {
			for holder := range f.holders { // those of long ago were taken out
				if cache.files[path] == nil && use[holder] <= share {
					t.Fatalf("%s lost a file, with %d of its share of %d", holder, use[holder], share)
				}
			}
		}
	})
}
