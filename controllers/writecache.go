package controllers

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteCache keeps the objects that a controller wrote until the cache shows them. Without it a reconcile would repeat a decision and a write that
// the cache does not show yet. It guarantees nothing: like the cache, it does not know what others wrote meanwhile. The zero value is ready.
//
// Cluster API v1.14.2 has DeferNextReconcileUntilCacheUpToDate (util/controller), which needs the priority queue. cmd/provider turns that queue off
// for the deadlock of controller-runtime #3538, which #3540 fixes. It also limits an object to one reconcile per second. Delete WriteCache with a
// controller-runtime that has #3540, if one reconcile per second is enough for boots.
type WriteCache[T client.Object] struct {
	mu        sync.Mutex
	entries   map[types.NamespacedName]writeCacheEntry[T]
	conflicts map[types.NamespacedName]writeConflict
}

// writeConflict is a version that is outdated: a write of it was answered with a conflict.
type writeConflict struct {
	version string
	delay   time.Duration // after which the write is tried again, although no other version was read
	tryAt   time.Time
}

// The delay before a write that conflicted is tried again doubles between these limits, while this process knows no newer version. Usually the event of that version comes first.
const (
	firstConflictDelay = time.Second
	maxConflictDelay   = 30 * time.Second
)

// writeCacheEntry is an object as it was last written. If written is false, older holds the version that the cache showed last.
type writeCacheEntry[T client.Object] struct {
	object  T
	written bool
	older   []string // the versions before object, any of which the cache may show
}

// Read returns the last written version of an object if the cache is behind it, and cached otherwise.
func (w *WriteCache[T]) Read(cached T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(cached)
	last := w.entries[key]
	if last.written && last.object.GetUID() == cached.GetUID() && slices.Contains(last.older, cached.GetResourceVersion()) {
		return last.object.DeepCopyObject().(T) //nolint:forcetypeassert // it is a copy
	}
	if w.entries == nil {
		w.entries = map[types.NamespacedName]writeCacheEntry[T]{}
	}
	w.entries[key] = writeCacheEntry[T]{older: []string{cached.GetResourceVersion()}}
	return cached
}

// Record stores the API server's answer to a write of an object that Read returned.
func (w *WriteCache[T]) Record(object T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	last, ok := w.entries[key]
	older := slices.Clone(last.older)
	if last.written {
		older = append(older, last.object.GetResourceVersion())
	}
	if !ok || slices.ContainsFunc(older, func(known string) bool { return !isNewer(object.GetResourceVersion(), known) }) {
		return // nothing changed, or another goroutine has recorded a later write
	}
	written := object.DeepCopyObject().(T) //nolint:forcetypeassert // it is a copy
	written.SetManagedFields(nil)          // as in the cache
	w.entries[key] = writeCacheEntry[T]{written, true, older}
}

// isNewer is true for a version that is newer than another one of the same object.
func isNewer(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order > 0
}

// NoteConflict records that a write was answered with a conflict. The change was decided for the version in before, so nothing is decided for that version any more.
func (w *WriteCache[T]) NoteConflict(before T, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conflicts == nil {
		w.conflicts = map[types.NamespacedName]writeConflict{}
	}
	key := client.ObjectKeyFromObject(before)
	c := writeConflict{version: before.GetResourceVersion(), delay: firstConflictDelay}
	if last := w.conflicts[key]; last.version == c.version {
		c.delay = min(2*last.delay, maxConflictDelay)
	}
	c.tryAt = now.Add(c.delay)
	w.conflicts[key] = c
}

// Outdated returns how long to wait before anything is decided for an object that Read returned: longer than zero while it has the version of a conflict.
func (w *WriteCache[T]) Outdated(read T, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(read)
	c, ok := w.conflicts[key]
	if !ok {
		return 0
	}
	if c.version != read.GetResourceVersion() {
		delete(w.conflicts, key)
		return 0
	}
	return max(c.tryAt.Sub(now), 0)
}

// Forget drops the entry of an object that is gone.
func (w *WriteCache[T]) Forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, key)
	delete(w.conflicts, key)
}
