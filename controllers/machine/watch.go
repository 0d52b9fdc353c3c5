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

// onHost brings the machines that a change of a host is news for: at once the one that has it, or had it and sees to its own deletion; together
// later those that wait for one, where the host may be theirs.
func (r *Reconciler) onHost() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q controllers.Queue) {
			host, ok := e.Object.(*v1alpha1.BareMetalHost)
			if !ok {
				return
			}
			r.free.see(host)
			r.bringHolders(ctx, host, q.Add)
			if !e.IsInInitialList { // every machine is looked at then, once all hosts are in the cache
				r.bringWaiting(ctx, host, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q controllers.Queue) {
			before, ok := e.ObjectOld.(*v1alpha1.BareMetalHost)
			after, alsoOK := e.ObjectNew.(*v1alpha1.BareMetalHost)
			if !ok || !alsoOK {
				return
			}
			r.free.see(after)
			if controllers.DesiredStateChanged(e) || before.Status.Phase != after.Status.Phase {
				r.bringHolders(ctx, before, q.Add)
				r.bringHolders(ctx, after, q.Add)
			} else { // how far a boot is: its stages follow each other faster than anybody reads
				r.bringHolders(ctx, after, func(request reconcile.Request) { q.AddAfter(request, controllers.EventBatchDelay) })
			}
			if newsToWaiting(before, after) {
				r.bringWaiting(ctx, after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q controllers.Queue) {
			if host, ok := e.Object.(*v1alpha1.BareMetalHost); ok {
				r.free.gone(host)
				r.bringHolders(ctx, host, q.Add)
				r.bringWaiting(ctx, host, q)
			}
		},
	}
}

// onBoot enqueues the machine that a boot is for: later where only what was served, or the status, changed.
func onBoot() handler.EventHandler {
	enqueue := func(o client.Object, add func(reconcile.Request)) {
		if boot, ok := o.(*v1alpha1.BareMetalBoot); ok && boot.Spec.MachineName != "" {
			add(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: boot.Namespace, Name: boot.Spec.MachineName}})
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q controllers.Queue) {
			if controllers.BootChanged(e) {
				enqueue(e.ObjectNew, q.Add)
				return
			}
			enqueue(e.ObjectNew, func(request reconcile.Request) { q.AddAfter(request, controllers.EventBatchDelay) })
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q controllers.Queue) { enqueue(e.Object, q.Add) },
	}
}

// bringHolders brings the machine that has a host, and where nobody has it those that noted it as theirs.
func (r *Reconciler) bringHolders(ctx context.Context, host *v1alpha1.BareMetalHost, bring func(reconcile.Request)) {
	if ref := host.Spec.ConsumerRef; ref != nil {
		bring(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: host.Namespace, Name: ref.Name}})
		return
	}
	for _, m := range r.machines(ctx, host.Namespace, client.MatchingFields{hostIndex: host.Name}) {
		bring(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
	}
}

// bringWaiting brings, for a host that can be claimed, the machines that wait for one and that it fits; and those that wait for a host that is
// being released, whatever became of this one. The queue keeps one entry for each, with the earliest of its times.
func (r *Reconciler) bringWaiting(ctx context.Context, host *v1alpha1.BareMetalHost, q controllers.Queue) {
	waits := forFormerHost
	if host.Spec.ConsumerRef == nil && conditions.IsTrue(host, v1alpha1.AvailableCondition) {
		waits = forAnyHost
	}
	for _, m := range r.machines(ctx, host.Namespace, client.MatchingFields{waitingIndex: waits}) {
		if waits == forFormerHost || waitsForFormer(m) || mayHave(m, host) {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)}, controllers.EventBatchDelay)
		}
	}
}

// machines returns the machines of a namespace that an index finds. Nothing may be written to them: they are the cache's own objects.
func (r *Reconciler) machines(ctx context.Context, namespace string, which client.MatchingFields) []*v1alpha1.BareMetalMachine {
	var machines v1alpha1.BareMetalMachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(namespace), which, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the machines that a host is news for")
		return nil
	}
	found := make([]*v1alpha1.BareMetalMachine, len(machines.Items))
	for i := range machines.Items {
		found[i] = &machines.Items[i]
	}
	return found
}

// mayHave is true for a host that fits a machine, as far as the machine itself tells: the failure domain is in its Machine.
func mayHave(m *v1alpha1.BareMetalMachine, host *v1alpha1.BareMetalHost) bool {
	want, err := claim.WantOf(&m.Spec)
	return err != nil || claim.Eligible(host, want) == ""
}

// newsToWaiting is true for a change of a host that may change who may claim it. Equal Quantities may differ in memory, so the hardware is
// compared by its meaning.
func newsToWaiting(before, after *v1alpha1.BareMetalHost) bool {
	return !reflect.DeepEqual(looksOf(before), looksOf(after)) || !equality.Semantic.DeepEqual(before.Status.Hardware, after.Status.Hardware)
}

// looks is what of a host, besides its hardware, counts for machines that wait for one. How it boots, its power and what was seen of it change all the time, and
// do not.
type looks struct {
	labels       map[string]string
	spec         v1alpha1.BareMetalHostSpec
	verified     bool
	outOfService string // as annotations say it too
	available    metav1.Condition
}

func looksOf(h *v1alpha1.BareMetalHost) looks {
	l := looks{
		labels: h.Labels, spec: h.Spec, outOfService: claim.OutOfService(h),
		verified: conditions.IsTrue(h, v1alpha1.VerifiedCondition),
	}
	l.spec.Boots = 0
	if c := conditions.Get(h, v1alpha1.AvailableCondition); c != nil {
		l.available = metav1.Condition{Status: c.Status, Reason: c.Reason}
	}
	return l
}
