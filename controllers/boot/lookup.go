package boot

import (
	"context"
	"errors"
	"net"
	"slices"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// lookup resolves a MAC address to its host, and a boot to its attempt: the host, the boot, and the machine that has the host.
type lookup struct {
	client    client.Client // reads from the cache
	apiReader client.Reader
	tenants   bootconfig.Tenants
	clock     clock.PassiveClock
}

// hostOf returns the host with a MAC address, or nil if there is none. If several hosts have the address, it returns the one that keeps it: the others boot
// nothing.
func (l *lookup) hostOf(ctx context.Context, mac net.HardwareAddr) (*v1alpha1.BareMetalHost, error) {
	keeper, err := controllers.KeeperOfMAC(ctx, l.client, l.tenants, mac.String())
	return keeper.DeepCopy(), err
}

// unknownServerError is the error for a MAC address that belongs to no host.
type unknownServerError string

func (e unknownServerError) Error() string { return string(e) + " is not a server of the inventory" }

// requireHost is hostOf for a MAC address that must belong to a host.
func (l *lookup) requireHost(ctx context.Context, mac net.HardwareAddr) (*v1alpha1.BareMetalHost, error) {
	host, err := l.hostOf(ctx, mac)
	if err == nil && host == nil {
		err = unknownServerError(mac.String())
	}
	return host, err
}

// clientHost is requireHost for a client that asks for what its server boots. It refuses a client whose MAC address belongs to no host.
func (l *lookup) clientHost(ctx context.Context, mac net.HardwareAddr) (*v1alpha1.BareMetalHost, error) {
	host, err := l.requireHost(ctx, mac)
	if errors.As(err, new(unknownServerError)) {
		err = refused("%v", err)
	}
	return host, err
}

// view returns a host as an attempt. The machine is read with the client c.
func (l *lookup) view(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	consumer, err := controllers.GetConsumer(ctx, c, host)
	if err != nil {
		return attempt{}, err
	}
	return attempt{host: host, boot: boot, consumer: consumer, view: controllers.View(host, boot, consumer, l.clock.Now())}, nil
}

// attemptOf returns the attempt of a boot that was read from the API server. The rest comes from the cache. If the cache does not show that the boot belongs to
// the host's claim, or is that of a free host, the host is read from the API server too.
func (l *lookup) attemptOf(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	key, host := client.ObjectKeyFromObject(boot), &v1alpha1.BareMetalHost{}
	if err := l.client.Get(ctx, key, host); err != nil {
		return attempt{}, err
	}
	own := host.Spec.ConsumerRef == nil && (boot.Spec.Purpose == v1alpha1.PurposeInspect || lifecycle.OutlivesClaim(&boot.Spec))
	if controllers.CurrentBoot(host, boot) == nil && !own || boot.Spec.Number != host.Spec.ProviderState.Boots {
		host = &v1alpha1.BareMetalHost{} // the other may share its content with the cache
		if err := l.apiReader.Get(ctx, key, host); err != nil {
			return attempt{}, err
		}
	}
	return l.viewOfClaim(ctx, l.client, host, boot)
}

// liveAttemptOf is attemptOf, with everything read from the API server.
func (l *lookup) liveAttemptOf(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	host := &v1alpha1.BareMetalHost{}
	if err := l.apiReader.Get(ctx, client.ObjectKeyFromObject(boot), host); err != nil {
		return attempt{}, err
	}
	return l.viewOfClaim(ctx, liveClient{l.client, l.apiReader}, host, boot)
}

// viewOfClaim is view for a boot of the machine that has the host. A user may have assigned the host to another machine by hand, and kept the claimID. An erasure
// on request, and the restart of a settings run, belong to no machine, and a machine that claims the host meanwhile waits for them.
func (l *lookup) viewOfClaim(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) (attempt, error) {
	if ref := host.Spec.ConsumerRef; ref != nil && ref.Name != boot.Spec.MachineName && !lifecycle.OutlivesClaim(&boot.Spec) {
		return attempt{}, refused("the boot of %s/%s belongs to another machine", host.Namespace, host.Name)
	}
	return l.view(ctx, c, host, boot)
}

// sharing returns the same lookup without copies: what it returns shares its content with the cache, and must not be changed.
func (l *lookup) sharing() *lookup {
	shared := *l
	shared.client = sharedClient{l.client}
	return &shared
}

// sharedClient is a client whose Get copies nothing out of the cache. What it returns must not be changed.
type sharedClient struct{ client.Client }

func (c sharedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.Client.Get(ctx, key, o, append(slices.Clip(opts), client.UnsafeDisableDeepCopy)...)
}

// liveClient is a client whose Get reads from the API server. Cluster API's functions take a client, not a reader.
type liveClient struct {
	client.Client

	reader client.Reader
}

func (c liveClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.reader.Get(ctx, key, o, opts...)
}
