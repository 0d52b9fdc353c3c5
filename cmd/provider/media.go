package provider

import (
	"context"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
)

// mediaToken returns the token of the boot medium of a boot. The key is read for each attempt, so that a changed key needs no restart of the controllers.
func (p *Provider) mediaToken(ctx context.Context, b *v1alpha1.BareMetalBoot) (string, error) {
	if o := p.opts.Boot; o != nil && o.Key != nil {
		return boot.MediaToken(o.Key, b), nil
	}
	key, _, err := bootKeys(ctx, p.GetClient(), p.opts.ProviderNamespace)
	if err != nil {
		return "", err
	}
	return boot.MediaToken(key, b), nil
}
