package provider

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap"
)

// BootstrapOptions say how the bootstrap provider runs.
type BootstrapOptions struct {
	// Concurrency is how many BareMetalConfigs are reconciled at once.
	Concurrency int
	// Webhooks serves the webhooks.
	Webhooks bool
}

func (p *Provider) addBootstrap(ctx context.Context) error {
	o := p.opts.Bootstrap
	err := (&bootstrap.Reconciler{
		Client: p.GetClient(), Recorder: p.recorder("capbm-bootstrap"), WatchFilter: p.opts.WatchFilter,
		RetryInterval: bootstrap.DefaultRetryInterval,
	}).SetupWithManager(ctx, p, controller.Options{MaxConcurrentReconciles: o.Concurrency})
	if err == nil && o.Webhooks {
		err = errors.Join(bootstrap.SetupWebhooks(p), p.AddReadyzCheck("bootstrap-webhooks", p.GetWebhookServer().StartedChecker()))
	}
	if err != nil || p.opts.Registry == nil {
		return err
	}
	return p.opts.Registry.Register(&bootstrap.Metrics{Client: p.GetCache(), Leads: p.Elected(), Log: p.GetLogger().WithName("metrics")})
}
