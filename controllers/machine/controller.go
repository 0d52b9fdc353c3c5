// Package machine reconciles BareMetalMachines: it claims a host for a machine, waits until the host runs it, and gives the
// host back when the machine goes. It speaks to no BMC: that the host controller does.
package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,verbs=list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch

// Reconciler reconciles BareMetalMachines.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Recorder takes the events of machines and of the hosts that they claim. Nil takes none.
	Recorder events.EventRecorder
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the machines to reconcile.
	WatchFilter string

	metadata client.Reader // the cache itself: Client reads even the metadata of Secrets from the API server
	free     free
	assumed  claim.Assumed
	tellings tellings
	telling  sync.Mutex // held by the machine that looks at all hosts
	newest   controllers.WriteCache[*v1alpha1.BareMetalMachine]
	pace     *controllers.Throttle
	// provisioned are the UIDs of machines whose event Provisioned was told. Nil tells all.
	provisioned *lru.Cache
}

// scope is what one reconcile works on.
type scope struct {
	machine   *v1alpha1.BareMetalMachine
	before    *v1alpha1.BareMetalMachine // the machine as the API server has it, as far as this reconcile knows
	owner     *clusterv1.Machine
	cluster   *clusterv1.Cluster
	host      *v1alpha1.BareMetalHost    // the host that the machine has, once reconcileHeld found it
	addresses clusterv1.MachineAddresses // those that the machine had before
	isNew     bool                       // this reconcile gave the machine its finalizer: nobody claimed a host for it before
	again     time.Duration              // when to look again if nothing happens; zero for what an event ends
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	r.provisioned, r.pace, r.metadata = lru.New(4096), controllers.NewThrottle(), mgr.GetCache()
	if err := addIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
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
		Watches(&v1alpha1.BareMetalHost{}, r.onHost()).
		Watches(&v1alpha1.BareMetalBoot{}, onBoot()).
		WithOptions(options).
		Complete(r)
}

// Reconcile brings a machine one step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, reterr error) {
	s := &scope{machine: &v1alpha1.BareMetalMachine{}}
	if err := r.Client.Get(ctx, request.NamespacedName, s.machine); err != nil {
		if apierrors.IsNotFound(err) {
			r.tellings.forget(request.NamespacedName)
			r.pace.Done(request.NamespacedName)
			r.newest.Forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllers.HasWatchFilter(s.machine, r.WatchFilter) {
		r.newest.Forget(request.NamespacedName)
		r.pace.Done(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	s.machine = r.newest.Read(s.machine)
	if movedAway(s.machine) {
		return controllers.Result(r.removeFinalizer(ctx, s.machine))
	}
	if found, err := r.readOwners(ctx, s); err != nil || !found {
		return controllers.Result(err)
	}
	if stop, err := r.reconcilePaused(ctx, s); err != nil || stop {
		return controllers.Result(err)
	}
	if err := r.ensureFinalizer(ctx, s); err != nil {
		return controllers.Result(err)
	}
	s.before = s.machine.DeepCopy()
	defer func() {
		wait, err := r.tell(ctx, s.before, s)
		if reterr = kerrors.NewAggregate([]error{reterr, err}); reterr == nil && wait > 0 && (result.RequeueAfter == 0 || wait < result.RequeueAfter) {
			result.RequeueAfter = wait
		}
	}()
	setNotPaused(s.machine)
	healLabels(s.machine, s.owner)
	if err := r.advance(ctx, s); err != nil {
		return controllers.Result(err)
	}
	return ctrl.Result{RequeueAfter: s.again}, nil
}

// advance goes through the phases. A failure is found again on every look, so one that is over blocks nothing; a look that ends in an error
// found out nothing, and what was told stands.
func (r *Reconciler) advance(ctx context.Context, s *scope) (err error) {
	status := &s.machine.Status
	reason, message := status.FailureReason, status.FailureMessage
	s.failed("", "")
	defer func() {
		if err != nil {
			s.failed(reason, message)
		}
	}()
	if !s.machine.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}
	for _, phase := range []func(context.Context, *scope) (bool, error){
		r.reconcileBootstrapSecret, r.reconcileHeld, r.reconcilePrerequisites, r.reconcileClaim, r.reconcileBoot,
	} {
		if done, err := phase(ctx, s); err != nil || done {
			return err
		}
	}
	return nil
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
	held, err := claim.HostsOf(ctx, r.APIReader, s.machine.Namespace, s.machine.Name)
	if err != nil {
		return false, err
	}
	if len(held) > 0 {
		return false, r.tellDeleting(ctx, s.machine, waitsForRelease(firstOf(held)))
	}
	return false, client.IgnoreNotFound(r.removeFinalizer(ctx, s.machine))
}

// tell writes what a reconcile made of a machine and tells what happened, or returns how long to wait until it does.
func (r *Reconciler) tell(ctx context.Context, before *v1alpha1.BareMetalMachine, s *scope) (time.Duration, error) {
	setReady(s.machine)
	setPhase(s.machine, s.host)
	if wait := r.untold(before, s.machine, time.Now()); wait > 0 {
		return wait, nil
	}
	provided, err := r.write(ctx, before, s.machine)
	if provided && before.Spec.ProviderID == "" {
		r.tellProvisioned(before, s)
	}
	if client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	r.pace.Done(client.ObjectKeyFromObject(s.machine))
	r.tellWritten(before, s)
	return 0, nil
}

// untold returns how long to wait until a machine is written of which nothing changed but how something goes on, zero for now. What it waits for before it
// has a host is told at once: the next look goes by it, and it has a pace of its own.
func (r *Reconciler) untold(before, m *v1alpha1.BareMetalMachine, now time.Time) time.Duration {
	bare := func(m *v1alpha1.BareMetalMachine) *v1alpha1.BareMetalMachine {
		m = m.DeepCopy()
		m.Status.Phase, m.Status.LastOperation = "", controllers.BareOperation(m.Status.LastOperation)
		claimed := conditions.Get(m, v1alpha1.HostClaimedCondition)
		m.Status.Conditions = controllers.WithoutMessages(m.Status.Conditions)
		if claimed != nil {
			claimed.LastTransitionTime = metav1.Time{}
			m.Status.Conditions = append(m.Status.Conditions, *claimed)
		}
		return m
	}
	if equality.Semantic.DeepEqual(before, m) || !equality.Semantic.DeepEqual(bare(before), bare(m)) {
		return 0
	}
	return r.pace.Delay(client.ObjectKeyFromObject(m), now)
}

// write writes what changed of a machine, by one patch of what is its own and one of its status, and neither without need. Cluster API's patch helper
// takes a third for the conditions, for kinds to whose conditions several controllers write. provided is true when the machine has its provider ID, even
// if the second patch fails: the next look finds it there, and cannot tell since when.
func (r *Reconciler) write(ctx context.Context, before, m *v1alpha1.BareMetalMachine) (provided bool, err error) {
	after := m.DeepCopy() // a patch puts the API server's answer into its object
	own := m.DeepCopy()
	own.Status = before.Status
	if err := patchChanges(before, own, func(p client.Patch) error { return r.wrote(own, r.Client.Patch(ctx, own, p)) }); err != nil {
		return false, err
	}
	provided = own.Spec.ProviderID != ""
	for i := range after.Status.Conditions { // what they tell of is this spec, with what was just written to it
		if c := &after.Status.Conditions[i]; c.ObservedGeneration == before.Generation {
			c.ObservedGeneration = own.Generation
		}
	}
	unsaid := after.DeepCopy()
	unsaid.Status = before.Status
	return provided, patchChanges(unsaid, after, func(p client.Patch) error { return r.wrote(after, r.Client.Status().Patch(ctx, after, p)) })
}

// wrote notes what a write that did not fail made of a machine.
func (r *Reconciler) wrote(m *v1alpha1.BareMetalMachine, err error) error {
	if err == nil {
		r.newest.Record(m)
	}
	return err
}

// patchChanges patches what differs between two objects, if anything does.
func patchChanges(before, after *v1alpha1.BareMetalMachine, apply func(client.Patch) error) error {
	patch := client.MergeFrom(before.DeepCopy())
	if change, err := patch.Data(after); err != nil || string(change) == "{}" {
		return err
	}
	return apply(patch)
}

// ensureFinalizer adds the finalizer to a machine that is not being deleted. Cluster API's function of the name has no optimistic lock, and that the lock
// let this process write it tells that no other one had written it, before which none claims a host.
func (r *Reconciler) ensureFinalizer(ctx context.Context, s *scope) error {
	before := s.machine.DeepCopy()
	if !s.machine.DeletionTimestamp.IsZero() || !controllerutil.AddFinalizer(s.machine, v1alpha1.MachineFinalizer) {
		return nil
	}
	err := r.wrote(s.machine, r.Client.Patch(ctx, s.machine, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
	s.isNew = err == nil
	return err
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
