// Package boot answers the boot server's questions from the informer cache and lifecycle.BootFor. What gives a secret away is
// decided on a live read, and written down with an optimistic lock before a byte is served.
package boot

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
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
	// Networks are those that the boot server serves: their modes say what is known of a server before it asks for its script.
	Networks []bootconfig.Network
	// Tenants confine the namespaces of hosts.
	Tenants bootconfig.Tenants
	// Recorder takes the events of hosts. Nil takes none.
	Recorder events.EventRecorder
	Log      logr.Logger
	// Clock tells the time. Defaults to the real one.
	Clock clock.PassiveClock

	sightings *sightings
	doubtful  *rate.Limiter               // how often a boot is read for a token that the cache does not know
	budgets   *lru.Cache                  // of hosts, their rate.Limiters of requests with good tokens
	told      *lru.Cache                  // attemptKeys, whose first refusal was told
	started   atomic.Pointer[metav1.Time] // when this boot server started; nil before
	asked     *lru.Cache                  // attemptKeys, with the last dhcpRequest of the boot
	boots     controllers.Boots
	pace      *controllers.Throttle
}

var _ pxe.Booter = &Booter{}

// New returns a Booter of what is exported in b. Add it to the manager too: it writes sightings in the background.
func New(b *Booter) *Booter {
	if b.Clock == nil {
		b.Clock = clock.RealClock{}
	}
	b.sightings, b.pace = newSightings(), controllers.NewThrottle()
	b.doubtful, b.budgets, b.told, b.asked = rate.NewLimiter(20, 100), lru.New(4096), lru.New(4096), lru.New(16384)
	return b
}

// hostOf returns the host with a MAC address, nil if there is none. Of several it is the one that keeps the address: the others boot nothing.
func (b *Booter) hostOf(ctx context.Context, mac net.HardwareAddr) (*v1alpha1.BareMetalHost, error) {
	keeper, err := controllers.KeeperOfMAC(ctx, b.Client, b.Tenants, mac.String())
	return keeper.DeepCopy(), err
}

// Lookup says what the server with a MAC address boots now.
func (b *Booter) Lookup(ctx context.Context, mac net.HardwareAddr) (pxe.Answer, error) {
	host, err := b.hostOf(ctx, mac)
	if err != nil || host == nil {
		return pxe.Answer{}, err
	}
	boot, err := b.bootOf(ctx, client.ObjectKeyFromObject(host))
	if err != nil {
		return pxe.Answer{}, err
	}
	a, err := b.view(ctx, b.Client, host, boot)
	if err != nil {
		return pxe.Answer{}, err
	}
	mode := host.Spec.BootMode
	answer := pxe.Answer{Known: true, Legacy: mode == v1alpha1.BootModeLegacy, SecureBoot: mode == v1alpha1.BootModeUEFISecureBoot}
	switch lifecycle.BootFor(a.view, b.Settings) {
	case lifecycle.BootDisk:
		answer.Boot = pxe.Disk
	case lifecycle.BootAfterPowerOn:
		answer.Boot = pxe.Soon
	case lifecycle.BootNetwork:
		answer.Boot, answer.Files, answer.Namespace = pxe.Network, files(a.consumer.BareMetalMachine.Spec.Boot), host.Namespace
	case lifecycle.BootNothing:
	}
	if lifecycle.StateOf(a.view) == lifecycle.StateBooting {
		answer.ScriptFor, _ = netip.ParseAddr(boot.Spec.ScriptAddress) // invalid while nobody has it
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

// Admit judges a client by admit, as Script does, from the cache alone. What it lets through may still be refused by Script, which reads the boot from the
// API server.
func (b *Booter) Admit(ctx context.Context, mac net.HardwareAddr, from netip.Addr) error {
	host, err := b.hostOf(ctx, mac)
	if err != nil {
		return err
	}
	if host == nil {
		return refused("%s is not a server of the inventory", mac)
	}
	boot, err := b.bootOf(ctx, client.ObjectKeyFromObject(host))
	if err != nil {
		return err
	}
	if boot == nil {
		return tooEarly("the boot of %s is not known yet", mac)
	}
	a, err := b.view(ctx, b.Client, host, boot)
	if err != nil {
		return err
	}
	_, err = b.admit(ctx, a, from, false)
	b.tellRefusal(a, from, err)
	return err
}

// Script serves the script, and with it the token, to the first address that admit lets through, and to the same again until the bootstrap data was
// served. A second one that admit lets through ends the boot: it may be the server, and the first a stranger.
func (b *Booter) Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	cached, err := b.hostOf(ctx, mac)
	if err != nil {
		return pxe.Script{}, err
	}
	if cached == nil {
		return pxe.Script{}, refused("%s is not a server of the inventory", mac)
	}
	var script pxe.Script
	var a attempt
	boot, err := b.update(ctx, client.ObjectKeyFromObject(cached), func(boot *v1alpha1.BareMetalBoot) error {
		a = attempt{boot: boot}
		known, err := b.around(ctx, boot)
		if err != nil {
			return err
		}
		a = known
		script, err = b.script(ctx, a, mac, from)
		return err
	})
	if err != nil {
		b.tellRefusal(a, from, err)
		return pxe.Script{}, err
	}
	b.saw(boot, v1alpha1.StageScript, from, "")
	return script, nil
}

// script binds the script of a boot to an address, and returns it.
func (b *Booter) script(ctx context.Context, a attempt, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	what := lifecycle.BootFor(a.view, b.Settings)
	given := lifecycle.StateOf(a.view) == lifecycle.StateBooting && a.boot.Spec.ScriptAddress != "" && !b.past(a)
	switch {
	case a.host.Spec.BootMACAddress != mac.String():
		return pxe.Script{}, refused("%s boots nothing now", mac)
	case what == lifecycle.BootAfterPowerOn:
		return pxe.Script{}, tooEarly("%s is not powered on yet", mac)
	case what != lifecycle.BootNetwork && !given:
		return pxe.Script{}, refused("%s boots nothing now", mac)
	}
	dhcpAt, err := b.admit(ctx, a, from, false)
	if err != nil {
		return pxe.Script{}, err
	}
	bootstrap, err := b.bootstrap(ctx, a.host, a.consumer)
	if err != nil {
		b.failed(a.boot, reasonOf(err), err)
		return pxe.Script{}, errors.Join(pxe.ErrNotYet, err)
	}
	if a.boot.Spec.ScriptAddress == "" {
		a.boot.Spec.DHCPAt = dhcpAt
	}
	if err := bind(&a.boot.Spec.ScriptAddress, from, "boot script"); err != nil {
		return pxe.Script{}, b.failAttempt(ctx, a, err)
	}
	if what != lifecycle.BootNetwork {
		return pxe.Script{}, refused("%s is booting and gets no script any more", mac)
	}
	source, machine := a.consumer.BareMetalMachine.Spec.Boot, a.host.Spec.ConsumerRef.Name
	return pxe.Script{
		Title:       fmt.Sprintf("%s/%s for %s, boot attempt %d", a.host.Namespace, a.host.Name, machine, a.boot.Spec.Attempt),
		CommandLine: source.CommandLine, Files: files(source), Format: bootstrap.format, Network: bootstrap.network,
		Hostname: machine, Template: source.IPXETemplate,
		SeedPath: pxe.SeedPath(a.host.Namespace+"/"+a.host.Name, b.token(forSeed, a.boot)),
	}, nil
}
