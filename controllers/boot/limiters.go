package boot

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// maxLimiters bounds the keys whose rates are limited at once. Those that were used longest ago are dropped.
const maxLimiters = 4096

// limiters limit the rate of something for each key, such as a host.
type limiters struct {
	rate  rate.Limit
	burst int

	mu   sync.Mutex
	keys *lru.Cache // to *rate.Limiter
}

func newLimiters(perSecond rate.Limit, burst int) *limiters {
	return &limiters{rate: perSecond, burst: burst, keys: lru.New(maxLimiters)}
}

// allow is true within the rate of a key.
func (l *limiters) allow(key any, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, ok := l.keys.Get(key)
	if !ok {
		limiter = rate.NewLimiter(l.rate, l.burst)
		l.keys.Add(key, limiter)
	}
	return limiter.(*rate.Limiter).AllowN(now, 1) //nolint:forcetypeassert // nothing else is added
}
