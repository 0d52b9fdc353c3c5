package host

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// ErasureRecorder writes the BareMetalErasure of a host whose disks were erased.
type ErasureRecorder interface {
	// Record writes the record of the erasure in spec.erasure of the boot. It is idempotent: it is called until it succeeds, and may be called again after that. An
	// error means that the record may be missing.
	Record(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) error
}

// erasureRecords records the erasures of disks, before a step replaces their only proof.
type erasureRecords struct {
	apiReader client.Reader
	clock     clock.PassiveClock
	recorder  ErasureRecorder // nil records none
}

// erasureOf returns true if a boot has the report of an erasure for the claim of its host. A server without disks has nothing to prove.
func erasureOf(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) bool {
	ref := host.Spec.ConsumerRef
	return boot != nil && ref != nil && ref.ClaimID != "" && boot.Spec.ClaimID == ref.ClaimID && boot.Spec.Purpose == v1alpha1.PurposeClean &&
		boot.Spec.Erasure != nil && len(boot.Spec.Erasure.Disks) > 0
}

// recordErasure records the erasure of a host before the host is released. If that fails, the step becomes one that waits, and the error makes the reconcile repeat it:
// the record of the boot, which is the only proof of the erasure, is replaced by the next boot. A report that proves no erasure leads to quarantine. Two releases do not wait: in a namespace that is being deleted nothing
// can be created, and a release without fencing is what a user does if nothing else helps.
func (r *erasureRecords) recordErasure(
	ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, step lifecycle.Step,
) (lifecycle.Step, error) {
	if endsRequestedErasure(boot, step) {
		return r.recordRequestedErasure(ctx, host, boot, step)
	}
	if step.Action != lifecycle.Release || r.recorder == nil || !erasureOf(host, boot) {
		return step, nil
	}
	err := r.recorder.Record(ctx, host, boot)
	if err == nil {
		return step, nil
	}
	var unproven *erasure.UnprovenError
	if errors.As(err, &unproven) {
		if step.Quarantine == nil {
			step.Quarantine = r.quarantineUnproven(err)
		}
		return step, nil
	}
	unfenced := step.Quarantine != nil && step.Quarantine.Reason == v1alpha1.ReasonReleasedUnfenced
	gone := !unfenced && r.cannotCreate(ctx, host.Namespace, err)
	if unfenced || gone {
		ctrl.LoggerFrom(ctx).Error(err, "Released the host without a record of the erasure of its disks")
		return step, nil
	}
	return lifecycle.Step{
		State: step.State, Action: lifecycle.Nothing, Phase: step.Phase, Reason: v1alpha1.ReasonErasureNotRecorded,
		Message: controllers.Clip(fmt.Sprintf("The disks are erased, but the BareMetalErasure could not be written, so the host is not released yet: %v", err), controllers.MaxMessage),
	}, fmt.Errorf("record the erasure of the disks: %w", err)
}

// quarantineUnproven returns the quarantine of a host whose agent reported an erasure that its report does not prove.
func (r *erasureRecords) quarantineUnproven(err error) *v1alpha1.Quarantine {
	now := metav1.NewTime(r.clock.Now())
	message := controllers.Clip(fmt.Sprintf("The agent reported that the disks are erased, but its report proves nothing: %v. Wipe the disks", err), controllers.MaxMessage)
	return &v1alpha1.Quarantine{Reason: v1alpha1.ReasonDisksNotErased, Message: message, StartTime: &now}
}

// cannotCreate is true if a write failed because the namespace of the host is being deleted, or is gone.
func (r *erasureRecords) cannotCreate(ctx context.Context, namespace string, err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	gone, readErr := namespaceDeleting(ctx, r.apiReader, namespace)
	return readErr == nil && gone
}
