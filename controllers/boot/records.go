package boot

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// errNoBoot means that the API server has no boot of a host.
var errNoBoot = errors.New("the API server has no such boot")

// writes is true if a request is expected to change a boot. Without a change the API server is asked in any case, so the first round would only cost its reads. Nil is never.
type writes func(known *v1alpha1.BareMetalBootSpec) bool

// update changes a boot, and writes the change with an optimistic lock. It returns the boot as it is afterwards, nil on an error.
//
// The patch is the look. The first round changes the boot as this process knows it. It counts only if the API server accepts the patch, which proves that the boot is still that
// version. All else is decided by a boot that is read from the API server: a refusal, any other error, and that there is nothing to write. On a conflict that starts again. change
// must have no effect except on the boot and on its own variables, unless live is true.
func (r *bootRecords) update(
	ctx context.Context, key types.NamespacedName, expected writes, change func(boot *v1alpha1.BareMetalBoot, live bool) error,
) (*v1alpha1.BareMetalBoot, error) {
	if written, err := r.updateKnown(ctx, key, expected, change); err != nil || written != nil {
		return written, err
	}
	var written *v1alpha1.BareMetalBoot
	err := retry.RetryOnConflict(conflictBackoff, func() error {
		boot := &v1alpha1.BareMetalBoot{}
		if err := r.apiReader.Get(ctx, key, boot); err != nil {
			if apierrors.IsNotFound(err) {
				err = errors.Join(errNoBoot, err)
			}
			return err
		}
		before := boot.DeepCopy()
		if err := change(boot, true); err != nil {
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

// updateKnown is the first round of update. It returns nil if that does not count.
func (r *bootRecords) updateKnown(
	ctx context.Context, key types.NamespacedName, expected writes, change func(boot *v1alpha1.BareMetalBoot, live bool) error,
) (*v1alpha1.BareMetalBoot, error) {
	boot, err := r.bootOf(ctx, key)
	if err != nil || boot == nil || expected == nil || !expected(&boot.Spec) || r.written.Outdated(boot) > 0 {
		return nil, nil //nolint:nilnil,nilerr // the API server is asked
	}
	before := boot.DeepCopy()
	if err := change(boot, false); err != nil || equality.Semantic.DeepEqual(before.Spec, boot.Spec) {
		return nil, nil //nolint:nilnil,nilerr // the API server is asked
	}
	switch err := r.patch(ctx, before, boot); {
	case err == nil:
		return boot, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // the API server is asked
	default:
		return nil, err
	}
}
