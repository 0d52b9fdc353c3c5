package pxe

import (
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/quota"
)

// An address may try wrongly so often at once, and once a second from then on. An operating system that asks for what it may not
// have yet, as cloud-init does eleven times, a second apart, stays far below.
const (
	triesAtOnce    = 20
	triesPerSecond = 1
)

// rackServers is how many servers that each try as often as an address may are expected in an IPv6 /64. A /64 has as many tries as they have together,
// and so has one client with all its addresses.
const rackServers = 64

// remembered bounds the addresses whose wrong tries are counted, and the /64s. Those that tried wrongly last are kept.
const remembered = 4096

// tries counts the wrong tries of each address and each IPv6 /64, so that guessing costs us nothing. An address that never tried wrongly is refused
// only where others of its /64 used up the tries of that.
type tries struct {
	mu                  sync.Mutex
	addresses, prefixes *lru.Cache // from netip.Addr and netip.Prefix to *rate.Limiter
}

func newTries() *tries { return &tries{addresses: lru.New(remembered), prefixes: lru.New(remembered)} }

// left is true while the address may try.
func (t *tries) left(from netip.Addr) bool {
	if prefix, ok := quota.PrefixOf(from); ok && !triesLeft(t.prefixes, prefix) {
		return false
	}
	return triesLeft(t.addresses, from)
}

func triesLeft(of *lru.Cache, key any) bool {
	limiter, known := of.Get(key)
	return !known || limiter.(*rate.Limiter).Tokens() >= 1 //nolint:forcetypeassert // nothing else is put in
}

// wrong counts a wrong try.
func (t *tries) wrong(from netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	countTry(t.addresses, from, 1)
	if prefix, ok := quota.PrefixOf(from); ok {
		countTry(t.prefixes, prefix, rackServers)
	}
}

// countTry counts a wrong try of so many servers.
func countTry(of *lru.Cache, key any, servers int) {
	limiter, known := of.Get(key)
	if !known {
		limiter = rate.NewLimiter(rate.Limit(servers*triesPerSecond), servers*triesAtOnce)
		of.Add(key, limiter)
	}
	limiter.(*rate.Limiter).Allow() //nolint:forcetypeassert // nothing else is put in
}
