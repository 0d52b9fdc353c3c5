package space

import (
	"errors"
	"maps"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

var (
	errFull    = errors.New("full")
	errRevoked = errors.New("revoked")
)

// TestPropertyShares: a namespace whose files do not exceed its share always gets space for them, and that takes no file of another
// namespace that uses no more than its share.
func TestPropertyShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 1000
		store := New(Options{MaxBytes: most, Retention: time.Hour, Delete: func(string) error { return nil }, Full: errFull, Revoked: errRevoked})
		now := time.Now()
		for i := range rapid.IntRange(1, 20).Draw(t, "files") {
			f := &entry{size: rapid.Int64Range(1, most).Draw(t, "size"), holders: map[string]time.Time{}}
			if store.completeBytes+f.size > most {
				continue
			}
			for range rapid.IntRange(1, 3).Draw(t, "holders") {
				at := now.Add(-time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
				f.holders[strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "namespace"))] = at
				if at.After(f.used) {
					f.used = at
				}
			}
			store.entries[strconv.Itoa(i)] = f
			store.completeBytes += f.size
		}
		namespace, n := strconv.Itoa(rapid.IntRange(0, 5).Draw(t, "who")), rapid.Int64Range(1, most).Draw(t, "bytes")
		before, use := maps.Clone(store.entries), store.usage()
		use[namespace] += n
		share := most / int64(len(use))
		err := store.freeSpace(namespace, n)
		if err == nil && store.completeBytes+n > most {
			t.Fatalf("%d bytes and %d more are too many", store.completeBytes, n)
		}
		if err != nil && use[namespace] <= share {
			t.Fatalf("%s would have %d of its share of %d, and: %v", namespace, use[namespace], share, err)
		}
		for path, f := range before {
			for holder := range f.holders { // those of long ago were taken out
				if store.entries[path] == nil && use[holder] <= share {
					t.Fatalf("%s lost a file, with %d of its share of %d", holder, use[holder], share)
				}
			}
		}
	})
}

// TestReservation: what is reserved counts before it is written, and what was deleted may be written again.
func TestReservation(t *testing.T) {
	g := NewWithT(t)
	store := New(Options{MaxBytes: 10, Retention: time.Hour, Delete: func(string) error { return nil }, Full: errFull, Revoked: errRevoked})
	r := store.Reserve("dc", func(error) { t.Error("alone") })
	g.Expect(r.Hold(11)).To(MatchError(errFull))
	g.Expect(r.Hold(8)).To(Succeed())
	other := store.Reserve("dc", func(error) { t.Error("of the same namespace") })
	g.Expect(other.Add(3)).To(MatchError(errFull))
	g.Expect(r.Add(8)).To(Succeed())
	r.Sub(4)
	g.Expect(r.Add(6)).To(Succeed())
	g.Expect(r.Add(1)).To(MatchError(errFull))
	g.Expect(r.Commit("a", 5, func() error { return errors.New("no rename") })).To(MatchError("no rename"))
	g.Expect(store.Contains("a")).To(BeFalse())
	g.Expect(r.Commit("a", 5, func() error { return nil })).To(Succeed())
	r.Release()
	other.Release()
	complete, partial := store.Bytes()
	g.Expect([]int64{complete, partial}).To(Equal([]int64{5, 0}))
	g.Expect(r.Add(1)).To(MatchError(ErrReleased))
}

// TestRevoked: the reservation of a namespace with more than its share ends when another namespace needs the space.
func TestRevoked(t *testing.T) {
	g := NewWithT(t)
	store := New(Options{MaxBytes: 10, Retention: time.Hour, Delete: func(string) error { return nil }, Full: errFull, Revoked: errRevoked})
	var cause error
	large := store.Reserve("mallory", func(err error) { cause = err })
	g.Expect(large.Hold(10)).To(Succeed())
	small := store.Reserve("dc", func(error) { t.Error("it has its share") })
	g.Expect(small.Add(5)).To(Succeed())
	g.Expect(cause).To(MatchError(errRevoked))
	g.Expect(large.Add(1)).To(MatchError(errRevoked))
	g.Expect(large.Commit("a", 1, func() error { t.Error("published"); return nil })).To(MatchError(errRevoked))
	large.Release()
	_, partial := store.Bytes()
	g.Expect(partial).To(BeEquivalentTo(5))
}

// TestMoreThanItsShare: a namespace with more than its share gets nothing for which an entry within its retention would have to go, not even its own.
func TestMoreThanItsShare(t *testing.T) {
	g := NewWithT(t)
	store := New(Options{MaxBytes: 10, Retention: time.Hour, Delete: func(string) error { t.Error("deleted"); return nil }, Full: errFull, Revoked: errRevoked})
	for namespace, size := range map[string]int64{"mallory": 6, "dc": 4} {
		r := store.Reserve(namespace, func(error) { t.Error("revoked") })
		g.Expect(r.Commit(namespace, size, func() error { return nil })).To(Succeed())
		r.Release()
	}
	more := store.Reserve("mallory", func(error) { t.Error("revoked") })
	defer more.Release()
	g.Expect(more.Add(1)).To(MatchError(errFull))
}

// TestTrim: after a restart with a lower bound, the least recently used entries are deleted.
func TestTrim(t *testing.T) {
	g := NewWithT(t)
	var deleted []string
	store := New(Options{MaxBytes: 10, Delete: func(key string) error { deleted = append(deleted, key); return nil }})
	now := time.Now()
	store.Found("old", 6, now.Add(-time.Hour))
	store.Found("new", 6, now)
	g.Expect(store.Trim()).To(Succeed())
	g.Expect(deleted).To(Equal([]string{"old"}))
	g.Expect(store.Use("dc", "new")).To(BeFalse(), "it is not verified")
	store.Verified("dc", "new")
	g.Expect(store.Use("dc", "new")).To(BeTrue())
	g.Expect(store.Remove("new")).To(Succeed())
	g.Expect(store.Contains("new")).To(BeFalse())
}
