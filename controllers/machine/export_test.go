package machine

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// ClaimFor is the part of a reconcile that claims a host, without what is written to the machine. It sets the machine's hostRef when it got
// one, and else the condition that says why not.
func (r *Reconciler) ClaimFor(ctx context.Context, m *v1alpha1.BareMetalMachine, owner *clusterv1.Machine) error {
	_, err := r.reconcileClaim(ctx, &scope{machine: m, before: m.DeepCopy(), owner: owner})
	return err
}

// WatchFreeHosts keeps up with which hosts are free, as the watch of a controller does.
func (r *Reconciler) WatchFreeHosts(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.BareMetalHost{})
	if err != nil {
		return err
	}
	see := func(o any) { r.freeHosts.update(o.(*v1alpha1.BareMetalHost)) }
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }})
	return err
}

// FreeHosts is how many hosts of a namespace are free, as far as the machines know.
func (r *Reconciler) FreeHosts(namespace string) int {
	n := 0
	for range r.freeHosts.inNamespace(namespace) {
		n++
	}
	return n
}

// BootOn is the part of a reconcile that tells how far a host is, for a machine that has the host as the cache shows it.
func (r *Reconciler) BootOn(ctx context.Context, m *v1alpha1.BareMetalMachine, cached *v1alpha1.BareMetalHost) error {
	_, err := r.reconcileBoot(ctx, &scope{machine: m, owner: &clusterv1.Machine{}, host: cached})
	return err
}
