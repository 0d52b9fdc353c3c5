// Package remediation reconciles BareMetalRemediations, which a MachineHealthCheck makes for the machines that it finds unhealthy: it has an
// installed server power-cycled, and hands a machine over to its owner, to be replaced, where that does not help or cannot. It speaks to no
// BMC: it asks for the power by a hold on the host, and the host controller does the rest.
package remediation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/paused"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalremediations,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalremediations/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconciler reconciles BareMetalRemediations.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Clusters are the connections to the workload clusters.
	Clusters clustercache.ClusterCache
	// Recorder tells people what happens, as events of the Machine.
	Recorder events.EventRecorder
	// WatchFilter, where not empty, is the value of the label cluster.x-k8s.io/watch-filter of the remediations to reconcile. Those that a
	// MachineHealthCheck makes have the labels of their template.
	WatchFilter string
	// Started is when the connections to the workload clusters began to be made. SetupWithManager sets it, where it is zero, to the time of its call.
	Started time.Time

	controller controller.Controller
}

// scope is what one reconcile works on. What is not there is nil.
type scope struct {
	remediation *v1alpha1.BareMetalRemediation
	machine     *clusterv1.Machine
	cluster     *clusterv1.Cluster
	infra       *v1alpha1.BareMetalMachine
	hosts       []v1alpha1.BareMetalHost // the hosts that infra has: one, unless somebody wrote it by hand
	host        *v1alpha1.BareMetalHost  // the one of them that is meant
	view        lifecycle.View           // of the host, without what is known through its BMC
	state       lifecycle.State          // of the host

	// What to tell, and when to look again.
	phase           v1alpha1.RemediationPhase
	reason, message string
	requeueAfter    time.Duration
}

// setStatus sets what people are told of the remediation.
func (s *scope) setStatus(phase v1alpha1.RemediationPhase, reason, message string, args ...any) {
	s.phase, s.reason, s.message = phase, reason, fmt.Sprintf(message, args...)
}

// SetupWithManager adds the controller to the manager.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	if r.Started.IsZero() {
		r.Started = time.Now()
	}
	ofCluster, err := util.ClusterToTypedObjectsMapper(mgr.GetClient(), &v1alpha1.BareMetalRemediationList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("map clusters to remediations: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.BareMetalRemediation{}, machineIndex, ownerMachines); err != nil {
		return fmt.Errorf("index remediations: %w", err)
	}
	r.controller, err = ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.BareMetalRemediation{}, builder.WithPredicates(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.remediationsOfMachine)).
		Watches(&v1alpha1.BareMetalMachine{}, handler.EnqueueRequestsFromMapFunc(r.remediationsOfBareMetalMachine)).
		Watches(&v1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(r.remediationsOfHost)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		WatchesRawSource(controllers.ClusterSource(r.Clusters, "remediation", ofCluster)).
		WithOptions(options).
		Build(r)
	return err
}

// machineIndex finds the remediations of a Machine, by its name. Every change of any Machine and of any claimed host asks for them.
const machineIndex = "remediation.machine"

func ownerMachines(o client.Object) []string {
	var machines []string
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "Machine" {
			machines = append(machines, owner.Name)
		}
	}
	return machines
}

// remediationsOfMachine returns the remediations of a Machine.
func (r *Reconciler) remediationsOfMachine(ctx context.Context, o client.Object) []reconcile.Request {
	return r.requests(ctx, o.GetNamespace(), o.GetName())
}

// remediationsOfBareMetalMachine returns the remediations of the Machine that a BareMetalMachine belongs to.
func (r *Reconciler) remediationsOfBareMetalMachine(ctx context.Context, o client.Object) []reconcile.Request {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "Machine" {
			return r.requests(ctx, o.GetNamespace(), owner.Name)
		}
	}
	return nil
}

// remediationsOfHost returns the remediations of the Machine that has a host.
func (r *Reconciler) remediationsOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*v1alpha1.BareMetalHost)
	if !ok || host.Spec.ConsumerRef == nil {
		return nil
	}
	return r.remediationsOfConsumer(ctx, host.Namespace, host.Spec.ConsumerRef.Name)
}

// remediationsOfNode returns the remediations of the Machine, in a namespace, that a Node is of.
func (r *Reconciler) remediationsOfNode(namespace string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		node, ok := o.(*corev1.Node)
		if !ok || node.Spec.ProviderID == "" {
			return nil
		}
		there, machine := inventory.MachineOf(node.Spec.ProviderID)
		if there != namespace {
			return nil
		}
		return r.remediationsOfConsumer(ctx, namespace, machine)
	}
}

func (r *Reconciler) remediationsOfConsumer(ctx context.Context, namespace, name string) []reconcile.Request {
	var infra v1alpha1.BareMetalMachine
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &infra); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Read the machine that has a host")
		}
		return nil
	}
	return r.remediationsOfBareMetalMachine(ctx, &infra)
}

// requests are the remediations of a Machine. There is one at most, unless people make some of their own.
func (r *Reconciler) requests(ctx context.Context, namespace, machine string) []reconcile.Request {
	var all v1alpha1.BareMetalRemediationList
	if err := r.Client.List(ctx, &all, client.InNamespace(namespace), client.MatchingFields{machineIndex: machine}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the remediations of a machine")
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
}

// Reconcile brings a remediation one step further.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	s := &scope{remediation: &v1alpha1.BareMetalRemediation{}}
	if err := r.Client.Get(ctx, request.NamespacedName, s.remediation); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !controllers.HasWatchFilter(s.remediation, r.WatchFilter) {
		return ctrl.Result{}, nil
	}
	if controllers.MovedAway(s.remediation) {
		return controllers.Result(controllers.RemoveFinalizer(ctx, r.Client, s.remediation, v1alpha1.RemediationFinalizer))
	}
	if err := r.read(ctx, s); err != nil {
		return controllers.Result(err)
	}
	if s.cluster != nil {
		if isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, s.cluster, s.remediation); err != nil || isPaused || requeue {
			return controllers.Result(err)
		}
	}
	over := !s.remediation.DeletionTimestamp.IsZero() || s.machine != nil && !s.machine.DeletionTimestamp.IsZero()
	if !over && s.cluster != nil {
		if added, err := finalizers.EnsureFinalizer(ctx, r.Client, s.remediation, v1alpha1.RemediationFinalizer); err != nil || added {
			return controllers.Result(err)
		}
	}
	var err error
	switch {
	case over:
		err = r.end(ctx, s)
	case s.cluster == nil:
		s.setStatus(v1alpha1.RemediationIdle, v1alpha1.ReasonMachineNotFound,
			"The remediation has no owner that is a Machine, or it or its Cluster is not there: nothing is done. Cluster API sets the owner when it makes a remediation")
	default:
		err = r.remediate(ctx, s)
	}
	if err == nil {
		err = r.writeStatus(ctx, s)
	}
	if err != nil {
		return controllers.Result(err)
	}
	return ctrl.Result{RequeueAfter: s.requeueAfter}, nil
}

// runningHost is the host that runs a machine, of those that name it. Of several it is the one of the machine's provider ID: nil if there is none.
func runningHost(hosts []v1alpha1.BareMetalHost, infra *v1alpha1.BareMetalMachine) *v1alpha1.BareMetalHost {
	for i := range hosts {
		if len(hosts) == 1 || inventory.ProviderID(infra.Namespace, hosts[i].Name, infra.Name) == infra.Spec.ProviderID {
			return &hosts[i]
		}
	}
	return nil
}

// read finds what the remediation is of.
func (r *Reconciler) read(ctx context.Context, s *scope) (err error) {
	s.machine, err = util.GetOwnerMachine(ctx, r.Client, s.remediation.ObjectMeta)
	if client.IgnoreNotFound(err) != nil || s.machine == nil {
		return client.IgnoreNotFound(err)
	}
	s.cluster, err = util.GetClusterByName(ctx, r.Client, s.machine.Namespace, s.machine.Spec.ClusterName)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	ref := s.machine.Spec.InfrastructureRef
	if ref.APIGroup != v1alpha1.GroupVersion.Group || ref.Kind != "BareMetalMachine" {
		return nil
	}
	infra := &v1alpha1.BareMetalMachine{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: ref.Name}, infra); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.infra = infra
	var held v1alpha1.BareMetalHostList
	err = r.Client.List(ctx, &held, client.InNamespace(infra.Namespace), client.MatchingFields{controllers.ConsumerIndex: infra.Name})
	if err != nil || len(held.Items) == 0 {
		return err
	}
	s.hosts = held.Items
	if s.host = runningHost(s.hosts, infra); s.host == nil {
		return nil
	}
	consumer, err := controllers.GetConsumer(ctx, r.Client, s.host)
	if err != nil {
		return err
	}
	boot, err := controllers.GetBoot(ctx, r.Client, client.ObjectKeyFromObject(s.host))
	if err != nil {
		return err
	}
	s.view = controllers.View(s.host, boot, consumer, time.Now())
	s.state = lifecycle.StateOf(s.view)
	return nil
}
