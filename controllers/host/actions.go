package host

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// performer performs steps: it writes what they record in hosts and boots, and submits the jobs for their BMCs.
type performer struct {
	client       client.Client
	observations *observations
	writeCache   *controllers.WriteCache[*v1alpha1.BareMetalHost]
	queue        *bootQueue
	boots        *bootRecords
	annotations  *annotationRequests
	settings     *settingsRecords
	jobs         *jobRunner
	events       *eventRecorder
}

// perform performs a step. It returns how long to wait before a retry if the step cannot be performed now. It writes the host's spec and metadata in one
// patch with an optimistic lock: the step was chosen for this version of the host only.
func (p *performer) perform(
	ctx context.Context, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, view lifecycle.View, step lifecycle.Step,
) (time.Duration, error) {
	write := func(change func(*v1alpha1.BareMetalHost)) error {
		changed := host.DeepCopy()
		change(changed)
		for _, annotation := range step.Drop {
			delete(changed.Annotations, annotation)
		}
		err := p.client.Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
		switch {
		case err == nil:
			p.writeCache.Record(changed)
		case apierrors.IsConflict(err):
			p.writeCache.NoteConflict(host, time.Now())
		}
		return err
	}
	switch step.Action {
	case lifecycle.Nothing:
		return 0, p.annotations.dropRetryRequest(ctx, host, view, step)
	case lifecycle.RecordBoot:
		return 0, p.boots.recordBoot(ctx, host, boot, view, step)
	case lifecycle.CountBoot:
		return 0, p.boots.countBoot(ctx, boot, step, write)
	case lifecycle.ForgetBoot:
		return 0, p.boots.forgetBoot(ctx, boot)
	case lifecycle.RecordPowerHold:
		return 0, p.recordHold(ctx, host, step, write)
	case lifecycle.RecordPowerRestore:
		return 0, p.recordPowerRestore(ctx, host, view, step)
	case lifecycle.RecordCleaning:
		p.observations.update(client.ObjectKeyFromObject(host), (*hostObservation).resetCleaning)
		return 0, write(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.CleaningStartTime = step.CleaningStartTime })
	case lifecycle.RecordSettings:
		return 0, p.settings.record(ctx, host, view, step)
	case lifecycle.CountSettings:
		return 0, write(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.SettingsRuns = step.Settings.Number })
	case lifecycle.EndSettings:
		return 0, write(func(h *v1alpha1.BareMetalHost) {
			h.Spec.ProviderState.SettingsRunsEnded = h.Spec.ProviderState.SettingsRuns
		})
	case lifecycle.DropRequests:
		return 0, p.annotations.dropRequests(ctx, host, view, step, write)
	case lifecycle.AllowMove:
		return 0, write(func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.BlockMoveAnnotation) })
	case lifecycle.Release:
		return 0, p.release(ctx, host, view, step, write)
	case lifecycle.Isolate:
		return 0, write(func(h *v1alpha1.BareMetalHost) {
			h.Spec.Quarantine = joinQuarantines(h.Spec.Quarantine, step.Quarantine)
		})
	case lifecycle.Forget:
		return 0, write(func(h *v1alpha1.BareMetalHost) { controllerutil.RemoveFinalizer(h, v1alpha1.HostFinalizer) })
	default:
		return p.jobs.submit(ctx, host, view, step.Action)
	}
}

// release ends the claim of a host.
func (p *performer) release(
	ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, write func(func(*v1alpha1.BareMetalHost)) error,
) error {
	last, err := p.lastConsumer(ctx, host, view.Now)
	if err != nil {
		return err
	}
	return write(func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef, h.Spec.ProviderState.LastConsumer = nil, last
		h.Spec.PowerHolds, h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime, h.Spec.ProviderState.CleaningStartTime = nil, nil, nil, nil // they belonged to this claim
		h.Spec.Quarantine = joinQuarantines(h.Spec.Quarantine, step.Quarantine)
		delete(h.Annotations, v1alpha1.BlockMoveAnnotation)
	})
}

// recordHold records the state of a power hold. After the hold ends, no command that was sent for it can still take effect.
func (p *performer) recordHold(
	ctx context.Context, host *v1alpha1.BareMetalHost, step lifecycle.Step, write func(func(*v1alpha1.BareMetalHost)) error,
) error {
	if err := write(func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime = step.PowerHold.Since, step.PowerHold.OffTime
	}); err != nil {
		return err
	}
	if step.PowerHold.Since == nil {
		p.observations.update(client.ObjectKeyFromObject(host), (*hostObservation).clearPendingPowerOff)
	}
	ctrl.LoggerFrom(ctx).Info("Recorded the power hold",
		"since", fmt.Sprint(step.PowerHold.Since), "offTime", fmt.Sprint(step.PowerHold.OffTime), "message", step.Message) // either may be nil, which klog cannot write
	return nil
}

// lastConsumer returns the record of the machine that a host is released from. It names the owner, so that the next machine of the same owner can claim
// the host again.
func (p *performer) lastConsumer(ctx context.Context, host *v1alpha1.BareMetalHost, now time.Time) (*v1alpha1.LastConsumer, error) {
	consumer, err := controllers.GetConsumer(ctx, p.client, host)
	if err != nil {
		return nil, fmt.Errorf("read the machine that the host is released from: %w", err)
	}
	return &v1alpha1.LastConsumer{Name: host.Spec.ConsumerRef.Name, Owner: claim.Owner(consumer.Objects()...), ReleaseTime: metav1.NewTime(now)}, nil
}

// joinQuarantines returns the quarantine of a released host. The message of a new quarantine includes the earlier one.
func joinQuarantines(before, now *v1alpha1.Quarantine) *v1alpha1.Quarantine {
	if now == nil {
		return before
	}
	both := *now
	if before != nil {
		both.Message = fmt.Sprintf("%s. The host was already in quarantine: %s: %s", now.Message, before.Reason, before.Message)
	}
	both.Message = controllers.Clip(both.Message, controllers.MaxMessage)
	return &both
}
