package boot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

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

// attempt is a boot attempt, read from the API server, with what is known of the host and of its machine.
type attempt struct {
	host     *v1alpha1.BareMetalHost
	consumer *controllers.Consumer
	view     lifecycle.View
}

// past is true from the attempt's deadline on.
func (b *Booter) past(a attempt) bool {
	return !a.view.Now.Before(a.view.Deadline(b.Settings))
}

// withToken is update for the host whose current boot attempt has the token.
func (b *Booter) withToken(ctx context.Context, s shown, change func(attempt) error) (*v1alpha1.BareMetalHost, error) {
	namespace, name, _ := strings.Cut(s.host, "/")
	key := types.NamespacedName{Namespace: namespace, Name: name}
	found := &v1alpha1.BareMetalHost{}
	if likely, err := b.likely(ctx, key, s); err != nil {
		return found, err
	} else if !likely && !b.doubtful.Allow() {
		metrics.TokenRefused(string(s.purpose))
		return found, refused("too many wrong tokens are shown to look for that of %s", s.host)
	}
	err := b.update(ctx, key, func(host *v1alpha1.BareMetalHost) error {
		found = host
		consumer, view, err := b.view(ctx, host)
		if err != nil {
			return err
		}
		if !b.opens(s.token, s.purpose, host, consumer) {
			return refused("the token is not that of the current boot attempt of %s", s.host)
		}
		return change(attempt{host, consumer, view})
	})
	if apierrors.IsNotFound(err) && found.Name == "" {
		b.opens(s.token, s.purpose, found, nil) // as long as for a host
		err = refused("there is no host %s", s.host)
	}
	if errors.Is(err, pxe.ErrRefused) {
		metrics.TokenRefused(string(s.purpose))
	}
	b.tellRefusal(found, s.from, err)
	return found, err
}

// likely is true for a token that is good by what the cache knows, which may be old. Other tokens are looked at in the API server too,
// but only so many in a second: guesses shall not keep it busy.
func (b *Booter) likely(ctx context.Context, key types.NamespacedName, s shown) (bool, error) {
	var host v1alpha1.BareMetalHost
	if err := b.Client.Get(ctx, key, &host); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	consumer, err := controllers.GetConsumer(ctx, b.Client, &host)
	if err != nil {
		return false, err
	}
	return b.opens(s.token, s.purpose, &host, consumer), nil
}

// contention is how conflicts are waited out: controllers and the boot servers' other requests write to the same host.
var contention = wait.Backoff{Steps: 10, Duration: 5 * time.Millisecond, Factor: 1.6, Jitter: 0.5}

// update reads a host from the API server, changes its boot attempt, and writes that with an optimistic lock. It starts anew when
// someone else wrote meanwhile. What change does not change is not written.
func (b *Booter) update(ctx context.Context, key types.NamespacedName, change func(*v1alpha1.BareMetalHost) error) error {
	return retry.RetryOnConflict(contention, func() error {
		var host v1alpha1.BareMetalHost
		if err := b.APIReader.Get(ctx, key, &host); err != nil {
			return err
		}
		before := host.DeepCopy()
		if err := change(&host); err != nil {
			return err
		}
		if equalAttempts(before.Spec.Boot, host.Spec.Boot) {
			return nil
		}
		return b.Client.Patch(ctx, &host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
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

// failAttempt ends a boot attempt, and so its tokens.
func (b *Booter) failAttempt(ctx context.Context, host *v1alpha1.BareMetalHost, why error) error {
	before := host.DeepCopy()
	host.Spec.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonSecondRequester, Message: why.Error()}
	if err := b.Client.Patch(ctx, host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	b.tellFailed(host)
	return refused("%v", why)
}
