// Command manager runs the bare metal infrastructure provider for Cluster API: its controllers, its boot server, or both.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	registry "sigs.k8s.io/controller-runtime/pkg/metrics"
	webhookserver "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/drivers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/cluster"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/remediation"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/template"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/webhook"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update,namespace=capbm-system
// +kubebuilder:rbac:groups="",resources=events,verbs=create,namespace=capbm-system
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

func main() {
	ctx := ctrl.SetupSignalHandler()
	go boundMemory(ctx)
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o := newOptions()
	set := o.flags()
	if err := set.Parse(args); err != nil {
		return err
	}
	if err := o.complete(); err != nil {
		return err
	}
	if o.printDHCP != "" {
		text, err := dhcp.OperatorConfig(o.printDHCP, o.boot.Networks)
		if err != nil {
			return fmt.Errorf("--print-dhcp-config: %w", err)
		}
		fmt.Print(text)
		return nil
	}
	if err := logsv1.ValidateAndApply(o.logs, nil); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	defer logs.FlushLogs()
	ctx = ctrl.LoggerInto(ctx, klog.Background())
	if o.apiServer.IsValid() && len(o.boot.ClusterNetworks) == 0 {
		klog.Background().Info("Connections of BMCs and boot artifacts to Services and Pods are not refused: clusterNetworks of the configuration file is empty")
	}

	mgr, err := newManager(o)
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := controllers.AddIndexes(ctx, mgr); err != nil {
		return err
	}
	if o.has(componentControllers) {
		pool := bmc.NewPool(drivers.All(bmc.AllowList(o.boot.BMCs)), bmc.PoolOptions{Concurrency: o.bmcConcurrency, Rate: o.bmcRate, Observe: metrics.BMCCall})
		defer pool.Close() //nolint:contextcheck // it logs out everywhere after the context has ended
		if err := errors.Join(addControllers(ctx, mgr, o, pool), addWebhooks(mgr, o), addMetrics(mgr, o, pool)); err != nil {
			return err
		}
	}
	if o.has(componentBoot) {
		if err := addBoot(ctx, mgr, o); err != nil {
			return fmt.Errorf("set up the boot server: %w", err)
		}
	}
	if err := errors.Join(mgr.AddReadyzCheck("ping", healthz.Ping), mgr.AddHealthzCheck("ping", healthz.Ping)); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newManager(o *options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	rest, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	rest.QPS, rest.Burst = o.qps, o.burst
	rest.UserAgent = "cluster-api-provider-baremetal"
	cacheOptions := cache.Options{SyncPeriod: &o.syncPeriod, DefaultTransform: slim, ByObject: map[client.Object]cache.ByObject{
		// Of the Leases only those of addresses: the provider's namespace has some of leader elections, too.
		&coordinationv1.Lease{}: {Namespaces: map[string]cache.Config{o.podNamespace: {LabelSelector: boot.LeaseSelector()}}},
	}}
	if o.namespace != "" {
		cacheOptions.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	return ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme, Metrics: *o.metrics, HealthProbeBindAddress: o.healthAddress, PprofBindAddress: o.profiler, Cache: cacheOptions,
		WebhookServer: webhookserver.NewServer(webhookserver.Options{
			Host: o.webhooks.host, Port: o.webhooks.port, CertDir: o.webhooks.certDir, CertName: o.webhooks.certName, KeyName: o.webhooks.keyName, TLSOpts: o.tls,
		}),
		LeaderElection: o.leader.enabled && o.has(componentControllers), LeaderElectionID: o.leaseName(),
		LeaderElectionNamespace: o.podNamespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &o.leader.leaseDuration, RenewDeadline: &o.leader.renewDeadline, RetryPeriod: &o.leader.retryPeriod,
		// controller-runtime v0.24's priority queue can hold its lock for ever when it shuts down: it sends an item under the lock
		// to workers that have left. The manager then ends 30 s late, and so does its lease.
		Controller: config.Controller{UsePriorityQueue: new(false)},
		// Secrets are read when they are needed, and kept nowhere.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
}

var withoutManagedFields = cache.TransformStripManagedFields()

// slim takes away what nobody here reads of what the cache keeps: the managed fields, which are half of a host, and of the metadata of Secrets the
// annotations, in which kubectl apply leaves the Secret itself.
func slim(o any) (any, error) {
	if metadata, ok := o.(*metav1.PartialObjectMetadata); ok {
		metadata.SetAnnotations(nil)
	}
	return withoutManagedFields(o)
}

func addControllers(ctx context.Context, mgr ctrl.Manager, o *options, pool *bmc.Pool) error {
	options := func(concurrency int) controller.Options {
		return controller.Options{MaxConcurrentReconciles: concurrency}
	}
	c, reader := mgr.GetClient(), mgr.GetAPIReader()
	kubeconfigs := controllers.NewKubeconfigs(reader)
	clusters, err := node.NewClusterCache(ctx, mgr, kubeconfigs, o.watchFilter, options(o.concurrency.clusterCache))
	if err != nil {
		return fmt.Errorf("set up the connections to the workload clusters: %w", err)
	}
	ownNode, err := host.OwnNode(ctx, reader, os.Getenv("NODE_NAME"))
	if err != nil {
		return err
	}
	return errors.Join(
		(&host.Reconciler{
			Client: c, APIReader: reader, Pool: pool, Recorder: mgr.GetEventRecorder("capbm-host"), Settings: o.settings, Node: ownNode, Tenants: o.boot.Tenants,
			WatchFilter: o.watchFilter,
		}).SetupWithManager(ctx, mgr, options(o.concurrency.host)),
		(&machine.Reconciler{
			Client: c, APIReader: reader, Recorder: mgr.GetEventRecorder("capbm-machine"), WatchFilter: o.watchFilter,
		}).SetupWithManager(ctx, mgr, options(o.concurrency.machine)),
		(&cluster.Reconciler{Client: c, Kubeconfigs: kubeconfigs, WatchFilter: o.watchFilter}).SetupWithManager(ctx, mgr, options(o.concurrency.cluster)),
		(&template.Reconciler{Client: c, WatchFilter: o.watchFilter}).SetupWithManager(ctx, mgr, options(o.concurrency.template)),
		(&node.Reconciler{
			Client: c, APIReader: reader, Clusters: clusters, Recorder: mgr.GetEventRecorder("capbm-node"), WatchFilter: o.watchFilter,
		}).SetupWithManager(ctx, mgr, options(o.concurrency.node)),
		(&remediation.Reconciler{
			Client: c, APIReader: reader, Clusters: clusters, Recorder: mgr.GetEventRecorder("capbm-remediation"), WatchFilter: o.watchFilter,
		}).SetupWithManager(ctx, mgr, options(o.concurrency.remediation)),
	)
}

// addMetrics counts hosts and machines when somebody reads the metrics.
func addMetrics(mgr ctrl.Manager, o *options, pool *bmc.Pool) error {
	return registry.Registry.Register(&metrics.Inventory{
		Client: mgr.GetCache(), Leads: mgr.Elected(), Pool: pool, Settings: o.settings, Log: mgr.GetLogger().WithName("metrics"),
	})
}

// addWebhooks serves the webhooks. Every process with the controllers does, whether it leads or not.
func addWebhooks(mgr ctrl.Manager, o *options) error {
	if o.webhooks.port == 0 {
		return nil
	}
	if err := o.webhooks.checkFiles(); err != nil {
		return err
	}
	return errors.Join(webhook.SetupWithManager(mgr), mgr.AddReadyzCheck("webhooks", mgr.GetWebhookServer().StartedChecker()))
}
