// Package bootstrap reconciles BareMetalConfigs: it renders the bootstrap data of a Machine once, into a Secret that the config owns.
package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// DefaultRetryInterval is the default of Reconciler.RetryInterval.
const DefaultRetryInterval = 15 * time.Second

// Reconciler reconciles BareMetalConfigs.
type Reconciler struct {
	// Client reads Secrets and ConfigMaps from the API server, and everything else from the cache.
	Client client.Client
	// Recorder records events of configs. Nil records none.
	Recorder events.EventRecorder
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the configs to reconcile.
	WatchFilter string
	// RetryInterval is how often a config is reconciled while it waits for something that no watch reports: the provider may not watch Secrets and
	// ConfigMaps.
	RetryInterval time.Duration
}

// scope is what one reconcile works on.
type scope struct {
	config  *bootstrapv1.BareMetalConfig
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	ofCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &bootstrapv1.BareMetalConfigList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("map clusters to configs: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&bootstrapv1.BareMetalConfig{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(configOfMachine)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(clusterChanged)).
		WithOptions(options).
		Complete(r)
}

// clusterChanged passes the changes of a Cluster that a config may wait for. Cluster API's predicate ClusterControlPlaneInitialized (v1.14.2) reads the
// condition, which Cluster API writes in another request than the field status.initialization that decides here.
var clusterChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*clusterv1.Cluster)
	after, alsoOK := e.ObjectNew.(*clusterv1.Cluster)
	return !ok || !alsoOK || !equality.Semantic.DeepEqual(before.Spec.Paused, after.Spec.Paused) ||
		!equality.Semantic.DeepEqual(before.Status.Initialization, after.Status.Initialization)
}}

// configOfMachine returns the config that a Machine refers to.
func configOfMachine(_ context.Context, o client.Object) []reconcile.Request {
	machine, ok := o.(*clusterv1.Machine)
	if !ok {
		return nil
	}
	ref := machine.Spec.Bootstrap.ConfigRef
	if !refersTo(machine, ref.Name) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: machine.Namespace, Name: ref.Name}}}
}

// refersTo is true if a Machine names a config as its bootstrap config.
func refersTo(machine *clusterv1.Machine, config string) bool {
	ref := machine.Spec.Bootstrap.ConfigRef
	return ref.APIGroup == bootstrapv1.GroupVersion.Group && ref.Kind == configKind && ref.Name == config
}

const configKind = "BareMetalConfig"

// Reconcile takes a config one step further. Config and Secret need no finalizer: nothing exists outside of the cluster.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s := &scope{config: &bootstrapv1.BareMetalConfig{}}
	if err := r.Client.Get(ctx, request.NamespacedName, s.config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllers.HasWatchFilter(s.config, r.WatchFilter) || !s.config.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	found, err := r.readOwners(ctx, s)
	if err != nil || s.machine == nil && found == nil {
		return controllers.Result(err)
	}
	if s.cluster == nil && annotations.HasPaused(s.config) {
		return ctrl.Result{}, nil
	}
	if s.cluster != nil {
		if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, s.cluster, s.config); err != nil || isPaused || requeue {
			return controllers.Result(err)
		}
	}
	if s.machine != nil && !s.machine.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	if found == nil {
		if found, err = r.reconcileData(ctx, s); err != nil {
			return controllers.Result(errors.Join(err, r.reportError(ctx, s.config, err)))
		}
	}
	if err := r.writeStatus(ctx, s.config, found); err != nil {
		return controllers.Result(err)
	}
	if found != nil && found.retry {
		return ctrl.Result{RequeueAfter: r.RetryInterval}, nil
	}
	return ctrl.Result{}, nil
}

// readOwners reads the Machine and the Cluster. It returns no Machine and no problem if the config has no owner yet, which is usual: Cluster API sets it. The
// Machine must name the config, too: a user who may write configs can write any owner into one, and would choose the name of a Secret.
func (r *Reconciler) readOwners(ctx context.Context, s *scope) (*problem, error) {
	machine, err := util.GetOwnerMachine(ctx, r.Client, s.config.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if machine == nil {
		if util.HasOwner(s.config.OwnerReferences, clusterv1.GroupVersion.String(), []string{"MachinePool"}) {
			return &problem{reason: bootstrapv1.ReasonOwnerUnsupported, failure: true,
				message: "The owner is a MachinePool, and only Machines are supported. Use a MachineDeployment"}, nil
		}
		ctrl.LoggerFrom(ctx).Info("Waiting for the Machine, which the Machine controller sets as the owner")
		return nil, nil //nolint:nilnil // waiting is no problem
	}
	if !refersTo(machine, s.config.Name) {
		ctrl.LoggerFrom(ctx).Info("Skipped the config: its owner does not refer to it", "Machine", klog.KObj(machine))
		return nil, nil //nolint:nilnil // as without an owner
	}
	s.machine = machine
	cluster, err := util.GetClusterByName(ctx, r.Client, machine.Namespace, machine.Spec.ClusterName)
	if apierrors.IsNotFound(err) {
		return &problem{reason: bootstrapv1.ReasonClusterNotFound, retry: true,
			message: fmt.Sprintf("Machine %s names Cluster %s in spec.clusterName, which does not exist", machine.Name, machine.Spec.ClusterName)}, nil
	}
	s.cluster = cluster
	return nil, err
}

// reconcileData creates the Secret with the bootstrap data, or restores what others removed from it. It never renders data again that exists: the server may
// have booted with it.
func (r *Reconciler) reconcileData(ctx context.Context, s *scope) (*problem, error) {
	found, missing, err := r.reconcileSecret(ctx, s)
	if err != nil || found != nil || !missing {
		return found, err
	}
	// A move and a restored backup lose the status, and keep the provider ID.
	if ptr.Deref(s.machine.Status.Initialization.InfrastructureProvisioned, false) || s.machine.Spec.ProviderID != "" {
		ctrl.LoggerFrom(ctx).Info("Rendered no bootstrap data again: the Secret was deleted after the Machine had booted")
		return nil, nil //nolint:nilnil // the Machine needs the data no more
	}
	if waiting := waitsFor(s); waiting != nil {
		return waiting, nil
	}
	data, found, err := r.render(ctx, s)
	if err == nil && found == nil {
		err = r.createSecret(ctx, s, data)
	}
	if err != nil {
		return nil, noDataError{err}
	}
	return found, nil
}

// waitsFor returns what the bootstrap data waits for.
func waitsFor(s *scope) *problem {
	initialized := s.cluster.Status.Initialization
	if !ptr.Deref(initialized.InfrastructureProvisioned, false) {
		return &problem{reason: bootstrapv1.ReasonWaitingForInfrastructure, message: "Waiting until the infrastructure of the Cluster is provisioned"}
	}
	waitFor := s.config.Spec.WaitFor
	if waitFor == "" && !util.IsControlPlaneMachine(s.machine) {
		waitFor = bootstrapv1.WaitForControlPlane
	}
	if waitFor == bootstrapv1.WaitForControlPlane && !ptr.Deref(initialized.ControlPlaneInitialized, false) {
		return &problem{reason: bootstrapv1.ReasonWaitingForControlPlane,
			message: "Waiting until the control plane of the Cluster is initialized. Set spec.waitFor to Infrastructure if the data does not need it"}
	}
	return nil
}
