// Package boot answers the boot server's questions from the informer cache and lifecycle.BootFor. What gives a secret away is
// decided on a live read, and written down with an optimistic lock before a byte is served.
package boot

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts/status,verbs=patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get

// Booter is the pxe.Booter of a management cluster.
type Booter struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Settings are the lifecycle's, as the host controller has them.
	Settings lifecycle.Settings
	// Key makes the tokens. All boot servers share it.
	Key []byte
	// Leases are the addresses that the authoritative mode of DHCP gives; nil in the other modes.
	Leases *Leases
	Log    logr.Logger

	sightings *sightings
}

var _ pxe.Booter = &Booter{}

// New returns a Booter. Add it to the manager too: it writes sightings in the background.
func New(b Booter) *Booter {
	b.sightings = &sightings{queue: make(chan sighting, 1024), written: map[sightingKey]metav1.Time{}}
	return &b
}

// hostOf returns the host with a MAC address. Two hosts with one MAC address are not known: neither may get the other's boot.
func (b *Booter) hostOf(ctx context.Context, mac net.HardwareAddr) (*v1alpha1.BareMetalHost, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := b.Client.List(ctx, &hosts, client.MatchingFields{controllers.MACIndex: mac.String()}); err != nil {
		return nil, err
	}
	if len(hosts.Items) != 1 {
		return nil, nil //nolint:nilnil // nobody is a valid answer
	}
	return &hosts.Items[0], nil
}

// view observes a host, which was read from the cache or from the API server.
func (b *Booter) view(ctx context.Context, host *v1alpha1.BareMetalHost) (*controllers.Consumer, lifecycle.View, error) {
	consumer, err := controllers.GetConsumer(ctx, b.Client, host)
	if err != nil {
		return nil, lifecycle.View{}, err
	}
	return consumer, controllers.View(host, consumer, time.Now()), nil
}

// Lookup says what the server with a MAC address boots now.
func (b *Booter) Lookup(ctx context.Context, mac net.HardwareAddr) (pxe.Answer, error) {
	host, err := b.hostOf(ctx, mac)
	if err != nil || host == nil {
		return pxe.Answer{}, err
	}
	consumer, view, err := b.view(ctx, host)
	if err != nil {
		return pxe.Answer{}, err
	}
	answer := pxe.Answer{Known: true, Legacy: host.Spec.BootMode == v1alpha1.BootModeLegacy}
	switch lifecycle.BootFor(view, b.Settings) {
	case lifecycle.BootDisk:
		answer.Boot = pxe.Disk
	case lifecycle.BootNetwork:
		answer.Boot, answer.Files = pxe.Network, files(consumer.BareMetalMachine.Spec.Boot)
	case lifecycle.BootNothing:
	}
	return answer, nil
}

func files(source v1alpha1.BootSource) []artifact.Artifact {
	out := []artifact.Artifact{{URL: source.Kernel.URL, Checksum: source.Kernel.Checksum}}
	for _, initrd := range source.Initrds {
		out = append(out, artifact.Artifact{URL: initrd.URL, Checksum: initrd.Checksum})
	}
	return out
}

// refused is an ErrRefused with its reason.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pxe.ErrRefused, fmt.Sprintf(format, args...))
}

// Script gives the script, and with it the token, to the first who asks for it in a boot attempt, and to him again.
func (b *Booter) Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	cached, err := b.hostOf(ctx, mac)
	if err != nil {
		return pxe.Script{}, err
	}
	if cached == nil {
		return pxe.Script{}, refused("%s is not a server of the inventory", mac)
	}
	var script pxe.Script
	err = b.update(ctx, client.ObjectKeyFromObject(cached), func(host *v1alpha1.BareMetalHost) error {
		consumer, view, err := b.view(ctx, host)
		if err != nil {
			return err
		}
		if host.Spec.BootMACAddress != mac.String() || lifecycle.BootFor(view, b.Settings) != lifecycle.BootNetwork {
			return refused("%s boots nothing now", mac)
		}
		if err := bind(&host.Spec.Boot.ScriptAddress, from, "boot script"); err != nil {
			return b.failAttempt(ctx, host, err)
		}
		source := consumer.BareMetalMachine.Spec.Boot
		script = pxe.Script{
			Title:       fmt.Sprintf("%s/%s for %s, boot attempt %d", host.Namespace, host.Name, host.Spec.ConsumerRef.Name, host.Spec.Boot.Attempt),
			CommandLine: source.CommandLine, Files: files(source),
			SeedPath: pxe.SeedPath(host.Namespace+"/"+host.Name, b.token(host)),
		}
		return nil
	})
	if err == nil {
		b.saw(cached, v1alpha1.StageScript, from, "")
	}
	return script, err
}

// Seed gives the bootstrap data to the first who asks for it with the token.
func (b *Booter) Seed(ctx context.Context, name, token string, from netip.Addr) (seed.Data, error) {
	var data seed.Data
	host, err := b.withToken(ctx, name, token, func(host *v1alpha1.BareMetalHost) error {
		consumer, view, err := b.view(ctx, host)
		if err != nil {
			return err
		}
		if lifecycle.StateOf(view) != lifecycle.StateBooting || !view.Now.Before(host.Spec.Boot.StartedAt.Add(b.Settings.BootTimeout)) {
			return refused("the boot attempt of %s is over", name)
		}
		userData, err := b.bootstrapData(ctx, host, consumer)
		if err != nil {
			b.failed(host, v1alpha1.ReasonBootstrapDataUnavailable, err)
			return err
		}
		if err := bind(&host.Spec.Boot.SeedAddress, from, "bootstrap data"); err != nil {
			return b.failAttempt(ctx, host, err)
		}
		if host.Spec.Boot.SeededAt == nil {
			now := metav1.Now()
			host.Spec.Boot.SeededAt = &now
		}
		machine := host.Spec.ConsumerRef.Name
		data = seed.Data{
			InstanceID: fmt.Sprintf("%s-%d-%d", host.UID, host.Spec.Boot.StartedAt.Unix(), host.Spec.Boot.Attempt),
			Hostname:   machine, ProviderID: inventory.ProviderID(host.Namespace, host.Name, machine),
			UserData: userData, ReportPath: pxe.ReportPath(name, token),
		}
		return nil
	})
	if err == nil {
		b.saw(host, v1alpha1.StageSeed, from, "")
	}
	return data, err
}

func (b *Booter) bootstrapData(ctx context.Context, host *v1alpha1.BareMetalHost, consumer *controllers.Consumer) ([]byte, error) {
	name := consumer.BootstrapSecretName()
	if name == "" {
		return nil, errors.New("the Machine names no bootstrap Secret")
	}
	var secret corev1.Secret
	if err := b.APIReader.Get(ctx, types.NamespacedName{Namespace: host.Namespace, Name: name}, &secret); err != nil {
		return nil, fmt.Errorf("read the bootstrap Secret: %w", err)
	}
	if len(secret.Data["value"]) == 0 {
		return nil, fmt.Errorf("bootstrap Secret %q has no key \"value\"", name)
	}
	return secret.Data["value"], nil
}

// Report notes that the system with the token is up. A report that is made again is no error: its answer may have been lost.
func (b *Booter) Report(ctx context.Context, name, token string, from netip.Addr) error {
	host, err := b.withToken(ctx, name, token, func(host *v1alpha1.BareMetalHost) error {
		_, view, err := b.view(ctx, host)
		if err != nil {
			return err
		}
		switch boot := host.Spec.Boot; {
		case boot.SeedAddress != from.String():
			return refused("%s got its bootstrap data at %s, and %s reports in", name, boot.SeedAddress, from)
		case boot.ReportedAt != nil:
		case boot.Failure != nil, view.Consumer.Deleting:
			return refused("the boot attempt of %s is over", name)
		default:
			// Also in maintenance, or while something cannot be found: that the system is up is a fact, and it is told once.
			now := metav1.Now()
			boot.ReportedAt = &now
		}
		return nil
	})
	if err == nil {
		b.saw(host, v1alpha1.StageReportedIn, from, "")
	}
	return err
}

// withToken is update for the host whose current boot attempt has the token.
func (b *Booter) withToken(ctx context.Context, name, token string, change func(*v1alpha1.BareMetalHost) error) (*v1alpha1.BareMetalHost, error) {
	namespace, short, _ := strings.Cut(name, "/")
	var found *v1alpha1.BareMetalHost
	err := b.update(ctx, types.NamespacedName{Namespace: namespace, Name: short}, func(host *v1alpha1.BareMetalHost) error {
		found = host
		if host.Spec.Boot == nil || host.Spec.ConsumerRef == nil || !hmac.Equal([]byte(token), []byte(b.token(host))) {
			return refused("the token is not that of the current boot attempt of %s", name)
		}
		return change(host)
	})
	if apierrors.IsNotFound(err) {
		err = refused("there is no host %s", name)
	}
	return found, err
}

// token is what opens the seed of the current boot attempt: nobody can make it without the key, and it is void with the next
// attempt or the next machine.
func (b *Booter) token(host *v1alpha1.BareMetalHost) string {
	mac := hmac.New(sha256.New, b.Key)
	_, _ = fmt.Fprintf(mac, "%s %s %d %d", host.UID, host.Spec.ConsumerRef.Name, host.Spec.Boot.Attempt, host.Spec.Boot.StartedAt.Unix())
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// update reads a host from the API server, changes it, and writes it with an optimistic lock. It starts anew when someone
// else wrote meanwhile. What change does not change is not written.
func (b *Booter) update(ctx context.Context, key types.NamespacedName, change func(*v1alpha1.BareMetalHost) error) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var host v1alpha1.BareMetalHost
		if err := b.APIReader.Get(ctx, key, &host); err != nil {
			return err
		}
		before := host.DeepCopy()
		if err := change(&host); err != nil {
			return err
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if before.Spec.Boot == host.Spec.Boot || equalAttempts(before.Spec.Boot, host.Spec.Boot) {
			return nil
		}
		return b.Client.Patch(ctx, &host, patch)
	})
}

// secondRequesterError is why an attempt fails when two ask for what is one server's.
type secondRequesterError struct{ what, first, second string }

func (e secondRequesterError) Error() string {
	return fmt.Sprintf("%s asked for the %s that was given to %s: two machines claim to be this server, or somebody listens on its network",
		e.second, e.what, e.first)
}

// bind ties what is given out to the first address that asks.
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

// failAttempt ends a boot attempt, and so its token.
func (b *Booter) failAttempt(ctx context.Context, host *v1alpha1.BareMetalHost, why error) error {
	before := host.DeepCopy()
	host.Spec.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonSecondRequester, Message: why.Error()}
	if err := b.Client.Patch(ctx, host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return err
	}
	return refused("%v", why)
}
