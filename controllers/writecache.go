package controllers

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// WriteCache has the objects that a controller wrote, until the cache shows them: else what was just written would be decided, and written, again. It is
// a help, not a guarantee: of what others wrote meanwhile it knows nothing, as the cache does. The zero value is ready.
type WriteCache[T client.Object] struct {
	mu  sync.Mutex
	entries map[types.NamespacedName]writeCacheEntry[T]
}

// writeCacheEntry is an object as it was last written. Without one, older is what the cache showed last.
type writeCacheEntry[T client.Object] struct {
	object  T
	written bool
	older   []string // the versions that came before it, of which the cache may show any
}

// Read returns an object that was read from the cache, or as it was written since.
func (n *WriteCache[T]) Read(cached T) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := client.ObjectKeyFromObject(cached)
	last := n.entries[key]
	if last.written && last.object.GetUID() == cached.GetUID() && slices.Contains(last.older, cached.GetResourceVersion()) {
		return last.object.DeepCopyObject().(T) //nolint:forcetypeassert // it is a copy
	}
	if n.entries == nil {
		n.entries = map[types.NamespacedName]writeCacheEntry[T]{}
	}
	n.entries[key] = writeCacheEntry[T]{older: []string{cached.GetResourceVersion()}}
	return cached
}

// Record notes the API server's answer to a write of what Read returned.
func (n *WriteCache[T]) Record(object T) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	last, ok := n.entries[key]
	if !ok || slices.Contains(last.older, object.GetResourceVersion()) {
		return // nothing changed
	}
	older := slices.Clone(last.older)
	if last.written {
		older = append(older, last.object.GetResourceVersion())
	}
	written := object.DeepCopyObject().(T) //nolint:forcetypeassert // it is a copy
	written.SetManagedFields(nil)          // as in the cache
	n.entries[key] = writeCacheEntry[T]{written, true, older}
}

// Forget drops what is kept of an object that is gone.
func (n *WriteCache[T]) Forget(key types.NamespacedName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.entries, key)
}
