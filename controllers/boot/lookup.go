package boot

import (
	"context"
	"fmt"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// A token that the cache does not know is looked up at the API server: the cache may be behind. Strangers with wrong tokens must overload neither the API server nor
// the server that they name, so there is a rate for each name, and one for all. A token above it is not refused for ever: it may be the right one.
const (
	// lookupRate and lookupBurst are for one name.
	lookupRate  = 1
	lookupBurst = 40
	// lookupsRate and lookupsBurst are for all names.
	lookupsRate  = 100
	lookupsBurst = 200
)

// lookups limit the tokens that are looked up.
type lookups struct {
	all   *rate.Limiter
	hosts *limiters
}

func newLookups() *lookups {
	return &lookups{rate.NewLimiter(lookupsRate, lookupsBurst), newLimiters(lookupRate, lookupBurst)}
}

// mayLookUp returns nil if the API server may be asked for the boot of a host, given as "namespace/name", or ErrNotYet.
func (b *Booter) mayLookUp(host string) error {
	now := b.Clock.Now()
	if !b.lookups.hosts.allow(host, now) || !b.lookups.all.AllowN(now, 1) {
		return fmt.Errorf("%w: too many tokens of %s were presented", pxe.ErrTokenUnknown, host)
	}
	return nil
}

// cachedBoot returns the boot of a host from the cache. Without one it is empty, so that a check of the token takes as long as for an existing boot.
func (b *Booter) cachedBoot(ctx context.Context, s presentedToken) (*v1alpha1.BareMetalBoot, error) {
	boot, err := b.bootOf(ctx, s.key())
	if boot == nil {
		boot = &v1alpha1.BareMetalBoot{}
	}
	return boot, err
}

// openedBoot returns the boot that a token opens: from the cache, or if the cache does not show it yet, from the API server.
func (b *Booter) openedBoot(ctx context.Context, s presentedToken) (*v1alpha1.BareMetalBoot, error) {
	boot, err := b.cachedBoot(ctx, s)
	if err != nil || b.opens(s.token, s.purpose, boot) {
		return boot, err
	}
	if err := b.mayLookUp(s.host); err != nil {
		return nil, err
	}
	live := &v1alpha1.BareMetalBoot{}
	if err := b.APIReader.Get(ctx, s.key(), live); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if !b.opens(s.token, s.purpose, live) {
		metrics.TokenRefused(string(s.purpose))
		return nil, refused("the token is not that of the current boot of %s", s.host)
	}
	return live, nil
}

// CheckToken returns nil if the token is that of the agent of the host's boot. The agent that has the plan is refused with ErrVersion if it has another version of the
// protocol: the body of its request may be one that this boot server cannot read.
func (b *Booter) CheckToken(ctx context.Context, r pxe.AgentRequest) error {
	boot, err := b.openedBoot(ctx, presentedToken{r.Host, r.Token, forAgent, r.From})
	if err == nil && isAgent(&boot.Spec, r) {
		err = b.checkVersion(boot, r)
	}
	return err
}

// KnowsSeedToken is true for a token that opens the seed of the host's boot in the cache.
func (b *Booter) KnowsSeedToken(ctx context.Context, host, token string) bool {
	s := presentedToken{host: host, token: token, purpose: forSeed}
	boot, err := b.cachedBoot(ctx, s)
	return err == nil && b.opens(token, forSeed, boot)
}
