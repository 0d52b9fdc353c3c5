package lifecycle

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// release powers the host off and, once that is confirmed, begins its cleaning. A server whose operating system never came up is
// not asked to shut down: it would not hear.
func release(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseReleasing, Reason: v1alpha1.ReasonReleasing}
	switch {
	case v.Spec.ExternallyProvisioned:
		step.Action, step.Drop = Release, v.PowerRequests.All
		return step
	case v.overdue():
		return releaseUnfenced(v, s)
	}
	unknown := step
	unknown.Message = "To be powered off. "
	return v.untilOverdue(first(v, s, s.ActiveInterval, unknown, released(v, s, step)), s)
}

// released is release for a host whose power is known.
func released(v View, s Settings, step Step) Step {
	if v.BMC.Power == v1alpha1.PowerOff {
		if !v.confirmedOff(s) {
			step.Message, step.Again = "The server is off, which is being confirmed", v.Now.Add(s.ActiveInterval)
			return step
		}
		now := metav1.NewTime(v.Now)
		step.Action, step.CleaningStartedAt, step.Message = RecordCleaning, &now, "The server is off"
		return step
	}
	change := bringPower(v, s, v1alpha1.PowerOff)
	if !v.Provisioned() && change.Action == ShutDown {
		change = command(v, s, ForceOff, CommandForceOff)
	}
	step.Action, step.Again = change.Action, change.Again
	step.Message = "The server is being powered off"
	return step
}

// cleanUpAttempts is how often a BMC may answer that it cannot eject virtual media before the cleaning has failed. It is asked every PowerSettle: BMCs
// answer nonsense while they restart.
const cleanUpAttempts = 5

// clean removes what the machine left behind, from a server that was confirmed to be off, and gives the host back. A cleaning that fails
// puts the host into quarantine. While the BMC does not answer it waits, as the power-off does.
func clean(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseCleaning, Reason: v1alpha1.ReasonCleaning}
	if v.overdue() {
		return releaseUnfenced(v, s)
	}
	unknown := step
	unknown.Message = "To be cleaned. "
	return v.untilOverdue(first(v, s, s.ActiveInterval, unknown, cleanKnown(v, s, step)), s)
}

// cleanKnown is clean for a host whose power is known.
func cleanKnown(v View, s Settings, step Step) Step {
	switch {
	case v.BMC.Power != v1alpha1.PowerOff:
		step.Action, step.Message = RecordCleaning, "Somebody switched the server on: it is powered off again"
	case !v.confirmedOff(s):
		step.Message, step.Again = "The server is off, which is being confirmed", v.Now.Add(s.ActiveInterval)
	case v.BMC.CleanedAt.After(v.BMC.LastPowerAt) && v.BMC.CleanedAt.After(v.BMC.NetworkBootSetAt):
		step.Action, step.Drop, step.Message = Release, v.PowerRequests.All, "The server is off and clean"
		if v.Spec.CleaningPolicy == v1alpha1.CleaningManual {
			step.Quarantine = v.quarantined(v1alpha1.ReasonCleaningByHand, "spec.cleaningPolicy is Manual: what the machine put on the server's disks is still there. Wipe them")
		}
	case v.BMC.CleanUpFailures >= cleanUpAttempts, v.cleaningTimedOut(s):
		step.Action, step.Drop = Release, v.PowerRequests.All
		message := "The server is off, but what is in its virtual drives could not be ejected"
		if v.BMC.CleanUpError != "" {
			message += ". It answered: " + v.BMC.CleanUpError
		}
		step.Message, step.Quarantine = message, v.quarantined(v1alpha1.ReasonCleaningFailed, message)
	case v.BMC.CleanUpFailures > 0 && v.Now.Before(v.BMC.CleanUpTriedAt.Add(s.PowerSettle)):
		step.Message, step.Again = "Virtual media could not be ejected: "+v.BMC.CleanUpError, v.BMC.CleanUpTriedAt.Add(s.PowerSettle)
	default:
		step.Action, step.Message = CleanUp, "The boot override is being taken back and virtual media ejected"
	}
	return step
}

// cleaningTimedOut is true when the BMC still refused after the time that a cleaning may take. The time alone says nothing: the BMC may have been away.
func (v View) cleaningTimedOut(s Settings) bool {
	return !v.BMC.CleanUpTriedAt.Before(v.Spec.CleaningStartedAt.Add(s.CleaningTimeout))
}

// letGo is true when a person wants the host let go as it is, and its machine gives it up or is not there to ask.
func (v View) letGo() bool {
	return v.Claimed() && v.ReleaseUnfenced != "" && (v.releasing() || orphaned(v))
}

// unfencedEarly is true when a person wants a host let go whose machine does not give it up. That wish must not wait: it would let the server of a
// later release run on, or lose a machine that a move or a backup brings after its host.
func (v View) unfencedEarly() bool {
	return v.Claimed() && v.ReleaseUnfenced != "" && !v.letGo() && !v.Consumer.OwnerDeleting
}

// overdue is true when the release took longer than the host's spec wants to wait.
func (v View) overdue() bool {
	after := v.Spec.ReleaseUnfencedAfterSeconds
	return after != nil && !v.Now.Before(v.Consumer.DeletingSince.Add(seconds(*after)))
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// untilOverdue tells what ends a release that waits, and looks again when it is overdue.
func (v View) untilOverdue(step Step, s Settings) Step {
	if step.Action != Release && (v.BMC.Problem != nil || v.slow(s)) {
		step.Message += fmt.Sprintf(". The annotation %s=\"who and why\" on the host lets it go as it is, into quarantine", v1alpha1.ReleaseUnfencedAnnotation)
	}
	if after := v.Spec.ReleaseUnfencedAfterSeconds; after != nil && step.Action == "" {
		if due := v.Consumer.DeletingSince.Add(seconds(*after)); step.Again.IsZero() || due.Before(step.Again) {
			step.Again = due
		}
	}
	return step
}

// slow is true when the release takes longer than the power-off of a server that obeys, so that it may take for ever: some BMCs acknowledge every
// command, and do nothing.
func (v View) slow(s Settings) bool {
	return v.Now.Sub(v.Consumer.DeletingSince) >= s.ShutDownTimeout+3*s.PowerSettle
}

// deletionWaits tells what the deletion of a machine waits for where its host is not being released, and what ends that.
func (v View) deletionWaits(state State) string {
	if !v.releasing() || v.Consumer.DeletedForMove {
		return ""
	}
	name := v.Spec.ConsumerRef.Name
	switch state {
	case StatePaused, StateDetached:
		return fmt.Sprintf(". BareMetalMachine %q is being deleted, and waits for that", name)
	case StateMaintenance:
		return fmt.Sprintf(". BareMetalMachine %q is being deleted, and waits until spec.maintenance is removed. The annotation %s=\"who and why\" on the host lets "+
			"it go as it is, into quarantine", name, v1alpha1.ReleaseUnfencedAnnotation)
	default:
		return ""
	}
}

// releaseUnfenced lets a host go without a power-off, into quarantine: the server may still run the machine.
func releaseUnfenced(v View, _ Settings) Step {
	why := "A person wanted it: " + v.ReleaseUnfenced
	if v.ReleaseUnfenced == "" {
		why = fmt.Sprintf("Its machine was deleted at %s, and spec.releaseUnfencedAfterSeconds is %d", timestamp(v.Consumer.DeletingSince), *v.Spec.ReleaseUnfencedAfterSeconds)
	}
	return Step{
		Action: Release, Phase: v1alpha1.PhaseReleasing, Reason: v1alpha1.ReasonReleasing, Drop: append(slices.Clone(v.PowerRequests.All), v1alpha1.ReleaseUnfencedAnnotation),
		Quarantine: v.quarantined(v1alpha1.ReasonReleasedUnfenced, fmt.Sprintf("The host was let go without a confirmed power-off, so the server may still run BareMetalMachine %q. %s. "+
			"Make sure that it is off", v.Spec.ConsumerRef.Name, why)),
	}
}

func (v View) quarantined(reason, message string) *v1alpha1.Quarantine {
	now := metav1.NewTime(v.Now)
	return &v1alpha1.Quarantine{Reason: reason, Message: message, Since: &now}
}

// confirmedOff is true when a server that was read as powered off is so: after a command that switches it off, or when it was
// read so twice. One reading is not enough: BMCs answer nonsense while they restart, and "off" for some seconds after "on". Where this
// process gave no command yet, the one before it may have switched the server on, which takes its time to be seen.
func (v View) confirmedOff(s Settings) bool {
	apart := s.ActiveInterval
	switch v.BMC.LastPower {
	case CommandForceOff, CommandShutDown:
		return true
	case CommandPowerOn:
		if v.Now.Before(v.BMC.LastPowerAt.Add(s.PowerSettle)) {
			return false
		}
	default:
		apart = max(apart, s.PowerSettle)
	}
	return v.BMC.PowerAt.Sub(v.BMC.PowerSince) >= apart
}
