package pxe

import (
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/quota"
)

// An address may fail this often at once, and once a second afterwards. An operating system that asks too early, as cloud-init does eleven times, a second
// apart, stays far below.
const (
	failureBurst = 20
	failureRate  = 1
)

// rackServers is how many servers are expected in an IPv6 /64. All addresses of a /64 together may fail as often as that many addresses: they may belong to
// a rack of servers, or to one client.
const rackServers = 64

// maxLimiters bounds the addresses, and the /64s, whose failures are counted. Those that failed most recently are kept.
const maxLimiters = 4096

// attemptLimiter counts the failed attempts of each address and each IPv6 /64, to make guessing expensive. An address without failures of its own is refused only if other
// addresses used up the attempts of its /64.
type attemptLimiter struct {
	mu                  sync.Mutex
	addresses, prefixes *lru.Cache // from netip.Addr and netip.Prefix to *rate.Limiter
}

func newAttemptLimiter() *attemptLimiter {
	return &attemptLimiter{addresses: lru.New(maxLimiters), prefixes: lru.New(maxLimiters)}
}

// allowed is true while the address may try again.
func (t *attemptLimiter) allowed(from netip.Addr) bool {
	if prefix, ok := quota.PrefixOf(from); ok && !hasAttempts(t.prefixes, prefix) {
		return false
	}
	return hasAttempts(t.addresses, from)
}

// hasAttempts is allowed for a key of one of the caches.
func hasAttempts(of *lru.Cache, key any) bool {
	limiter, known := of.Get(key)
	return !known || limiter.(*rate.Limiter).Tokens() >= 1 //nolint:forcetypeassert // nothing else is put in
}

// countFailure counts a failed attempt.
func (t *attemptLimiter) countFailure(from netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	countFailureOf(t.addresses, from, 1)
	if prefix, ok := quota.PrefixOf(from); ok {
		countFailureOf(t.prefixes, prefix, rackServers)
	}
}

// countFailureOf counts a failed attempt against the budget of that many servers.
func countFailureOf(of *lru.Cache, key any, servers int) {
	limiter, known := of.Get(key)
	if !known {
		limiter = rate.NewLimiter(rate.Limit(servers*failureRate), servers*failureBurst)
		of.Add(key, limiter)
	}
	limiter.(*rate.Limiter).Allow() //nolint:forcetypeassert // nothing else is put in
}
