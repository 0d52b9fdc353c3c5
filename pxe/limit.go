package pxe

import (
	"net/netip"
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// An address may try wrongly so often at once, and once a second from then on. An operating system that asks for what it may not
// have yet, as cloud-init does eleven times, a second apart, stays far below.
const (
	triesAtOnce    = 20
	triesPerSecond = 1
)

// remembered bounds the addresses whose wrong tries are counted. Those that tried wrongly last are kept.
const remembered = 4096

// tries counts the wrong tries of each address, so that guessing costs us nothing. It says nothing of addresses that never tried
// wrongly: nobody can use up another's tries but by taking his address.
type tries struct {
	mu sync.Mutex
	of *lru.Cache // from netip.Addr to *rate.Limiter
}

func newTries() *tries { return &tries{of: lru.New(remembered)} }

// left is true while the address may try.
func (t *tries) left(from netip.Addr) bool {
	limiter, known := t.of.Get(from)
	return !known || limiter.(*rate.Limiter).Tokens() >= 1 //nolint:forcetypeassert // nothing else is put in
}

// wrong counts a wrong try.
func (t *tries) wrong(from netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limiter, known := t.of.Get(from)
	if !known {
		limiter = rate.NewLimiter(triesPerSecond, triesAtOnce)
		t.of.Add(from, limiter)
	}
	limiter.(*rate.Limiter).Allow() //nolint:forcetypeassert // nothing else is put in
}
