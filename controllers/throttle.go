package controllers

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Limits on progress reports, which require no action: throttleBurst objects at once, then throttleRate objects per second, and at most
// throttleMaxDelay until a status is written. The API server has other work while a thousand servers boot.
const (
	throttleBurst    = 20
	throttleRate     = 2
	throttleMaxDelay = 30 * time.Second
)

// Throttle limits how often progress is reported. Transitions are not throttled: they are reported without asking the throttle. A nil Throttle limits
// nothing.
type Throttle struct {
	limiter *rate.Limiter

	mu           sync.Mutex
	pendingSince map[types.NamespacedName]time.Time // since when the status of an object is unwritten
}

// NewThrottle returns a Throttle.
func NewThrottle() *Throttle {
	return &Throttle{limiter: rate.NewLimiter(throttleRate, throttleBurst), pendingSince: map[types.NamespacedName]time.Time{}}
}

// Allow is true if a report may be sent now. A report that may not is dropped.
func (t *Throttle) Allow(now time.Time) bool { return t == nil || t.limiter.AllowN(now, 1) }

// Delay returns how long the status of an object must stay unwritten, zero if it may be written now.
func (t *Throttle) Delay(key types.NamespacedName, now time.Time) time.Duration {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	since, pending := t.pendingSince[key]
	if pending && now.Sub(since) >= throttleMaxDelay || t.limiter.AllowN(now, 1) {
		return 0
	}
	if !pending {
		since = now
		t.pendingSince[key] = now
	}
	return since.Add(throttleMaxDelay).Sub(now)
}

// Done records that the status of an object was written, or that nothing of it is unwritten any more.
func (t *Throttle) Done(key types.NamespacedName) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.pendingSince, key)
}

// WithoutMessages returns only the types and statuses of conditions. If they are equal before and after, no transition occurred.
func WithoutMessages(conditions []metav1.Condition) []metav1.Condition {
	bare := make([]metav1.Condition, len(conditions))
	for i, c := range conditions {
		bare[i] = metav1.Condition{Type: c.Type, Status: c.Status}
	}
	return bare
}

// WithoutProgress returns an operation without what only reports its progress: whether it runs or succeeded, and when. It is nil unless the
// operation failed or has a message.
func WithoutProgress(o *v1alpha1.Operation) *v1alpha1.Operation {
	if o == nil || o.Outcome == v1alpha1.OperationSucceeded || o.Outcome == "" && o.Message == "" {
		return nil
	}
	return &v1alpha1.Operation{Name: o.Name, Outcome: v1alpha1.OperationFailed, Message: o.Message}
}
