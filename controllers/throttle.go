package controllers

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// How much of what nobody acts on is told: for so many objects at once, and from then on so many in a second; and how late at most it is told
// in a status. Nobody reads more, and the API server has other things to do while a thousand servers boot.
const (
	throttleBurst  = 20
	throttleRate = 2
	throttleMaxDelay = 30 * time.Second
)

// Throttle bounds how often is told how something goes on. What happened is told at once, by whoever does not ask. A nil Pace bounds nothing.
type Throttle struct {
	limiter *rate.Limiter

	mu    sync.Mutex
	pendingSince map[types.NamespacedName]time.Time // since when something is untold
}

// NewThrottle returns a Pace.
func NewThrottle() *Throttle {
	return &Throttle{limiter: rate.NewLimiter(throttleRate, throttleBurst), pendingSince: map[types.NamespacedName]time.Time{}}
}

// Allow is true where something may be told that is told now or never.
func (p *Throttle) Allow(now time.Time) bool { return p == nil || p.limiter.AllowN(now, 1) }

// Delay returns how long an object has to wait until its status is written, zero for now.
func (p *Throttle) Delay(key types.NamespacedName, now time.Time) time.Duration {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	since, waits := p.pendingSince[key]
	if waits && now.Sub(since) >= throttleMaxDelay || p.limiter.AllowN(now, 1) {
		return 0
	}
	if !waits {
		since = now
		p.pendingSince[key] = now
	}
	return since.Add(throttleMaxDelay).Sub(now)
}

// Done notes that an object's status was written, or that nothing of it is untold any more.
func (p *Throttle) Done(key types.NamespacedName) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pendingSince, key)
}

// WithoutMessages returns conditions without what is said beside them: two that are bare and equal differ in nothing that happened.
func WithoutMessages(conditions []metav1.Condition) []metav1.Condition {
	bare := make([]metav1.Condition, len(conditions))
	for i, c := range conditions {
		bare[i] = metav1.Condition{Type: c.Type, Status: c.Status}
	}
	return bare
}
