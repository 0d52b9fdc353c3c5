package host

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots/status,verbs=patch

// bootRecords reads and writes the BareMetalBoots of hosts. A boot that this process wrote is read as it was written, until the cache shows it.
type bootRecords struct {
	client    client.Client // reads from the cache
	apiReader client.Reader
	clock     clock.PassiveClock
	queue     *bootQueue
	reports   *agentReports
	written   controllers.Boots
}

// get returns the boot of a host as this process knows it, or nil if there is no boot.
func (r *bootRecords) get(ctx context.Context, host types.NamespacedName) (*v1alpha1.BareMetalBoot, error) {
	return r.written.Get(ctx, r.client, host)
}

// forgetWritten drops what this process wrote to the boot of a host.
func (r *bootRecords) forgetWritten(host types.NamespacedName) { r.written.Forget(host) }

// newBoot returns the BareMetalBoot of a host.
func newBoot(host *v1alpha1.BareMetalHost, spec v1alpha1.BareMetalBootSpec) *v1alpha1.BareMetalBoot {
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}, Spec: spec}
	setOwner(boot, host)
	return boot
}

// setOwner makes a host the owner of its boot, and adds the finalizer. It reports whether it changed the boot.
//
// It restores a missing reference, because backup tools remove references, and replaces one with another UID, because a restored host has a new UID. The
// reference does not block the deletion of the host: the boot outlives the host.
func setOwner(boot *v1alpha1.BareMetalBoot, host *v1alpha1.BareMetalHost) bool {
	owner := controllers.OwnedByHost(host)
	changed := boot.DeletionTimestamp.IsZero() && controllerutil.AddFinalizer(boot, v1alpha1.BootFinalizer)
	if slices.ContainsFunc(boot.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == owner.Kind && o.UID == owner.UID }) {
		return changed
	}
	boot.OwnerReferences = slices.DeleteFunc(boot.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == owner.Kind })
	boot.OwnerReferences = append(boot.OwnerReferences, owner)
	return true
}

// ensureOwner restores a missing owner reference or finalizer of a boot, and a missing owner of a report.
func (r *bootRecords) ensureOwner(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, step lifecycle.Step) error {
	if boot == nil || step.State.ReadOnly() {
		return nil
	}
	if err := r.reports.ensureReportOwner(ctx, host); err != nil {
		return err
	}
	before := boot.DeepCopy()
	if !setOwner(boot, host) {
		return nil
	}
	return r.written.Patch(ctx, r.client, before, boot)
}

// recordBoot writes the record of a boot, and creates the BareMetalBoot if it is missing.
func (r *bootRecords) recordBoot(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, view lifecycle.View, step lifecycle.Step) error {
	r.queue.holdBootSlot(host, view, step)
	switch err := r.writeBoot(ctx, host, boot, *step.Boot); {
	case isRejected(err):
		r.queue.Release(client.ObjectKeyFromObject(host), view.Now)
		return err
	case err != nil: // the next reconcile shows whether the boot was recorded
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Recorded the boot", "number", step.Boot.Number, "attempt", step.Boot.Attempt, "reason", step.Reason, "message", step.Message)
	if step.Boot.Failure != nil {
		logStatusError(ctx, controllers.ApplyFailure(ctx, r.client, client.ObjectKeyFromObject(host), step.Boot.Failure.Reason))
	}
	return nil
}

// isRejected is true for an error with which the API server says that it did not write the object, and which a retry does not resolve soon.
func isRejected(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsTooManyRequests(err)
}

func (r *bootRecords) writeBoot(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, spec v1alpha1.BareMetalBootSpec) error {
	if boot == nil {
		return r.client.Create(ctx, newBoot(host, spec))
	}
	changed := boot.DeepCopy()
	changed.Spec = spec
	setOwner(changed, host)
	return r.written.Patch(ctx, r.client, boot, changed)
}

// countBoot sets the host's boot count to the number of the boot, which puts the boot under way, and blocks a move until the boot ends. If the status of the boot shows an
// earlier one, the stage Started replaces that.
func (r *bootRecords) countBoot(ctx context.Context, boot *v1alpha1.BareMetalBoot, step lifecycle.Step, write func(func(*v1alpha1.BareMetalHost)) error) error {
	err := write(func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.Boots = step.Boot.Number
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		if step.Boot.Purpose == v1alpha1.PurposeProvision { // the erasure of disks may take longer than clusterctl waits, and is repeated after a move
			h.Annotations[v1alpha1.BlockMoveAnnotation] = "capbm: a boot is under way"
		}
	})
	if err == nil && boot.Status.Stage != "" { // the status of a host's first boot shows nothing that is outdated
		logStatusError(ctx, r.written.ApplyStages(ctx, r.client, boot, controllers.NewStageAt(boot, v1alpha1.StageStarted, r.clock.Now())))
	}
	return err
}

// logStatusError logs a failed write of a boot's status. Nothing depends on that status, and the next stage writes it again.
func logStatusError(ctx context.Context, err error) {
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to write the status of the boot")
	}
}

// forgetBoot removes the finalizer of a boot that is being deleted.
func (r *bootRecords) forgetBoot(ctx context.Context, boot *v1alpha1.BareMetalBoot) error {
	before := boot.DeepCopy()
	if !controllerutil.RemoveFinalizer(boot, v1alpha1.BootFinalizer) {
		return nil
	}
	return client.IgnoreNotFound(r.written.Patch(ctx, r.client, before, boot))
}

// forgetBootOfDeletedHost removes the finalizer of a boot whose host is gone, when the garbage collector or the namespace controller deletes the boot.
// It keeps a boot that is not being deleted: its host may be about to be restored. It also keeps a boot that served bootstrap data to a machine which
// would otherwise get the data again with another host.
func (r *bootRecords) forgetBootOfDeletedHost(ctx context.Context, host types.NamespacedName) error {
	boot, err := controllers.GetBoot(ctx, r.client, host)
	if err != nil || boot == nil || boot.DeletionTimestamp.IsZero() {
		return err
	}
	err = r.apiReader.Get(ctx, host, &v1alpha1.BareMetalHost{}) // the cache may be stale
	if apierrors.IsNotFound(err) && lifecycle.IsOpen(&boot.Spec) {
		if waits, readErr := bootMachineWaits(ctx, r.client, host.Namespace, &boot.Spec); readErr != nil || waits {
			return readErr
		}
	}
	switch {
	case apierrors.IsNotFound(err):
		return r.forgetBoot(ctx, boot)
	case err != nil:
		return fmt.Errorf("read the host of a boot that is being deleted: %w", err)
	default:
		return nil
	}
}
