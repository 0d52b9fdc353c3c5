package controllers

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the work queue of a controller.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
