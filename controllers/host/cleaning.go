package host

import (
	"context"
	"errors"

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
	clearErr := clearOverrideIfNeeded(ctx, c, bmc.BootMethod(ptr.Deref(j.lastOverride, v1alpha1.BootOverrideStatus{}).Method), set, set)
	var ejectErr error
	media, hasDrives := c.(bmc.VirtualMedia)
	if hasDrives && bmc.KindOf(clearErr) != bmc.Unauthorized { // one refused login is enough
		if ejectErr = media.EjectMedia(ctx); bmc.KindOf(ejectErr) == bmc.Unsupported {
			hasDrives, ejectErr = false, nil // a BMC without virtual drives has nothing to eject
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
	if ejectErr == nil {
		e.events.recordJobEvent(j, controllers.EventCleaned, "Release", describeCleanUp(clearErr == nil, hasDrives))
	}
	return asFinal(errors.Join(clearErr, ejectErr))
}

// describeCleanUp says what a clean-up did to the boot override and to the virtual media.
func describeCleanUp(cleared, ejected bool) string {
	switch {
	case cleared && ejected:
		return "Cleared the boot override and ejected the virtual media"
	case cleared:
		return "Cleared the boot override. The BMC has no virtual media"
	case ejected:
		return "Ejected the virtual media, but the BMC did not clear the boot override"
	default:
		return "The BMC has no virtual media, and did not clear the boot override"
	}
}
