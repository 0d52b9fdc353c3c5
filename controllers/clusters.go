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

// shutdownPeriod is longer than the 30 s that a manager waits for its controllers to stop.
const shutdownPeriod = time.Minute

// ClusterSource enqueues objects of a workload cluster when the cluster cache connects to the cluster or loses the connection. The source keeps
// receiving events while the manager stops.
//
// The cluster cache sends events on a channel without checking its context (Cluster API v1.14.2, controllers/clustercache/cluster_cache.go,
// sendEventsToClusterSources). Without a receiver its worker blocks, and the manager stops only after its whole grace period. No upstream issue
// found. Delete drainingSource when that send selects on the context.
func ClusterSource(clusters clustercache.ClusterCache, controllerName string, objects handler.MapFunc) source.Source {
	return drainingSource{clusters.GetClusterSource(controllerName, objects)}
}

type drainingSource struct{ source.Source }

// Start implements source.Source.
func (s drainingSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	longer, stop := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(shutdownPeriod, stop) })
	return s.Source.Start(longer, queue)
}
