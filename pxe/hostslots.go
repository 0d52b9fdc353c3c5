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
func (s *hostSlots) enter(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, _, _ := strings.Cut(host, "/")
	if s.taken[host] >= s.perHost || s.taken[namespace] >= s.perNamespace {
		return false
	}
	s.taken[host]++
	s.taken[namespace]++
	return true
}

// leave gives a slot back.
func (s *hostSlots) leave(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, _, _ := strings.Cut(host, "/")
	for _, name := range []string{host, namespace} {
		if s.taken[name]--; s.taken[name] == 0 {
			delete(s.taken, name)
		}
	}
}
