package cluster

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// kubeconfigChanges enqueues the BareMetalCluster of a cluster whose kubeconfig was refused or accepted again.
func (r *Reconciler) kubeconfigChanges() source.Source {
	return source.TypedChannel(r.Kubeconfigs.Changes(), handler.TypedFuncs[client.ObjectKey, reconcile.Request]{
		GenericFunc: func(ctx context.Context, e event.TypedGenericEvent[client.ObjectKey], q controllers.Queue) {
			cluster := &clusterv1.Cluster{}
			if err := r.Client.Get(ctx, e.Object, cluster); err != nil {
				if client.IgnoreNotFound(err) != nil {
					ctrl.LoggerFrom(ctx).Error(err, "Failed to read the Cluster of a kubeconfig", "Cluster", e.Object)
				}
				return
			}
			q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Spec.InfrastructureRef.Name}})
		},
	})
}

// forgetKubeconfig drops what is known of the kubeconfig of a deleted cluster, whose BareMetalCluster may be gone already.
func (r *Reconciler) forgetKubeconfig(_ context.Context, e event.DeleteEvent, _ controllers.Queue) {
	r.Kubeconfigs.Forget(client.ObjectKeyFromObject(e.Object))
}

// reconcileKubeconfig reports whether the kubeconfig of a cluster is refused. While this process has not read the kubeconfig, the condition stays as
// it is.
func (r *Reconciler) reconcileKubeconfig(infra *v1alpha1.BareMetalCluster, cluster *clusterv1.Cluster) {
	known, refused := r.Kubeconfigs.Verdict(client.ObjectKeyFromObject(cluster))
	switch {
	case !known:
	case refused == nil:
		conditions.Delete(infra, v1alpha1.KubeconfigAcceptedCondition)
	default:
		conditions.Set(infra, metav1.Condition{
			Type: v1alpha1.KubeconfigAcceptedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonKubeconfigRefused,
			Message: controllers.Clip("The Secret "+cluster.Name+"-kubeconfig is refused: "+refused.Error(), controllers.MaxMessage),
		})
	}
}
