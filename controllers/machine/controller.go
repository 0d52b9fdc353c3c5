// Package machine reconciles BareMetalMachines: it claims a host for a machine, waits until the host runs it, and releases the host when the machine
// is deleted. Only the host controller speaks to BMCs.
package machine

import (
	"context"
	"fmt"
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
	// Recorder records events of machines and of the hosts that they claim. Nil records none.
	Recorder events.EventRecorder
	// ProgressDelay is how long the progress of a boot or of a release stays unwritten in the status of a machine. With 0 it is throttled as other progress.
	ProgressDelay time.Duration
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the machines to reconcile.
	WatchFilter string

	metadata      client.Reader // the cache: Client reads even the metadata of Secrets from the API server
	hosts         cachedHosts
	assumed       claim.Assumed
	noHostBackoff noHostBackoff
	writeCache    controllers.WriteCache[*v1alpha1.BareMetalMachine]
	throttle      *controllers.Throttle
	// provisioned holds the UIDs of machines whose event Provisioned was recorded. Nil records every event.
	provisioned *lru.Cache
	// released holds the UIDs of deleted machines whose finalizer was removed. Nil holds none.
	released *lru.Cache
}

// scope is what one reconcile works on.
type scope struct {
	machine      *v1alpha1.BareMetalMachine
	before       *v1alpha1.BareMetalMachine // the machine as it was last read or written
	owner        *clusterv1.Machine
	cluster      *clusterv1.Cluster
	host         *v1alpha1.BareMetalHost    // the host of the machine, set by reconcileHost
	addresses    clusterv1.MachineAddresses // the addresses before this reconcile
	isNew        bool                       // the machine was read without the finalizer
	undecided    bool                       // this reconcile ended in an error, so Ready stays as it was
	requeueAfter time.Duration              // when to reconcile again without an event; zero waits for an event
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	r.provisioned, r.released, r.throttle, r.metadata = lru.New(4096), lru.New(4096), controllers.NewThrottle(), mgr.GetCache()
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
		Watches(&v1alpha1.BareMetalBoot{}, r.onBoot()).
		WithOptions(options).
		Complete(r)
}

// Reconcile takes a machine one step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, reterr error) {
	s := &scope{machine: &v1alpha1.BareMetalMachine{}}
	if err := r.Client.Get(ctx, request.NamespacedName, s.machine); err != nil {
		if apierrors.IsNotFound(err) {
			r.noHostBackoff.forget(request.NamespacedName)
			r.throttle.Done(request.NamespacedName)
			r.writeCache.Forget(request.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllers.HasWatchFilter(s.machine, r.WatchFilter) {
		r.writeCache.Forget(request.NamespacedName)
		r.throttle.Done(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	if r.isReleased(s.machine) {
		return ctrl.Result{}, nil
	}
	s.machine = r.writeCache.Read(s.machine)
	if wait := r.writeCache.Outdated(s.machine, time.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // the event of a newer version comes earlier
	}
	if controllers.MovedAway(s.machine) {
		return controllers.Result(controllers.RemoveFinalizer(ctx, r.Client, s.machine, v1alpha1.MachineFinalizer))
	}
	if found, err := r.readOwners(ctx, s); err != nil || !found {
		return controllers.Result(err)
	}
	if stop, err := r.reconcilePaused(ctx, s); err != nil || stop {
		return controllers.Result(err)
	}
	s.before = s.machine.DeepCopy()
	s.addFinalizer()
	defer func() { result, reterr = r.writeAtEnd(ctx, s, result, reterr) }()
	setNotPaused(s.machine)
	restoreLabels(s.machine, s.owner)
	if err := r.advance(ctx, s); err != nil {
		return controllers.Result(err)
	}
	if err := r.reconcileSkipRemediation(ctx, s); err != nil {
		return controllers.Result(err)
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, nil
}

// writeAtEnd writes what a reconcile changed, and returns the result of the reconcile, given that of its phases.
func (r *Reconciler) writeAtEnd(ctx context.Context, s *scope, result ctrl.Result, failure error) (ctrl.Result, error) {
	if err := r.writeFinalizer(ctx, s); err != nil {
		if failure == nil {
			return controllers.Result(err)
		}
		return result, failure
	}
	wait, err := r.writeOrDelay(ctx, s.before, s)
	if failure = kerrors.NewAggregate([]error{failure, err}); failure == nil && wait > 0 && (result.RequeueAfter == 0 || wait < result.RequeueAfter) {
		result.RequeueAfter = wait
	}
	return result, failure
}

// advance runs the phases. Each reconcile determines the failure again, so a failure that is over blocks nothing. A reconcile that ends in an error
// determined nothing, and keeps the recorded failure.
func (r *Reconciler) advance(ctx context.Context, s *scope) (err error) {
	status := &s.machine.Status
	reason, message := status.FailureReason, status.FailureMessage
	s.setFailed("", "")
	defer func() {
		if err != nil {
			s.setFailed(reason, message)
			s.undecided = true
		}
	}()
	if !s.machine.DeletionTimestamp.IsZero() {
		return r.reconcileDelete(ctx, s)
	}
	for _, phase := range []func(context.Context, *scope) (bool, error){
		r.reconcileHost, r.reconcileSecrets, r.reconcilePrerequisites, r.reconcileClaim, r.reconcileBoot,
	} {
		if done, err := phase(ctx, s); err != nil || done {
			return err
		}
	}
	return nil
}

// readOwners reads the Machine and the Cluster, and returns false without both. Then nothing is done, except that a deleted machine without a host
// loses its finalizer.
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
	ctrl.LoggerFrom(ctx).Info("Skipped the machine: an owner does not exist", "missing", missing)
	if s.machine.DeletionTimestamp.IsZero() {
		return false, nil
	}
	hosts, err := claim.HostsOf(ctx, r.APIReader, s.machine.Namespace, s.machine.Name)
	if err != nil {
		return false, err
	}
	if len(hosts) > 0 {
		return false, r.writeDeleting(ctx, s.machine, releaseMessage(firstByName(hosts)))
	}
	return false, controllers.RemoveFinalizer(ctx, r.Client, s.machine, v1alpha1.MachineFinalizer)
}

// writeOrDelay writes the result of a reconcile and records its events, or returns how long the write must wait.
func (r *Reconciler) writeOrDelay(ctx context.Context, before *v1alpha1.BareMetalMachine, s *scope) (time.Duration, error) {
	if !s.undecided {
		setReady(s.machine, s.host)
		setPhase(s.machine, s.host)
	}
	if equality.Semantic.DeepEqual(before, s.machine) {
		r.throttle.Done(client.ObjectKeyFromObject(s.machine))
		return 0, nil
	}
	if wait := r.writeDelay(before, s.machine, time.Now()); wait > 0 {
		return wait, nil
	}
	hasProviderID, err := r.write(ctx, before, s.machine)
	if hasProviderID && before.Spec.ProviderID == "" {
		r.recordProvisionedEvent(before, s)
	}
	if client.IgnoreNotFound(err) != nil {
		return 0, err
	}
	r.throttle.Done(client.ObjectKeyFromObject(s.machine))
	r.recordStatusEvents(before, s)
	return 0, nil
}

// releaseStatusGrace is the time in which the host of a deleted machine is expected to be released. Until then the status of the machine is not written: its deletionTimestamp says
// the same.
const releaseStatusGrace = 10 * time.Second

// beginsRelease is true for a deleted machine whose status does not show yet that it waits for the release of its host.
func beginsRelease(before, m *v1alpha1.BareMetalMachine) bool {
	return !m.DeletionTimestamp.IsZero() && conditions.Get(before, v1alpha1.DeletingCondition) == nil && conditions.Get(m, v1alpha1.DeletingCondition) != nil &&
		m.Status.FailureReason == before.Status.FailureReason
}

// writeDelay returns how long the write of a machine must wait, zero for none. Only progress waits; a transition is written at once. A machine learns from its host once in each
// phase, and at once what is wrong. The reason why the machine has no host is written at once too: the next reconcile depends on it, and noHostBackoff limits how often it changes.
func (r *Reconciler) writeDelay(before, m *v1alpha1.BareMetalMachine, now time.Time) time.Duration {
	transitions := func(m *v1alpha1.BareMetalMachine) *v1alpha1.BareMetalMachine {
		m = m.DeepCopy()
		m.Status.Phase, m.Status.LastOperation = "", controllers.WithoutProgress(m.Status.LastOperation)
		claimed := conditions.Get(m, v1alpha1.HostClaimedCondition)
		m.Status.Conditions = controllers.WithoutMessages(m.Status.Conditions)
		if claimed != nil {
			claimed.LastTransitionTime = metav1.Time{}
			m.Status.Conditions = append(m.Status.Conditions, *claimed)
		}
		return m
	}
	if beginsRelease(before, m) {
		return r.throttle.DelayProgress(client.ObjectKeyFromObject(m), now, min(r.ProgressDelay, releaseStatusGrace))
	}
	if !equality.Semantic.DeepEqual(transitions(before), transitions(m)) {
		return 0
	}
	if controllers.IsBootProgress(conditions.Get(before, v1alpha1.HostBootedCondition), conditions.Get(m, v1alpha1.HostBootedCondition)) {
		return r.throttle.DelayProgress(client.ObjectKeyFromObject(m), now, r.ProgressDelay)
	}
	return r.throttle.Delay(client.ObjectKeyFromObject(m), now)
}

// write writes what changed of a machine: one patch for its metadata and spec, one for its status, and none without a change. Cluster API's patch
// helper (v1.14.2) needs a third patch for the conditions, since it supports kinds whose conditions several controllers write. No upstream issue
// found. Delete when the patch helper writes conditions and status together.
//
// hasProviderID is true when the first patch wrote a provider ID, even if the second patch failed: the next reconcile does not know when the ID was
// written.
func (r *Reconciler) write(ctx context.Context, before, m *v1alpha1.BareMetalMachine) (hasProviderID bool, err error) {
	after := m.DeepCopy() // a patch stores the API server's answer in its object
	own := m.DeepCopy()
	own.Status = before.Status
	if err := patchChanges(before, own, func(p client.Patch) error { return r.recordWrite(own, r.Client.Patch(ctx, own, p)) }); err != nil {
		return false, err
	}
	hasProviderID = own.Spec.ProviderID != ""
	if controllerutil.ContainsFinalizer(before, v1alpha1.MachineFinalizer) && !controllerutil.ContainsFinalizer(own, v1alpha1.MachineFinalizer) {
		r.recordReleased(own)
		return hasProviderID, nil // the API server has deleted the machine
	}
	for i := range after.Status.Conditions { // the first patch may have raised the generation, with this controller's own changes
		if c := &after.Status.Conditions[i]; c.ObservedGeneration == before.Generation {
			c.ObservedGeneration = own.Generation
		}
	}
	oldStatus := after.DeepCopy()
	oldStatus.Status = before.Status
	return hasProviderID, patchChanges(oldStatus, after, func(p client.Patch) error { return r.recordWrite(after, r.Client.Status().Patch(ctx, after, p)) })
}

// recordReleased records that the finalizer of a machine under deletion was removed. Another writer may remove it from a machine that lives, which gets it again.
func (r *Reconciler) recordReleased(m *v1alpha1.BareMetalMachine) {
	if r.released != nil && !m.DeletionTimestamp.IsZero() {
		r.released.Add(m.UID, nil)
	}
}

// isReleased is true for a machine under deletion whose finalizer was removed. The cache may still show it, and an object under deletion gets no new finalizer. The write cache does
// not know that, because the API server answers the patch that deletes an object with the version from before.
func (r *Reconciler) isReleased(m *v1alpha1.BareMetalMachine) bool {
	if r.released == nil || m.DeletionTimestamp.IsZero() {
		return false
	}
	_, released := r.released.Get(m.UID)
	return released
}

// recordWrite stores the result of a successful write in the write cache.
func (r *Reconciler) recordWrite(m *v1alpha1.BareMetalMachine, err error) error {
	if err == nil {
		r.writeCache.Record(m)
	}
	return err
}

// patchChanges applies a patch of the differences between two objects, if there are any. Computing them costs as much as the rest of a write, so that is done once, and not for
// objects that are the same in Go.
func patchChanges(before, after *v1alpha1.BareMetalMachine, apply func(client.Patch) error) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	patch := client.MergeFrom(before)
	change, err := patch.Data(after)
	if err != nil || string(change) == "{}" {
		return err
	}
	return apply(client.RawPatch(patch.Type(), change))
}

// addFinalizer adds the finalizer to a machine that is not being deleted. It is written with the choice of a host, or by writeFinalizer.
func (s *scope) addFinalizer() {
	s.isNew = s.machine.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(s.machine, v1alpha1.MachineFinalizer)
}

// writeFinalizer writes the finalizer of a machine, unless it was written with the choice of a host.
func (r *Reconciler) writeFinalizer(ctx context.Context, s *scope) error {
	if !s.isNew || controllerutil.ContainsFinalizer(s.before, v1alpha1.MachineFinalizer) {
		return nil
	}
	return r.writeMetadata(ctx, s, func(*v1alpha1.BareMetalMachine) {})
}

// writeMetadata writes a change of the metadata of a machine, and the finalizer of a new one, with an optimistic lock, which Cluster API's EnsureFinalizer (v1.14.2) does not use. A
// successful write proves that no other process wrote the finalizer before, and no process claims a host before the finalizer. Other changes of this reconcile are written at
// its end. No upstream issue found. Delete when EnsureFinalizer uses an optimistic lock.
func (r *Reconciler) writeMetadata(ctx context.Context, s *scope, change func(*v1alpha1.BareMetalMachine)) error {
	written := s.before.DeepCopy()
	if s.isNew {
		controllerutil.AddFinalizer(written, v1alpha1.MachineFinalizer)
	}
	change(written)
	if err := r.recordWrite(written, r.Client.Patch(ctx, written, client.MergeFromWithOptions(s.before, client.MergeFromWithOptimisticLock{}))); err != nil {
		if apierrors.IsConflict(err) {
			r.writeCache.NoteConflict(s.before, time.Now())
		}
		return err
	}
	written.ManagedFields = s.machine.ManagedFields // the cache has no such fields: they would be a change
	s.before, s.machine.ResourceVersion = written, written.ResourceVersion
	return nil
}
