package lifecycle

import (
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// guard is a correction of the step that the row of a host returned: when the condition is true, do returns the step instead.
type guard struct {
	name string
	when func(View, Step) bool
	do   func(View, Settings, Step) Step
	// message returns the message of that step, from the step before the correction; nil leaves it to do.
	message func(View, Step) string
}

// guards are all corrections. They act in this order, and each sees the step that those before it returned.
var guards = []guard{
	{"say what the deletion of the machine waits for", deletionWaits, keepStep, withDeletionNote},
	{"a waiting move comes first", moveWaits, allowMove, nil},
	{"a release without fencing must not wait", releasesTooEarly, dropUnfencedRelease, nil},
	{"a power request must not wait", keepsPowerRequests, dropPowerRequests, nil},
	{"no command while the BMC cannot be read", commandsUnreadable, awaitBMC, func(v View, _ Step) string { return waitingForBMC(v) }},
	{"the inventory comes before a command", commandsUninspected, inspectFirst, nil},
	{"read the other host of a conflict again", mayMissConflictEnd, pollConflict, nil},
	{"void the boot before the release", releasesOpenBoot, voidBootFirst, nil},
	{"the provider's own server stays on", powersOffOwnServer, keepOwnServerOn, withholdingMessage},
	{"the provider's own server is not offered", offersOwnServer, keepOwnServer, func(View, Step) string { return OwnServerMessage }},
	{"a host with pending settings is not offered", offersPendingSettings, keepPendingSettings, pendingSettingsMessage},
	{"record an erasure before its proof is lost", recordIsDue, recordErasure, nil},
	{"wait for the record of an erasure", recordFailed, repeatRecord, notRecordedMessage},
	{"release a host whose erasure is not proven into quarantine", releasesUnproven, quarantineUnproven, nil},
	{"isolate a host whose requested erasure is not proven", voidsUnproven, isolateUnproven, unprovenMessage},
}

// correct returns the step after all guards.
func correct(v View, s Settings, step Step) Step {
	for _, g := range guards {
		if !g.when(v, step) {
			continue
		}
		corrected := g.do(v, s, step)
		if g.message != nil {
			corrected.Message = g.message(v, step)
		}
		step = corrected
	}
	return step
}

func keepStep(_ View, _ Settings, step Step) Step { return step }

func deletionWaits(v View, step Step) bool { return machineDeletionNote(v, step.State) != "" }

func withDeletionNote(v View, step Step) string {
	return step.Message + machineDeletionNote(v, step.State)
}

// moveAllowedStates are the states in which a host that does not boot allows a move before it does anything else. `clusterctl move` pauses the Cluster before it looks, so a claimed
// host whose boot is over is Paused then. Until then it keeps the annotation: removing it after each boot is a write for a move that seldom comes.
var moveAllowedStates = []State{StatePaused, StateOrphaned, StateDetached, StateMaintenance, StateExternallyProvisioned, StateQuarantined, StateConfiguring, StateFree}

func moveWaits(v View, step Step) bool {
	return v.Host.MoveBlocked && slices.Contains(moveAllowedStates, step.State)
}

// allowMove allows a move. A boot in flight may still succeed even if the provider does not drive it now, as in maintenance. So it blocks the move
// until its deadline, and no longer.
func allowMove(v View, s Settings, step Step) Step {
	if v.InFlight() {
		if deadline := v.Deadline(s); v.Now.Before(deadline) {
			if step.RequeueAt.IsZero() || deadline.Before(step.RequeueAt) {
				step.RequeueAt = deadline
			}
			return step
		}
	}
	step.Action = AllowMove
	return step
}

// releasesTooEarly is true for a request to release the host without a power-off that must not wait for a later release.
func releasesTooEarly(v View, step Step) bool {
	return unfencedReleaseTooEarly(v) && !step.State.ReadOnly() && !moveWaits(v, step)
}

func dropUnfencedRelease(_ View, _ Settings, step Step) Step {
	step.Action, step.Drop = DropRequests, []string{v1alpha1.ReleaseUnfencedAnnotation}
	return step
}

// powerRequestsDroppedStates are the states in which a request for a power cycle or a power-on cannot be met. The request is dropped there, so that
// it does not take effect weeks later, when it is forgotten.
var powerRequestsDroppedStates = []State{
	StateExternallyProvisioned, StateReleasing, StateCleaning, StateQuarantined, StateConfiguring, StateFree, StateLost, StateBootUnknown, StateBootFailed, StateReportedIn,
	StateBooting, StateClaimed,
}

// keepsPowerRequests is true for a step that leaves a request for a power cycle or a power-on that cannot be met. A release removes all requests itself.
func keepsPowerRequests(v View, step Step) bool {
	recordsLoss := step.State == StateLost && step.Action == RecordBoot // the loss is recorded first: a restart forgets the readings that show it
	return len(v.Requests.Power.Once()) > 0 && slices.Contains(powerRequestsDroppedStates, step.State) && step.Action != Release && !recordsLoss &&
		!moveWaits(v, step) && !releasesTooEarly(v, step)
}

func dropPowerRequests(v View, _ Settings, step Step) Step {
	step.Action, step.Drop = DropRequests, v.Requests.Power.Once()
	return step
}

// commandsUninspected is true for a command to a BMC whose inventory was not read yet: a user may have changed the BMC's address to that of another server.
func commandsUninspected(v View, step Step) bool { return step.Action.Commands() && !v.BMC.Inspected }

func inspectFirst(_ View, _ Settings, step Step) Step {
	step.Action = Inspect
	return step
}

func commandsUnreadable(v View, step Step) bool {
	return commandsUninspected(v, step) && v.bmcBlocked()
}

func awaitBMC(v View, _ Settings, step Step) Step {
	step.Action, step.Reason, step.RequeueAt = Nothing, v1alpha1.ReasonWaitingForBMC, v.BMC.Problem.RetryAt
	return step
}

// mayMissConflictEnd is true for a step that waits for an event although the host is in a conflict: a change of the other host does not always enqueue this one.
func mayMissConflictEnd(v View, step Step) bool {
	return (v.Identity.BMCTakenBy != nil || v.Identity.NotPermitted != nil) && step.RequeueAt.IsZero()
}

func pollConflict(v View, s Settings, step Step) Step {
	step.RequeueAt = v.Now.Add(s.PollInterval)
	return step
}

// releasesOpenBoot is true for a release while the boot is not void: an unclaimed host never has an open boot. The boot of a pending machine stays open. That
// machine may be another one than the host's consumer, or one that does not know that its host is released.
func releasesOpenBoot(v View, step Step) bool {
	return step.Action == Release && IsOpen(v.Host.Boot) && !v.Claims.BootMachinePending
}

// voidBootFirst delays a release until the boot is voided.
func voidBootFirst(v View, _ Settings, step Step) Step {
	first := voidBoot(v)
	first.State, first.Phase, first.Reason, first.Message = step.State, step.Phase, step.Reason, step.Message
	return first
}
