// Command manager runs the bare metal infrastructure provider for Cluster API: its controllers, its boot server, or both. Or it runs the bootstrap
// provider.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/drivers"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/version"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/provider"
	bmcmetrics "github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

func main() {
	limitMemory()
	ctx := ctrl.SetupSignalHandler()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// limitMemory reserves a tenth of GOMEMLIMIT, which the Deployments set to the limit of the container: Go counts its own memory only.
func limitMemory() {
	if os.Getenv("GOMEMLIMIT") != "" {
		debug.SetMemoryLimit(debug.SetMemoryLimit(-1) / 10 * 9)
	}
}

func run(ctx context.Context, args []string) error {
	o := newOptions()
	set := o.flags()
	switch err := set.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		fmt.Print(help())
		return nil
	case err != nil:
		return fmt.Errorf("%w (manager --help lists the flags)", err)
	}
	if o.showVersion {
		fmt.Println("manager", version.String())
		return nil
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
	if o.bootFile != "" {
		klog.Background().Info("Read the configuration file", "path", o.bootFile)
	}
	if !o.has(componentBootstrap) && o.apiServer.IsValid() && len(o.boot.ClusterNetworks) == 0 {
		klog.Background().Info("Connections of BMCs and boot artifacts to Services and Pods are not refused: clusterNetworks of the configuration file is empty")
	}

	if o.has(componentImages) {
		return o.serveImages(ctx)
	}
	opts, err := o.provider()
	if err != nil {
		return err
	}
	if o.has(componentBoot) {
		if err := raiseBindService(); err != nil {
			return err
		}
	}
	p, err := provider.New(ctx, opts)
	if err != nil {
		return err
	}
	defer p.Close() //nolint:contextcheck // it logs out everywhere after the context has ended
	return p.Start(ctx)
}

// provider returns the options of a provider according to the flags.
func (o *options) provider() (provider.Options, error) {
	rest, err := ctrl.GetConfig()
	if err != nil {
		return provider.Options{}, fmt.Errorf("make the manager: %w", err)
	}
	rest.QPS, rest.Burst = o.qps, o.burst
	opts := provider.Options{
		REST: rest, Manager: o.managerOptions(), Namespace: o.namespace, ProviderNamespace: o.podNamespace, WatchFilter: o.watchFilter, SyncPeriod: &o.syncPeriod,
		Settings: o.settings, Tenants: o.boot.Tenants, Registry: metrics.Registry,
	}
	if o.has(componentControllers) {
		if opts.Controllers, err = o.controllers(); err != nil {
			return provider.Options{}, err
		}
	}
	if o.has(componentBootstrap) {
		if opts.Bootstrap, err = o.bootstrap(); err != nil {
			return provider.Options{}, err
		}
	}
	if o.has(componentBoot) {
		opts.Boot = &provider.BootOptions{Server: server.FromFile(o.boot), NodeName: os.Getenv("NODE_NAME"), Pod: o.pod()}
		if opts.Boot.Images, err = o.images(); err != nil {
			return provider.Options{}, err
		}
	}
	return opts, nil
}

// pod returns the Pod of this process, nil outside of a cluster. Without its UID kubectl describe does not show its events.
func (o *options) pod() *corev1.Pod {
	name := os.Getenv("BOOT_POD_NAME")
	if name == "" {
		return nil
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: o.podNamespace, Name: name, UID: types.UID(os.Getenv("BOOT_POD_UID"))}}
}

func (o *options) managerOptions() ctrl.Options {
	return ctrl.Options{
		Metrics: *o.metrics, HealthProbeBindAddress: o.healthAddress, PprofBindAddress: o.profiler,
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: o.webhooks.host, Port: o.webhooks.port, CertDir: o.webhooks.certDir, CertName: o.webhooks.certName, KeyName: o.webhooks.keyName, TLSOpts: o.tls,
		}),
		LeaderElection: o.leader.enabled && (o.has(componentControllers) || o.has(componentBootstrap)), LeaderElectionID: o.leaseName(),
		LeaderElectionNamespace: o.podNamespace, LeaderElectionReleaseOnCancel: true,
		LeaseDuration: &o.leader.leaseDuration, RenewDeadline: &o.leader.renewDeadline, RetryPeriod: &o.leader.retryPeriod,
	}
}

func (o *options) controllers() (*provider.ControllerOptions, error) {
	serve, err := o.webhooks.serve()
	if err != nil {
		return nil, err
	}
	n := o.concurrency
	return &provider.ControllerOptions{
		Drivers: drivers.All(bmc.AllowList(o.boot.BMCs)), Clusters: o.boot.Clusters,
		Pool: bmc.PoolOptions{Concurrency: o.bmcConcurrency, Rate: o.bmcRate, Observe: bmcmetrics.BMCCall},
		Concurrency: provider.Concurrency{
			Host: n.host, Machine: n.machine, Cluster: n.cluster, Template: n.template, Remediation: n.remediation, Node: n.node, ClusterCache: n.clusterCache,
		},
		NodeName: os.Getenv("NODE_NAME"), Webhooks: serve, MediaURLs: o.mediaURLs, Profiles: o.profiles, SensorKinds: o.sensorKinds,
	}, nil
}

func (o *options) bootstrap() (*provider.BootstrapOptions, error) {
	serve, err := o.webhooks.serve()
	return &provider.BootstrapOptions{Concurrency: o.concurrency.config, Webhooks: serve}, err
}
