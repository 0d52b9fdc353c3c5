package boot

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// ReconcileImage is a reconcile of the controller that prepares images.
func (b *Booter) ReconcileImage(ctx context.Context, host types.NamespacedName) (reconcile.Result, error) {
	return b.newImageReconciler().Reconcile(ctx, reconcile.Request{NamespacedName: host})
}

// HostOfImage returns the requests of that controller for a change of a BareMetalMachine or a Machine.
func (b *Booter) HostOfImage(ctx context.Context, o client.Object) []reconcile.Request {
	return b.newImageReconciler().hostOf(ctx, o)
}

// PendingStages returns the stages that wait to be written to the boot of a host, each with what is known of its client.
func (b *Booter) PendingStages(host types.NamespacedName) []string {
	b.stages.queue.mu.Lock()
	defer b.stages.queue.mu.Unlock()
	var stages []string
	if n := b.stages.queue.pending[host]; n != nil {
		for _, s := range n.stages {
			stages = append(stages, string(s.Stage)+" ("+lifecycle.StageClient(s.ObservedStage)+")")
		}
	}
	return stages
}
