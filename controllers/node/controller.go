// Package node finds the Nodes in the workload clusters that hosts run. A Node proves that its host booted. The controller sets the machine's
// provider ID on the Node, so bootstrap data need not set it. For a machine that runs from memory, the Node also shows whether its server restarted.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// Reconciler reconciles BareMetalMachines with the Nodes of their clusters.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Clusters are the connections to the workload clusters, made by NewClusterCache.
	Clusters clustercache.ClusterCache
	// Kubeconfigs are those of Clusters.
	Kubeconfigs *controllers.Kubeconfigs
	// Recorder records events of hosts. Nil records none.
	Recorder events.EventRecorder
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the machines to reconcile.
	WatchFilter string
	// ConnectTimeout is how long this process may take to connect to a cluster at its start, before the Nodes of the cluster count as unreadable. Defaults to a minute.
	ConnectTimeout time.Duration
	// ChangeInterval is how far apart two writes are that a workload cluster decides: of the labels of one Node, and of its readiness. That of a server that is off may be written
	// six times as often. Defaults to a minute.
	ChangeInterval time.Duration

	controller  controller.Controller
	labelWrites labelWrites
	started     time.Time
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	r.started = time.Now()
	ofCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &v1alpha1.BareMetalMachineList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("map clusters to machines: %w", err)
	}
	r.controller, err = ctrl.NewControllerManagedBy(mgr).Named("node").
		For(&v1alpha1.BareMetalMachine{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		Watches(&v1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(machineOfHost)).
		Watches(&v1alpha1.BareMetalBoot{}, handler.EnqueueRequestsFromMapFunc(machineOfBoot)).
		Watches(&v1alpha1.BareMetalCluster{}, handler.EnqueueRequestsFromMapFunc(r.machinesOfCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		WatchesRawSource(controllers.ClusterSource(r.Clusters, "node", r.watchFirst(ofCluster))).
		WithOptions(options).
		Build(r)
	return err
}

// machineOfHost returns the machine of a host.
func machineOfHost(_ context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*v1alpha1.BareMetalHost)
	if !ok || host.Spec.ConsumerRef == nil || host.Spec.ProviderState.Boots == 0 {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.ConsumerRef.Name}}}
}

// machineOfBoot returns the machine of a boot that served its bootstrap data: no other boot can have a Node.
func machineOfBoot(_ context.Context, o client.Object) []reconcile.Request {
	boot, ok := o.(*v1alpha1.BareMetalBoot)
	if !ok || boot.Spec.DataServedTime == nil || boot.Spec.VoidedTime != nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: boot.Namespace, Name: boot.Spec.MachineName}}}
}

// machinesOfNode returns the machines in a namespace to which a Node may belong.
func (r *Reconciler) machinesOfNode(namespace string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		node, ok := o.(*corev1.Node)
		if !ok {
			return nil
		}
		request := func(name string) reconcile.Request {
			return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
		}
		if machineNamespace, machine := inventory.MachineOf(node.Spec.ProviderID); machine != "" {
			if machineNamespace != namespace {
				return nil
			}
			return []reconcile.Request{request(machine)}
		}
		requests := []reconcile.Request{request(node.Name)} // also for a foreign provider ID, which is reported as a mismatch
		hosts, err := r.hostsWithHardware(ctx, node)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to list the hosts that a Node may run on")
		}
		for i := range hosts {
			if ref := hosts[i].Spec.ConsumerRef; ref != nil && hosts[i].Namespace == namespace {
				requests = append(requests, request(ref.Name))
			}
		}
		return requests
	}
}

// scope holds the objects of one reconcile: a host that fetched the bootstrap data of its machine, and the machine's cluster.
type scope struct {
	host           *v1alpha1.BareMetalHost
	boot           *v1alpha1.BareMetalBoot
	cluster        client.ObjectKey
	infrastructure clusterv1.ContractVersionedObjectReference // of the cluster
	paused         bool
	// aside is true while the provider does nothing to the host, or keeps it off: its Node is only read.
	aside bool
}

// Reconcile finds the Node of a machine. Without a connection to its cluster it does nothing: a new connection enqueues the machine.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s, err := r.scopeOf(ctx, request)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	if err := r.watch(ctx, s.cluster); err != nil {
		return r.ignoreDisconnected(ctx, s, err)
	}
	var requeueAfter time.Duration
	switch {
	case controllers.ObservedStage(s.boot, v1alpha1.StageNode) == nil && s.aside:
	case controllers.ObservedStage(s.boot, v1alpha1.StageNode) == nil:
		err = r.adopt(ctx, s)
	case restartUndecided(s.boot) && !s.aside:
		requeueAfter, err = r.checkRestart(ctx, s)
	default:
		requeueAfter, err = r.refresh(ctx, s)
	}
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return r.ignoreDisconnected(ctx, s, err)
	}
	if err != nil {
		return controllers.Result(err)
	}
	return ctrl.Result{RequeueAfter: requeueAfter}, nil
}

// scopeOf returns nil for a machine whose Node need not be read: no host fetched its bootstrap data, or nothing may be done to it.
func (r *Reconciler) scopeOf(ctx context.Context, request ctrl.Request) (*scope, error) {
	if r.WatchFilter != "" { // other managers' machines are dropped before their hosts are listed
		var m v1alpha1.BareMetalMachine
		if err := r.Client.Get(ctx, request.NamespacedName, &m); err != nil || !controllers.HasWatchFilter(&m, r.WatchFilter) {
			return nil, client.IgnoreNotFound(err)
		}
	}
	var hosts v1alpha1.BareMetalHostList
	err := r.Client.List(ctx, &hosts, client.InNamespace(request.Namespace), client.MatchingFields{controllers.ConsumerIndex: request.Name})
	if err != nil || len(hosts.Items) != 1 {
		return nil, err
	}
	host := &hosts.Items[0]
	boot, err := controllers.GetBoot(ctx, r.Client, client.ObjectKeyFromObject(host))
	if err != nil || !served(host, boot) {
		return nil, err
	}
	consumer, err := controllers.GetConsumer(ctx, r.Client, host)
	if err != nil || consumer.BareMetalMachine == nil || !controllers.HasWatchFilter(consumer.BareMetalMachine, r.WatchFilter) {
		return nil, err
	}
	view := controllers.View(host, boot, consumer, time.Now())
	s := &scope{host: host, boot: boot, paused: view.Host.Paused || view.Consumer.Paused}
	switch lifecycle.StateOf(view) {
	case lifecycle.StateBooting, lifecycle.StateReportedIn, lifecycle.StateProvisioned:
	case lifecycle.StatePowerHold, lifecycle.StateMaintenance:
		s.aside = true
	default:
		return nil, nil //nolint:nilnil // no scope is a valid answer
	}
	s.cluster, s.infrastructure = client.ObjectKeyFromObject(consumer.Cluster), consumer.Cluster.Spec.InfrastructureRef
	return s, nil
}

// watchFirst adds the watch of a connection as soon as there is one: the cluster cache keeps the Nodes of each cluster from then on, also of one without a machine, and the watch
// counts them.
func (r *Reconciler) watchFirst(ofCluster handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		if err := r.watch(ctx, client.ObjectKeyFromObject(o)); err != nil && !errors.Is(err, clustercache.ErrClusterNotConnected) {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to watch the Nodes of a cluster", "Cluster", client.ObjectKeyFromObject(o))
		}
		return ofCluster(ctx, o)
	}
}

// watch enqueues the machines of a cluster when its Nodes change. It adds one watch per connection.
func (r *Reconciler) watch(ctx context.Context, cluster client.ObjectKey) error {
	return r.Clusters.Watch(ctx, cluster, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: "node", Watcher: r.controller, Kind: &corev1.Node{}, EventHandler: handler.EnqueueRequestsFromMapFunc(r.machinesOfNode(cluster.Namespace)),
		Predicates: []predicate.Predicate{predicate.Funcs{CreateFunc: r.limitNodes(cluster), UpdateFunc: nodeChanged}}, //nolint:contextcheck // a predicate has no context
	}))
}

// ignoreDisconnected returns nil for a cluster without a connection, which is no error while the first server of its control plane boots. It returns
// other errors.
func (r *Reconciler) ignoreDisconnected(ctx context.Context, s *scope, err error) (ctrl.Result, error) {
	if !errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, fmt.Errorf("watch the Nodes of cluster %s: %w", s.cluster, err)
	}
	if controllers.ObservedStage(s.boot, v1alpha1.StageNode) == nil || restartUndecided(s.boot) {
		ctrl.LoggerFrom(ctx).V(2).Info("Skipped the Node: its cluster is not connected", "Cluster", s.cluster, "BareMetalHost", client.ObjectKeyFromObject(s.host))
		return ctrl.Result{}, nil
	}
	if !offReported(s.host) {
		return ctrl.Result{}, nil // nothing needs to be read now
	}
	if wait := time.Until(r.started.Add(cmp.Or(r.ConnectTimeout, defaultConnectTimeout))); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil // this process has just begun to connect
	}
	return ctrl.Result{}, r.recordUnreadable(ctx, s)
}

// defaultConnectTimeout is the default of Reconciler.ConnectTimeout.
const defaultConnectTimeout = time.Minute
