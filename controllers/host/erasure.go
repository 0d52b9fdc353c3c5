package host

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
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
	recorder  ErasureRecorder
}

// recordErasure writes the record of the erasure in a boot. What became of it is a fact for the lifecycle.
func (r *erasureRecords) recordErasure(ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) lifecycle.ErasureRecord {
	err := r.recorder.Record(ctx, host, boot)
	outcome := lifecycle.RecordFailed
	switch {
	case err == nil:
		outcome = lifecycle.RecordWritten
	case errors.As(err, new(*erasure.UnprovenError)):
		outcome = lifecycle.RecordUnproven
	case r.cannotCreate(ctx, host.Namespace, err):
		outcome = lifecycle.RecordImpossible
	}
	return lifecycle.ErasureRecord{Outcome: outcome, Err: err}
}

// logWithoutRecord logs that a step goes on although the record of the erasure could not be written.
func logWithoutRecord(ctx context.Context, view lifecycle.View, step lifecycle.Step) {
	record := view.Erasure.Record
	switch {
	case record.Outcome != lifecycle.RecordFailed && record.Outcome != lifecycle.RecordImpossible:
	case step.Action == lifecycle.Release:
		ctrl.LoggerFrom(ctx).Error(record.Err, "Released the host without a record of the erasure of its disks")
	default:
		ctrl.LoggerFrom(ctx).Error(record.Err, "Ended the erasure of the disks without a record")
	}
}

// cannotCreate is true if a write failed because the namespace of the host is being deleted, or is gone.
func (r *erasureRecords) cannotCreate(ctx context.Context, namespace string, err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	gone, readErr := namespaceDeleting(ctx, r.apiReader, namespace)
	return readErr == nil && gone
}
