package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// shutdownPeriod is longer than the 30 s that a manager waits for its controllers to stop.
const shutdownPeriod = time.Minute

// PausedCluster returns the name of a paused Cluster of a namespace, or "" if none is paused. During `clusterctl move` all Clusters that move are paused. What
// a move must find unchanged is not created or deleted then.
func PausedCluster(ctx context.Context, reader client.Reader, namespace string) (string, error) {
	var clusters clusterv1.ClusterList
	if err := reader.List(ctx, &clusters, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list the Clusters of the namespace: %w", err)
	}
	paused := ""
	for i := range clusters.Items {
		if c := &clusters.Items[i]; annotations.IsPaused(c, c) {
			paused = max(paused, c.Name)
		}
	}
	return paused, nil
}

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
