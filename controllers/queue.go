package controllers

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// HasWatchFilter is true for an object that this manager reconciles. The predicates of a watch see only the objects that changed
// themselves: what other objects' changes bring to the queue is checked here.
func HasWatchFilter(o client.Object, filter string) bool {
	return filter == "" || labels.HasWatchLabel(o, filter)
}

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// EventBatchDelay is how long changes of hosts are gathered before what depends on many of them is looked at: a rack that registers is looked at
// once, and not once for each server.
const EventBatchDelay = time.Second

// EnqueueBatched brings what an object's change is news for, by a function, Together later. The queue keeps one entry for each, with the
// earliest of its times: so under lasting changes it is looked at once in this time, and not put off for ever.
func EnqueueBatched(requests handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, o client.Object, q Queue) {
		for _, request := range requests(ctx, o) {
			q.AddAfter(request, EventBatchDelay)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q Queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) { add(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q Queue) { add(ctx, e.Object, q) },
	}
}

// EnqueueObject brings an object at once when people or Cluster API changed it. A change of the status alone is our own, as a rule: it is looked
// at Together later, for else every write would be followed by a look at what came meanwhile, and that by a write.
var EnqueueObject = handler.Funcs{
	CreateFunc: func(_ context.Context, e event.CreateEvent, q Queue) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
	},
	UpdateFunc: func(_ context.Context, e event.UpdateEvent, q Queue) {
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)}
		if desiredStateChanged.Update(e) {
			q.Add(request)
			return
		}
		q.AddAfter(request, EventBatchDelay)
	},
	DeleteFunc: func(_ context.Context, e event.DeleteEvent, q Queue) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
	},
}

// DesiredStateChanged is true for a change of what people and Cluster API write, and false for one of the status alone.
func DesiredStateChanged(e event.UpdateEvent) bool { return desiredStateChanged.Update(e) }

// desiredStateChanged passes changes of what people and Cluster API write.
var desiredStateChanged = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
	predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !reflect.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences())
	}})

// EnqueueHost enqueues the host of a boot: at once where something follows from the change, and Together later where only what was served, or the
// status, changed.
var EnqueueHost = handler.Funcs{
	CreateFunc: func(_ context.Context, e event.CreateEvent, q Queue) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
	},
	UpdateFunc: func(_ context.Context, e event.UpdateEvent, q Queue) {
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.ObjectNew)}
		if BootChanged(e) {
			q.Add(request)
			return
		}
		q.AddAfter(request, EventBatchDelay)
	},
	DeleteFunc: func(_ context.Context, e event.DeleteEvent, q Queue) {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
	},
}

// BootChanged is true for a change of a boot that something follows from: not of its status alone, nor of what was served.
func BootChanged(e event.UpdateEvent) bool { return desiredStateChanged.Update(e) && !servingRecorded(e) }

// servingRecorded is true for a change of a boot that says no more than what was served to the server.
func servingRecorded(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.BareMetalBoot)
	after, alsoOK := e.ObjectNew.(*v1alpha1.BareMetalBoot)
	if !ok || !alsoOK || !before.DeletionTimestamp.Equal(after.DeletionTimestamp) {
		return false
	}
	served := before.Spec
	served.DHCPAt, served.ScriptAddress, served.DataAddress, served.DataServedAt =
		after.Spec.DHCPAt, after.Spec.ScriptAddress, after.Spec.DataAddress, after.Spec.DataServedAt
	return equality.Semantic.DeepEqual(served, after.Spec)
}
