package boot

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// presentedToken is a token that a client presents.
type presentedToken struct {
	host    string // "namespace/name"
	token   string
	purpose purpose
	from    netip.Addr
}

// key is the name of the host.
func (s presentedToken) key() types.NamespacedName {
	namespace, name, _ := strings.Cut(s.host, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

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

// missLimiter limits the tokens that are looked up at the API server because the cache does not know them.
type missLimiter struct {
	all   *rate.Limiter
	hosts *limiters
}

func newMissLimiter() *missLimiter {
	return &missLimiter{rate.NewLimiter(lookupsRate, lookupsBurst), newLimiters(lookupRate, lookupBurst)}
}

// The budget of requests that a host makes with its token. Each request reads from the API server. An operating system asks for four files and reports
// twice. A request above the budget gets an answer that makes the operating system ask again.
const (
	// budgetBurst is how many requests are answered at once, budgetRate how many a second.
	budgetBurst = 40
	budgetRate  = 4
)

// tokenChecker checks the tokens that clients present, and limits how often the API server is read for them.
type tokenChecker struct {
	apiReader client.Reader
	clock     clock.PassiveClock
	keys      tokenKeys
	records   *bootRecords
	misses    *missLimiter
	budgets   *limiters // of the requests of hosts with valid tokens
}

// mayLookUp returns nil if the API server may be asked for the boot of a host, given as "namespace/name", or ErrNotYet.
func (c *tokenChecker) mayLookUp(host string) error {
	now := c.clock.Now()
	if !c.misses.hosts.allow(host, now) || !c.misses.all.AllowN(now, 1) {
		return fmt.Errorf("%w: too many tokens of %s were presented", pxe.ErrTokenUnknown, host)
	}
	return nil
}

// withinBudget is true for a request within the budget of a host, given as "namespace/name".
func (c *tokenChecker) withinBudget(host string) bool { return c.budgets.allow(host, c.clock.Now()) }

// cachedBoot returns the boot of a host from the cache. Without one it is empty, so that a check of the token takes as long as for an existing boot. The boot of a medium
// is not copied for each of thousands of requests, and must not be changed.
func (c *tokenChecker) cachedBoot(ctx context.Context, s presentedToken) (*v1alpha1.BareMetalBoot, error) {
	read := c.records.bootOf
	if s.purpose == forMedia {
		read = c.records.sharedBootOf
	}
	boot, err := read(ctx, s.key())
	if boot == nil {
		boot = &v1alpha1.BareMetalBoot{}
	}
	return boot, err
}

// openedBoot returns the boot that a token opens: from the cache, or if the cache does not show it yet, from the API server.
func (c *tokenChecker) openedBoot(ctx context.Context, s presentedToken) (*v1alpha1.BareMetalBoot, error) {
	boot, err := c.cachedBoot(ctx, s)
	if err != nil || c.keys.opens(s.token, s.purpose, boot) {
		return boot, err
	}
	if err := c.mayLookUp(s.host); err != nil {
		return nil, err
	}
	live := &v1alpha1.BareMetalBoot{}
	if err := c.apiReader.Get(ctx, s.key(), live); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if !c.keys.opens(s.token, s.purpose, live) {
		metrics.TokenRefused(string(s.purpose))
		return nil, refused("the token is not that of the current boot of %s", s.host)
	}
	return live, nil
}

// KnowsSeedToken is true for a token that opens the seed of the host's boot in the cache.
func (c *tokenChecker) KnowsSeedToken(ctx context.Context, host, token string) bool {
	s := presentedToken{host: host, token: token, purpose: forSeed}
	boot, err := c.cachedBoot(ctx, s)
	return err == nil && c.keys.opens(token, forSeed, boot)
}
