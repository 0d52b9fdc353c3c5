package host

import (
	"context"
	"errors"

	"k8s.io/utils/ptr"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// cleanUp brings a BMC back to what a free host's is: no override, nothing in the virtual drives. One that the provider set is taken
// back even if it does not show: it would hold for the next machine. A BMC that does not take the
// override back is not asked for ever, and the operation's outcome says so: what stands makes the server ask the boot server, which gives it nothing. An
// image that stays in a drive is another matter: it may hold what the last machine knew. How often a BMC refuses to eject it is counted.
func (r *Reconciler) cleanUp(ctx context.Context, j job, c bmc.Client) error {
	set := j.lastOverride != nil
	back := clearOverride(ctx, c, bmc.BootMethod(ptr.Deref(j.lastOverride, v1alpha1.BootOverrideStatus{}).Method), set, set)
	var eject error
	if media, ok := c.(bmc.VirtualMedia); ok && bmc.KindOf(back) != bmc.Unauthorized { // one refused login is enough
		if eject = media.EjectMedia(ctx); bmc.KindOf(eject) == bmc.Unsupported {
			eject = nil // where there is no virtual drive nothing is in it
		}
	}
	switch { // the first error tells the kind
	case back != nil && !answeredByBMC(back):
		return errors.Join(back, eject)
	case eject != nil && !answeredByBMC(eject):
		return errors.Join(eject, back)
	}
	r.updateObservation(j, func(h *hostObservation) {
		h.noteOverrideCleared(back)
		if eject == nil {
			h.bmc.CleanedAt, h.bmc.CleanUpFailures, h.bmc.CleanUpError = r.Clock.Now(), 0, ""
			return
		}
		h.bmc.CleanUpFailures++
		h.bmc.CleanUpTriedAt = r.Clock.Now()
		h.bmc.CleanUpError = controllers.Clip(eject.Error(), controllers.MaxText)
	})
	if eject == nil {
		r.recordJobEvent(j, controllers.EventCleaned, "Release", "The boot override is taken back, and the virtual drives are empty")
	}
	return asFinal(errors.Join(back, eject))
}
