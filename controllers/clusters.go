package controllers

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// shutdownPeriod is longer than the 30 s that a manager gives its controllers to end.
const shutdownPeriod = time.Minute

// ClusterSource brings the objects of a workload cluster to a controller when the cluster is connected to, or no longer is. It still takes
// events while the manager stops: the cluster cache sends each one without a look at its context (Cluster API v1.14), so that with nobody
// to take it its worker would wait, and the manager give up after its whole grace period.
func ClusterSource(clusters clustercache.ClusterCache, controllerName string, objects handler.MapFunc) source.Source {
	return lasting{clusters.GetClusterSource(controllerName, objects)}
}

type lasting struct{ source.Source }

// Start implements source.Source.
func (s lasting) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	longer, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(shutdownPeriod, stop) })
	return s.Source.Start(longer, queue)
}
