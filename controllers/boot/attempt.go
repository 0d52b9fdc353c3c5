package boot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

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

// refused returns an ErrRefused with a reason.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pxe.ErrRefused, fmt.Sprintf(format, args...))
}

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

// tooEarly returns an ErrNotYet with a reason.
func tooEarly(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pxe.ErrNotYet, fmt.Sprintf(format, args...))
}

// attempt is a boot with its host and its machine. boot is nil if there is none.
type attempt struct {
	host     *v1alpha1.BareMetalHost
	boot     *v1alpha1.BareMetalBoot
	consumer *controllers.Consumer
	view     lifecycle.View
	// found are the disks in the report of the last inspection, for the judgement of an erasure on request.
	found []v1alpha1.DiskIdentity
}

// title identifies the boot at the console of the server.
func (a attempt) title() string {
	host := a.host.Namespace + "/" + a.host.Name
	switch {
	case a.boot.Spec.Purpose == v1alpha1.PurposeInspect:
		return fmt.Sprintf("%s, inspection, attempt %d", host, a.boot.Spec.Attempt)
	case lifecycle.IsRequestedErasure(&a.boot.Spec):
		return fmt.Sprintf("%s, erasure of its disks, attempt %d", host, a.boot.Spec.Attempt)
	}
	return fmt.Sprintf("%s for %s, boot attempt %d", host, a.boot.Spec.MachineName, a.boot.Spec.Attempt)
}

// image returns the image of the machine; nil if it has none, or does not exist: after the permission to make the disk bootable, the agent is served whatever
// happens to its machine.
func (a attempt) image() *v1alpha1.Image {
	if a.consumer == nil || a.consumer.BareMetalMachine == nil {
		return nil
	}
	return a.consumer.BareMetalMachine.Spec.Image
}

// bootOf returns the boot of a host as this process knows it, or nil if there is none.
func (b *Booter) bootOf(ctx context.Context, host types.NamespacedName) (*v1alpha1.BareMetalBoot, error) {
	return b.boots.Get(ctx, b.Client, host)
}

// view returns a host as an attempt. The machine is read with the client c.
func (b *Booter) view(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	consumer, err := controllers.GetConsumer(ctx, c, host)
	if err != nil {
		return attempt{}, err
	}
	return attempt{host: host, boot: boot, consumer: consumer, view: controllers.View(host, boot, consumer, b.Clock.Now())}, nil
}

// attemptOf returns the attempt of a boot that was read from the API server. The rest comes from the cache. If the cache does not show that the boot belongs to
// the host's claim, or is that of a free host, the host is read from the API server too.
func (b *Booter) attemptOf(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	key, host := client.ObjectKeyFromObject(boot), &v1alpha1.BareMetalHost{}
	if err := b.Client.Get(ctx, key, host); err != nil {
		return attempt{}, err
	}
	own := host.Spec.ConsumerRef == nil && (boot.Spec.Purpose == v1alpha1.PurposeInspect || lifecycle.IsRequestedErasure(&boot.Spec))
	if controllers.CurrentBoot(host, boot) == nil && !own || boot.Spec.Number != host.Spec.ProviderState.Boots {
		if err := b.APIReader.Get(ctx, key, host); err != nil {
			return attempt{}, err
		}
	}
	return b.viewOfClaim(ctx, b.Client, host, boot)
}

// liveAttemptOf is attemptOf, with everything read from the API server.
func (b *Booter) liveAttemptOf(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	host := &v1alpha1.BareMetalHost{}
	if err := b.APIReader.Get(ctx, client.ObjectKeyFromObject(boot), host); err != nil {
		return attempt{}, err
	}
	return b.viewOfClaim(ctx, liveClient{b.Client, b.APIReader}, host, boot)
}

// viewOfClaim is view for a boot of the machine that has the host. A user may have assigned the host to another machine by hand, and kept the claimID. An erasure
// on request belongs to no machine, and a machine that claims the host meanwhile waits for it.
func (b *Booter) viewOfClaim(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	if ref := host.Spec.ConsumerRef; ref != nil && ref.Name != boot.Spec.MachineName && !lifecycle.IsRequestedErasure(&boot.Spec) {
		return attempt{}, refused("the boot of %s/%s belongs to another machine", host.Namespace, host.Name)
	}
	return b.view(ctx, c, host, boot)
}

// liveClient is a client whose Get reads from the API server. Cluster API's functions take a client, not a reader.
type liveClient struct {
	client.Client

	reader client.Reader
}

func (c liveClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o, opts...)
}

// deadlinePassed is true once the deadline of the attempt has passed.
func (b *Booter) deadlinePassed(a attempt) bool {
	return !a.view.Now.Before(a.view.Deadline(b.Settings))
}

// withToken is update for the boot that the token opens. The attempt is read with read, which the caller chooses.
func (b *Booter) withToken(
	ctx context.Context, s presentedToken, read func(context.Context, *v1alpha1.BareMetalBoot) (attempt, error), change func(attempt) error,
) (attempt, error) {
	key := s.key()
	switch cached, err := b.cachedBoot(ctx, s); {
	case err != nil:
		return attempt{}, err
	case !b.opens(s.token, s.purpose, cached):
		if err := b.mayLookUp(s.host); err != nil {
			return attempt{}, err
		}
	case !b.withinBudget(s.host): // wrong tokens use up nothing of the host's budget
		return attempt{}, fmt.Errorf("%s asks too often with its token: %d requests at once, and %d a second, are answered", s.host, budgetBurst, budgetRate)
	}
	var a attempt
	boot, err := b.update(ctx, key, func(boot *v1alpha1.BareMetalBoot) error {
		a = attempt{boot: boot}
		if !b.opens(s.token, s.purpose, boot) {
			return refused("the token is not that of the current boot of %s", s.host)
		}
		known, err := read(ctx, boot)
		if err != nil {
			return err
		}
		a = known
		return change(a)
	})
	if apierrors.IsNotFound(err) && a.host == nil {
		b.opens(s.token, s.purpose, &v1alpha1.BareMetalBoot{}) // takes as long as for an existing boot
		err = refused("there is no boot of %s", s.host)
	}
	if errors.Is(err, pxe.ErrRefused) {
		metrics.TokenRefused(string(s.purpose))
	}
	if boot != nil {
		a.boot = boot
	}
	b.recordRefusalEvent(a, s.from, err)
	return a, err
}

// The budget of requests that a host makes with its token. Each request reads from the API server. An operating system asks for four files and reports
// twice. A request above the budget gets an answer that makes the operating system ask again.
const (
	// budgetBurst is how many requests are answered at once, budgetRate how many a second.
	budgetBurst = 40
	budgetRate  = 4
)

// withinBudget is true for a request within the budget of a host, given as "namespace/name".
func (b *Booter) withinBudget(host string) bool { return b.budgets.allow(host, b.Clock.Now()) }

// conflictBackoff is the backoff for write conflicts. Controllers and other requests of the boot servers write to the same boot.
var conflictBackoff = wait.Backoff{Steps: 10, Duration: 5 * time.Millisecond, Factor: 1.6, Jitter: 0.5}

// update reads a boot from the API server, changes it, and writes the change with an optimistic lock. On a conflict it starts again. Without a change it
// writes nothing. It returns the boot as it is afterwards, nil on an error.
func (b *Booter) update(ctx context.Context, key types.NamespacedName, change func(*v1alpha1.BareMetalBoot) error) (*v1alpha1.BareMetalBoot, error) {
	var written *v1alpha1.BareMetalBoot
	err := retry.RetryOnConflict(conflictBackoff, func() error {
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

// secondRequesterError fails an attempt when two clients ask for the data of one server.
type secondRequesterError struct{ what, first, second string }

func (e secondRequesterError) Error() string {
	return fmt.Sprintf("%s asked for the %s that was given to %s: two machines claim to be this server, another machine listens on its network, or its address changed",
		e.second, e.what, e.first)
}

// bind ties the script or the bootstrap data to the first address that asks. It writes nothing: the caller serves the data after update has written the boot.
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

// failAttempt ends a boot, and with it the validity of its tokens.
func (b *Booter) failAttempt(ctx context.Context, a attempt, why error) error {
	before := a.boot.DeepCopy()
	a.boot.Spec.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonSecondRequester, Message: why.Error()}
	if err := b.boots.Patch(ctx, b.Client, before, a.boot); err != nil {
		return err
	}
	if err := controllers.ApplyFailure(ctx, b.Client, client.ObjectKeyFromObject(a.boot), v1alpha1.ReasonSecondRequester); err != nil {
		b.Log.Error(err, "Failed to write the status of the boot", "host", client.ObjectKeyFromObject(a.boot))
	}
	b.recordFailureEvent(a)
	return refused("%v", why)
}
