// Package node finds the Nodes that hosts run in the workload clusters. A Node proves that its host booted, and it is given the machine's
// provider ID, so that bootstrap data need not do so. What the Node of a machine that runs from memory says also tells whether its
// server restarted.
package node

import (
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
	// Recorder takes the events of hosts. Nil takes none.
	Recorder events.EventRecorder
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the machines to reconcile.
	WatchFilter string

	controller controller.Controller
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	ofCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &v1alpha1.BareMetalMachineList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("map clusters to machines: %w", err)
	}
	r.controller, err = ctrl.NewControllerManagedBy(mgr).Named("node").
		For(&v1alpha1.BareMetalMachine{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		Watches(&v1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(machineOfHost)).
		Watches(&v1alpha1.BareMetalBoot{}, handler.EnqueueRequestsFromMapFunc(machineOfBoot)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		WatchesRawSource(controllers.ClusterSource(r.Clusters, "node", ofCluster)).
		WithOptions(options).
		Build(r)
	return err
}

// machineOfHost returns the machine of a host.
func machineOfHost(_ context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*v1alpha1.BareMetalHost)
	if !ok || host.Spec.ConsumerRef == nil || host.Spec.Boots == 0 {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.ConsumerRef.Name}}}
}

// machineOfBoot returns the machine of a boot in which the bootstrap data was served: no other can have a Node.
func machineOfBoot(_ context.Context, o client.Object) []reconcile.Request {
	boot, ok := o.(*v1alpha1.BareMetalBoot)
	if !ok || boot.Spec.DataServedAt == nil || boot.Spec.VoidedAt != nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: boot.Namespace, Name: boot.Spec.MachineName}}}
}

// machinesOfNode returns the machines, in a namespace, that a Node may be of.
func (r *Reconciler) machinesOfNode(namespace string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		node, ok := o.(*corev1.Node)
		if !ok {
			return nil
		}
		request := func(name string) reconcile.Request {
			return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}
		}
		if there, machine := inventory.MachineOf(node.Spec.ProviderID); machine != "" {
			if there != namespace {
				return nil
			}
			return []reconcile.Request{request(machine)}
		}
		requests := []reconcile.Request{request(node.Name)} // also with the provider ID of something else, which is reported
		hosts, err := r.hostsWithHardware(ctx, node)
		if err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "List the hosts that a Node may run on")
		}
		for i := range hosts {
			if ref := hosts[i].Spec.ConsumerRef; ref != nil && hosts[i].Namespace == namespace {
				requests = append(requests, request(ref.Name))
			}
		}
		return requests
	}
}

// scope is what one reconcile works on: a host that was given the bootstrap data of its machine, and the machine's cluster.
type scope struct {
	host    *v1alpha1.BareMetalHost
	boot    *v1alpha1.BareMetalBoot
	cluster client.ObjectKey
	paused  bool
}

// Reconcile looks for the Node of a machine. Without a connection to its cluster it does nothing: the connection brings it back.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s, err := r.scopeOf(ctx, request)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	if err := r.watch(ctx, s.cluster); err != nil {
		return ctrl.Result{}, r.ignoreDisconnected(ctx, s, err)
	}
	var again time.Duration
	switch {
	case controllers.ObservedStage(s.boot, v1alpha1.StageNode) == nil:
		err = r.adopt(ctx, s)
	case restartUndecided(s.boot):
		again, err = r.checkRestart(ctx, s)
	default:
		err = r.refresh(ctx, s)
	}
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ctrl.Result{}, r.ignoreDisconnected(ctx, s, err)
	}
	if err != nil {
		return controllers.Result(err)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// scopeOf returns nil for a machine that has no use for a look at its Node: it has no host that was given its bootstrap data, or nothing may
// be done to it.
func (r *Reconciler) scopeOf(ctx context.Context, request ctrl.Request) (*scope, error) {
	var held v1alpha1.BareMetalHostList
	err := r.Client.List(ctx, &held, client.InNamespace(request.Namespace), client.MatchingFields{controllers.ConsumerIndex: request.Name})
	if err != nil || len(held.Items) != 1 {
		return nil, err
	}
	host := &held.Items[0]
	boot, err := controllers.GetBoot(ctx, r.Client, client.ObjectKeyFromObject(host))
	if err != nil || !served(host, boot) {
		return nil, err
	}
	consumer, err := controllers.GetConsumer(ctx, r.Client, host)
	if err != nil || consumer.BareMetalMachine == nil || !controllers.HasWatchFilter(consumer.BareMetalMachine, r.WatchFilter) {
		return nil, err
	}
	view := controllers.View(host, boot, consumer, time.Now())
	switch lifecycle.StateOf(view) {
	case lifecycle.StateBooting, lifecycle.StateReported, lifecycle.StateProvisioned:
		return &scope{host: host, boot: boot, cluster: client.ObjectKeyFromObject(consumer.Cluster), paused: view.Paused || view.Consumer.Paused}, nil
	default:
		return nil, nil //nolint:nilnil // nothing to do is a valid answer
	}
}

// watch makes changes of a cluster's Nodes bring their machines here. It does so once for each connection.
func (r *Reconciler) watch(ctx context.Context, cluster client.ObjectKey) error {
	return r.Clusters.Watch(ctx, cluster, clustercache.NewWatcher(clustercache.WatcherOptions{
		Name: "node", Watcher: r.controller, Kind: &corev1.Node{}, EventHandler: handler.EnqueueRequestsFromMapFunc(r.machinesOfNode(cluster.Namespace)),
		Predicates: []predicate.Predicate{predicate.Funcs{UpdateFunc: nodeChanged}},
	}))
}

// ignoreDisconnected says that a cluster cannot be asked for its Nodes. It is no error while the first server of its control plane boots.
func (r *Reconciler) ignoreDisconnected(ctx context.Context, s *scope, err error) error {
	if !errors.Is(err, clustercache.ErrClusterNotConnected) {
		return fmt.Errorf("watch the Nodes of cluster %s: %w", s.cluster, err)
	}
	if controllers.ObservedStage(s.boot, v1alpha1.StageNode) != nil && !restartUndecided(s.boot) {
		return nil // nothing is missing
	}
	ctrl.LoggerFrom(ctx).V(2).Info("The Node is not looked for: its cluster is not connected", "Cluster", s.cluster, "BareMetalHost", client.ObjectKeyFromObject(s.host))
	return nil
}
