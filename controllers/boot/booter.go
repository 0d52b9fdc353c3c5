// Package boot answers the boot server's questions from the informer cache and lifecycle.BootFor. What gives a secret away is
// decided on a live read, and written down with an optimistic lock before a byte is served.
package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

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
	// PreviousKey made the tokens before Key: what it made is good still. Empty for none.
	PreviousKey []byte
	// Namespace is the provider's own: the Lease objects of addresses are there.
	Namespace string
	// Recorder takes the events of hosts. Nil takes none.
	Recorder events.EventRecorder
	Log      logr.Logger
	// Clock tells the time. Defaults to the real one.
	Clock clock.PassiveClock

	sightings *sightings
	doubtful  *rate.Limiter // how often a host is read for a token that the cache does not know
	told      *lru.Cache    // attemptKeys, whose first refusal was told
	pace      *controllers.Pace
}

var _ pxe.Booter = &Booter{}

// New returns a Booter of what is exported in b. Add it to the manager too: it writes sightings in the background.
func New(b *Booter) *Booter {
	if b.Clock == nil {
		b.Clock = clock.RealClock{}
	}
	b.sightings, b.pace = newSightings(), controllers.NewPace()
	b.doubtful, b.told = rate.NewLimiter(20, 100), lru.New(4096)
	return b
}

// hostsOf returns the hosts with a MAC address. There is one at most, unless somebody registered a server twice.
func (b *Booter) hostsOf(ctx context.Context, mac net.HardwareAddr) ([]v1alpha1.BareMetalHost, error) {
	var hosts v1alpha1.BareMetalHostList
	err := b.Client.List(ctx, &hosts, client.MatchingFields{controllers.MACIndex: mac.String()})
	return hosts.Items, err
}

// hostOf returns the host with a MAC address. Of two hosts with one MAC address neither is returned: neither may get the other's boot.
func (b *Booter) hostOf(ctx context.Context, mac net.HardwareAddr) (*v1alpha1.BareMetalHost, error) {
	hosts, err := b.hostsOf(ctx, mac)
	if err != nil || len(hosts) != 1 {
		return nil, err
	}
	return &hosts[0], nil
}

// view observes a host, which was read from the cache or from the API server.
func (b *Booter) view(ctx context.Context, host *v1alpha1.BareMetalHost) (*controllers.Consumer, lifecycle.View, error) {
	consumer, err := controllers.GetConsumer(ctx, b.Client, host)
	if err != nil {
		return nil, lifecycle.View{}, err
	}
	return consumer, controllers.View(host, consumer, b.Clock.Now()), nil
}

// Lookup says what the server with a MAC address boots now.
func (b *Booter) Lookup(ctx context.Context, mac net.HardwareAddr) (pxe.Answer, error) {
	hosts, err := b.hostsOf(ctx, mac)
	switch {
	case err != nil || len(hosts) == 0:
		return pxe.Answer{}, err
	case len(hosts) > 1:
		// Neither boots; but the server of one may be running, and keeps its address.
		return pxe.Answer{Known: true}, nil
	}
	host := &hosts[0]
	consumer, view, err := b.view(ctx, host)
	if err != nil {
		return pxe.Answer{}, err
	}
	answer := pxe.Answer{Known: true, Legacy: host.Spec.BootMode == v1alpha1.BootModeLegacy, SecureBoot: host.Spec.SecureBoot}
	switch lifecycle.BootFor(view, b.Settings) {
	case lifecycle.BootDisk:
		answer.Boot = pxe.Disk
	case lifecycle.BootNetwork:
		answer.Boot, answer.Files = pxe.Network, files(consumer.BareMetalMachine.Spec.Boot)
	case lifecycle.BootNothing:
	}
	if lifecycle.StateOf(view) == lifecycle.StateBooting {
		answer.ScriptFor, _ = netip.ParseAddr(host.Spec.Boot.ScriptAddress) // invalid while nobody has it
	}
	return answer, nil
}

func files(source v1alpha1.BootSource) []artifact.Artifact {
	if source.Kernel.URL == "" {
		return nil // an iPXE script of the user's own may name files that are elsewhere
	}
	out := []artifact.Artifact{{URL: source.Kernel.URL, Checksum: source.Kernel.Checksum}}
	for _, initrd := range source.Initrds {
		out = append(out, artifact.Artifact{URL: initrd.URL, Checksum: initrd.Checksum})
	}
	return out
}

// Script gives the script, and with it the token, to the first who asks for it in a boot attempt, and to him again until the
// bootstrap data was given out. Whoever else asks ends the attempt, also after that: he may be the server, and the first a stranger.
func (b *Booter) Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	cached, err := b.hostOf(ctx, mac)
	if err != nil {
		return pxe.Script{}, err
	}
	if cached == nil {
		return pxe.Script{}, refused("%s is not a server of the inventory", mac)
	}
	var script pxe.Script
	found := cached
	err = b.update(ctx, client.ObjectKeyFromObject(cached), func(host *v1alpha1.BareMetalHost) error {
		found = host
		consumer, view, err := b.view(ctx, host)
		if err != nil {
			return err
		}
		boots := lifecycle.BootFor(view, b.Settings) == lifecycle.BootNetwork
		given := lifecycle.StateOf(view) == lifecycle.StateBooting && host.Spec.Boot.ScriptAddress != "" && !b.past(attempt{host, consumer, view})
		if host.Spec.BootMACAddress != mac.String() || !boots && !given {
			return refused("%s boots nothing now", mac)
		}
		bootstrap, err := b.bootstrap(ctx, host, consumer)
		if err != nil {
			b.failed(host, v1alpha1.ReasonBootstrapDataUnavailable, err)
			return errors.Join(pxe.ErrNotYet, err)
		}
		if err := bind(&host.Spec.Boot.ScriptAddress, from, "boot script"); err != nil {
			return b.failAttempt(ctx, host, err)
		}
		if !boots {
			return refused("%s is booting and gets no script any more", mac)
		}
		source := consumer.BareMetalMachine.Spec.Boot
		script = pxe.Script{
			Title:       fmt.Sprintf("%s/%s for %s, boot attempt %d", host.Namespace, host.Name, host.Spec.ConsumerRef.Name, host.Spec.Boot.Attempt),
			CommandLine: source.CommandLine, Files: files(source), Format: bootstrap.format, Network: bootstrap.network,
			Hostname: host.Spec.ConsumerRef.Name, Template: source.IPXETemplate,
			SeedPath: pxe.SeedPath(host.Namespace+"/"+host.Name, b.token(forSeed, host, consumer)),
		}
		return nil
	})
	if err != nil {
		b.tellRefusal(found, from, err)
		return pxe.Script{}, err
	}
	b.saw(cached, v1alpha1.StageScript, from, "")
	return script, nil
}
