package remediation

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
)

// record patches the remediation's spec with an optimistic lock: the change was decided for this version.
func (r *Reconciler) record(ctx context.Context, s *scope, change func(*v1alpha1.BareMetalRemediationSpec)) error {
	before := s.remediation.DeepCopy()
	change(&s.remediation.Spec)
	return r.Client.Patch(ctx, s.remediation, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// writeStatus writes the status of the remediation.
func (r *Reconciler) writeStatus(ctx context.Context, s *scope) error {
	if s.phase == "" {
		return nil
	}
	before := s.remediation.DeepCopy()
	status := &s.remediation.Status
	status.Phase, status.Attempt, status.StartTime = s.phase, 0, nil
	if cycle := s.remediation.Spec.PowerCycle; cycle != nil && cycle.Attempt > 0 {
		status.Attempt, status.StartTime = cycle.Attempt, &cycle.StartTime
	}
	ready := metav1.ConditionFalse
	if s.phase == v1alpha1.RemediationRecovered {
		ready = metav1.ConditionTrue
	}
	conditions.Set(s.remediation, metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: ready, Reason: s.reason, Message: controllers.Clip(s.message, controllers.MaxMessage),
		ObservedGeneration: s.remediation.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, s.remediation.Status) {
		return nil
	}
	recovered := s.phase == v1alpha1.RemediationRecovered && before.Status.Phase != s.phase
	noNetwork := s.reason == v1alpha1.ReasonNetworkPluginMissing && conditions.GetReason(before, v1alpha1.ReadyCondition) != s.reason
	patch := client.MergeFrom(before)
	if recovered || noNetwork { // the lock keeps the event and the metric from being repeated if the cache is behind
		patch = client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	}
	if err := r.Client.Status().Patch(ctx, s.remediation, patch); err != nil {
		return client.IgnoreNotFound(err)
	}
	if recovered {
		r.event(s, corev1.EventTypeNormal, "RemediationRecovered", "Wait", "%s", s.message)
		countCycle(s.remediation.Spec.PowerCycle, metrics.CycleRecovered)
	}
	if noNetwork {
		r.event(s, corev1.EventTypeWarning, v1alpha1.ReasonNetworkPluginMissing, "Wait", "%s", s.message)
	}
	return nil
}

// countCycle counts a power cycle that ended. A record without an attempt is not counted.
func countCycle(cycle *v1alpha1.PowerCycle, result string) {
	if cycle != nil && cycle.Attempt > 0 {
		metrics.PowerCycled(result, time.Since(cycle.StartTime.Time))
	}
}

// event records an event of the Machine, which outlives the remediation.
func (r *Reconciler) event(s *scope, kind, reason, action, note string, args ...any) {
	if s.machine != nil {
		controllers.RecordEvent(r.Recorder, s.machine, s.remediation, kind, reason, action, note, args...)
	}
}

// holder is the name of the remediation in the power holds of a host. It contains no UID, since a move changes UIDs.
func (s *scope) holder() string { return v1alpha1.RemediationHolderPrefix + s.remediation.Name }

// hasPowerHold is true if the host has the remediation's power hold.
func (s *scope) hasPowerHold(host *v1alpha1.BareMetalHost) bool {
	for _, h := range host.Spec.PowerHolds {
		if h.Holder == s.holder() {
			return true
		}
	}
	return false
}

// otherHolder names another holder that keeps the server off or power-cycles it, empty without one.
func (s *scope) otherHolder() string {
	for _, h := range slices.Concat(s.host.Spec.PowerHolds, s.view.Requests.Power.Holds) {
		if h.Holder != s.holder() {
			return fmt.Sprintf("%s (%s)", h.Holder, h.Reason)
		}
	}
	if cycles := s.view.Requests.Power.Cycles; len(cycles) > 0 {
		return cycles[0] + " (one power cycle)"
	}
	return ""
}

// deadline is when the power cycle times out. After a pause, as during a move, the timeout starts again.
func (s *scope) deadline() time.Time {
	from := s.remediation.Spec.PowerCycle.StartTime.Time
	if at := s.pausedAt(); at.After(from) {
		from = at
	}
	return from.Add(s.timeout())
}

// pausedAt is when the condition Paused last changed, zero if the remediation never had it. A move creates the condition again.
func (s *scope) pausedAt() time.Time {
	if c := conditions.Get(s.remediation, clusterv1.PausedCondition); c != nil {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

func (s *scope) timeout() time.Duration {
	if t := s.remediation.Spec.TimeoutSeconds; t != nil {
		return time.Duration(*t) * time.Second
	}
	return 20 * time.Minute // the default of the API
}

func (s *scope) retries() int32 {
	if n := s.remediation.Spec.Retries; n != nil {
		return *n
	}
	return 1 // the default of the API
}
