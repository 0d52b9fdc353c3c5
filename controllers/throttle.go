package controllers

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Limits on changes that require no action: throttleBurst objects at once, then throttleRate objects per second, and at most throttleMaxDelay until a status is written. The API
// server has other work while a thousand servers boot.
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

// DelayProgress is Delay for progress of a boot or of a release: it stays unwritten for a time, and takes no token. The next transition writes it earlier. If delay is zero, it is
// throttled as other progress.
func (t *Throttle) DelayProgress(key types.NamespacedName, now time.Time, delay time.Duration) time.Duration {
	if t == nil || delay == 0 {
		return t.Delay(key, now)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	since, pending := t.pendingSince[key]
	if !pending {
		since = now
		t.pendingSince[key] = now
	}
	return max(since.Add(delay).Sub(now), 0)
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

// ProgressDelay returns how long progress of a boot stays unwritten in the statuses of its host and its machine. The BareMetalBoot shows it at once. So a boot that hangs shows
// there where it hangs, after a part of the time of its attempt, and one that does not hang writes nothing.
func ProgressDelay(bootTimeout time.Duration) time.Duration { return bootTimeout / 6 }

// progressReasons are the reasons of Booted and HostBooted that follow each other in a boot or a release without a problem. What is wrong has another reason.
var progressReasons = []string{
	v1alpha1.ReasonPreparing, v1alpha1.ReasonWaitingForBootSlot, v1alpha1.ReasonWaitingForDHCP, v1alpha1.ReasonWaitingForLoader, v1alpha1.ReasonWaitingForNetworkSlot,
	v1alpha1.ReasonWaitingForScript, v1alpha1.ReasonWaitingForKernel, v1alpha1.ReasonWaitingForData, v1alpha1.ReasonWaitingForReport, v1alpha1.ReasonWaitingForMachine,
	v1alpha1.ReasonWaitingForMedia, v1alpha1.ReasonWaitingForMediaBoot, v1alpha1.ReasonWaitingForAgent, v1alpha1.ReasonAgentRuns, v1alpha1.ReasonReleasing, v1alpha1.ReasonCleaning,
}

// IsBootProgress is true if the condition about a boot shows the progress of a boot or of a release, before and after a change. before is nil for a new condition.
func IsBootProgress(before, after *metav1.Condition) bool {
	return after != nil && slices.Contains(progressReasons, after.Reason) && (before == nil || slices.Contains(progressReasons, before.Reason))
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
