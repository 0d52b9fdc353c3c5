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
	// restartCorrelationWindow is how much later than a request of firmware a Node may stop being Ready to have been lost with it. Kubernetes notices after
	// 40 s that a kubelet is silent; the rest is for servers that shut down slowly, and for clocks.
	restartCorrelationWindow = 5 * time.Minute
	// nodeNotReadyFor is how long a Node must not have been Ready to count as lost.
	nodeNotReadyFor = time.Minute
)

// restartUndecided is true when firmware asked for a network boot in place of a machine that runs from memory, and it is not decided whether
// its server restarted.
func restartUndecided(boot *v1alpha1.BareMetalBoot) bool {
	return controllers.ObservedStage(boot, v1alpha1.StageRestarted) != nil && controllers.ObservedStage(boot, v1alpha1.StageNodeLost) == nil
}

// checkRestart tells the lifecycle when the Node was lost as firmware asked, and returns when to look again.
func (r *Reconciler) checkRestart(ctx context.Context, s *scope) (time.Duration, error) {
	node, err := r.liveNode(ctx, s)
	if err != nil || node == nil {
		return 0, err
	}
	asked := controllers.ObservedStage(s.boot, v1alpha1.StageRestarted)
	lost, again := lostWithRestart(node, asked.Time.Time, time.Now())
	if !lost {
		return again, nil
	}
	ctrl.LoggerFrom(ctx).Info("The server restarted: firmware asked for a network boot, and the Node was lost",
		"BareMetalHost", client.ObjectKeyFromObject(s.host), "asked", asked.Time)
	return 0, controllers.ApplyStages(ctx, r.Client, s.boot, controllers.NewStage(s.boot, v1alpha1.StageNodeLost))
}

// lostWithRestart is true when a Node is not Ready, and has not been since before firmware asked or soon after. If that cannot be said yet it
// returns when it can. A Node that is Ready, or gone, is no such proof: its next change brings it back.
func lostWithRestart(node *corev1.Node, asked, now time.Time) (lost bool, again time.Duration) {
	ready := readiness(node)
	if ready == nil || ready.Status == corev1.ConditionTrue || ready.LastTransitionTime.After(asked.Add(restartCorrelationWindow)) {
		return false, 0
	}
	if wait := ready.LastTransitionTime.Add(nodeNotReadyFor).Sub(now); wait > 0 {
		return false, wait
	}
	return true, 0
}
