package machine

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// cachedHosts are the hosts as the cache last showed them. They are objects of the cache and must not be changed. A list from the cache would copy each of 10,000 hosts, 13 MiB, for each machine
// that claims one, and for each that waits for one. The zero value is ready.
type cachedHosts struct {
	mu   sync.RWMutex
	all  hostsByName
	free hostsByName // without a consumer
}

// hostsByName are hosts by namespace and name. It keeps nothing of a namespace without hosts.
type hostsByName map[string]map[string]*v1alpha1.BareMetalHost

func (h hostsByName) set(host *v1alpha1.BareMetalHost) {
	if h[host.Namespace] == nil {
		h[host.Namespace] = map[string]*v1alpha1.BareMetalHost{}
	}
	h[host.Namespace][host.Name] = host
}

func (h hostsByName) remove(host *v1alpha1.BareMetalHost) {
	delete(h[host.Namespace], host.Name)
	if len(h[host.Namespace]) == 0 {
		delete(h, host.Namespace)
	}
}

// update stores a host.
func (c *cachedHosts) update(host *v1alpha1.BareMetalHost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all, c.free = hostsByName{}, hostsByName{}
	}
	c.all.set(host)
	if host.Spec.ConsumerRef == nil {
		c.free.set(host)
	} else {
		c.free.remove(host)
	}
}

// remove removes a host that was deleted.
func (c *cachedHosts) remove(host *v1alpha1.BareMetalHost) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.remove(host)
	c.free.remove(host)
}

// inNamespace returns the hosts of a namespace.
func (c *cachedHosts) inNamespace(namespace string) []*v1alpha1.BareMetalHost {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.all[namespace]))
}

// freeInNamespace iterates over the free hosts of a namespace. Updates wait until the iteration ends.
func (c *cachedHosts) freeInNamespace(namespace string) iter.Seq[*v1alpha1.BareMetalHost] {
	return func(yield func(*v1alpha1.BareMetalHost) bool) {
		c.mu.RLock()
		defer c.mu.RUnlock()
		maps.Values(c.free[namespace])(yield)
	}
}
