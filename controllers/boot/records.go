package boot

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// bootRecords read and write the BareMetalBoots. A boot that this process wrote is read as it was written, until the cache shows it.
type bootRecords struct {
	client    client.Client // reads from the cache
	apiReader client.Reader
	written   controllers.Boots
}

// bootOf returns the boot of a host as this process knows it, or nil if there is none.
func (r *bootRecords) bootOf(ctx context.Context, host types.NamespacedName) (*v1alpha1.BareMetalBoot, error) {
	return r.written.Get(ctx, r.client, host)
}

// sharedBootOf is bootOf without a copy: the boot shares its content with the cache, and must not be changed.
func (r *bootRecords) sharedBootOf(ctx context.Context, host types.NamespacedName) (*v1alpha1.BareMetalBoot, error) {
	return r.written.Get(ctx, sharedClient{r.client}, host)
}

// patch writes a boot with an optimistic lock: the change was decided for the version in before.
func (r *bootRecords) patch(ctx context.Context, before, boot *v1alpha1.BareMetalBoot) error {
	return r.written.Patch(ctx, r.client, before, boot)
}

// conflictBackoff is the backoff for write conflicts. Controllers and other requests of the boot servers write to the same boot.
var conflictBackoff = wait.Backoff{Steps: 10, Duration: 5 * time.Millisecond, Factor: 1.6, Jitter: 0.5}

// update reads a boot from the API server, changes it, and writes the change with an optimistic lock. On a conflict it starts again. Without a change it
// writes nothing. It returns the boot as it is afterwards, nil on an error.
func (r *bootRecords) update(ctx context.Context, key types.NamespacedName, change func(*v1alpha1.BareMetalBoot) error) (*v1alpha1.BareMetalBoot, error) {
	var written *v1alpha1.BareMetalBoot
	err := retry.RetryOnConflict(conflictBackoff, func() error {
		boot := &v1alpha1.BareMetalBoot{}
		if err := r.apiReader.Get(ctx, key, boot); err != nil {
			return err
		}
		before := boot.DeepCopy()
		if err := change(boot); err != nil {
			return err
		}
		written = boot
		if equality.Semantic.DeepEqual(before.Spec, boot.Spec) {
			return nil
		}
		return r.patch(ctx, before, boot)
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}
