package machine

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// ClaimFor is the part of a reconcile that claims a host, without what is written to the machine. It sets the machine's hostRef when it got
// one, and else the condition that says why not.
func (r *Reconciler) ClaimFor(ctx context.Context, m *v1alpha1.BareMetalMachine, owner *clusterv1.Machine) error {
	_, err := r.reconcileClaim(ctx, &scope{machine: m, owner: owner})
	return err
}

// BootOn is the part of a reconcile that tells how far a host is, for a machine that has the host as the cache shows it.
func (r *Reconciler) BootOn(ctx context.Context, m *v1alpha1.BareMetalMachine, cached *v1alpha1.BareMetalHost) error {
	_, err := r.reconcileBoot(ctx, &scope{machine: m, host: cached})
	return err
}
