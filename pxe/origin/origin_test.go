package origin

import (
	"context"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

// TestPropertyFairLimiter: a namespace with fewer fetches than its own slots does not wait for other namespaces unless all slots are
// taken; no slot is free while a waiting fetch may use it; and the bounds hold.
func TestPropertyFairLimiter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := NewFairLimiter(FetchBounds)
		var inside []LimitKey
		collect := func(before []*limitWaiter) {
			for _, w := range before {
				if !slices.Contains(l.waiting, w) {
					inside = append(inside, w.key)
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
				w := &limitWaiter{
					key:     LimitKey{strconv.Itoa(rapid.IntRange(0, 80).Draw(t, "namespace")), strconv.Itoa(rapid.IntRange(0, 9).Draw(t, "origin"))},
					entered: make(chan struct{}),
				}
				l.waiting = append(l.waiting, w)
				before := slices.Clone(l.waiting)
				l.admit()
				collect(before)
			}
			all, byNamespace, byKey := 0, map[string]int{}, map[LimitKey]int{}
			for _, in := range inside {
				all++
				byNamespace[in.Namespace]++
				byKey[in]++
			}
			if l.all != all || !maps.Equal(l.byNamespace, byNamespace) || !maps.Equal(l.byKey, byKey) {
				t.Fatalf("%d, %v, %v are counted, and inside are %v", l.all, l.byNamespace, l.byKey, inside)
			}
			if all > 128 {
				t.Fatalf("%d fetches", all)
			}
			for in, n := range byKey {
				if n > 2 {
					t.Fatalf("%d fetches of %v", n, in)
				}
			}
			for _, w := range l.waiting {
				n := byNamespace[w.key.Namespace]
				if byKey[w.key] < 2 && all < 128 && (n < 2 || all < 16) {
					t.Fatalf("%v waits, with %d fetches of its namespace and %d in all", w.key, n, all)
				}
			}
		}
	})
}

// TestFairLimiterMaximum: each namespace has its own slots while there are any.
func TestFairLimiterMaximum(t *testing.T) {
	g := NewWithT(t)
	l := NewFairLimiter(FetchBounds)
	for i := range FetchBounds.Max {
		l.waiting = append(l.waiting, &limitWaiter{key: LimitKey{strconv.Itoa(i / 2), strconv.Itoa(i)}, entered: make(chan struct{})})
		l.admit()
	}
	g.Expect(l.all).To(Equal(FetchBounds.Max))
	l.waiting = append(l.waiting, &limitWaiter{key: LimitKey{"another", "origin"}, entered: make(chan struct{})})
	l.admit()
	g.Expect(l.all).To(Equal(FetchBounds.Max))
	l.leave(LimitKey{"0", "0"})
	g.Expect(l.all).To(Equal(FetchBounds.Max))
	g.Expect(l.byNamespace).To(HaveKeyWithValue("another", 1))
}

// TestFairLimiterOrder: the namespace with the fewest fetches is next.
func TestFairLimiterOrder(t *testing.T) {
	g := NewWithT(t)
	l := NewFairLimiter(FetchBounds)
	for i := range FetchBounds.Shared {
		_, err := l.Enter(t.Context(), LimitKey{"many", strconv.Itoa(i)})
		g.Expect(err).NotTo(HaveOccurred())
	}
	wait := func(namespace string) *limitWaiter {
		w := &limitWaiter{key: LimitKey{namespace, "waits"}, entered: make(chan struct{})}
		l.waiting = append(l.waiting, w)
		return w
	}
	first, second := wait("many"), wait("few")
	l.leave(LimitKey{"many", "0"})
	g.Expect(second.entered).To(BeClosed())
	g.Expect(first.entered).NotTo(BeClosed())
	l.leave(LimitKey{"many", "1"})
	g.Expect(first.entered).To(BeClosed())

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := l.Enter(ctx, LimitKey{"many", "none"})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(l.waiting).To(BeEmpty(), "a fetch that gave up does not wait")
	g.Expect(l.all).To(Equal(FetchBounds.Shared))
}

// TestMetered: what came in a window counts for it alone, and an error of the origin is a *ReadError.
func TestMetered(t *testing.T) {
	g := NewWithT(t)
	body := &metered{body: strings.NewReader("twelve bytes")}
	_, err := io.CopyN(io.Discard, body, 4)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(body.endWindow(4)).To(BeTrue())
	g.Expect(body.endWindow(4)).To(BeFalse(), "what came in a window counts for it alone")
	_, err = io.Copy(io.Discard, body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(body.endWindow(9)).To(BeFalse())
	_, err = io.Copy(io.Discard, &metered{body: iotest.ErrReader(io.ErrUnexpectedEOF)})
	g.Expect(err).To(And(MatchError(io.ErrUnexpectedEOF), BeAssignableToTypeOf(&ReadError{})))
}

func TestChecksum(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{"", "sha256", "sha256:../../etc/passwd", "md5:d41d8cd98f00b204e9800998ecf8427e", "sha256:00"} {
		_, err := ParseChecksum(text)
		g.Expect(err).To(MatchError(ContainSubstring("no checksum")), text)
	}
	c, err := ParseChecksum("sha256:" + strings.Repeat("AB", 32))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.FileName()).To(Equal("sha256-" + strings.Repeat("ab", 32)))
}
