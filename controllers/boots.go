package controllers

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Boots reads and writes BareMetalBoots. Get returns a boot as this process last wrote it until the cache shows that version. The zero value is
// ready.
type Boots struct {
	writeCache WriteCache[*v1alpha1.BareMetalBoot]
}

// Get returns the boot of a host, nil if there is none. The client reads from the cache.
func (b *Boots) Get(ctx context.Context, c client.Reader, host types.NamespacedName) (*v1alpha1.BareMetalBoot, error) {
	boot, err := GetBoot(ctx, c, host)
	if err != nil {
		return nil, err
	}
	if boot == nil {
		b.Forget(host)
		return nil, nil //nolint:nilnil // a missing boot is a valid answer
	}
	return b.writeCache.Read(boot), nil
}

// Patch writes a boot with an optimistic lock: the change was decided for the version in before.
func (b *Boots) Patch(ctx context.Context, c client.Client, before, boot *v1alpha1.BareMetalBoot) error {
	err := c.Patch(ctx, boot, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err == nil {
		b.writeCache.Record(boot)
	}
	return err
}

// Forget drops the entry of a host that is gone.
func (b *Boots) Forget(host types.NamespacedName) { b.writeCache.Forget(host) }
