package machine

import (
	"iter"
	"maps"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// free are the hosts that no machine has, by namespace and name, as the cache showed them last. A list from the cache would copy each of 10,000 hosts
// for each machine that claims one. The zero value is ready.
type free struct {
	mu    sync.RWMutex
	hosts map[string]map[string]*v1alpha1.BareMetalHost
}

// see takes in what the cache shows of a host. Nothing may be written to it: it is the cache's own object.
func (f *free) see(host *v1alpha1.BareMetalHost) {
	if host.Spec.ConsumerRef != nil {
		f.gone(host)
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

// gone drops a host that is not there any more, or not free.
func (f *free) gone(host *v1alpha1.BareMetalHost) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hosts[host.Namespace], host.Name)
	if len(f.hosts[host.Namespace]) == 0 {
		delete(f.hosts, host.Namespace)
	}
}

// in goes through the free hosts of a namespace. What comes meanwhile waits until it ends.
func (f *free) in(namespace string) iter.Seq[*v1alpha1.BareMetalHost] {
	return func(yield func(*v1alpha1.BareMetalHost) bool) {
		f.mu.RLock()
		defer f.mu.RUnlock()
		maps.Values(f.hosts[namespace])(yield)
	}
}
