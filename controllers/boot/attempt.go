package boot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// refused is an ErrRefused with its reason.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pxe.ErrRefused, fmt.Sprintf(format, args...))
}

// shown is a token that somebody shows.
type shown struct {
	host    string // "namespace/name"
	token   string
	purpose purpose
	from    netip.Addr
}

// tooEarly is an ErrNotYet with its reason.
func tooEarly(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pxe.ErrNotYet, fmt.Sprintf(format, args...))
}

// attempt is a boot with what is known of its host and of its machine. boot is nil where there is none.
type attempt struct {
	host     *v1alpha1.BareMetalHost
	boot     *v1alpha1.BareMetalBoot
	consumer *controllers.Consumer
	view     lifecycle.View
}

// bootOf returns the boot of a host as this process knows it, nil if there is none.
func (b *Booter) bootOf(ctx context.Context, host types.NamespacedName) (*v1alpha1.BareMetalBoot, error) {
	return b.boots.Get(ctx, b.Client, host)
}

// view gathers what is known of a host, with its machine as a client reads it.
func (b *Booter) view(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	consumer, err := controllers.GetConsumer(ctx, c, host)
	if err != nil {
		return attempt{}, err
	}
	return attempt{host, boot, consumer, controllers.View(host, boot, consumer, b.Clock.Now())}, nil
}

// around gathers what is known of a boot that was read from the API server: the rest from the cache. The host is read from the API server too where the
// cache does not show that the boot is its claim's.
func (b *Booter) around(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	key, host := client.ObjectKeyFromObject(boot), &v1alpha1.BareMetalHost{}
	if err := b.Client.Get(ctx, key, host); err != nil {
		return attempt{}, err
	}
	if controllers.CurrentBoot(host, boot) == nil || boot.Spec.Number != host.Spec.Boots {
		if err := b.APIReader.Get(ctx, key, host); err != nil {
			return attempt{}, err
		}
	}
	return b.ofClaim(ctx, b.Client, host, boot)
}

// aroundLive is around with everything read from the API server.
func (b *Booter) aroundLive(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	host := &v1alpha1.BareMetalHost{}
	if err := b.APIReader.Get(ctx, client.ObjectKeyFromObject(boot), host); err != nil {
		return attempt{}, err
	}
	return b.ofClaim(ctx, liveClient{b.Client, b.APIReader}, host, boot)
}

// ofClaim is view for a boot of the machine that has the host: somebody may have given the host to another one by hand, and kept the claimID.
func (b *Booter) ofClaim(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	if ref := host.Spec.ConsumerRef; ref != nil && ref.Name != boot.Spec.MachineName {
		return attempt{}, refused("the boot of %s/%s is that of another machine", host.Namespace, host.Name)
	}
	return b.view(ctx, c, host, boot)
}

// liveClient is a client whose Get reads from the API server: Cluster API's functions take a client.
type liveClient struct {
	client.Client

	reader client.Reader
}

func (c liveClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o, opts...)
}

// past is true from the attempt's deadline on.
func (b *Booter) past(a attempt) bool {
	return !a.view.Now.Before(a.view.Deadline(b.Settings))
}

// withToken is update for the boot that has the token. What is known of the boot is gathered by around, which the caller chooses.
func (b *Booter) withToken(
	ctx context.Context, s shown, around func(context.Context, *v1alpha1.BareMetalBoot) (attempt, error), change func(attempt) error,
) (attempt, error) {
	namespace, name, _ := strings.Cut(s.host, "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	switch likely, err := b.likely(ctx, key, s); {
	case err != nil:
		return attempt{}, err
	case !likely && !b.doubtful.Allow():
		metrics.TokenRefused(string(s.purpose))
		return attempt{}, refused("too many wrong tokens are shown to look for that of %s", s.host)
	case likely && !b.within(s.host): // guesses use up nothing of the host
		return attempt{}, fmt.Errorf("%s asks too often with its token: %d requests at once, and %d a second, are answered", s.host, budgetBurst, budgetSecond)
	}
	var a attempt
	boot, err := b.update(ctx, key, func(boot *v1alpha1.BareMetalBoot) error {
		a = attempt{boot: boot}
		if !b.opens(s.token, s.purpose, boot) {
			return refused("the token is not that of the current boot of %s", s.host)
		}
		known, err := around(ctx, boot)
		if err != nil {
			return err
		}
		a = known
		return change(a)
	})
	if apierrors.IsNotFound(err) && a.host == nil {
		b.opens(s.token, s.purpose, &v1alpha1.BareMetalBoot{}) // as long as for a boot
		err = refused("there is no boot of %s", s.host)
	}
	if errors.Is(err, pxe.ErrRefused) {
		metrics.TokenRefused(string(s.purpose))
	}
	if boot != nil {
		a.boot = boot
	}
	b.tellRefusal(a, s.from, err)
	return a, err
}

// How many requests of a host with its token are answered: so many at once, and so many in a second. Each reads from the API server. An operating system asks
// for four files and reports twice. A request above the budget gets an answer that makes the operating system ask again.
const (
	budgetBurst  = 40
	budgetSecond = 4
)

// within is true for a request within the budget of a host.
func (b *Booter) within(host string) bool {
	limiter, ok := b.budgets.Get(host)
	if !ok {
		limiter = rate.NewLimiter(budgetSecond, budgetBurst)
		b.budgets.Add(host, limiter)
	}
	return limiter.(*rate.Limiter).AllowN(b.Clock.Now(), 1) //nolint:forcetypeassert // nothing else is added
}

// likely is true for a token that is good by what the cache knows, which may be old. Other tokens are looked up in the API server too,
// but only so many in a second: guesses shall not keep it busy.
func (b *Booter) likely(ctx context.Context, key types.NamespacedName, s shown) (bool, error) {
	boot, err := b.bootOf(ctx, key)
	if err != nil {
		return false, err
	}
	if boot == nil {
		boot = &v1alpha1.BareMetalBoot{}
	}
	return b.opens(s.token, s.purpose, boot), nil
}

// contention is how conflicts are waited out: controllers and the boot servers' other requests write to the same boot.
var contention = wait.Backoff{Steps: 10, Duration: 5 * time.Millisecond, Factor: 1.6, Jitter: 0.5}

// update reads a boot from the API server, changes it, and writes that with an optimistic lock. It starts again when another client wrote meanwhile.
// What change does not change is not written. It returns the boot as it is then; nil if change failed.
func (b *Booter) update(ctx context.Context, key types.NamespacedName, change func(*v1alpha1.BareMetalBoot) error) (*v1alpha1.BareMetalBoot, error) {
	var written *v1alpha1.BareMetalBoot
	err := retry.RetryOnConflict(contention, func() error {
		boot := &v1alpha1.BareMetalBoot{}
		if err := b.APIReader.Get(ctx, key, boot); err != nil {
			return err
		}
		before := boot.DeepCopy()
		if err := change(boot); err != nil {
			return err
		}
		written = boot
		if equality.Semantic.DeepEqual(before.Spec, boot.Spec) {
			return nil
		}
		return b.boots.Patch(ctx, b.Client, before, boot)
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// secondRequesterError is why an attempt fails when two ask for what is one server's.
type secondRequesterError struct{ what, first, second string }

func (e secondRequesterError) Error() string {
	return fmt.Sprintf("%s asked for the %s that was given to %s: two machines claim to be this server, or somebody listens on its network",
		e.second, e.what, e.first)
}

// bind ties what is given out to the first address that asks. It writes nothing: what is bound is given out once update has.
func bind(bound *string, from netip.Addr, what string) error {
	switch *bound {
	case "":
		*bound = from.String()
		return nil
	case from.String():
		return nil
	default:
		return secondRequesterError{what, *bound, from.String()}
	}
}

// failAttempt ends a boot, and so its tokens.
func (b *Booter) failAttempt(ctx context.Context, a attempt, why error) error {
	before := a.boot.DeepCopy()
	a.boot.Spec.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonSecondRequester, Message: why.Error()}
	if err := b.boots.Patch(ctx, b.Client, before, a.boot); err != nil {
		return err
	}
	if err := controllers.ApplyFailure(ctx, b.Client, client.ObjectKeyFromObject(a.boot), v1alpha1.ReasonSecondRequester); err != nil {
		b.Log.Error(err, "Failed to write the status of the boot", "host", client.ObjectKeyFromObject(a.boot))
	}
	b.tellFailed(a)
	return refused("%v", why)
}
