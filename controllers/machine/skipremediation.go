package machine

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=patch

// nodeReturnTimeout is how long a Node may take to become Ready after a power hold or a maintenance, before MachineHealthChecks judge its Machine again. A server needs some
// minutes to start.
const nodeReturnTimeout = 10 * time.Minute

// reconcileSkipRemediation keeps MachineHealthChecks from the Machine while a power hold or a maintenance of its host exists, and until its Node is Ready after that. The
// annotation has no owner, so its value shows that the provider set it: the provider does not touch one that a user set.
func (r *Reconciler) reconcileSkipRemediation(ctx context.Context, s *scope) error {
	if s.owner == nil || !s.owner.DeletionTimestamp.IsZero() || !s.machine.DeletionTimestamp.IsZero() {
		return nil
	}
	value, set := s.owner.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	own := strings.HasPrefix(value, v1alpha1.SkipRemediationValuePrefix)
	wanted := s.host != nil && (s.host.Spec.Maintenance != nil || claim.HasPowerHold(s.host))
	after := s.owner.DeepCopy()
	switch {
	case set && !own, wanted && set, !wanted && !set:
		return nil
	case wanted:
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, v1alpha1.SkipRemediationValuePrefix+s.host.Name)
	default:
		wait, err := r.awaitsNode(ctx, s)
		if err != nil || wait > 0 {
			s.requeueAfter = wait
			return err
		}
		delete(after.Annotations, clusterv1.MachineSkipRemediationAnnotation)
	}
	// The optimistic lock ensures that a user did not set or change the annotation meanwhile.
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(s.owner, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("change the annotation %s of Machine %s: %w", clusterv1.MachineSkipRemediationAnnotation, s.owner.Name, err)
	}
	return nil
}

// awaitsNode returns how long MachineHealthChecks must still be kept from a Machine whose power hold or maintenance has ended: zero if its Node is Ready, or had enough time.
func (r *Reconciler) awaitsNode(ctx context.Context, s *scope) (time.Duration, error) {
	if s.host == nil {
		return 0, nil
	}
	boot, err := controllers.GetBoot(ctx, r.Client, client.ObjectKeyFromObject(s.host))
	if err != nil {
		return 0, err
	}
	ended := time.Now() // this reconcile is the first after the end: Ready still shows the power hold or the maintenance
	if c := conditions.Get(s.before, v1alpha1.ReadyCondition); c != nil && c.Reason != v1alpha1.ReasonPowerHold && c.Reason != v1alpha1.ReasonMaintenance {
		ended = c.LastTransitionTime.Time
	}
	node := controllers.NodeOf(boot)
	switch {
	case s.host.Spec.PowerHoldSince != nil: // the server is being powered on
		return nodeReturnTimeout, nil
	case node == nil, node.Readiness == "", node.Readiness == v1alpha1.NodeReady:
		return 0, nil
	default:
		return max(0, time.Until(ended.Add(nodeReturnTimeout))), nil
	}
}
