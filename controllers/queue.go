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

// HasWatchFilter is true for an object that this manager reconciles. The predicate of a watch sees only the object that changed. Reconcilers call
// HasWatchFilter for objects that a change of another object enqueued.
func HasWatchFilter(o client.Object, filter string) bool {
	return filter == "" || labels.HasWatchLabel(o, filter)
}

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// EventBatchDelay is how long changes of hosts are collected before the objects that depend on many hosts are reconciled. A rack that registers
// causes one reconcile instead of one for each server.
const EventBatchDelay = time.Second

// EnqueueBatched enqueues the requests that a function returns for a changed object, after EventBatchDelay. The queue keeps one entry for each
// request, with the earliest of its times. So under continuous changes each request is reconciled once per delay and never postponed indefinitely.
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

// EnqueueObject enqueues an object: at once if a user or Cluster API changed it, and after EventBatchDelay if only its status changed. The provider
// usually wrote that status itself. Without the delay each write would trigger a reconcile, and that the next write.
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

// DesiredStateChanged is true for a change of what users and Cluster API write, and false for a change of only the status.
func DesiredStateChanged(e event.UpdateEvent) bool { return desiredStateChanged.Update(e) }

// desiredStateChanged passes changes of what users and Cluster API write.
var desiredStateChanged = predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{},
	predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !reflect.DeepEqual(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences())
	}})

// EnqueueHost enqueues the host of a boot: at once if the change requires action, and after EventBatchDelay if only the status, or the record of what
// was served, changed.
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

// BootChanged is true for a change of a boot that requires action. A change of only the status, or of what was served, does not.
func BootChanged(e event.UpdateEvent) bool {
	return desiredStateChanged.Update(e) && !servingRecorded(e)
}

// servingRecorded is true if only the record of what was served to the server changed.
func servingRecorded(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*v1alpha1.BareMetalBoot)
	after, alsoOK := e.ObjectNew.(*v1alpha1.BareMetalBoot)
	if !ok || !alsoOK || !before.DeletionTimestamp.Equal(after.DeletionTimestamp) {
		return false
	}
	served := before.Spec
	served.ScriptMACAddress = after.Spec.ScriptMACAddress
	served.DHCPTime, served.ScriptAddress, served.DataAddress, served.AgentKey, served.DataServedTime, served.CommitAllowedTime, served.WrittenDisks = after.Spec.DHCPTime,
		after.Spec.ScriptAddress, after.Spec.DataAddress, after.Spec.AgentKey, after.Spec.DataServedTime, after.Spec.CommitAllowedTime, after.Spec.WrittenDisks
	return equality.Semantic.DeepEqual(served, after.Spec)
}
