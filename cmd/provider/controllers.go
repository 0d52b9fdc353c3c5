package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/cluster"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/profile"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/remediation"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/template"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/webhook"
)

// The delay before a failed reconcile is repeated doubles between these limits.
const (
	firstRetryDelay = 100 * time.Millisecond
	maxRetryDelay   = time.Minute
)

// options are the options of a controller. The default rate limiter also limits the failed reconciles of all objects together, to ten a second after the first hundred.
func options(concurrency int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetryDelay, maxRetryDelay),
	}
}

func (p *Provider) addControllers(ctx context.Context) error {
	o := p.opts
	p.pool = bmc.NewPool(o.Controllers.Drivers, o.Controllers.Pool)
	c, reader, concurrency := client.WithFieldOwner(p.GetClient(), controllers.FieldOwner), p.GetAPIReader(), o.Controllers.Concurrency
	kubeconfigs, err := controllers.SetupKubeconfigs(ctx, p, o.Controllers.Clusters)
	if err != nil {
		return err
	}
	clusters, err := node.NewClusterCache(ctx, p, kubeconfigs, o.WatchFilter, options(concurrency.ClusterCache))
	if err != nil {
		return fmt.Errorf("set up the connections to the workload clusters: %w", err)
	}
	p.Clusters = clusters
	progressDelay := controllers.ProgressDelay(o.Settings.BootTimeout)
	ownNode, err := host.OwnNode(ctx, reader, o.Controllers.NodeName)
	if err != nil {
		return err
	}
	hosts := &host.Reconciler{
		Client: c, APIReader: reader, Pool: p.pool, Recorder: p.recorder("capbm-host"), Settings: o.Settings, Clock: o.Clock, Node: ownNode, Tenants: o.Tenants,
		WatchFilter: o.WatchFilter, Erasures: erasure.NewRecorder(p, o.ProviderNamespace), MediaURLs: o.Controllers.MediaURLs, MediaToken: p.mediaToken,
		Profiles: o.Controllers.Profiles, SensorKinds: o.Controllers.SensorKinds, ProgressDelay: progressDelay,
	}
	return errors.Join(
		hosts.SetupWithManager(ctx, p, options(concurrency.Host)),
		p.addSensorMetrics(hosts),
		(&erasure.RequestReconciler{
			Client: c, APIReader: reader, Recorder: p.recorder("capbm-erasure"), Clock: o.Clock, WatchFilter: o.WatchFilter,
		}).SetupWithManager(p, options(1)),
		(&machine.Reconciler{
			Client: c, APIReader: reader, Recorder: p.recorder("capbm-machine"), WatchFilter: o.WatchFilter, ProgressDelay: progressDelay,
		}).SetupWithManager(ctx, p, options(concurrency.Machine)),
		(&cluster.Reconciler{Client: c, Kubeconfigs: kubeconfigs, WatchFilter: o.WatchFilter}).SetupWithManager(ctx, p, options(concurrency.Cluster)),
		(&template.Reconciler{Client: c, WatchFilter: o.WatchFilter}).SetupWithManager(ctx, p, options(concurrency.Template)),
		(&node.Reconciler{
			Client: c, APIReader: reader, Clusters: clusters, Kubeconfigs: kubeconfigs, Recorder: p.recorder("capbm-node"), WatchFilter: o.WatchFilter,
		}).SetupWithManager(ctx, p, options(concurrency.Node)),
		(&remediation.Reconciler{
			Client: c, APIReader: reader, Clusters: clusters, Recorder: p.recorder("capbm-remediation"), WatchFilter: o.WatchFilter,
		}).SetupWithManager(ctx, p, options(concurrency.Remediation)),
		p.addProfiles(options(1)),
	)
}

// addProfiles adds the controller of BareMetalProfiles, if they are applied.
func (p *Provider) addProfiles(options controller.Options) error {
	if !p.opts.Controllers.Profiles {
		return nil
	}
	c := client.WithFieldOwner(p.GetClient(), controllers.FieldOwner)
	return (&profile.Reconciler{Client: c, WatchFilter: p.opts.WatchFilter}).SetupWithManager(p, options)
}

// addInventoryMetrics counts hosts and machines whenever the metrics are read.
func (p *Provider) addInventoryMetrics() error {
	if p.opts.Registry == nil {
		return nil
	}
	return p.opts.Registry.Register(&metrics.Inventory{
		Client: p.GetCache(), Leads: p.Elected(), Pool: p.pool, Settings: p.opts.Settings, Log: p.GetLogger().WithName("metrics"),
	})
}

// addSensorMetrics exports the sensors of hosts, if a kind of sensors is asked for.
func (p *Provider) addSensorMetrics(hosts *host.Reconciler) error {
	if p.opts.Registry == nil || len(p.opts.Controllers.SensorKinds) == 0 {
		return nil
	}
	return p.opts.Registry.Register(&metrics.Sensors{Each: hosts.EachSensor, Log: p.GetLogger().WithName("metrics")})
}

func (p *Provider) addWebhooks() error {
	if !p.opts.Controllers.Webhooks {
		return nil
	}
	return errors.Join(webhook.SetupWithManager(p), p.AddReadyzCheck("webhooks", p.GetWebhookServer().StartedChecker()))
}
