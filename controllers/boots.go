package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Boots reads and writes BareMetalBoots. A boot is read as this process last wrote it, until the cache shows that. The zero value is ready.
type Boots struct {
	newest WriteCache[*v1alpha1.BareMetalBoot]
}

// Get returns the boot of a host as this process knows it, nil if there is none. The client reads from the cache.
func (b *Boots) Get(ctx context.Context, c client.Reader, host types.NamespacedName) (*v1alpha1.BareMetalBoot, error) {
	boot, err := GetBoot(ctx, c, host)
	if err != nil {
		return nil, err
	}
	if boot == nil {
		b.Forget(host)
		return nil, nil //nolint:nilnil // none is a valid answer
	}
	return b.newest.Read(boot), nil
}

// Patch writes a boot under an optimistic lock: what is written was decided for the version before, and for no other.
func (b *Boots) Patch(ctx context.Context, c client.Client, before, boot *v1alpha1.BareMetalBoot) error {
	err := c.Patch(ctx, boot, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		b.newest.Record(boot)
	}
	return err
}

// Forget drops what is kept of the boot of a host that is gone.
func (b *Boots) Forget(host types.NamespacedName) { b.newest.Forget(host) }
