package controllers

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// TestClusterSourceWhileStopping: the source receives what the cluster cache sends while the manager stops, so that the cache's worker ends.
func TestClusterSourceWhileStopping(t *testing.T) {
	g := NewWithT(t)
	sent := make(chan event.GenericEvent)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	ctx, stop := context.WithCancel(t.Context())
	g.Expect(drainingSource{source.Channel(sent, &handler.EnqueueRequestForObject{})}.Start(ctx, queue)).To(Succeed())
	stop()
	queue.ShutDown()
	for range 10 { // the channel source does not stop at once
		g.Eventually(sent).Should(BeSent(event.GenericEvent{}))
	}
}
