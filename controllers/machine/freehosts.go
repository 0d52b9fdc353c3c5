package machine

import (
	"iter"
	"maps"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// freeHosts keeps the hosts without a consumer, by namespace and name, as the cache last showed them. A list from the cache would copy each of 10,000
// hosts for each machine that claims one. The zero value is ready.
type freeHosts struct {
	mu    sync.RWMutex
	hosts map[string]map[string]*v1alpha1.BareMetalHost
}

// update stores or removes a host, by its consumer. The host is an object of the cache and must not be changed.
func (f *freeHosts) update(host *v1alpha1.BareMetalHost) {
	if host.Spec.ConsumerRef != nil {
		f.remove(host)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.hosts == nil {
		f.hosts = map[string]map[string]*v1alpha1.BareMetalHost{}
	}
	if f.hosts[host.Namespace] == nil {
		f.hosts[host.Namespace] = map[string]*v1alpha1.BareMetalHost{}
	}
	f.hosts[host.Namespace][host.Name] = host
}

// remove removes a host that was deleted or claimed.
func (f *freeHosts) remove(host *v1alpha1.BareMetalHost) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hosts[host.Namespace], host.Name)
	if len(f.hosts[host.Namespace]) == 0 {
		delete(f.hosts, host.Namespace)
	}
}

// inNamespace iterates over the free hosts of a namespace. Updates wait until the iteration ends.
func (f *freeHosts) inNamespace(namespace string) iter.Seq[*v1alpha1.BareMetalHost] {
	return func(yield func(*v1alpha1.BareMetalHost) bool) {
		f.mu.RLock()
		defer f.mu.RUnlock()
		maps.Values(f.hosts[namespace])(yield)
	}
}
