package lifecycle

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// deleteUnclaimed removes the finalizer of an unclaimed host. If a boot is under way, the server is powered off first, unless the provider must not
// command its power. A server that reported in, or that a machine with its provider ID may run on, is left as it is.
func deleteUnclaimed(v View, s Settings) Step {
	stray := v.Host.StrayBoot()
	booting := stray != nil && stray.PoweredOffTime != nil && stray.ReportedTime == nil && v.Claims.UnrecordedConsumer == "" ||
		v.mayRunAgent(s) || v.mayRunEraser(s)
	if !booting || v.Host.Spec.Maintenance != nil || v.Host.Spec.ExternallyProvisioned || v.Host.NamespaceDeleting && v.BMC.secretMissing() {
		return forget(v, s)
	}
	step := Step{Phase: v1alpha1.PhaseDeleting, Reason: v1alpha1.ReasonDeleting}
	unknown := step
	unknown.Message = "The server will be powered off, since a boot is under way. "
	known := step
	switch {
	case v.BMC.Power != v1alpha1.PowerOff:
		change := issueCommand(v, s, ForceOff, CommandForceOff)
		known.Action, known.RequeueAt, known.Message = change.Action, change.RequeueAt, "A boot is under way: the server is being powered off"
	case !v.BMC.confirmedOff(v.Now, s):
		known.RequeueAt, known.Message = v.Now.Add(s.ActiveInterval), unconfirmedOff
	case v.mediaLeft():
		known.Action, known.Message = EjectMedia, "The server is off: its boot medium is being ejected"
	case v.Claims.BootMachinePending: // the boot stays until that machine is gone, so that the machine claims no other host
		known.Action, known.Message = Forget, "The server is off"
	default:
		end := voidBoot(v)
		known.Action, known.Boot, known.Message = end.Action, end.Boot, "The server is off: its boot is over"
	}
	return onceBMCKnown(v, s, s.ActiveInterval, unknown, known)
}

// releaseHost powers the host off and, once that is confirmed, begins its cleaning. If the machine was never provisioned, its operating system may
// not run and could not handle a request to shut down. So the server is switched off at once.
func releaseHost(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseReleasing, Reason: v1alpha1.ReasonReleasing}
	switch {
	case v.Host.Spec.ExternallyProvisioned:
		step.Action, step.Drop, step.Quarantine = Release, v.Requests.Power.All, quarantineUnerased(v, s)
		return step
	case v.releaseOverdue():
		return releaseUnfenced(v, s)
	}
	unknown := step
	unknown.Message = "The server will be powered off. "
	return withReleaseDeadline(v, onceBMCKnown(v, s, s.ActiveInterval, unknown, powerOffForRelease(v, s, step)), s)
}

// powerOffForRelease powers the server off and, once confirmed, records the start of the cleaning. The power is known.
func powerOffForRelease(v View, s Settings, step Step) Step {
	if v.BMC.Power == v1alpha1.PowerOff {
		if !v.BMC.confirmedOff(v.Now, s) {
			step.Message, step.RequeueAt = unconfirmedOff, v.Now.Add(s.ActiveInterval)
			return step
		}
		now := metav1.NewTime(v.Now)
		step.Action, step.CleaningStartTime, step.Message = RecordCleaning, &now, "The server is off"
		return step
	}
	change := changePower(v, s, v1alpha1.PowerOff)
	if (!v.Provisioned() || v.Host.erasure() != nil) && change.Action == ShutDown { // the agent handles no request to shut down either
		change = issueCommand(v, s, ForceOff, CommandForceOff)
	}
	step.Action, step.RequeueAt = change.Action, change.RequeueAt
	step.Message = "The server is being powered off"
	return step
}

// maxCleanUpAttempts is how often in a row a BMC may answer that it cannot eject virtual media before the cleaning fails. The attempts are PowerSettle
// apart, because BMCs answer nonsense while they restart.
const maxCleanUpAttempts = 5

// cleanHost clears the boot override and ejects virtual media of a server that is confirmed off, and then releases the host. If that fails, the host
// goes into quarantine. While the BMC does not answer, the cleaning waits, as the power-off does.
func cleanHost(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseCleaning, Reason: v1alpha1.ReasonCleaning}
	if v.releaseOverdue() {
		return releaseUnfenced(v, s)
	}
	unknown := step
	unknown.Message = "The server will be cleaned. "
	return withReleaseDeadline(v, onceBMCKnown(v, s, s.ActiveInterval, unknown, cleanServer(v, s, step)), s)
}

// cleanServer is cleanHost for a server whose power is known.
func cleanServer(v View, s Settings, step Step) Step {
	switch {
	case erasureDue(v, s):
		return eraseDisks(v, s, step)
	case v.BMC.Power != v1alpha1.PowerOff && v.Host.erasure() != nil:
		step.Action, step.Message = RecordCleaning, "The server is on after the erasure of its disks, so it is powered off"
	case v.BMC.Power != v1alpha1.PowerOff:
		step.Action, step.Message = RecordCleaning, "The server was switched on during its cleaning, so it is powered off again"
	case !v.BMC.confirmedOff(v.Now, s):
		step.Message, step.RequeueAt = unconfirmedOff, v.Now.Add(s.ActiveInterval)
	case v.BMC.CleanedAt.After(v.BMC.LastPowerAt) && v.BMC.CleanedAt.After(v.BMC.NetworkBootSetAt):
		step.Action, step.Drop, step.Message = Release, v.Requests.Power.All, "The server is off and clean"
		step.Quarantine = quarantineUnerased(v, s)
		if step.Quarantine == nil && v.Host.Spec.CleaningPolicy == wire.PolicyManual {
			step.Quarantine = newQuarantine(v, v1alpha1.ReasonCleaningByHand,
				"spec.cleaningPolicy is Manual: the data of the machine is still on the server's disks. Wipe them")
		}
	case v.BMC.CleanUpFailures >= maxCleanUpAttempts, v.BMC.cleaningTimedOut(v.Host.Spec.ProviderState.CleaningStartTime, s):
		step.Action, step.Drop = Release, v.Requests.Power.All
		message := "The server is off, but its virtual media could not be ejected"
		if v.BMC.CleanUpError != "" {
			message += ". The BMC answered: " + v.BMC.CleanUpError
		}
		step.Message, step.Quarantine = message, newQuarantine(v, v1alpha1.ReasonCleaningFailed, message)
	case v.BMC.CleanUpFailures > 0 && v.Now.Before(v.BMC.CleanUpTriedAt.Add(s.PowerSettle)):
		step.Message, step.RequeueAt = "Virtual media could not be ejected: "+v.BMC.CleanUpError, v.BMC.CleanUpTriedAt.Add(s.PowerSettle)
	default:
		step.Action, step.Message = CleanUp, "The boot override is being cleared, and virtual media are being ejected"
	}
	return step
}

// cleaningTimedOut is true when the BMC refused the clean-up after CleaningTimeout. The elapsed time alone proves nothing: the BMC may have been
// unreachable.
func (b BMC) cleaningTimedOut(start *metav1.Time, s Settings) bool {
	return !b.CleanUpTriedAt.Before(start.Add(s.CleaningTimeout))
}

// unfencedReleaseDue is true when a user requests the release without a power-off, and the machine is being deleted or the host is orphaned.
func unfencedReleaseDue(v View) bool {
	return v.Host.Claimed() && v.Requests.ReleaseUnfenced.Set && (v.releasing() || isOrphaned(v))
}

// unfencedReleaseTooEarly is true when a user requests the release without a power-off, and neither the machine nor its owner is being deleted. Such a
// request must not stay. It would leave the server running in a later release, or lose a machine that a move or a restore creates after its host.
func unfencedReleaseTooEarly(v View) bool {
	return v.Host.Claimed() && v.Requests.ReleaseUnfenced.Set && !unfencedReleaseDue(v) && !v.Consumer.OwnerDeleting
}

// releaseOverdue is true when the release takes longer than spec.releaseUnfencedAfterSeconds.
func (v View) releaseOverdue() bool {
	due := v.Consumer.releaseDue(v.Host.Spec.ReleaseUnfencedAfterSeconds)
	return !due.IsZero() && !v.Now.Before(due)
}

// releaseDue is the time at which a release becomes overdue; zero if it never does, or if the host is not being released.
func (c *Consumer) releaseDue(after *int32) time.Time {
	if after == nil || c == nil || c.DeletingSince.IsZero() {
		return time.Time{}
	}
	return c.DeletingSince.Add(seconds(*after))
}

func seconds(n int32) time.Duration { return time.Duration(n) * time.Second }

// withReleaseDeadline adds to a step that waits how a user can end the release, and requeues the host when the release is overdue.
func withReleaseDeadline(v View, step Step, s Settings) Step {
	if step.Action != Release && (v.BMC.Problem != nil || v.Consumer.releaseSlow(v.Now, s)) {
		step.Message += fmt.Sprintf(". The annotation %s=\"who and why\" on the host releases it without a power-off, into quarantine", v1alpha1.ReleaseUnfencedAnnotation)
		if erasureDue(v, s) {
			step.Message += ". Its disks are then not erased"
		}
	}
	if step.Action == "" {
		step.RequeueAt = untilReleaseDue(v, step.RequeueAt)
	}
	return step
}

// untilReleaseDue returns a time, or that at which the release becomes overdue if that is earlier.
func untilReleaseDue(v View, at time.Time) time.Time {
	if due := v.Consumer.releaseDue(v.Host.Spec.ReleaseUnfencedAfterSeconds); due.After(v.Now) && (at.IsZero() || due.Before(at)) {
		return due
	}
	return at
}

// releaseSlow is true when the release takes longer than the power-off of a server that obeys. Such a release may never end: some BMCs acknowledge
// every command and do nothing.
func (c *Consumer) releaseSlow(now time.Time, s Settings) bool {
	return now.Sub(c.DeletingSince) >= s.ShutDownTimeout+3*s.PowerSettle
}

// machineDeletionNote says what the deletion of a machine waits for while its host is not released, and how to end that.
func machineDeletionNote(v View, state State) string {
	if !v.releasing() || v.Consumer.DeletedForMove {
		return ""
	}
	name := v.Host.Spec.ConsumerRef.Name
	switch state {
	case StatePaused, StateDetached:
		return fmt.Sprintf(". The deletion of BareMetalMachine %q waits for that", name)
	case StateMaintenance:
		return fmt.Sprintf(". The deletion of BareMetalMachine %q waits until spec.maintenance is removed. The annotation %s=\"who and why\" on the host "+
			"releases it without a power-off, into quarantine", name, v1alpha1.ReleaseUnfencedAnnotation)
	default:
		return ""
	}
}

// releaseUnfenced releases a host without a power-off, into quarantine: the server may still run the machine.
func releaseUnfenced(v View, _ Settings) Step {
	why := "A user requested that: " + v.Requests.ReleaseUnfenced.why()
	if !v.Requests.ReleaseUnfenced.Set {
		why = fmt.Sprintf("Its machine was deleted at %s, and spec.releaseUnfencedAfterSeconds is %d",
			timestamp(v.Consumer.DeletingSince), *v.Host.Spec.ReleaseUnfencedAfterSeconds)
	}
	message := fmt.Sprintf("The host was released without a confirmed power-off, so the server may still run BareMetalMachine %q. %s. Make sure that the server is off",
		v.Host.Spec.ConsumerRef.Name, why)
	return Step{
		Action: Release, Phase: v1alpha1.PhaseReleasing, Reason: v1alpha1.ReasonReleasing,
		Drop:       append(slices.Clone(v.Requests.Power.All), v1alpha1.ReleaseUnfencedAnnotation),
		Quarantine: newQuarantine(v, v1alpha1.ReasonReleasedUnfenced, message),
	}
}

func newQuarantine(v View, reason, message string) *v1alpha1.Quarantine {
	now := metav1.NewTime(v.Now)
	return &v1alpha1.Quarantine{Reason: reason, Message: message, StartTime: &now}
}
