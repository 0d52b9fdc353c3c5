package machine

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// ClaimFor runs the claim phase for a machine, without the writes at the end of a reconcile. It sets the machine's hostRef, or the condition that
// says why there is no host.
func (r *Reconciler) ClaimFor(ctx context.Context, m *v1alpha1.BareMetalMachine, owner *clusterv1.Machine) error {
	_, err := r.reconcileClaim(ctx, &scope{machine: m, before: m.DeepCopy(), owner: owner})
	return err
}

// WatchHosts updates the hosts like the watch of the controller.
func (r *Reconciler) WatchHosts(ctx context.Context, mgr ctrl.Manager) error {
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.BareMetalHost{})
	if err != nil {
		return err
	}
	see := func(o any) { r.hosts.update(o.(*v1alpha1.BareMetalHost)) }
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }})
	return err
}

// FreeHosts returns the number of free hosts in a namespace.
func (r *Reconciler) FreeHosts(namespace string) int {
	n := 0
	for range r.hosts.freeInNamespace(namespace) {
		n++
	}
	return n
}

// ReconcileBootOn runs the boot phase for a machine that has a host as the cache shows it.
func (r *Reconciler) ReconcileBootOn(ctx context.Context, m *v1alpha1.BareMetalMachine, cached *v1alpha1.BareMetalHost) error {
	_, err := r.reconcileBoot(ctx, &scope{machine: m, owner: &clusterv1.Machine{}, host: cached})
	return err
}
