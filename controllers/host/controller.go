// Package host reconciles BareMetalHosts: it observes a host, asks lifecycle.Next what to do, does it, and tells people. It
// decides nothing by itself, and never waits for a BMC: BMC work is jobs of a pool, whose results bring the host back.
package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get

// Reconciler reconciles BareMetalHosts.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads Secrets from the API server: the cache holds none.
	APIReader client.Reader
	// Pool does the BMC work.
	Pool *bmc.Pool
	// Recorder takes the events of hosts. Nil takes none.
	Recorder events.EventRecorder
	// Settings are the times that the lifecycle keeps.
	Settings lifecycle.Settings
	// Tenants confine the namespaces of hosts.
	Tenants bootconfig.Tenants
	// Clock tells the time. Defaults to the real one.
	Clock clock.PassiveClock
	// Node is the Node that this process runs on (OwnNode): its server is not powered off. Nil where it is not known.
	Node *corev1.Node
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the hosts to reconcile.
	WatchFilter string

	facts    *facts
	metadata client.Reader // the cache itself: Client reads even the metadata of Secrets from the API server
	line     *line
	newest   controllers.WriteCache[*v1alpha1.BareMetalHost]
	boots    controllers.Boots
	pace     *controllers.Throttle
	results  chan event.TypedGenericEvent[types.NamespacedName]
	stopped  <-chan struct{}
}

// SetupWithManager adds the controller to the manager. ctx is the one that the manager runs with.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.BareMetalMachine{}, saidHostIndex, saidHost); err != nil {
		return fmt.Errorf("index machines by the host of their provider ID: %w", err)
	}
	r.facts, r.metadata, r.stopped = newFacts(), mgr.GetCache(), ctx.Done()
	r.line = newLine(r.Settings.BootConcurrency, r.bringBack)
	r.pace = controllers.NewThrottle()
	r.results = make(chan event.TypedGenericEvent[types.NamespacedName], 1024)
	results := source.TypedChannel(r.results, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
		GenericFunc: func(_ context.Context, e event.TypedGenericEvent[types.NamespacedName], q controllers.Queue) {
			q.Add(reconcile.Request{NamespacedName: e.Object})
		},
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named("baremetalhost").
		Watches(&v1alpha1.BareMetalHost{}, controllers.EnqueueObject,
			builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), ctrl.LoggerFrom(ctx), r.WatchFilter))).
		Watches(&v1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(r.hostsWithSameServer), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.BareMetalBoot{}, controllers.EnqueueHost).
		Watches(&v1alpha1.BareMetalMachine{}, handler.EnqueueRequestsFromMapFunc(r.hostsOfMachine)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.hostsOfOwner)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.hostsOfCluster),
			builder.WithPredicates(predicates.Any(mgr.GetScheme(), ctrl.LoggerFrom(ctx),
				predicates.ClusterCreateNotPaused(mgr.GetScheme(), ctrl.LoggerFrom(ctx)),
				predicates.ClusterPausedTransitions(mgr.GetScheme(), ctrl.LoggerFrom(ctx)), deletions))).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.hostsOfSecret)).
		WatchesRawSource(results).
		WithOptions(options).
		Complete(r)
}

// deletions are the events of objects that are gone.
var deletions = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return true }, // CAPI's Any calls each
}

// Reconcile brings a host one step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	host := &v1alpha1.BareMetalHost{}
	if err := r.Client.Get(ctx, request.NamespacedName, host); err != nil {
		if apierrors.IsNotFound(err) {
			r.facts.forget(request.NamespacedName)
			r.forget(request.NamespacedName)
			return controllers.Result(r.forgetBootOf(ctx, request.NamespacedName))
		}
		return ctrl.Result{}, err
	}
	if !controllers.HasWatchFilter(host, r.WatchFilter) {
		r.forget(request.NamespacedName)
		return ctrl.Result{}, nil
	}
	host = r.newest.Read(host)
	if added, err := r.ensureFinalizer(ctx, host); err != nil || added {
		return ctrl.Result{}, err
	}
	return r.advance(ctx, host)
}

// advance decides what to do with a host, does it, and writes the status.
func (r *Reconciler) advance(ctx context.Context, host *v1alpha1.BareMetalHost) (ctrl.Result, error) {
	key := client.ObjectKeyFromObject(host)
	boot, err := r.boots.Get(ctx, r.Client, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	view, step, err := r.decide(ctx, host, boot)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.ensureOwner(ctx, host, boot, step); err != nil {
		return controllers.Result(err)
	}
	r.facts.with(key, func(h *hostFacts) { h.bmc.PowerNew = h.bmc.PowerNew && !h.bmc.PowerAt.Equal(view.BMC.PowerAt) })
	ctrl.LoggerFrom(ctx).V(4).Info("Next step", "state", step.State, "action", step.Action, "reason", step.Reason)
	r.tellRelease(host, view, step)
	wait, err := r.perform(ctx, host, boot, view, step)
	if err != nil {
		if !apierrors.IsConflict(err) { // which is over with the next look
			r.line.leave(key) // others are not to wait for what keeps it
		}
		return controllers.Result(err)
	}
	r.tellStep(ctx, host, view, step)
	if recorded(step.Action) {
		return ctrl.Result{}, nil // the event of what was written enqueues the host, and its status is written once
	}
	untold, err := r.writeStatus(ctx, host, view, step)
	if err != nil {
		return controllers.Result(err)
	}
	if wait == 0 || untold > 0 && untold < wait {
		wait = untold
	}
	if !step.Again.IsZero() && (wait == 0 || step.Again.Before(view.Now.Add(wait))) {
		wait = max(step.Again.Sub(view.Now), 10*time.Millisecond)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// forget drops what is kept of a host that is not ours: but what is known of its server, which may become ours again.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.line.forget(key)
	r.pace.Done(key)
	r.newest.Forget(key)
	r.boots.Forget(key)
}

// ensureFinalizer creates the boot of a new host, and then adds the finalizer to the host. A host that was restored from a backup gets the boot of the
// backup.
func (r *Reconciler) ensureFinalizer(ctx context.Context, host *v1alpha1.BareMetalHost) (bool, error) {
	if !controllerutil.ContainsFinalizer(host, v1alpha1.HostFinalizer) && host.DeletionTimestamp.IsZero() && host.Spec.Boots == 0 && host.Spec.ConsumerRef == nil {
		err := r.Client.Create(ctx, newBoot(host, v1alpha1.BareMetalBootSpec{}))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return false, fmt.Errorf("create the host's BareMetalBoot: %w", err)
		}
	}
	added, err := finalizers.EnsureFinalizer(ctx, r.Client, host, v1alpha1.HostFinalizer)
	if added {
		r.newest.Record(host)
	}
	return added, err
}

// recorded is true for steps that write to the spec or metadata of the host or of its boot, as they always do when they are taken: the step was chosen since it differs.
func recorded(action lifecycle.Action) bool {
	switch action {
	case lifecycle.RecordBoot, lifecycle.CountBoot, lifecycle.ForgetBoot, lifecycle.RecordCleaning, lifecycle.AllowMove, lifecycle.Release, lifecycle.Forget:
		return true
	default:
		return false
	}
}

// observe gathers what is known of a host.
func (r *Reconciler) observe(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (lifecycle.View, error) {
	consumer, err := controllers.GetConsumer(ctx, r.Client, host)
	if err != nil {
		return lifecycle.View{}, fmt.Errorf("read the machine that has the host: %w", err)
	}
	key := client.ObjectKeyFromObject(host)
	r.facts.with(key, func(h *hostFacts) {
		h.seed(host, boot, r.Clock.Now())
		h.confirm(host)
	})
	problem, err := r.reconcileEndpoint(ctx, host)
	if err != nil {
		return lifecycle.View{}, fmt.Errorf("read the BMC's Secrets: %w", err)
	}
	view := controllers.View(host, boot, consumer, r.Clock.Now())
	view.RunsProvider = runsOn(r.Node, host, r.hardwareOf(host))
	if view.Deleting && (view.Claimed() || view.StrayBoot() != nil) {
		if view.NamespaceDeleting, err = r.namespaceDeleting(ctx, host.Namespace); err != nil {
			return lifecycle.View{}, err
		}
	}
	if err := r.observeIdentity(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	if err := r.observeClaims(ctx, host, &view); err != nil {
		return lifecycle.View{}, err
	}
	r.facts.with(key, func(h *hostFacts) {
		h.sawStages(view)
		view.BMC, view.Replaced = h.view(host.Spec.BootMode), h.replacedMessage(host)
	})
	if problem != nil {
		view.BMC.Problem = problem
	}
	return view, nil
}

// observeIdentity finds out which other hosts keep what identifies this one's server.
func (r *Reconciler) observeIdentity(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	hardware := r.facts.get(client.ObjectKeyFromObject(host)).hardware
	view.Identity = controllers.IdentityOf(host, hardware)
	if err := controllers.CheckPermitted(r.Tenants, host); err != nil {
		view.NotPermitted = err.Error()
	}
	for taken, by := range map[*string]controllers.IdentityConflict{
		&view.BMCTakenBy: controllers.BMCConflict(host), &view.MACTakenBy: controllers.MACConflict(host), &view.HardwareTakenBy: controllers.HardwareConflict(host, hardware),
	} {
		keeper, err := by.PermittedBy(r.Tenants).Keeper(ctx, r.Client)
		if err != nil {
			return err
		}
		if keeper != nil {
			*taken = controllers.NameFor(host.Namespace, client.ObjectKeyFromObject(keeper))
		}
	}
	return nil
}

func (r *Reconciler) requests(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, append(opts, client.UnsafeDisableDeepCopy)...); err != nil { // nothing is written to them
		// The cache cannot fail to list but before it is synced, and then every host is reconciled anyway.
		ctrl.LoggerFrom(ctx).Error(err, "List the hosts to reconcile")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(hosts.Items))
	for i := range hosts.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&hosts.Items[i])})
	}
	return requests
}

// hostsWithSameServer returns the other hosts that may be a host's server. The host itself comes by its own event: it would be looked at once more for each
// change, and before the cache shows what the first look wrote.
func (r *Reconciler) hostsWithSameServer(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*v1alpha1.BareMetalHost)
	if !ok {
		return nil
	}
	same := append(r.requests(ctx, client.MatchingFields{controllers.MACIndex: host.Spec.BootMACAddress}),
		r.requests(ctx, client.MatchingFields{controllers.BMCIndex: controllers.BMCOf(host)})...)
	if h := host.Status.Hardware; h != nil && inventory.HardwareID(h.SystemUUID) != "" {
		same = append(same, r.requests(ctx, client.MatchingFields{controllers.HardwareIndex: inventory.HardwareID(h.SystemUUID)})...)
	}
	own := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(host)}
	return slices.DeleteFunc(same, func(other reconcile.Request) bool { return other == own })
}

// hostsOfMachine returns the hosts that a machine has, the one that its provider ID names, and those that were booted for it: their boots may be kept
// until it is gone.
func (r *Reconciler) hostsOfMachine(ctx context.Context, o client.Object) []reconcile.Request {
	requests := r.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{controllers.ConsumerIndex: o.GetName()})
	booted := r.bootedFor(ctx, o)
	for _, host := range append(saidHost(o), booted...) {
		if request := (reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: host}}); !slices.Contains(requests, request) {
			requests = append(requests, request)
		}
	}
	return requests
}

// bootedFor returns the names of the hosts whose boots are a machine's, and open.
func (r *Reconciler) bootedFor(ctx context.Context, machine client.Object) []string {
	var boots v1alpha1.BareMetalBootList
	err := r.Client.List(ctx, &boots, client.InNamespace(machine.GetNamespace()), client.MatchingFields{controllers.MachineIndex: machine.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the boots of a machine")
	}
	names := make([]string, 0, len(boots.Items))
	for i := range boots.Items {
		names = append(names, boots.Items[i].Name)
	}
	return names
}

func (r *Reconciler) hostsOfOwner(ctx context.Context, o client.Object) []reconcile.Request {
	machine, ok := o.(*clusterv1.Machine)
	if !ok || machine.Spec.InfrastructureRef.Name == "" {
		return nil
	}
	return r.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{controllers.ConsumerIndex: machine.Spec.InfrastructureRef.Name})
}

func (r *Reconciler) hostsOfCluster(ctx context.Context, o client.Object) []reconcile.Request {
	var machines v1alpha1.BareMetalMachineList
	err := r.Client.List(ctx, &machines, client.InNamespace(o.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: o.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the machines of the cluster")
		return nil
	}
	var requests []reconcile.Request
	for i := range machines.Items {
		requests = append(requests, r.hostsOfMachine(ctx, &machines.Items[i])...)
	}
	return requests
}

func (r *Reconciler) hostsOfSecret(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{controllers.SecretIndex: o.GetName()})
}
