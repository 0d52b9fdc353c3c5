// Command manager runs the bare metal infrastructure provider for Cluster API: its controllers, its boot server, or both.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
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
	capiflags "sigs.k8s.io/cluster-api/util/flags"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/drivers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/cluster"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch;delete,namespace=capbm-system
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

func main() {
	if err := run(ctrl.SetupSignalHandler(), os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
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
	if err := logsv1.ValidateAndApply(o.logs, nil); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	defer logs.FlushLogs()
	ctx = ctrl.LoggerInto(ctx, klog.Background())

	mgr, err := newManager(o)
	if err != nil {
		return fmt.Errorf("make the manager: %w", err)
	}
	if err := controllers.AddIndexes(ctx, mgr); err != nil {
		return err
	}
	if o.has(componentControllers) {
		// The only place where drivers are chosen.
		pool := bmc.NewPool(drivers.All(o.bmcPermit), bmc.PoolOptions{Concurrency: o.bmcConcurrency, Rate: o.bmcRate})
		defer pool.Close() //nolint:contextcheck // it logs out everywhere after the context has ended
		if err := addControllers(ctx, mgr, o, pool); err != nil {
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
	_, metrics, err := capiflags.GetManagerOptions(o.manager)
	if err != nil {
		return nil, err
	}
	cacheOptions := cache.Options{SyncPeriod: &o.syncPeriod}
	if o.namespace != "" {
		cacheOptions.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	return ctrl.NewManager(rest, ctrl.Options{
		Scheme: scheme, Metrics: *metrics, HealthProbeBindAddress: o.healthAddress, Cache: cacheOptions,
		LeaderElection: o.leaderElect && o.has(componentControllers), LeaderElectionID: "capbm-controllers",
		LeaderElectionNamespace: o.podNamespace, LeaderElectionReleaseOnCancel: true,
		// controller-runtime v0.24's priority queue can hold its lock for ever when it shuts down: it sends an item under the lock
		// to workers that have left. The manager then ends 30 s late, and so does its lease.
		Controller: config.Controller{UsePriorityQueue: new(false)},
		// Secrets are read when they are needed, and kept nowhere.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
}

func addControllers(ctx context.Context, mgr ctrl.Manager, o *options, pool *bmc.Pool) error {
	options := controller.Options{MaxConcurrentReconciles: o.concurrency}
	c, reader := mgr.GetClient(), mgr.GetAPIReader()
	return errors.Join(
		(&host.Reconciler{Client: c, APIReader: reader, Pool: pool, Settings: o.settings, WatchFilter: o.watchFilter}).SetupWithManager(ctx, mgr, options),
		(&machine.Reconciler{Client: c, APIReader: reader, WatchFilter: o.watchFilter}).SetupWithManager(ctx, mgr, options),
		(&cluster.Reconciler{Client: c, WatchFilter: o.watchFilter}).SetupWithManager(ctx, mgr, options),
	)
}

// secretMeta is the metadata of a Secret of the provider's own.
func secretMeta(o *options, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: o.podNamespace, Name: name}
}
