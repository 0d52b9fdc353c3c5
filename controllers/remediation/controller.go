// Package remediation reconciles BareMetalRemediations, which a MachineHealthCheck creates for machines that it finds unhealthy. It power-cycles the
// server of an installed machine. If that does not help or is not possible, it hands the machine over to its owner to be replaced. It speaks to no
// BMC: it sets a power hold on the host, and the host controller switches the power.
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
	// Recorder records events of Machines.
	Recorder events.EventRecorder
	// WatchFilter, if not empty, is the value of the label cluster.x-k8s.io/watch-filter of the remediations to reconcile. A remediation of a
	// MachineHealthCheck has the labels of its template.
	WatchFilter string
	// Started is when the provider started to connect to the workload clusters. SetupWithManager sets a zero value to the current time.
	Started time.Time

	controller controller.Controller
}

// scope holds the objects of one reconcile. An object that does not exist is nil.
type scope struct {
	remediation *v1alpha1.BareMetalRemediation
	machine     *clusterv1.Machine
	cluster     *clusterv1.Cluster
	infra       *v1alpha1.BareMetalMachine
	hosts       []v1alpha1.BareMetalHost // the hosts whose consumer is infra: one, unless a user set consumerRef
	host        *v1alpha1.BareMetalHost  // the host that runs the machine
	view        lifecycle.View           // of the host, without what its BMC reports
	state       lifecycle.State          // of the host

	// The result of the reconcile: the status, and when to reconcile again.
	phase           v1alpha1.RemediationPhase
	reason, message string
	requeueAfter    time.Duration
	notFenced       error // why the power cycle continues without the taint of the Node
}

// setStatus sets the phase, the reason and the message for the status of the remediation.
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

// machineIndex finds the remediations of a Machine by its name. Every change of a Machine or of a claimed host uses it.
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

// remediationsOfNode returns the remediations of the Machine in a namespace that has a Node.
func (r *Reconciler) remediationsOfNode(namespace string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		node, ok := o.(*corev1.Node)
		if !ok || node.Spec.ProviderID == "" {
			return nil
		}
		machineNamespace, machine := inventory.MachineOf(node.Spec.ProviderID)
		if machineNamespace != namespace {
			return nil
		}
		return r.remediationsOfConsumer(ctx, namespace, machine)
	}
}

func (r *Reconciler) remediationsOfConsumer(ctx context.Context, namespace, name string) []reconcile.Request {
	var infra v1alpha1.BareMetalMachine
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &infra); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to read the machine that has a host")
		}
		return nil
	}
	return r.remediationsOfBareMetalMachine(ctx, &infra)
}

// requests returns requests for the remediations of a Machine. There is at most one, unless users create their own.
func (r *Reconciler) requests(ctx context.Context, namespace, machine string) []reconcile.Request {
	var all v1alpha1.BareMetalRemediationList
	if err := r.Client.List(ctx, &all, client.InNamespace(namespace), client.MatchingFields{machineIndex: machine}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the remediations of a machine")
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
}

// Reconcile takes a remediation one step further.
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
			"The remediation has no owner that is a Machine, or the Machine or its Cluster does not exist: nothing is done. Cluster API sets the owner when it creates a remediation")
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

// runningHost returns the host that runs a machine, from the hosts whose consumer it is. If there are several it is the host in the machine's
// provider ID, nil without one.
func runningHost(hosts []v1alpha1.BareMetalHost, infra *v1alpha1.BareMetalMachine) *v1alpha1.BareMetalHost {
	for i := range hosts {
		if len(hosts) == 1 || inventory.ProviderID(infra.Namespace, hosts[i].Name, infra.Name) == infra.Spec.ProviderID {
			return &hosts[i]
		}
	}
	return nil
}

// read reads the objects of the remediation.
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
	var hosts v1alpha1.BareMetalHostList
	err = r.Client.List(ctx, &hosts, client.InNamespace(infra.Namespace), client.MatchingFields{controllers.ConsumerIndex: infra.Name})
	if err != nil || len(hosts.Items) == 0 {
		return err
	}
	s.hosts = hosts.Items
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
