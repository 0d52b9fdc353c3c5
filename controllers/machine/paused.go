package machine

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/paused"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// reconcilePaused maintains the condition Paused of Cluster API's contract, and returns true if the reconcile ends here. A machine that was never
// paused gets the condition with its first status (setNotPaused). Otherwise each claim would wait for a write of the condition and for the reconcile
// after it.
func (r *Reconciler) reconcilePaused(ctx context.Context, s *scope) (bool, error) {
	if conditions.Get(s.machine, clusterv1.PausedCondition) == nil && !annotations.IsPaused(s.cluster, s.machine) {
		return false, nil
	}
	isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, s.cluster, s.machine)
	if err == nil && isPaused && !s.machine.DeletionTimestamp.IsZero() {
		err = r.writeDeleting(ctx, s.machine, "The machine or its Cluster is paused: nothing is done until the machine's annotation cluster.x-k8s.io/paused or "+
			"the Cluster's spec.paused is removed")
	}
	return isPaused || requeue, err
}

// setNotPaused sets the condition Paused to False if the machine has no such condition. The machine must not be paused.
func setNotPaused(m *v1alpha1.BareMetalMachine) {
	if conditions.Get(m, clusterv1.PausedCondition) == nil {
		conditions.Set(m, metav1.Condition{Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason, ObservedGeneration: m.Generation})
	}
}
