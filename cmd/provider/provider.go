// Package provider wires the whole provider: the cache, the controllers, the webhooks and the boot server. cmd/manager runs it as its flags
// say. Tests run it with their own transports, drivers, clock and ports.
package provider

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update,namespace=capbm-system
// +kubebuilder:rbac:groups="",resources=events,verbs=create,namespace=capbm-system
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// userAgent names the provider in the audit log of API servers.
const userAgent = "cluster-api-provider-baremetal"

// Options say what a provider runs and with what.
type Options struct {
	// REST is the connection to the management cluster. New sets its user agent.
	REST *rest.Config
	// Manager says where the manager serves, how it is elected, and where it logs. New sets its scheme, its client and its cache.
	Manager ctrl.Options
	// Namespace is the namespace to watch. Empty watches all.
	Namespace string
	// ProviderNamespace is the namespace of the provider itself: the Leases of addresses and the boot key are there.
	ProviderNamespace string
	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter of the objects to reconcile. Empty reconciles all.
	WatchFilter string
	// SyncPeriod is how often every object is reconciled without an event. Defaults to that of controller-runtime.
	SyncPeriod *time.Duration
	// Settings are those of the lifecycle.
	Settings lifecycle.Settings
	// Tenants confine the namespaces of hosts.
	Tenants bootconfig.Tenants
	// Clock is the clock of the host controller and of the boot server. Defaults to the real one.
	Clock clock.PassiveClock
	// Registry takes the metrics of this provider. Nil registers none.
	Registry prometheus.Registerer
	// NoEvents records no events.
	NoEvents bool
	// Controllers says how the controllers run. Nil runs none.
	Controllers *ControllerOptions
	// Boot says how the boot server runs. Nil runs none.
	Boot *BootOptions
	// Bootstrap says how the bootstrap provider runs. Nil runs none.
	Bootstrap *BootstrapOptions
}

// ControllerOptions say how the controllers run.
type ControllerOptions struct {
	// Drivers are the drivers of BMCs by URL scheme.
	Drivers map[string]bmc.Driver
	// Clusters says which addresses the API servers of workload clusters may have.
	Clusters outbound.Policy
	// Pool are the options of the BMC pool.
	Pool bmc.PoolOptions
	// MediaURLs are the URLs of the boot media as BMCs reach them. Without any, hosts boot by PXE only.
	MediaURLs host.MediaURLs
	// Profiles is true if BareMetalProfiles are applied.
	Profiles bool
	// SensorKinds are the kinds of sensors that metrics show, some of metrics.SensorKinds.
	SensorKinds []string
	// Concurrency is how many objects of a kind are reconciled at once.
	Concurrency Concurrency
	// NodeName is the Node that the provider runs on. Empty outside of a cluster.
	NodeName string
	// Webhooks serves the webhooks. Every process with the controllers serves them, whether it leads or not.
	Webhooks bool
}

// Concurrency is how many objects of a kind are reconciled at once.
type Concurrency struct{ Host, Machine, Cluster, Template, Remediation, Node, ClusterCache int }

// BootOptions say how the boot server runs.
type BootOptions struct {
	// Server says where it listens and what it serves.
	Server server.Config
	// Key makes the tokens of boots. Without a key it is read from the Secret BootKeySecret, which is created if it does not exist.
	Key []byte
	// Images has the images that agents write. With nil there are no images.
	Images boot.Images
	// NodeName is the Node that the provider runs on, and Pod its Pod, for events. Empty and nil outside of a cluster.
	NodeName string
	Pod      *corev1.Pod
	// LocalAddresses returns the addresses of this machine's interfaces. Defaults to server.LocalAddresses.
	LocalAddresses func() ([]netip.Prefix, error)
}

// Provider is a provider that is ready to start.
type Provider struct {
	ctrl.Manager
	// Clusters holds the connections to the workload clusters. Nil without controllers.
	Clusters clustercache.ClusterCache
	// BootServer is nil where none runs.
	BootServer *server.Server

	opts   Options
	pool   *bmc.Pool // nil without controllers
	health health
}

// New makes a provider. Start starts it; Close frees what it holds after it has ended.
func New(ctx context.Context, opts Options) (*Provider, error) {
	mgr, err := newManager(&opts)
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	p := &Provider{Manager: mgr, opts: opts, health: health{live: map[string]healthz.Checker{}, ready: map[string]healthz.Checker{}}}
	if err := p.add(ctx); err != nil {
		p.Close() //nolint:contextcheck // it logs out everywhere after the context has ended
		return nil, err
	}
	return p, nil
}

// Close logs out of all BMCs. Call it after Start has returned.
func (p *Provider) Close() {
	if p.health.listener != nil {
		_ = p.health.listener.Close() // it is closed already, unless the provider was not started
	}
	if p.pool != nil {
		p.pool.Close()
	}
}

func (p *Provider) add(ctx context.Context) error {
	if p.opts.Controllers != nil || p.opts.Boot != nil {
		if err := controllers.AddIndexes(ctx, p); err != nil {
			return err
		}
	}
	if p.opts.Controllers != nil {
		if err := errors.Join(p.addControllers(ctx), p.addWebhooks(), p.addInventoryMetrics()); err != nil {
			return err
		}
	}
	if p.opts.Bootstrap != nil {
		if err := p.addBootstrap(ctx); err != nil {
			return fmt.Errorf("set up the bootstrap provider: %w", err)
		}
	}
	if p.opts.Boot != nil {
		if err := p.addBoot(ctx); err != nil {
			return fmt.Errorf("set up the boot server: %w", err)
		}
	}
	return errors.Join(p.AddReadyzCheck("ping", healthz.Ping), p.AddHealthzCheck("ping", healthz.Ping), p.addHealth(ctx, p.opts.Manager.HealthProbeBindAddress))
}

// recorder returns the recorder of the events that a part of the provider reports.
func (p *Provider) recorder(reporter string) events.EventRecorder {
	if p.opts.NoEvents {
		return nil
	}
	return p.GetEventRecorder(reporter)
}

func newManager(o *Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme, bootstrapv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	config := rest.CopyConfig(o.REST)
	config.UserAgent = userAgent
	m := o.Manager
	m.Scheme = scheme
	m.HealthProbeBindAddress = "0" // addHealth serves health checks
	m.Cache = cache.Options{SyncPeriod: o.SyncPeriod, DefaultTransform: slim, ByObject: map[client.Object]cache.ByObject{
		// Only the Leases of addresses: the provider's namespace also has those of leader elections.
		&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{o.ProviderNamespace: {LabelSelector: boot.LeaseSelector()}}},
	}}
	if o.Namespace != "" {
		m.Cache.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	// The priority queue of controller-runtime v0.24 can hold its lock forever when it shuts down: it sends an item under the lock to workers
	// that have returned (issue #3538, fixed by #3540). The manager then ends 30 s late, and so does its lease. Delete this line with a
	// controller-runtime that has #3540.
	m.Controller.UsePriorityQueue = new(false)
	// Secrets and ConfigMaps are read when they are needed, and are not cached.
	m.Client = client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}}
	return ctrl.NewManager(config, m)
}

var withoutManagedFields = cache.TransformStripManagedFields()

// slim drops what the cache need not keep: the managed fields, which are half of a host, and of the metadata of Secrets the annotations,
// in which kubectl apply leaves the Secret itself.
func slim(o any) (any, error) {
	if metadata, ok := o.(*metav1.PartialObjectMetadata); ok {
		metadata.SetAnnotations(nil)
	}
	return withoutManagedFields(o)
}
