package rig

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// Options of a provider. The zero value is an undisturbed provider of the site's namespace.
type Options struct {
	// WrapTransport wraps the transport of requests to the API server and to the workload cluster. The site's API server is both.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// WrapBMC wraps the transport of Redfish requests.
	WrapBMC func(http.RoundTripper) http.RoundTripper
	// Drivers change the drivers of BMCs.
	Drivers func(map[string]bmc.Driver)
	// Pool are the options of the BMC pool.
	Pool bmc.PoolOptions
	// Clock is the clock of the host controller and of the boot server. Defaults to the real one.
	Clock clock.PassiveClock
	// Settings default to controllerstest.Settings.
	Settings lifecycle.Settings
	// Log takes the log of the provider. Without it nothing is logged.
	Log logr.Logger
	// Env is the API server of the provider. Defaults to the site's. Hosts that move there keep their servers.
	Env *controllerstest.Env
	// NoBoot starts no boot server.
	NoBoot bool
	// Profiles applies BareMetalProfiles.
	Profiles bool
}

// Provider is the whole provider as cmd/provider wires it, without webhooks and leader election.
type Provider struct {
	site   *Site
	opts   Options
	gate   *gate
	wrap   func(http.RoundTripper) http.RoundTripper // wraps the transport of requests to API servers
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the manager, valid once done is closed
	boots  *server.Server
	after  []func() // called after the manager has ended
	once   sync.Once
}

// Provider makes a provider for the site. Start starts it; the end of the test stops it.
func (s *Site) Provider(t *testing.T, opts Options) *Provider {
	t.Helper()
	if opts.Settings == (lifecycle.Settings{}) {
		opts.Settings = controllerstest.Settings()
	}
	if opts.Log.GetSink() == nil {
		opts.Log = logr.Discard()
	}
	if opts.Env == nil {
		opts.Env = s.Env
	}
	if opts.Pool.Rate == 0 {
		opts.Pool.Rate = 1000 // so that an inventory takes less than a second
	}
	p := &Provider{site: s, opts: opts, gate: newGate(), done: make(chan struct{})}
	p.wrap = both(opts.WrapTransport, p.gate.wrap)
	t.Cleanup(func() { p.end() })
	return p
}

// Start starts the provider. It does not wait until the provider works, since the provider may be halted before.
func (p *Provider) Start(t *testing.T) *Provider {
	t.Helper()
	if err := p.start(); err != nil && !errors.Is(err, ErrHalted) && !p.gate.closed() {
		t.Fatal("start a provider: ", err)
	}
	return p
}

// Ready waits until the boot server listens.
func (p *Provider) Ready(t *testing.T) *Provider {
	t.Helper()
	NewWithT(t).Eventually(func() error { return p.boots.Ready(nil) }, time.Minute, 10*time.Millisecond).Should(Succeed())
	return p
}

// Kill halts the provider without waiting for its end: no more requests to an API server or a BMC go out, and no answers come in. It may be called within a
// request.
func (p *Provider) Kill() { p.gate.close() }

// Killed is closed when the provider was halted.
func (p *Provider) Killed() <-chan struct{} { return p.gate.shut }

// Halt halts the provider as a crash does, and waits until the provider has ended. What the provider wrote to API servers and BMCs stays.
func (p *Provider) Halt() {
	p.Kill()
	p.end()
}

// Stop stops the provider as a signal does, and returns its error.
func (p *Provider) Stop() error {
	p.end()
	return p.err
}

func (p *Provider) end() {
	p.once.Do(func() {
		if p.cancel == nil {
			return
		}
		p.cancel()
		<-p.done
		for _, stop := range p.after {
			stop()
		}
		p.Kill() // no request should be left
	})
}

func (p *Provider) start() error {
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(context.Background(), p.opts.Log))
	p.cancel = cancel
	p.site.current.Store(p)
	over := &redfish.Driver{Permit: bmctest.Loopback, Wrap: both(p.opts.WrapBMC, p.gate.wrap)}
	images, err := p.site.images()
	if err != nil {
		p.err = err
		close(p.done)
		return err
	}
	p.after = append(p.after, images.Close)
	whole, err := provider.New(ctx, p.options(over, images))
	if err != nil {
		p.err = err
		close(p.done)
		return err
	}
	p.boots = whole.BootServer
	p.after = append(p.after, whole.Close, over.CloseIdleConnections)
	if cc, ok := whole.Clusters.(interface {
		SetConnectionCreationRetryInterval(time.Duration)
		Shutdown()
	}); ok {
		cc.SetConnectionCreationRetryInterval(reconnectInterval)
		p.after = append(p.after, cc.Shutdown)
	}
	go func() {
		p.err = whole.Start(ctx)
		close(p.done)
	}()
	return nil
}

const (
	// reconnectInterval is how often the provider tries to connect to a workload cluster.
	reconnectInterval = 200 * time.Millisecond
	// bootKey makes the tokens of all providers. A real provider keeps its key in a Secret, which outlives a restart.
	bootKey = "the key of the rig's tokens: nobody may see it"
	// concurrency is how many objects of a kind are reconciled at once.
	concurrency = 10
)

func (p *Provider) options(over *redfish.Driver, images *image.Service) provider.Options {
	cfg := rest.CopyConfig(p.opts.Env.Config)
	cfg.QPS, cfg.Burst = 100, 200
	cfg.Wrap(p.wrap)
	drivers := map[string]bmc.Driver{redfish.Scheme: over.Driver(), redfish.SchemeInsecure: over.Driver()}
	if p.opts.Drivers != nil {
		p.opts.Drivers(drivers)
	}
	o := provider.Options{
		REST: cfg,
		Manager: ctrl.Options{
			Logger: p.opts.Log, Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: new(20 * time.Second),
			Controller: config.Controller{SkipNameValidation: new(true)}, // the names of controllers are unique in a process, which runs several providers
		},
		Namespace: p.site.Namespace, ProviderNamespace: p.site.Namespace, Settings: p.opts.Settings, Clock: p.opts.Clock,
		NoEvents: true, // events are written at arbitrary times, and crash counts writes
		Controllers: &provider.ControllerOptions{Drivers: drivers, Clusters: loopback, Pool: p.opts.Pool, Profiles: p.opts.Profiles, Concurrency: provider.Concurrency{
			Host: concurrency, Machine: concurrency, Cluster: concurrency, Template: concurrency, Remediation: concurrency, Node: concurrency, ClusterCache: concurrency,
		}},
	}
	if !p.opts.NoBoot {
		o.Boot = &provider.BootOptions{Server: p.site.bootServer(), Key: []byte(bootKey), Images: images}
	}
	return o
}

// bootServer returns where the boot server of the site listens and what it serves.
func (s *Site) bootServer() server.Config {
	e := s.emulated
	return server.Config{
		Networks:    []bootconfig.Network{s.networkConfig()},
		DHCPAddress: e.At(e.DHCP), TFTPAddress: e.At(e.TFTP), HTTPAddress: e.At(e.HTTP), LoaderDirs: []string{e.Loaders()}, Agent: bootconfig.Agent{Dir: e.AgentDir()},
		Artifacts: artifact.Options{Dir: filepath.Join(e.Dir, "artifacts"), Outbound: loopback, RetryAfter: 10 * time.Millisecond},
	}
}

// loopback is where boot files and images may come from.
var loopback = outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// images returns the image service of a provider. What an earlier one prepared is in the folder.
func (s *Site) images() (*image.Service, error) {
	return image.New(image.Options{Dir: filepath.Join(s.emulated.Dir, "prepared-images"), Outbound: loopback, RetryAfter: 10 * time.Millisecond})
}
