// Package template reconciles BareMetalMachineTemplates: it reports the capacity of a machine of a template, which is computed from the hosts that
// such a machine can claim. The cluster autoscaler needs the capacity to scale a node group up from zero.
package template

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachinetemplates/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=list;watch;patch

// Reconciler reconciles BareMetalMachineTemplates.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the templates to reconcile.
	WatchFilter string

	metadata client.Reader // the cache: Client reads even the metadata of Secrets from the API server
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	r.metadata = mgr.GetCache()
	return ctrl.NewControllerManagedBy(mgr).Named("baremetalmachinetemplate").
		Watches(&v1alpha1.BareMetalMachineTemplate{}, controllers.EnqueueObject, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		Watches(&v1alpha1.BareMetalHost{}, controllers.EnqueueBatched(r.templatesOfHost), builder.WithPredicates(hostChanged)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.templatesOfCluster),
			builder.WithPredicates(predicates.Any(mgr.GetScheme(), log,
				predicates.ClusterCreateNotPaused(mgr.GetScheme(), log), predicates.ClusterPausedTransitions(mgr.GetScheme(), log)))).
		WithOptions(options).
		Complete(r)
}

// Reconcile computes the status of a template.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	template := &v1alpha1.BareMetalMachineTemplate{}
	if err := r.Client.Get(ctx, request.NamespacedName, template); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllers.HasWatchFilter(template, r.WatchFilter) || !template.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	// A template need not belong to a Cluster: not before a MachineDeployment or a control plane refers to it, and never in a ClusterClass. A
	// template whose Cluster does not exist, as during a move, is not reconciled.
	var cluster *clusterv1.Cluster
	if name := clusterOf(template); name != "" {
		var err error
		if cluster, err = util.GetClusterByName(ctx, r.Client, template.Namespace, name); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, cluster, template); err != nil || isPaused {
		return controllers.Result(err)
	} else if requeue {
		return ctrl.Result{RequeueAfter: 10 * time.Millisecond}, nil
	}
	if image := template.Spec.Template.Spec.Image; image != nil { // machines that are created after a move need it too
		if err := controllers.LabelSecretForMove(ctx, r.metadata, r.Client, client.ObjectKey{Namespace: template.Namespace, Name: image.PullSecret}); err != nil {
			return controllers.Result(err)
		}
	}
	var hosts v1alpha1.BareMetalHostList // objects of the cache: they must not be changed
	if err := r.Client.List(ctx, &hosts, client.InNamespace(template.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, err
	}
	before := template.DeepCopy()
	if err := compute(template, hosts.Items); err != nil {
		return ctrl.Result{}, err
	}
	if equality.Semantic.DeepEqual(before.Status, template.Status) {
		return ctrl.Result{}, nil
	}
	return controllers.Result(r.Client.Status().Patch(ctx, template, client.MergeFrom(before)))
}

// compute sets the status of a template from the hosts of its namespace.
func compute(template *v1alpha1.BareMetalMachineTemplate, hosts []v1alpha1.BareMetalHost) error {
	spec := &template.Spec.Template.Spec
	want, err := claim.WantOf(spec)
	if err != nil {
		return err
	}
	matching, diagnosis := claim.Match(hosts, want)
	template.Status.MatchingHosts = int32(len(matching)) //nolint:gosec // the number of servers fits an int32
	template.Status.Capacity = capacityOf(matching, spec.Persistence(), spec.Hardware.GPUs)
	template.Status.NodeInfo = v1alpha1.NodeInfo{Architecture: claim.Architecture(spec.Hardware.Architecture), OperatingSystem: "linux"}
	ready := metav1.Condition{
		Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHostsMatch, ObservedGeneration: template.Generation,
	}
	if len(matching) == 0 {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, v1alpha1.ReasonNoHostMatches, diagnosis.String()
	}
	conditions.Set(template, ready)
	return nil
}

// clusterOf returns the name of the Cluster that a template belongs to, empty if there is none. Cluster API sets the owner reference on a template
// that is in use; without it the label counts.
func clusterOf(template *v1alpha1.BareMetalMachineTemplate) string {
	for _, ref := range template.OwnerReferences {
		if group, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && group.Group == clusterv1.GroupVersion.Group && ref.Kind == clusterv1.ClusterKind {
			return ref.Name
		}
	}
	return template.Labels[clusterv1.ClusterNameLabel]
}
