package controllers

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// HasWatchFilter is true for an object that this manager reconciles. The predicates of a watch see only the objects that changed
// themselves: what other objects' changes bring to the queue is checked here.
func HasWatchFilter(o client.Object, filter string) bool {
	return filter == "" || labels.HasWatchLabel(o, filter)
}

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
