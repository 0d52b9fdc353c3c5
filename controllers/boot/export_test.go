package boot

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ReconcileImage is a reconcile of the controller that prepares images.
func (b *Booter) ReconcileImage(ctx context.Context, host types.NamespacedName) (reconcile.Result, error) {
	return (&imageReconciler{b}).Reconcile(ctx, reconcile.Request{NamespacedName: host})
}
