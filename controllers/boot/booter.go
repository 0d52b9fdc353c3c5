// Package boot answers the boot server's questions from the informer cache and lifecycle.BootFor. A decision to serve a secret is made on a live read, and is
// written with an optimistic lock before a byte is served.
package boot

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// Settings are those of the lifecycle. The host controller has the same.
	Settings lifecycle.Settings
	// Key signs the tokens. All boot servers share it.
	Key []byte
	// PreviousKey signed the tokens before Key. Its tokens are still valid. Empty for none.
	PreviousKey []byte
	// Namespace is the provider's own namespace, which has the Lease objects of addresses.
	Namespace string
	// Networks are those that the boot server serves. Their modes decide what is known of a server before it asks for its script.
	Networks []bootconfig.Network
	// Tenants restrict the namespaces of hosts.
	Tenants bootconfig.Tenants
	// Images has the images that agents write. Nil has none.
	Images Images
	// Prefetcher has the kernels and initrds of spec.boot. Nil fetches none before a server boots.
	Prefetcher Prefetcher
	// Recorder records the events of hosts. Nil records none.
	Recorder events.EventRecorder
	Log      logr.Logger
	// Clock defaults to the real clock.
	Clock clock.PassiveClock

	stageQueue   *stageQueue
	lookups      *lookups         // of boots for tokens that the cache does not know
	budgets      *limiters        // of the requests of hosts with valid tokens
	scripts      *limiters        // of the requests of a scriptClient
	agentReports *limiters        // of the failures and the inventories that the agent of a boot reports
	progress     *progressLimiter // of the writes of the progress of agents
	imagesSent   *imagesSent
	refusals     *lru.Cache                  // attemptKeys whose first refusal has an event
	started      atomic.Pointer[metav1.Time] // when this boot server started; nil before
	dhcpRequests *lru.Cache                  // attemptKeys, with the last dhcpRequest of the boot
	mediaLoaders *lru.Cache                  // attemptKeys whose medium's boot loaders were read
	boots        controllers.Boots
	throttle     *controllers.Throttle
}

var (
	_ pxe.Booter = &Booter{}
	_ pxe.Agents = &Booter{}
	_ pxe.Media  = &Booter{}
)

// New completes a Booter whose exported fields are set. Add it to the manager as a runnable too: it writes observed boot stages in the background.
func New(b *Booter) *Booter {
	if b.Clock == nil {
		b.Clock = clock.RealClock{}
	}
	b.stageQueue, b.throttle = newStageQueue(), controllers.NewThrottle()
	b.progress, b.agentReports, b.scripts = newProgressLimiter(), newLimiters(reportRate, reportBurst), newLimiters(budgetRate, budgetBurst)
	b.imagesSent = newImagesSent()
	b.lookups, b.budgets, b.refusals, b.dhcpRequests = newLookups(), newLimiters(budgetRate, budgetBurst), lru.New(4096), lru.New(16384)
	b.mediaLoaders = lru.New(4096)
	return b
}

// hostOf returns the host with a MAC address, or nil if there is none. If several hosts have the address, it returns the one that keeps it: the others boot
// nothing.
func (b *Booter) hostOf(ctx context.Context, mac net.HardwareAddr) (*v1alpha1.BareMetalHost, error) {
	keeper, err := controllers.KeeperOfMAC(ctx, b.Client, b.Tenants, mac.String())
	return keeper.DeepCopy(), err
}

// Lookup returns what the server with a MAC address boots now.
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
	answer := pxe.Answer{Known: true, BIOS: mode == v1alpha1.BootModeBIOS, SecureBoot: mode == v1alpha1.BootModeUEFISecureBoot}
	switch lifecycle.BootFor(a.view, b.Settings) {
	case lifecycle.BootDisk:
		answer.Boot = pxe.Disk
	case lifecycle.BootAfterPowerOn:
		answer.Boot = pxe.Soon
	case lifecycle.BootNetwork:
		answer.Boot, answer.Files, answer.Namespace = pxe.Network, files(a.consumer.BareMetalMachine.Spec.Boot), host.Namespace
	case lifecycle.BootAgent:
		answer.Boot, answer.Agent = pxe.Network, cmp.Or(string(host.Spec.Architecture), string(v1alpha1.ArchitectureAMD64))
	case lifecycle.BootNothing:
	}
	if lifecycle.StateOf(a.view) == lifecycle.StateBooting {
		answer.ScriptFor, _ = netip.ParseAddr(boot.Spec.ScriptAddress) // invalid until the script is served
	}
	return answer, nil
}

func files(source v1alpha1.BootSource) []artifact.Artifact {
	if source.Kernel.URL == "" {
		return nil // the user's own iPXE script may name files that are elsewhere
	}
	out := []artifact.Artifact{{URL: source.Kernel.URL, Checksum: source.Kernel.Checksum}}
	for _, initrd := range source.Initrds {
		out = append(out, artifact.Artifact{URL: initrd.URL, Checksum: initrd.Checksum})
	}
	return out
}

// Admit decides about a client as Script does, but from the cache alone. Script may still refuse a client that Admit admits, because it reads the boot from the
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
		return tooEarly("the boot of %s is not in the cache yet", mac)
	}
	a, err := b.view(ctx, b.Client, host, boot)
	if err != nil {
		return err
	}
	_, err = b.admit(ctx, a, mac.String(), from, false)
	b.recordRefusalEvent(a, from, err)
	return err
}

// scriptClient is a client that asks for the script of a host. Another client uses up nothing of its budget.
type scriptClient struct {
	host types.NamespacedName
	from netip.Addr
}

// Script serves the script, and with it the token, to the first address that admit admits, and to the same address again until the bootstrap data was
// served. A second admitted address ends the boot: it may be the server, and the first one a stranger.
func (b *Booter) Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	cached, err := b.hostOf(ctx, mac)
	if err != nil {
		return pxe.Script{}, err
	}
	if cached == nil {
		return pxe.Script{}, refused("%s is not a server of the inventory", mac)
	}
	if !b.scripts.allow(scriptClient{client.ObjectKeyFromObject(cached), from}, b.Clock.Now()) { // each reads the boot and the bootstrap Secret
		return pxe.Script{}, tooEarly("the script of %s was requested too often", mac)
	}
	var script pxe.Script
	var a attempt
	boot, err := b.update(ctx, client.ObjectKeyFromObject(cached), func(boot *v1alpha1.BareMetalBoot) error {
		a = attempt{boot: boot}
		known, err := b.attemptOf(ctx, boot)
		if err != nil {
			return err
		}
		a = known
		script, err = b.script(ctx, a, mac, from)
		return err
	})
	if err != nil {
		b.recordRefusalEvent(a, from, err)
		return pxe.Script{}, err
	}
	b.recordStage(boot, v1alpha1.StageScript, from, "")
	return script, nil
}

// script binds the script of a boot to an address, and returns it.
func (b *Booter) script(ctx context.Context, a attempt, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	what := lifecycle.BootFor(a.view, b.Settings)
	boots := what == lifecycle.BootNetwork || what == lifecycle.BootAgent
	given := lifecycle.StateOf(a.view) == lifecycle.StateBooting && a.boot.Spec.ScriptAddress != "" && !b.deadlinePassed(a)
	switch {
	case !slices.Contains(a.host.Spec.BootMACAddresses, mac.String()):
		return pxe.Script{}, refused("%s boots nothing now", mac)
	case otherInterface(a.boot, mac):
		// The same server, which the firmware has moved on. The token of the attempt is bound to the address of the first one, and the next attempt begins anew.
		return pxe.Script{}, tooEarly("the script of this attempt went to the interface %s", a.boot.Spec.ScriptMACAddress)
	case what == lifecycle.BootAfterPowerOn:
		return pxe.Script{}, tooEarly("%s is not powered on yet", mac)
	case !boots && !given:
		return pxe.Script{}, refused("%s boots nothing now", mac)
	}
	dhcpTime, err := b.admit(ctx, a, mac.String(), from, false)
	if err != nil {
		return pxe.Script{}, err
	}
	bootstrap, err := b.bootstrapForScript(ctx, a)
	if err != nil {
		b.recordProblem(a.boot, bootstrapReason(err), err)
		return pxe.Script{}, errors.Join(pxe.ErrNotYet, err)
	}
	if a.boot.Spec.ScriptAddress == "" {
		a.boot.Spec.DHCPTime, a.boot.Spec.ScriptMACAddress = dhcpTime, mac.String()
	}
	if err := b.bindScript(ctx, a, from); err != nil {
		return pxe.Script{}, err
	}
	machine, name, title := a.boot.Spec.MachineName, a.host.Namespace+"/"+a.host.Name, a.title()
	switch {
	case !boots:
		return pxe.Script{}, refused("%s is booting and gets no script any more", mac)
	case what == lifecycle.BootAgent:
		return pxe.Script{Title: title, Hostname: cmp.Or(machine, a.host.Name), Agent: &pxe.AgentScript{
			Architecture: cmp.Or(string(a.host.Spec.Architecture), string(v1alpha1.ArchitectureAMD64)),
			Host:         name, Token: b.token(forAgent, a.boot), Network: bootstrap.network,
		}}, nil
	}
	source := a.consumer.BareMetalMachine.Spec.Boot
	return pxe.Script{
		Title:       title,
		CommandLine: source.CommandLine, Files: files(source), Format: bootstrap.format, Network: bootstrap.network,
		Hostname: machine, Template: source.IPXETemplate,
		SeedPath: pxe.SeedPath(name, b.token(forSeed, a.boot)),
	}, nil
}

// otherInterface is true if the script of a boot went to another interface than the one with a MAC address.
func otherInterface(boot *v1alpha1.BareMetalBoot, mac net.HardwareAddr) bool {
	return boot.Spec.ScriptMACAddress != "" && boot.Spec.ScriptMACAddress != mac.String()
}

// bindScript binds the script of a boot to the first address.
func (b *Booter) bindScript(ctx context.Context, a attempt, from netip.Addr) error {
	if a.boot.Spec.Agent {
		return b.bindAgent(ctx, a, &a.boot.Spec.ScriptAddress, from, "boot script")
	}
	if err := bind(&a.boot.Spec.ScriptAddress, from, "boot script"); err != nil {
		return b.failAttempt(ctx, a, err)
	}
	return nil
}

// bootstrapForScript reads what a boot needs, so that one that cannot be finished is not started. The agent that erases disks needs no bootstrap data, and
// a machine that is being deleted may have none any more.
func (b *Booter) bootstrapForScript(ctx context.Context, a attempt) (bootstrapData, error) {
	return b.bootstrapPart(ctx, a, a.boot.Spec.Purpose == v1alpha1.PurposeProvision)
}
