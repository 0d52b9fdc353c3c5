package boot

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ReconcileImage is a reconcile of the controller that prepares images.
func (b *Booter) ReconcileImage(ctx context.Context, host types.NamespacedName) (reconcile.Result, error) {
	return b.newImageReconciler().Reconcile(ctx, reconcile.Request{NamespacedName: host})
}

// HostOfImage returns the requests of that controller for a change of a BareMetalMachine or a Machine.
func (b *Booter) HostOfImage(ctx context.Context, o client.Object) []reconcile.Request {
	return b.newImageReconciler().hostOf(ctx, o)
}
