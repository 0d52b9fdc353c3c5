package pxe

import (
	"strings"
	"sync"
)

// hostSlots bound what one host, and the hosts of one namespace, have at once.
type hostSlots struct {
	perHost, perNamespace int

	mu    sync.Mutex
	taken map[string]int // by a host, and by its namespace
}

func newHostSlots(perHost, perNamespace int) *hostSlots {
	return &hostSlots{perHost: perHost, perNamespace: perNamespace, taken: map[string]int{}}
}

// enter takes a slot for a host, given as "namespace/name". It is false if the host, or its namespace, has all its slots.
func (p *hostSlots) enter(host string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	namespace, _, _ := strings.Cut(host, "/")
	if p.taken[host] >= p.perHost || p.taken[namespace] >= p.perNamespace {
		return false
	}
	p.taken[host]++
	p.taken[namespace]++
	return true
}

// leave gives a slot back.
func (p *hostSlots) leave(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	namespace, _, _ := strings.Cut(host, "/")
	for _, name := range []string{host, namespace} {
		if p.taken[name]--; p.taken[name] == 0 {
			delete(p.taken, name)
		}
	}
}
