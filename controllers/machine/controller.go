// Package machine reconciles BareMetalMachines: it claims a host for a machine, waits until the host runs it, and gives the
// host back when the machine goes. It speaks to no BMC: that the host controller does.
package machine

import (
	"context"
	"fmt"

	kerrors "k8s.io/apimachinery/pkg/util/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch

// Reconciler reconciles BareMetalMachines.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the machines to reconcile.
	WatchFilter string

	assumed claim.Assumed
}

// scope is what one reconcile works on.
type scope struct {
	machine *v1alpha1.BareMetalMachine
	owner   *clusterv1.Machine
	cluster *clusterv1.Cluster
	host    *v1alpha1.BareMetalHost // the host that the machine has, once reconcileHost found it
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	ofCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &v1alpha1.BareMetalMachineList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("map clusters to machines: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.BareMetalMachine{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(
			util.MachineToInfrastructureMapFunc(v1alpha1.GroupVersion.WithKind("BareMetalMachine")))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(mgr.GetScheme(), log))).
		Watches(&v1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfHost)).
		WithOptions(options).
		Complete(r)
}

// machinesOfHost returns the machine that has a host, or for a host that can be claimed every machine that waits for one.
func (r *Reconciler) machinesOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*v1alpha1.BareMetalHost)
	if !ok {
		return nil
	}
	if ref := host.Spec.ConsumerRef; ref != nil {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: ref.Name}}}
	}
	var machines v1alpha1.BareMetalMachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(host.Namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the machines that wait for a host")
		return nil
	}
	var requests []reconcile.Request
	for i := range machines.Items {
		m := &machines.Items[i]
		// A machine whose host was just released sees to its own deletion here too.
		waits := m.Spec.ProviderID == "" && m.Status.HostRef == nil && conditions.IsTrue(host, v1alpha1.AvailableCondition)
		had := m.Status.HostRef != nil && m.Status.HostRef.Name == host.Name
		if waits || had {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
		}
	}
	return requests
}

// Reconcile brings a machine one step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (_ ctrl.Result, reterr error) {
	s := &scope{machine: &v1alpha1.BareMetalMachine{}}
	if err := r.Client.Get(ctx, request.NamespacedName, s.machine); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllers.HasWatchFilter(s.machine, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	if movedAway(s.machine) {
		return controllers.Result(r.removeFinalizer(ctx, s.machine))
	}
	if found, err := r.readOwners(ctx, s); err != nil || !found {
		return ctrl.Result{}, err
	}
	if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, s.cluster, s.machine); err != nil || isPaused || requeue {
		return controllers.Result(err)
	}
	if added, err := finalizers.EnsureFinalizer(ctx, r.Client, s.machine, v1alpha1.MachineFinalizer); err != nil || added {
		return controllers.Result(err)
	}
	helper, err := patch.NewHelper(s.machine, r.Client)
	if err != nil {
		return ctrl.Result{}, err
	}
	defer func() {
		setReady(s.machine)
		if err := patchMachine(ctx, helper, s.machine); client.IgnoreNotFound(err) != nil {
			reterr = kerrors.NewAggregate([]error{reterr, err})
		}
	}()
	if !s.machine.DeletionTimestamp.IsZero() {
		return controllers.Result(r.reconcileDelete(ctx, s))
	}
	for _, phase := range []func(context.Context, *scope) (bool, error){
		r.reconcileHeld, r.reconcilePrerequisites, r.reconcileClaim, r.reconcileBoot,
	} {
		if done, err := phase(ctx, s); err != nil || done {
			return controllers.Result(err)
		}
	}
	return ctrl.Result{}, nil
}

// readOwners finds the Machine and the Cluster. Without either nothing is done, but that a machine which is deleted and has no
// host may go.
func (r *Reconciler) readOwners(ctx context.Context, s *scope) (bool, error) {
	var err error
	if s.owner, err = util.GetOwnerMachine(ctx, r.Client, s.machine.ObjectMeta); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	missing := "Machine"
	if s.owner != nil {
		missing = "Cluster"
		if s.cluster, err = util.GetClusterByName(ctx, r.Client, s.owner.Namespace, s.owner.Spec.ClusterName); client.IgnoreNotFound(err) != nil {
			return false, err
		}
	}
	if s.owner != nil && s.cluster != nil {
		return true, nil
	}
	ctrl.LoggerFrom(ctx).Info("The owner is not there: nothing is done", "missing", missing)
	if s.machine.DeletionTimestamp.IsZero() {
		return false, nil
	}
	held, err := claim.Held(ctx, r.APIReader, s.machine.Namespace, s.machine.Name)
	if err != nil || len(held) > 0 {
		return false, err
	}
	return false, client.IgnoreNotFound(r.removeFinalizer(ctx, s.machine))
}

func patchMachine(ctx context.Context, helper *patch.Helper, m *v1alpha1.BareMetalMachine) error {
	return helper.Patch(ctx, m, patch.WithOwnedConditions{Conditions: []string{
		v1alpha1.ReadyCondition, v1alpha1.HostClaimedCondition, v1alpha1.HostBootedCondition, v1alpha1.DeletingCondition,
	}})
}

// movedAway is true for a machine that `clusterctl move` deletes: it lives on in another cluster, with its host.
func movedAway(m *v1alpha1.BareMetalMachine) bool {
	_, moved := m.Annotations[v1alpha1.DeleteForMoveAnnotation]
	return moved && !m.DeletionTimestamp.IsZero()
}

func (r *Reconciler) removeFinalizer(ctx context.Context, m *v1alpha1.BareMetalMachine) error {
	before := m.DeepCopy()
	if !controllerutil.RemoveFinalizer(m, v1alpha1.MachineFinalizer) {
		return nil
	}
	return r.Client.Patch(ctx, m, client.MergeFrom(before))
}
