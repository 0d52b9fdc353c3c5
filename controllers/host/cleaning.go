package host

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// cleanUp resets a BMC to the state of a free host: no boot override, and no media in the virtual drives. An override that the provider set is cleared
// even if the BMC does not report it: it could apply to the next machine.
//
// If the BMC refuses to clear the override, that is not retried, and the outcome of the operation says so. The override only makes the server contact
// the boot server, which refuses it. Media that stay in a drive may hold data of the last machine, so failed ejections are counted.
func (e *jobExecutor) cleanUp(ctx context.Context, j job, c bmc.Client) error {
	set := j.lastOverride != nil
	clearErr := j.clearOverrideIfNeeded(ctx, c, bmc.BootMethod(ptr.Deref(j.lastOverride, v1alpha1.BootOverrideStatus{}).Method), set, set)
	var ejectErr error
	if media, ok := c.(bmc.VirtualMedia); ok && bmc.KindOf(clearErr) != bmc.Unauthorized { // one refused login is enough
		if ejectErr = media.EjectMedia(ctx); bmc.KindOf(ejectErr) == bmc.Unsupported {
			ejectErr = nil // a BMC without virtual drives has nothing to eject
		}
	}
	switch { // the first error of the join determines the kind
	case clearErr != nil && !answeredByBMC(clearErr):
		return errors.Join(clearErr, ejectErr)
	case ejectErr != nil && !answeredByBMC(ejectErr):
		return errors.Join(ejectErr, clearErr)
	}
	e.observations.updateByJob(j, func(h *hostObservation) {
		h.noteOverrideCleared(clearErr)
		if ejectErr == nil {
			h.bmc.CleanedAt, h.bmc.CleanUpFailures, h.bmc.CleanUpError, h.bmc.MediaInserted = e.clock.Now(), 0, "", false
			return
		}
		h.bmc.CleanUpFailures++
		h.bmc.CleanUpTriedAt = e.clock.Now()
		h.bmc.CleanUpError = controllers.Clip(maskMedia(ejectErr.Error()), controllers.MaxText)
	})
	if clearErr != nil && ejectErr == nil { // a failed ejection is retried, and ends in a quarantine
		e.events.recordJobEvent(j, corev1.EventTypeWarning, controllers.EventBootOverrideKept, "Release", "The BMC did not clear the boot override: "+maskMedia(clearErr.Error()))
	}
	return asFinal(errors.Join(clearErr, ejectErr))
}
