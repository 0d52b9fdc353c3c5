package lifecycle

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// stayProvisioned only polls a provisioned host, and reports what is wrong with its power. It polls more often while that is not decided.
func stayProvisioned(v View, s Settings) Step {
	if v.awaitsPowerReading() || v.Now.Before(v.PowerLoss.restoreUntil(v.Now)) {
		s.PollInterval = s.ActiveInterval
	}
	step := pollBMC(v, s)
	step.Phase, step.Reason, step.Message = v1alpha1.PhaseProvisioned, "", ""
	switch run := v.openRun(); {
	case !v.BIOS.On || !v.Host.settingsRunOpen():
	case run == nil: // its server may be off because of the run
		step = withNote(restorePower(v, reportPower(v, step), s), lostRun(v))
		step.Reason = cmp.Or(step.Reason, v1alpha1.ReasonSettingsUnknown)
		return step
	case run.RequestedBy != "": // its maintenance has ended
		return driveMachineRun(v, s, step)
	}
	return restorePower(v, reportPower(v, readDrift(v, s, step)), s)
}

// minOffForStateLost is how long a server must read as powered off before the contents of its memory count as lost: BMCs answer nonsense while
// they restart.
const minOffForStateLost = 30 * time.Second

// stateLost is true when a machine that ran from memory was powered off, or restarted. A request of firmware alone does not prove a restart, since
// any client on the network can send one: the server's Node must have been lost too.
func stateLost(v View) bool {
	ephemeral := v.Consumer.Persistence == v1alpha1.PersistenceEphemeral
	switch b := v.Host.CurrentBoot(); {
	case b != nil && b.Purpose == v1alpha1.PurposeClean: // the server was powered off for its release, which a move forgot
		return ephemeral
	case b != nil && b.Failure != nil:
		return true
	}
	return ephemeral && (v.offLongEnough() || v.restarted() && !v.Observed.NodeLostAt.IsZero())
}

// restartMargin is how much later than the report a request of firmware must be to count as a restart: different clocks may have timed the two.
const restartMargin = 30 * time.Second

// restarted is true when firmware requested a network boot after the machine, which runs from memory, had reported in.
func (v View) restarted() bool {
	b := v.Host.CurrentBoot()
	return b != nil && b.ReportedTime != nil && v.restartedAfter(b.ReportedTime.Time)
}

// restartedAfter is true when firmware requested a network boot after a time, and the machine runs from memory.
func (v View) restartedAfter(then time.Time) bool {
	return v.Consumer != nil && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral && v.Observed.RestartedAt.After(then.Add(restartMargin))
}

// offLongEnough is true when the server read as powered off for at least minOffForStateLost.
func (v View) offLongEnough() bool { return v.offFor() >= minOffForStateLost }

// recordStateLoss records that the machine's state in memory is lost. It is recorded because the server may be powered on again.
func recordStateLoss(v View, s Settings) Step {
	how := "powered off"
	if !v.offLongEnough() && v.restarted() {
		how = "restarted"
	}
	message := fmt.Sprintf("The machine ran from memory and its server was %s: delete the Machine to have it replaced", how)
	current := v.Host.CurrentBoot()
	erased := current != nil && current.Purpose == v1alpha1.PurposeClean // a move forgot that the machine was being deleted
	switch {
	case erased:
		message = erasureStarted
	case current != nil && current.Failure != nil:
		message = current.Failure.Message
	}
	step := pollBMC(v, s)
	switch {
	case erased:
	case current == nil:
		step = failBoot(*newBoot(v, 1), v1alpha1.ReasonStateLost, message)
	case current.Failure == nil:
		step = failBoot(*current, v1alpha1.ReasonStateLost, message)
	}
	step.Phase, step.Reason, step.Message = v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost, message
	return step
}

// erasureStarted is the message for a machine that is not being deleted any more although the erasure of its disks was started.
const erasureStarted = "The erasure of the machine's disks was started. Delete the Machine to have it replaced"

func stayBootFailed(v View, s Settings) Step {
	step := pollBMC(v, s)
	if v.Host.Boot.Failure == nil { // a move forgot that the machine was being deleted
		step.Phase, step.Reason = v1alpha1.PhaseBootFailed, v1alpha1.ReasonCleaning
		step.Message = erasureStarted
		return step
	}
	step.Phase, step.Reason, step.Message = v1alpha1.PhaseBootFailed, v.Host.Boot.Failure.Reason, v.Host.Boot.Failure.Message
	return step
}

// awaitProviderID waits for the machine to get its provider ID. From then on the server gets no command at all, so a remaining boot override is
// cleared before, and a boot medium is ejected, if the BMC can be reached.
func awaitProviderID(v View, _ Settings) Step {
	step := Step{Phase: v1alpha1.PhaseBooting, Reason: v1alpha1.ReasonWaitingForMachine, Message: "The server reported in"}
	switch {
	case v.BMC.OverrideSet && !v.BMC.Busy && !v.bmcBlocked():
		step.Action = ClearBootOverride
	case v.mediaLeft():
		step.Action = EjectMedia
	case v.BMC.OverrideSet && v.bmcBlocked(), v.BMC.MediaInserted && v.bmcBlocked():
		step.RequeueAt = v.BMC.Problem.RetryAt
	}
	return step
}

// prepareBoot begins the first boot attempt when everything that it needs exists. It begins none if the machine's owner is being deleted: the machine
// would join its cluster only to be drained again.
func prepareBoot(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseClaimed}
	if v.Host.InspectionBoot() != nil || v.Host.ConfigureBoot() != nil && !v.Host.settingsRunOpen() {
		step.Reason = v1alpha1.ReasonPreparing
		return endInspection(v, s, step)
	}
	if v.Host.RequestedErasureBoot() != nil {
		step.Reason = v1alpha1.ReasonErasing
		return eraseOnRequest(v, s, step)
	}
	if v.Host.Deleting {
		step.Reason, step.Message = v1alpha1.ReasonDeleting, "The host is being deleted, so it is not booted"
		return step
	}
	if v.Consumer.OwnerDeleting {
		step.Reason, step.Message = v1alpha1.ReasonDeleting, "The Machine or its Cluster is being deleted, so the host is not booted for it"
		return step
	}
	if v.Host.settingsRunOpen() {
		step.Reason = v1alpha1.ReasonConfiguring
		return configure(v, s, step)
	}
	if !v.Consumer.BootstrapReady {
		step.Reason, step.Message = v1alpha1.ReasonWaitingForBootstrapData, "Waiting for the bootstrap provider to write the bootstrap data"
		return step
	}
	if v.Consumer.Image && !v.Observed.Image.Ready {
		step.Reason, step.Message = v.Observed.Image.waiting()
		return step
	}
	unknown := step
	unknown.Reason = v1alpha1.ReasonPreparing
	known, maxAge := beginFirstAttempt(v, s, step), s.ActiveInterval
	if known.Reason == v1alpha1.ReasonWaitingForBootSlot {
		maxAge = s.PollInterval // the power is read again before the boot begins
	}
	return onceBMCKnown(v, s, maxAge, unknown, known)
}

// beginFirstAttempt begins the first boot attempt of a host whose power is known, unless a conflict, a missing capability or a running server
// prevents it.
func beginFirstAttempt(v View, s Settings, step Step) Step {
	if v.Identity.hasConflict() {
		step.Reason, step.Message = Conflict(v)
		step.RequeueAt = v.Now.Add(s.PollInterval) // as in Next
		return step
	}
	if v.Incapable() {
		step.Reason, step.Message, step.RequeueAt = v1alpha1.ReasonCapabilityMissing, MissingCapabilityMessage(v), v.nextInspection(s)
		if v.inspectionDue(s) {
			step.Action = Inspect
		}
		return step
	}
	if len(v.Claims.SharesConsumerWith) > 0 {
		step.Reason, step.RequeueAt = v1alpha1.ReasonConsumerConflict, v.Now.Add(s.PollInterval)
		step.Message = fmt.Sprintf("The machine has host %s too, so neither is booted. Remove spec.consumerRef from one of them",
			strings.Join(v.Claims.SharesConsumerWith, ", "))
		return step
	}
	if v.Claims.DataServedOn != "" {
		step.Reason, step.RequeueAt = v1alpha1.ReasonConsumerConflict, v.Now.Add(s.PollInterval)
		step.Message = fmt.Sprintf("The server of host %s already got the bootstrap data of the machine, so this host is not booted for it. "+
			"Remove spec.consumerRef, or delete the Machine", v.Claims.DataServedOn)
		return step
	}
	if v.BMC.notOff() && v.Host.Spec.Power != v1alpha1.PowerOn {
		step.Reason = v1alpha1.ReasonPoweredOn
		step.Message = "The server is on although the provider did not start it, so it may be in use. Power it off to have it booted for its machine"
		step.RequeueAt = v.BMC.PowerAt.Add(s.ActiveInterval)
		return step
	}
	if v.QueuePosition != nil {
		return v.QueuePosition.wait(v, step)
	}
	return beginAttempt(v, 1)
}

// beginAttempt records a new boot attempt.
func beginAttempt(v View, attempt int32) Step {
	boot := newBoot(v, attempt)
	return Step{
		Action: RecordBoot, Boot: boot, Phase: v1alpha1.PhaseBooting,
		Reason: v1alpha1.ReasonPreparing, Message: attemptName(*boot) + " begins",
	}
}

// newBoot returns the record of a boot of the claim that starts now.
func newBoot(v View, attempt int32) *v1alpha1.BareMetalBootSpec {
	boot := newRecord(v, attempt, v1alpha1.PurposeProvision)
	boot.ClaimID, boot.MachineName, boot.Agent = v.Host.Spec.ConsumerRef.ClaimID, v.Host.Spec.ConsumerRef.Name, v.Consumer.Image
	if last := v.Host.CurrentBoot(); last != nil {
		boot.CommittedNumber = committedNumber(last)
	}
	return boot
}

// failBoot records that a boot failed.
func failBoot(attempt v1alpha1.BareMetalBootSpec, reason, message string) Step {
	attempt.Failure = &v1alpha1.BootFailure{Reason: reason, Message: message}
	return Step{Action: RecordBoot, Boot: &attempt, Phase: v1alpha1.PhaseBootFailed, Reason: reason, Message: message}
}

// bootHost drives a boot: power off, set network boot, power on, await the stages. Before poweredOffTime it commands only "off", and after that only
// "on". So a restart of the provider never power-cycles a booting server.
func bootHost(v View, s Settings) Step {
	attempt := *v.Host.Boot
	if !v.Host.bootCounted() {
		return Step{
			Action: CountBoot, Boot: &attempt, Phase: v1alpha1.PhaseBooting, Reason: v1alpha1.ReasonPreparing,
			Message: attemptName(attempt) + " begins",
		}
	}
	if failsForGood(v, s, attempt) {
		return failBoot(attempt, v.Observed.Problem.Reason, v.Observed.Problem.Message+". Another attempt would fail the same way. "+remedyOf(v.Observed.Problem.Reason))
	}
	deadline := v.Deadline(s)
	switch {
	case attemptOver(v, s, attempt) != "":
		return endAttempt(v, s, attempt, attemptOver(v, s, attempt))
	case !v.Now.Before(deadline):
		return endAttempt(v, s, attempt, describeTimeout(v, s, attempt))
	}
	step := driveAttempt(v, s, attempt)
	if step.Phase == "" {
		step.Phase = v1alpha1.PhaseBooting
	}
	if step.Reason == "" {
		step.Reason = v1alpha1.ReasonPreparing
	}
	if step.Action == "" && (step.RequeueAt.IsZero() || step.RequeueAt.After(deadline)) {
		step.RequeueAt = deadline
	}
	return untilMethodDeadline(v, s, attempt, step)
}

// driveAttempt returns the next step of an attempt that is not over.
func driveAttempt(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) Step {
	maxAge := s.ActiveInterval
	if attempt.PoweredOffTime != nil && v.BMC.Power == v1alpha1.PowerOn {
		// The server is booting. Its requests show the progress, so the power is read less often.
		maxAge = 6 * s.ActiveInterval
	}
	return onceBMCKnown(v, s, maxAge, Step{}, bootFromNetwork(v, s, attempt, maxAge))
}

// bootFromNetwork powers the server off, sets the method of the boot, and powers the server on. The server's power is known.
func bootFromNetwork(v View, s Settings, attempt v1alpha1.BareMetalBootSpec, maxAge time.Duration) Step {
	off := v.BMC.Power == v1alpha1.PowerOff
	switch {
	case attempt.PoweredOffTime == nil && !off:
		step := issueCommand(v, s, ForceOff, CommandForceOff)
		step.Message = "The server is being powered off"
		return step
	case attempt.PoweredOffTime == nil:
		now := metav1.NewTime(v.Now)
		attempt.PoweredOffTime = &now
		return Step{Action: RecordBoot, Boot: &attempt, Message: "The server is off"}
	case attempt.PoweredOnTime == nil && v.BMC.powerChanging():
		return Step{Message: "The server is powering on or off without a command from the provider", RequeueAt: v.Now.Add(s.ActiveInterval)}
	case !off && attempt.PoweredOnTime == nil: // powered on by something other than the provider
		now := metav1.NewTime(v.Now)
		attempt.PoweredOnTime = &now
		return Step{Action: RecordBoot, Boot: &attempt, Message: "The server is on, although the provider did not power it on"}
	case !off:
		step := describeProgress(v, attempt)
		step.RequeueAt = v.BMC.PowerAt.Add(maxAge)
		switch {
		case v.BMC.OverrideSet && (bootLoaderRuns(v) || !mayRepeat(attempt)):
			step.Action = ClearBootOverride
		case !mayRepeat(attempt) && v.mediaLeft(): // what runs is in memory or on the disk, and the next boot is from the disk
			step.Action = EjectMedia
		}
		return step
	case v.Observed.agentRan(attempt) && !v.BMC.confirmedOff(v.Now, s):
		return Step{Message: unconfirmedOff, RequeueAt: v.Now.Add(s.ActiveInterval)}
	case v.Consumer.ranFromMemory(attempt) && !v.offLongEnough():
		return Step{Message: unconfirmedOff, RequeueAt: v.Now.Add(s.ActiveInterval)}
	case v.Consumer.ranFromMemory(attempt):
		return failBoot(attempt, v1alpha1.ReasonStateLost,
			"The server was powered off after it got its bootstrap data and before it reported in. Delete the Machine to have it replaced")
	case mayRepeat(attempt) && !v.networkBootPending(s, attempt) && v.BMC.needsConfirmedOff(attempt) && !v.BMC.confirmedOff(v.Now, s):
		return Step{Message: unconfirmedOff, RequeueAt: v.Now.Add(s.ActiveInterval)}
	case mayRepeat(attempt) && !v.networkBootPending(s, attempt):
		return Step{Action: SetNetworkBoot, Message: "The next boot is being set to " + describeMethod(attempt)}
	case !mayRepeat(attempt) && v.mediaLeft() && v.BMC.confirmedOff(v.Now, s):
		return Step{Action: EjectMedia, Message: "The boot medium is being ejected"}
	case attempt.PoweredOnTime == nil:
		now := metav1.NewTime(v.Now)
		attempt.PoweredOnTime = &now
		return Step{Action: RecordBoot, Boot: &attempt, Message: "The server will be powered on"}
	default:
		step := issueCommand(v, s, PowerOn, CommandPowerOn)
		step.Message = "The server is being powered on"
		return step
	}
}

// ranFromMemory is true once an operating system that runs from memory has got its bootstrap data. A boot without a machine never has, whatever the boot server
// writes to it.
func (c *Consumer) ranFromMemory(attempt v1alpha1.BareMetalBootSpec) bool {
	return attempt.Purpose == v1alpha1.PurposeProvision && attempt.DataServedTime != nil && c.Persistence == v1alpha1.PersistenceEphemeral
}

// networkBootPending is true when the next power-on of the attempt will boot from the network. If the server went on and off again since the
// override was set, the override is used up, and the server would boot its disk.
func (v View) networkBootPending(s Settings, attempt v1alpha1.BareMetalBootSpec) bool {
	set := v.BMC.NetworkBootSetAt
	if set.IsZero() || v.BMC.NetworkBootNumber != attempt.Number || v.BMC.CleanedAt.After(set) { // a release clears it, maybe in the second in which the next boot starts
		return false
	}
	// The clock was set back since: it may be the override of an earlier boot. Only the wall time shows that, and the times in the record have no other.
	if set.Round(0).After(v.Now.Round(0).Add(time.Second)) {
		return false
	}
	if set.Before(attempt.PoweredOffTime.Time) && !recordedInFuture(v.Now, attempt.PoweredOffTime) {
		return false
	}
	// The server may have gone on and off between two readings of the power. Then the boot server observed a stage. The stage's time has whole
	// seconds, and it must be older than the reading, or the power-on is about to be repeated: a server that boots may still read as off for some seconds.
	at, settled := v.Observed.Furthest.Time.Time, !v.Now.Before(v.BMC.LastPowerAt.Add(s.PowerSettle))
	ran := v.Observed.Furthest.Stage != "" && !v.Observed.onlyBMCSeen(attempt) && !at.Before(set.Truncate(time.Second)) && !at.After(v.Now)
	seen := ran && (settled || v.BMC.PowerAt.After(at.Add(time.Second)))
	usedUp := v.BMC.LastPower == CommandPowerOn && v.BMC.LastPowerAt.After(set) && (seen || v.BMC.PowerSince.After(v.BMC.LastPowerAt))
	return !usedUp
}

// recordedInFuture is true for a time in the spec that is in the future, because the clock was set back since. No observation would be later than
// that time until the clock has caught up, so observations are not compared with it.
func recordedInFuture(now time.Time, t *metav1.Time) bool {
	return t != nil && t.After(now.Add(time.Second))
}

// bootLoaderRuns is true when the boot loader runs, so the override took effect.
func bootLoaderRuns(v View) bool { return v.Observed.bootedMedium() }
