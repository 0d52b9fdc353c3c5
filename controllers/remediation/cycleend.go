package remediation

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// recovered does nothing for a machine whose Node recovered, unless the MachineHealthCheck found it unhealthy since. A MachineHealthCheck deletes no
// remediation while too many machines are unhealthy.
func (r *Reconciler) recovered(ctx context.Context, s *scope) error {
	c := conditions.Get(s.machine, clusterv1.MachineHealthCheckSucceededCondition)
	if c != nil && c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(s.remediation.Spec.PowerCycle.RecoveredTime.Time) {
		return r.startCycle(ctx, s, 1, "")
	}
	s.setRecovered()
	return nil
}

func (s *scope) setRecovered() {
	how := "The Node is healthy again, without a power cycle"
	if cycle := s.remediation.Spec.PowerCycle; cycle.Attempt > 0 {
		how = fmt.Sprintf("Power cycle %d helped: the Node is healthy again", cycle.Attempt)
	}
	s.setStatus(v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered, "%s", how)
}

// awaitDeadline requeues until the deadline of the power cycle. After it the next power cycle starts, or the machine is handed over. missing says
// what the power cycle still waited for.
func (r *Reconciler) awaitDeadline(ctx context.Context, s *scope, missing string) error {
	if left := time.Until(s.deadline()); left > 0 {
		s.requeueAfter = min(nodePollInterval, left)
		return nil
	}
	cycle := s.remediation.Spec.PowerCycle
	if cycle.Attempt < s.retries() {
		timedOut := fmt.Sprintf("%s: the machine did not recover within %s: %s", cycleTitle(cycle), s.timeout(), missing)
		return r.startCycle(ctx, s, cycle.Attempt+1, timedOut)
	}
	quarantine := v1alpha1.ReasonRemediationFailed
	if s.phase == v1alpha1.RemediationRecovered && annotations.HasRemediateMachine(s.machine) {
		quarantine = "" // a user asked for the replacement, and the server is healthy
	}
	return r.handOver(ctx, s, fmt.Sprintf("Its server was power-cycled %d times, with a timeout of %s each, and did not recover: %s", cycle.Attempt, s.timeout(), missing), quarantine)
}
