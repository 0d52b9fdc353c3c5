package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

const (
	// restartCorrelationWindow is how long after a network boot request of the firmware a Node may stop being Ready to count as lost with it.
	// Kubernetes notices a silent kubelet after 40 s. The rest allows for servers that shut down slowly, and for clock differences.
	restartCorrelationWindow = 5 * time.Minute
	// nodeNotReadyFor is how long a Node must not be Ready to count as lost.
	nodeNotReadyFor = time.Minute
)

// restartUndecided is true if firmware requested a network boot for a machine that runs from memory, and it is not known yet whether its server
// restarted.
func restartUndecided(boot *v1alpha1.BareMetalBoot) bool {
	return controllers.ObservedStage(boot, v1alpha1.StageRestarted) != nil && controllers.ObservedStage(boot, v1alpha1.StageNodeLost) == nil
}

// checkRestart records the stage NodeLost if the Node was lost when the firmware requested a network boot. Otherwise it refreshes what is shown of the Node, since firmware, or
// somebody else, may send such a request although the server runs, and returns when to check again.
func (r *Reconciler) checkRestart(ctx context.Context, s *scope) (time.Duration, error) {
	node, err := r.liveNode(ctx, s)
	if err != nil {
		return 0, err
	}
	if node == nil {
		return r.refresh(ctx, s)
	}
	requested := controllers.ObservedStage(s.boot, v1alpha1.StageRestarted)
	lost, requeueAfter := lostWithRestart(node, requested.Time.Time, time.Now())
	if !lost {
		refreshAfter, err := r.refresh(ctx, s)
		return earlier(requeueAfter, refreshAfter), err
	}
	ctrl.LoggerFrom(ctx).Info("The server restarted: its firmware requested a network boot, and its Node was lost",
		"BareMetalHost", client.ObjectKeyFromObject(s.host), "requested", requested.Time)
	return 0, controllers.ApplyStages(ctx, r.Client, s.boot, controllers.NewStage(s.boot, v1alpha1.StageNodeLost))
}

// lostWithRestart is true if a Node has not been Ready since before the request of the firmware or shortly after. If that is not known yet, it
// returns when to check again. A Node that is Ready or gone proves no loss; its next change enqueues the machine.
func lostWithRestart(node *corev1.Node, requested, now time.Time) (lost bool, requeueAfter time.Duration) {
	ready := readiness(node)
	if ready == nil || ready.Status == corev1.ConditionTrue || ready.LastTransitionTime.After(requested.Add(restartCorrelationWindow)) {
		return false, 0
	}
	if wait := ready.LastTransitionTime.Add(nodeNotReadyFor).Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}
