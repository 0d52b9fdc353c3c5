package rig

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/cluster"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/remediation"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/template"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// Options of a provider. The zero value is a provider of the site's namespace that nothing disturbs.
type Options struct {
	// WrapTransport wraps what sends the requests to the API server, and those to the workload cluster, which the site's API server is too.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// WrapBMC wraps what sends the Redfish requests.
	WrapBMC func(http.RoundTripper) http.RoundTripper
	// Drivers change the drivers of BMCs.
	Drivers func(map[string]bmc.Driver)
	// Pool are the options of the BMC pool.
	Pool bmc.PoolOptions
	// Clock is that of the host controller and of the boot server. Defaults to the real one.
	Clock clock.PassiveClock
	// Settings default to controllerstest.Settings.
	Settings lifecycle.Settings
	// Log is what the provider logs to. It logs nothing without it.
	Log logr.Logger
	// Env is the API server that it works with. Defaults to the site's. What moves there keeps its servers.
	Env *controllerstest.Env
	// Namespace is the one that it works in. Defaults to the site's.
	Namespace string
	// NoBoot starts no boot server.
	NoBoot bool
}

// Provider is the whole provider, as cmd/manager wires it, without webhooks and leader election.
type Provider struct {
	// Pool does the BMC work.
	Pool *bmc.Pool

	site   *Site
	opts   Options
	gate   *gate
	wrap   func(http.RoundTripper) http.RoundTripper // of requests to API servers
	cancel context.CancelFunc
	done   chan struct{}
	err    error // of the manager, once done is closed
	boots  *server.Server
	after  []func() // what is stopped after the manager
	once   sync.Once
}

// Provider makes a provider for the site. Start it; the end of the test stops it.
func (s *Site) Provider(t *testing.T, opts Options) *Provider {
	t.Helper()
	if opts.Settings == (lifecycle.Settings{}) {
		opts.Settings = controllerstest.Settings()
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Log.GetSink() == nil {
		opts.Log = logr.Discard()
	}
	if opts.Env == nil {
		opts.Env = s.Env
	}
	if opts.Namespace == "" {
		opts.Namespace = s.Namespace
	}
	if opts.Pool.Rate == 0 {
		opts.Pool.Rate = 1000 // an inventory is no second's work here
	}
	p := &Provider{site: s, opts: opts, gate: newGate(), done: make(chan struct{})}
	p.wrap = both(opts.WrapTransport, p.gate.wrap)
	t.Cleanup(func() { p.end() })
	return p
}

// Start starts the provider. It does not wait until it works, for it may be halted before.
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

// Kill halts the provider without waiting for it: no request to an API server or a BMC gets out any more, and no answer in. It may be called from
// within a request.
func (p *Provider) Kill() { p.gate.close() }

// Killed is closed when the provider was halted.
func (p *Provider) Killed() <-chan struct{} { return p.gate.shut }

// Halt halts the provider as a crash does, and waits until nothing of it is left. What it left behind in API servers and BMCs stays there.
func (p *Provider) Halt() {
	p.Kill()
	p.end()
}

// Stop stops the provider as a signal does, and returns what went wrong.
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
		p.Kill() // nothing should be left that could get through it
	})
}

func (p *Provider) start() error {
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(context.Background(), p.opts.Log))
	p.cancel = cancel
	p.site.current.Store(p)
	mgr, err := p.newManager()
	if err == nil {
		err = controllers.AddIndexes(ctx, mgr)
	}
	if err == nil {
		err = p.addControllers(ctx, mgr)
	}
	if err == nil && !p.opts.NoBoot {
		err = p.addBoot(ctx, mgr)
	}
	if err != nil {
		p.err = err
		close(p.done)
		return err
	}
	go func() {
		p.err = mgr.Start(ctx)
		close(p.done)
	}()
	return nil
}

func (p *Provider) newManager() (ctrl.Manager, error) {
	cfg := rest.CopyConfig(p.opts.Env.Config)
	cfg.QPS, cfg.Burst = 100, 200
	cfg.UserAgent = "cluster-api-provider-baremetal"
	cfg.Wrap(p.wrap)
	return ctrl.NewManager(cfg, ctrl.Options{
		Scheme: p.opts.Env.Scheme, Logger: p.opts.Log, Metrics: metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: new(20 * time.Second),
		Cache: cache.Options{
			DefaultNamespaces: map[string]cache.Config{p.opts.Namespace: {}},
			ByObject: map[client.Object]cache.ByObject{
				&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{p.opts.Namespace: {LabelSelector: boot.LeaseSelector()}}},
			},
		},
		// As in cmd/manager; and the names of controllers are those of all providers of the process.
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
}

// connectAgain is how often a connection to a workload cluster is tried again that could not be made.
const connectAgain = 200 * time.Millisecond

func (p *Provider) addControllers(ctx context.Context, mgr ctrl.Manager) error {
	over := &redfish.Driver{Permit: bmctest.Loopback, Wrap: both(p.opts.WrapBMC, p.gate.wrap)}
	drivers := map[string]bmc.Driver{redfish.Scheme: over.Driver(), redfish.SchemeInsecure: over.Driver()}
	if p.opts.Drivers != nil {
		p.opts.Drivers(drivers)
	}
	p.Pool = bmc.NewPool(drivers, p.opts.Pool)
	p.after = append(p.after, p.Pool.Close, over.CloseIdleConnections)
	many := controller.Options{MaxConcurrentReconciles: 10}
	c, reader := mgr.GetClient(), mgr.GetAPIReader()
	kubeconfigs := controllers.NewKubeconfigs(reader)
	clusters, err := node.NewClusterCache(ctx, mgr, kubeconfigs, "", many)
	if err != nil {
		return err
	}
	if cc, ok := clusters.(interface {
		SetConnectionCreationRetryInterval(time.Duration)
		Shutdown()
	}); ok {
		cc.SetConnectionCreationRetryInterval(connectAgain)
		p.after = append(p.after, cc.Shutdown)
	}
	return errors.Join(
		(&host.Reconciler{Client: c, APIReader: reader, Pool: p.Pool, Settings: p.opts.Settings, Clock: p.opts.Clock}).SetupWithManager(ctx, mgr, many),
		(&machine.Reconciler{Client: c, APIReader: reader}).SetupWithManager(ctx, mgr, many),
		(&cluster.Reconciler{Client: c, Kubeconfigs: kubeconfigs}).SetupWithManager(ctx, mgr, many),
		(&template.Reconciler{Client: c}).SetupWithManager(ctx, mgr, many),
		(&node.Reconciler{Client: c, APIReader: reader, Clusters: clusters}).SetupWithManager(ctx, mgr, many),
		(&remediation.Reconciler{
			Client: c, APIReader: reader, Clusters: clusters, Recorder: mgr.GetEventRecorder("capbm-remediation"),
		}).SetupWithManager(ctx, mgr, many),
	)
}

// bootKey makes the tokens of all providers: it stands in a Secret of the provider's namespace, which a restart does not change.
const bootKey = "the key of the rig's tokens: nobody may see it"

func (p *Provider) addBoot(ctx context.Context, mgr ctrl.Manager) error {
	if err := boot.IndexLeases(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	for _, kind := range []client.Object{&v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}, &v1alpha1.BareMetalMachine{}, &clusterv1.Machine{}, &clusterv1.Cluster{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	s, log := p.site, p.opts.Log.WithName("boot")
	networks := []bootconfig.Network{s.networkConfig()}
	booter := boot.New(&boot.Booter{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Settings: p.opts.Settings, Key: []byte(bootKey), Namespace: s.Namespace,
		Networks: networks, Recorder: mgr.GetEventRecorder("capbm-boot"), Log: log, Clock: p.opts.Clock,
	})
	at := func(port uint16) string { return net.JoinHostPort(s.address(1).String(), strconv.Itoa(int(port))) }
	p.boots = &server.Server{Booter: booter, Log: log, Config: server.Config{
		Networks:    networks,
		DHCPAddress: at(s.ports.dhcp), TFTPAddress: at(s.ports.tftp), HTTPAddress: at(s.ports.http), LoaderDirs: []string{s.loaders},
		Artifacts: artifact.Options{Dir: s.files, Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, RetryAfter: 10 * time.Millisecond},
	}}
	return errors.Join(mgr.Add(booter), mgr.Add(p.boots))
}
