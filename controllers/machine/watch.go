package machine

import (
	"context"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// onHost enqueues the machines that a change of a host affects. Its consumer, or machines under deletion that had it, are enqueued at once. Machines
// that wait for a host are enqueued after EventBatchDelay if the host may fit them.
func (r *Reconciler) onHost() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q controllers.Queue) {
			host, ok := e.Object.(*v1alpha1.BareMetalHost)
			if !ok {
				return
			}
			r.hosts.update(host)
			r.enqueueConsumers(ctx, host, q.Add)
			if !e.IsInInitialList { // at start every machine is reconciled once all hosts are in the cache
				r.enqueueWaiting(ctx, host, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q controllers.Queue) {
			before, ok := e.ObjectOld.(*v1alpha1.BareMetalHost)
			after, alsoOK := e.ObjectNew.(*v1alpha1.BareMetalHost)
			if !ok || !alsoOK {
				return
			}
			r.hosts.update(after)
			if controllers.DesiredStateChanged(e) || before.Status.Phase != after.Status.Phase {
				r.enqueueConsumers(ctx, before, q.Add)
				r.enqueueConsumers(ctx, after, q.Add)
			} else { // progress of a boot: its stages follow each other quickly
				r.enqueueConsumers(ctx, after, func(request reconcile.Request) { q.AddAfter(request, controllers.EventBatchDelay) })
			}
			if claimabilityChanged(before, after) {
				r.enqueueWaiting(ctx, after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q controllers.Queue) {
			if host, ok := e.Object.(*v1alpha1.BareMetalHost); ok {
				r.hosts.remove(host)
				r.enqueueConsumers(ctx, host, q.Add)
				r.enqueueWaiting(ctx, host, q)
			}
		},
	}
}

// onBoot enqueues the machine that a boot is for: after EventBatchDelay if only the status, or the record of what was served, changed.
func (r *Reconciler) onBoot() handler.EventHandler {
	enqueue := func(ctx context.Context, o client.Object, add func(reconcile.Request)) {
		if boot, ok := o.(*v1alpha1.BareMetalBoot); ok && boot.Spec.MachineName != "" {
			r.enqueueOwn(ctx, client.ObjectKey{Namespace: boot.Namespace, Name: boot.Spec.MachineName}, add)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q controllers.Queue) {
			if controllers.BootChanged(e) {
				enqueue(ctx, e.ObjectNew, q.Add)
				return
			}
			enqueue(ctx, e.ObjectNew, func(request reconcile.Request) { q.AddAfter(request, controllers.EventBatchDelay) })
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q controllers.Queue) { enqueue(ctx, e.Object, q.Add) },
	}
}

// enqueueOwn enqueues a machine unless the cache shows that it is for another manager.
func (r *Reconciler) enqueueOwn(ctx context.Context, key client.ObjectKey, add func(reconcile.Request)) {
	if r.WatchFilter != "" {
		var m v1alpha1.BareMetalMachine
		if err := r.Client.Get(ctx, key, &m); err == nil && !controllers.HasWatchFilter(&m, r.WatchFilter) {
			return
		}
	}
	add(reconcile.Request{NamespacedName: key})
}

// enqueueConsumers enqueues the consumer of a host. For a host without a consumer it enqueues the machines whose status.hostRef names it.
func (r *Reconciler) enqueueConsumers(ctx context.Context, host *v1alpha1.BareMetalHost, add func(reconcile.Request)) {
	if ref := host.Spec.ConsumerRef; ref != nil {
		r.enqueueOwn(ctx, client.ObjectKey{Namespace: host.Namespace, Name: ref.Name}, add)
		return
	}
	for _, m := range r.machinesByIndex(ctx, host.Namespace, client.MatchingFields{hostIndex: host.Name}) {
		add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
	}
}

// enqueueWaiting enqueues the machines that wait for a host. For an available host these are the machines that it fits. Machines that wait for a host
// under release are always enqueued. The queue keeps one entry for each machine, with the earliest of its times.
func (r *Reconciler) enqueueWaiting(ctx context.Context, host *v1alpha1.BareMetalHost, q controllers.Queue) {
	kind := waitsFormerHost
	if host.Spec.ConsumerRef == nil && conditions.IsTrue(host, v1alpha1.AvailableCondition) {
		kind = waitsAnyHost
	}
	for _, m := range r.machinesByIndex(ctx, host.Namespace, client.MatchingFields{waitingIndex: kind}) {
		if kind == waitsFormerHost || waitsForFormerHost(m) || mayFit(m, host) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)}, controllers.EventBatchDelay)
		}
	}
}

// machinesByIndex returns the machines of this manager in a namespace that an index finds. They are objects of the cache and must not be changed.
func (r *Reconciler) machinesByIndex(ctx context.Context, namespace string, which client.MatchingFields) []*v1alpha1.BareMetalMachine {
	var machines v1alpha1.BareMetalMachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(namespace), which, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the machines that a change of a host affects")
		return nil
	}
	found := make([]*v1alpha1.BareMetalMachine, 0, len(machines.Items))
	for i := range machines.Items {
		if controllers.HasWatchFilter(&machines.Items[i], r.WatchFilter) {
			found = append(found, &machines.Items[i])
		}
	}
	return found
}

// mayFit is true for a host that fits a machine, except for the failure domain, which only the Machine has.
func mayFit(m *v1alpha1.BareMetalMachine, host *v1alpha1.BareMetalHost) bool {
	want, err := claim.WantOf(&m.Spec)
	return err != nil || claim.Eligible(host, want) == ""
}

// claimabilityChanged is true for a change of a host that may change which machines can claim it. The hardware is compared semantically: equal
// Quantities may differ in memory.
func claimabilityChanged(before, after *v1alpha1.BareMetalHost) bool {
	return !reflect.DeepEqual(claimFieldsOf(before), claimFieldsOf(after)) || !equality.Semantic.DeepEqual(before.Status.Hardware, after.Status.Hardware) ||
		!equality.Semantic.DeepEqual(before.Status.Inspection, after.Status.Inspection)
}

// claimFields are the fields of a host, besides its hardware, that matter to machines that wait for one. Progress of a boot, power and observations
// change continuously and do not matter.
type claimFields struct {
	labels       map[string]string
	spec         v1alpha1.BareMetalHostSpec
	verified     bool
	profile      string // whose firmware settings it has
	outOfService string // annotations can take a host out of service too
	available    metav1.Condition
}

func claimFieldsOf(h *v1alpha1.BareMetalHost) claimFields {
	f := claimFields{
		labels: h.Labels, spec: h.Spec, profile: h.Status.SettingsProfile, outOfService: claim.OutOfService(h),
		verified: conditions.IsTrue(h, v1alpha1.VerifiedCondition),
	}
	f.spec.ProviderState.Boots = 0
	if c := conditions.Get(h, v1alpha1.AvailableCondition); c != nil {
		f.available = metav1.Condition{Status: c.Status, Reason: c.Reason}
	}
	return f
}
