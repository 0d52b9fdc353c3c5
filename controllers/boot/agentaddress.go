package boot

import (
	"context"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// bindAgent binds the script or the plan of a boot that runs the agent to the first address that asks. An address that only the server can have is the
// server's, whatever address it had before (decision 0028).
func (b *Booter) bindAgent(ctx context.Context, a attempt, bound *string, from netip.Addr, what string) error {
	if mayBind(a) || *bound != "" {
		second := bind(bound, from, what)
		if second == nil {
			return nil
		}
		switch own, err := b.isOwnAddress(ctx, a, from); {
		case err != nil:
			return err
		case own:
			return nil
		}
		return b.refuseSecond(ctx, a, second)
	}
	return refused("the agent of %s/%s asks from another address than before", a.host.Namespace, a.host.Name)
}

// refuseSecond decides about a second client that presents the token of an agent (decision 0028):
//
//   - After the permission to make the disk bootable another client is only refused: it must not fail a machine that may run.
//   - Before the bootstrap data was served, nothing was given away. The agent is refused from now on, whichever of the two it is, and the next attempt has
//     another token.
//   - Otherwise a stranger may have the bootstrap data, and the boot fails.
func (b *Booter) refuseSecond(ctx context.Context, a attempt, second error) error {
	switch {
	case mayBind(a) && a.boot.Spec.DataServedTime == nil:
		return b.refuseAgent(ctx, a, second)
	case mayBind(a):
		return b.failAttempt(ctx, a, second)
	default:
		return refused("%v", second)
	}
}

// mayBind is true until the disk may be complete.
func mayBind(a attempt) bool {
	return a.boot.Spec.CommitAllowedTime == nil && a.boot.Spec.AgentDoneTime == nil
}

// isOwnAddress is true for an address that this provider leased to the server, or that spec.network gives to it.
func (b *Booter) isOwnAddress(ctx context.Context, a attempt, from netip.Addr) (bool, error) {
	if slices.Contains(configuredAddresses(a.host), from) {
		return true, nil
	}
	leased, err := b.leasedAddresses(ctx, a.host, "", b.networksFor(from))
	return slices.Contains(leased, from), err
}

// refuseAgent ends the validity of the agent's token. The lifecycle ends the attempt.
func (b *Booter) refuseAgent(ctx context.Context, a attempt, why error) error {
	before, now := a.boot.DeepCopy(), metav1.NewTime(b.Clock.Now())
	a.boot.Spec.AgentRefusedTime = &now
	if err := b.boots.Patch(ctx, b.Client, before, a.boot); err != nil {
		return err
	}
	b.recordProblem(a.boot, v1alpha1.ReasonSecondRequester, why)
	return refused("%v", why)
}
