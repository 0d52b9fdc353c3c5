package host

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// deleteEvents selects delete events.
var deleteEvents = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
	DeleteFunc:  func(event.DeleteEvent) bool { return true }, // predicates.Any of Cluster API calls all four
}

// machineChanges selects the events of machines that a host depends on: not the changes of their statuses, which follow those of the host.
var machineChanges = predicate.Funcs{UpdateFunc: controllers.DesiredStateChanged}

// enqueuer enqueues hosts that no event of the API server enqueues.
type enqueuer struct {
	channel chan event.TypedGenericEvent[types.NamespacedName] // the source of the controller
	stopped <-chan struct{}
}

// enqueue adds a host to the work queue. It blocks while the channel to the queue is full.
func (e *enqueuer) enqueue(key types.NamespacedName) {
	select {
	case e.channel <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
	case <-e.stopped:
	}
}

// watchMapper maps a watched object to the hosts that an event of it enqueues.
type watchMapper struct {
	client client.Client // reads from the cache
	filter string        // of the hosts to reconcile
}

// ofOwnHost is true for an object that has the name of a host which this manager reconciles. It is true for a host that the cache does not show: its boot may have to be forgotten.
func (m *watchMapper) ofOwnHost(o client.Object) bool {
	if m.filter == "" {
		return true
	}
	var host v1alpha1.BareMetalHost
	err := m.client.Get(context.Background(), client.ObjectKeyFromObject(o), &host) // reading the cache does not block
	return err != nil || controllers.HasWatchFilter(&host, m.filter)
}

func (m *watchMapper) requestsForHosts(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	var hosts v1alpha1.BareMetalHostList
	if err := m.client.List(ctx, &hosts, append(opts, client.UnsafeDisableDeepCopy)...); err != nil { // read only
		// The cache fails to list only before it is synced, and then every host is reconciled anyway.
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list hosts")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(hosts.Items))
	for i := range hosts.Items {
		if controllers.HasWatchFilter(&hosts.Items[i], m.filter) { // the others are for other managers
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&hosts.Items[i])})
		}
	}
	return requests
}

// hostsWithSameServer returns the other hosts that may describe the same server. It leaves out the host itself, which its own event enqueues: a second
// request would reconcile each change twice, the second time before the cache shows the first write.
func (m *watchMapper) hostsWithSameServer(ctx context.Context, o client.Object) []reconcile.Request {
	host, ok := o.(*v1alpha1.BareMetalHost)
	if !ok {
		return nil
	}
	same := m.requestsForHosts(ctx, client.MatchingFields{controllers.BMCIndex: controllers.BMCOf(host)})
	for _, mac := range host.Spec.BootMACAddresses {
		same = append(same, m.requestsForHosts(ctx, client.MatchingFields{controllers.MACIndex: mac})...)
	}
	if h := host.Status.Hardware; h != nil && inventory.HardwareID(h.SystemUUID) != "" {
		same = append(same, m.requestsForHosts(ctx, client.MatchingFields{controllers.HardwareIndex: inventory.HardwareID(h.SystemUUID)})...)
	}
	own := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(host)}
	return slices.DeleteFunc(same, func(other reconcile.Request) bool { return other == own })
}

// enqueueAndShare is controllers.EnqueueObject for hosts, and shares what the cache has of a host with the observations.
func enqueueAndShare(observations *observations) handler.Funcs {
	share := func(o client.Object) {
		if host, ok := o.(*v1alpha1.BareMetalHost); ok {
			observations.share(host)
		}
	}
	enqueue := controllers.EnqueueObject
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q controllers.Queue) {
			share(e.Object)
			enqueue.CreateFunc(ctx, e, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q controllers.Queue) {
			share(e.ObjectNew)
			enqueue.UpdateFunc(ctx, e, q)
		},
		DeleteFunc: enqueue.DeleteFunc,
	}
}

// hostsOfMachine returns the hosts that a machine has, the host that its provider ID names, and the hosts that were booted for it: their boots may be
// kept until the machine is gone.
func (m *watchMapper) hostsOfMachine(ctx context.Context, o client.Object) []reconcile.Request {
	requests := m.requestsForHosts(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{controllers.ConsumerIndex: o.GetName()})
	booted := m.hostsBootedFor(ctx, o)
	if machine, ok := o.(*v1alpha1.BareMetalMachine); ok {
		if namespace, host := inventory.HostOf(machine.Spec.ProviderID); namespace == machine.Namespace && host != "" {
			booted = append(booted, host)
		}
	}
	for _, host := range booted {
		if request := (reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: host}}); !slices.Contains(requests, request) {
			requests = append(requests, request)
		}
	}
	return requests
}

// hostsBootedFor returns the names of the hosts whose last boot was for a machine and is not void.
func (m *watchMapper) hostsBootedFor(ctx context.Context, machine client.Object) []string {
	var boots v1alpha1.BareMetalBootList
	err := m.client.List(ctx, &boots, client.InNamespace(machine.GetNamespace()), client.MatchingFields{controllers.MachineIndex: machine.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the boots of a machine")
	}
	names := make([]string, 0, len(boots.Items))
	for i := range boots.Items {
		names = append(names, boots.Items[i].Name)
	}
	return names
}

func (m *watchMapper) hostsOfOwnerMachine(ctx context.Context, o client.Object) []reconcile.Request {
	machine, ok := o.(*clusterv1.Machine)
	if !ok || machine.Spec.InfrastructureRef.Name == "" {
		return nil
	}
	return m.requestsForHosts(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{controllers.ConsumerIndex: machine.Spec.InfrastructureRef.Name})
}

func (m *watchMapper) hostsOfCluster(ctx context.Context, o client.Object) []reconcile.Request {
	var machines v1alpha1.BareMetalMachineList
	err := m.client.List(ctx, &machines, client.InNamespace(o.GetNamespace()), client.MatchingLabels{clusterv1.ClusterNameLabel: o.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the machines of the cluster")
		return nil
	}
	var requests []reconcile.Request
	for i := range machines.Items {
		requests = append(requests, m.hostsOfMachine(ctx, &machines.Items[i])...)
	}
	return requests
}

func (m *watchMapper) hostsOfSecret(ctx context.Context, o client.Object) []reconcile.Request {
	return m.requestsForHosts(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{controllers.SecretIndex: o.GetName()})
}
