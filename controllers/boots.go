package controllers

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	switch {
	case err == nil:
		b.writeCache.Record(boot)
	case apierrors.IsConflict(err):
		b.writeCache.NoteConflict(before, time.Now())
	}
	return err
}

// Outdated returns how long to wait before anything is decided for a boot that Get returned: longer than zero while a write of that version has conflicted.
func (b *Boots) Outdated(boot *v1alpha1.BareMetalBoot) time.Duration {
	if boot == nil {
		return 0
	}
	return b.writeCache.Outdated(boot, time.Now())
}

// ApplyStages is the function ApplyStages, whose result Get returns until the cache shows it: the next write of this process does not conflict with it.
func (b *Boots) ApplyStages(ctx context.Context, c client.Client, boot *v1alpha1.BareMetalBoot, observed ...v1alpha1.ObservedStage) error {
	return b.record(applyStages(ctx, c, boot, observed))
}

// ApplyProblem is the function ApplyProblem, whose result Get returns until the cache shows it.
func (b *Boots) ApplyProblem(ctx context.Context, c client.Client, boot types.NamespacedName, p v1alpha1.BootProblem) error {
	return b.record(applyProblem(ctx, c, boot, p))
}

// ApplyAgentProgress is the function ApplyAgentProgress, whose result Get returns until the cache shows it.
func (b *Boots) ApplyAgentProgress(ctx context.Context, c client.Client, boot types.NamespacedName, p v1alpha1.AgentProgress) error {
	return b.record(applyAgentProgress(ctx, c, boot, p))
}

// record stores the API server's answer to a write of a status.
func (b *Boots) record(answer *v1alpha1.BareMetalBoot, err error) error {
	if err == nil && answer.ResourceVersion != "" {
		b.writeCache.Record(answer)
	}
	return err
}

// Forget drops the entry of a host that is gone.
func (b *Boots) Forget(host types.NamespacedName) { b.writeCache.Forget(host) }
