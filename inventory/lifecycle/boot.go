package lifecycle

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// run leaves a provisioned host alone. One that should run from memory and is off is looked at more often.
func run(v View, s Settings) Step {
	if v.Consumer.Persistence == v1alpha1.PersistenceEphemeral && v.BMC.Power == v1alpha1.PowerOff {
		s.PollInterval = s.ActiveInterval
	}
	step := look(v, s)
	if v.MoveBlocked {
		step = Step{Action: AllowMove}
	}
	step.Phase, step.Reason, step.Message = v1alpha1.PhaseProvisioned, "", ""
	return step
}

// lostAfter is how long a server must be seen powered off before what it held in memory is taken as lost: BMCs answer
// nonsense while they restart.
const lostAfter = 30 * time.Second

// lost is true when a machine that ran from memory was powered off, or restarted. A request of firmware alone is no proof of the latter,
// since anybody on the network can send it: the server's Node must have been lost with it.
func (v View) lost() bool {
	if b := v.CurrentBoot(); b != nil && b.Failure != nil {
		return true
	}
	return v.Consumer.Persistence == v1alpha1.PersistenceEphemeral && (v.longOff() || v.restarted() && !v.NodeLostAt.IsZero())
}

// restartMargin is how much later than the report a request of firmware must be to mean that the server restarted: the two may be timed
// by different clocks.
const restartMargin = 30 * time.Second

// restarted is true when firmware asked for a network boot after the machine, which runs from memory, had reported in.
func (v View) restarted() bool {
	b := v.CurrentBoot()
	return b != nil && b.ReportedAt != nil && v.restartedAfter(b.ReportedAt.Time)
}

// restartedAfter is restarted for what happened at a time.
func (v View) restartedAfter(then time.Time) bool {
	return v.Consumer != nil && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral && v.RestartedAt.After(then.Add(restartMargin))
}

// longOff is true when the server was read as powered off for so long that it is. Only readings count that are newer than the last command, and than the
// bootstrap data that it fetched: it ran then, whatever the BMC said before.
func (v View) longOff() bool {
	since := latest(v.BMC.PowerSince, v.BMC.LastPowerAt)
	if b := v.CurrentBoot(); b != nil && b.DataServedAt != nil && !v.recordedAhead(b.DataServedAt) {
		since = latest(since, b.DataServedAt.Time)
	}
	return v.BMC.Problem == nil && v.BMC.Power == v1alpha1.PowerOff && !v.BMC.PowerSince.IsZero() && v.BMC.PowerAt.Sub(since) >= lostAfter
}

// lose records that what the machine was is gone. It is recorded because the server may be switched on again.
func lose(v View, s Settings) Step {
	how := "powered off"
	if !v.longOff() && v.restarted() {
		how = "restarted"
	}
	message := fmt.Sprintf("The machine ran from memory and its server was %s: delete the Machine to have it replaced", how)
	current := v.CurrentBoot()
	if current != nil && current.Failure != nil {
		message = current.Failure.Message
	}
	step := look(v, s)
	switch {
	case current == nil:
		step = fail(*v.newBoot(1), v1alpha1.ReasonStateLost, message)
	case current.Failure == nil:
		step = fail(*current, v1alpha1.ReasonStateLost, message)
	case v.MoveBlocked:
		step = Step{Action: AllowMove}
	}
	step.Phase, step.Reason, step.Message = v1alpha1.PhaseStateLost, v1alpha1.ReasonStateLost, message
	return step
}

func stayFailed(v View, s Settings) Step {
	step := look(v, s)
	if v.MoveBlocked {
		step = Step{Action: AllowMove}
	}
	step.Phase, step.Reason, step.Message = v1alpha1.PhaseBootFailed, v.Boot.Failure.Reason, v.Boot.Failure.Message
	return step
}

// awaitMachine waits for the machine to take its provider ID, from when on the server gets no command at all: a boot override that
// still stands is taken back before, if the BMC can be asked. A move may go on meanwhile: that the host reported in is recorded in
// the spec.
func awaitMachine(v View, _ Settings) Step {
	step := Step{Phase: v1alpha1.PhaseBooting, Reason: v1alpha1.ReasonWaitingForMachine, Message: "Reported in"}
	switch {
	case v.BMC.OverrideSet && !v.BMC.Busy && !v.bmcBlocked():
		step.Action = ClearBootOverride
	case v.MoveBlocked:
		step.Action = AllowMove
	case v.BMC.OverrideSet && v.bmcBlocked():
		step.Again = v.BMC.Problem.RetryAt
	}
	return step
}

// prepare begins the first boot attempt when everything that it needs is there. It begins none for a machine that is about to go: it would
// join its cluster only to be drained again.
func prepare(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseClaimed}
	if v.Deleting {
		step.Reason, step.Message = v1alpha1.ReasonDeleting, "The host is being deleted: it is not booted"
		return step
	}
	if v.Consumer.OwnerDeleting {
		step.Reason, step.Message = v1alpha1.ReasonDeleting, "The Machine or its Cluster is being deleted: the host is not booted for it"
		return step
	}
	if !v.Consumer.BootstrapReady {
		step.Reason, step.Message = v1alpha1.ReasonWaitingForBootstrapData, "Waiting for the bootstrap provider to write the bootstrap data"
		return step
	}
	unknown := step
	unknown.Reason = v1alpha1.ReasonPreparing
	known, maxAge := prepared(v, s, step), s.ActiveInterval
	if known.Reason == v1alpha1.ReasonWaitingForBootSlot {
		maxAge = s.PollInterval // it is read again before anything begins
	}
	return first(v, s, maxAge, unknown, known)
}

// prepared is prepare for a host whose power is known.
func prepared(v View, s Settings, step Step) Step {
	if v.doubled() {
		step.Reason, step.Message = Conflict(v)
		step.Again = v.Now.Add(s.PollInterval) // as in Next
		return step
	}
	if len(v.BMC.Missing) > 0 {
		step.Reason, step.Message, step.Again = v1alpha1.ReasonCapabilityMissing, Incapable(v), v.nextInspection(s)
		if v.inspectionDue(s) {
			step.Action = Inspect
		}
		return step
	}
	if len(v.SharesConsumerWith) > 0 {
		step.Reason, step.Again = v1alpha1.ReasonConsumerConflict, v.Now.Add(s.PollInterval)
		step.Message = fmt.Sprintf("The machine has host %s too: neither is booted. Remove spec.consumerRef from one of them",
			strings.Join(v.SharesConsumerWith, ", "))
		return step
	}
	if v.ServedBy != "" {
		step.Reason, step.Again = v1alpha1.ReasonConsumerConflict, v.Now.Add(s.PollInterval)
		step.Message = fmt.Sprintf("The server of host %s was given the bootstrap data of the machine: this one is not booted for it. Remove spec.consumerRef, or delete the Machine", v.ServedBy)
		return step
	}
	if v.notOff() && v.Spec.Power != v1alpha1.PowerOn {
		step.Reason = v1alpha1.ReasonPoweredOn
		step.Message = "The server runs although nobody started it, so it may be in use. Power it off to have it booted for its machine"
		step.Again = v.BMC.PowerAt.Add(s.ActiveInterval)
		return step
	}
	if v.QueuePosition != nil {
		return v.QueuePosition.wait(v, step)
	}
	return begin(v, 1)
}

// begin starts a boot.
func begin(v View, attempt int32) Step {
	boot := v.newBoot(attempt)
	if v.BMC.Power == v1alpha1.PowerOff && v.BMC.PowerAt.After(v.BMC.LastPowerAt) {
		boot.PoweredOffAt = &boot.StartedAt
	}
	return Step{
		Action: RecordBoot, Boot: boot, Phase: v1alpha1.PhaseBooting,
		Reason: v1alpha1.ReasonPreparing, Message: fmt.Sprintf("Boot attempt %d begins", attempt),
	}
}

// newBoot returns the record of a boot that starts now, with a number that no boot of the host had.
func (v View) newBoot(attempt int32) *v1alpha1.BareMetalBootSpec {
	number := v.Spec.Boots
	if v.Boot != nil {
		number = max(number, v.Boot.Number)
	}
	identity := v.Identity
	return &v1alpha1.BareMetalBootSpec{
		Number: number + 1, Attempt: attempt, Purpose: v1alpha1.PurposeProvision, ClaimID: v.Spec.ConsumerRef.ClaimID, MachineName: v.Spec.ConsumerRef.Name,
		StartedAt: metav1.NewTime(v.Now), Identity: &identity,
	}
}

// fail ends a boot.
func fail(attempt v1alpha1.BareMetalBootSpec, reason, message string) Step {
	attempt.Failure = &v1alpha1.BootFailure{Reason: reason, Message: message}
	return Step{Action: RecordBoot, Boot: &attempt, Phase: v1alpha1.PhaseBootFailed, Reason: reason, Message: message}
}

// boot drives a boot: off, network boot, on, and wait for the stages. Before poweredOffAt only "off" is commanded and after it only "on", so no restart
// of the provider power-cycles a server that is booting.
func boot(v View, s Settings) Step {
	attempt := *v.Boot
	if !v.counted() {
		return Step{
			Action: CountBoot, Boot: &attempt, Phase: v1alpha1.PhaseBooting, Reason: v1alpha1.ReasonPreparing,
			Message: fmt.Sprintf("Boot attempt %d begins", attempt.Attempt),
		}
	}
	if attempt.DataServedAt == nil && v.Problem != nil && IsPermanent(v.Problem.Reason) {
		return fail(attempt, v.Problem.Reason, v.Problem.Message+". Another attempt would end the same way: correct the template or the bootstrap config that the Machine is made from, "+
			"then delete the Machine to have it replaced")
	}
	deadline := v.Deadline(s)
	if !v.Now.Before(deadline) {
		return giveUp(v, s, attempt)
	}
	step := bootStep(v, s, attempt)
	if step.Phase == "" {
		step.Phase = v1alpha1.PhaseBooting
	}
	if step.Reason == "" {
		step.Reason = v1alpha1.ReasonPreparing
	}
	if step.Action == "" && (step.Again.IsZero() || step.Again.After(deadline)) {
		step.Again = deadline
	}
	return step
}

func bootStep(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) Step {
	maxAge := s.ActiveInterval
	if attempt.PoweredOffAt != nil && v.BMC.Power == v1alpha1.PowerOn {
		// The server is booting: its own requests tell how far it is, the power is read now and then.
		maxAge = 6 * s.ActiveInterval
	}
	return first(v, s, maxAge, Step{}, bootKnown(v, s, attempt, maxAge))
}

// bootKnown is bootStep for a host whose power is known.
func bootKnown(v View, s Settings, attempt v1alpha1.BareMetalBootSpec, maxAge time.Duration) Step {
	off := v.BMC.Power == v1alpha1.PowerOff
	switch {
	case attempt.PoweredOffAt == nil && !off:
		step := command(v, s, ForceOff, CommandForceOff)
		step.Message = "The server is being powered off"
		return step
	case attempt.PoweredOffAt == nil:
		now := metav1.NewTime(v.Now)
		attempt.PoweredOffAt = &now
		return Step{Action: RecordBoot, Boot: &attempt, Message: "The server is off"}
	case attempt.PoweredOnAt == nil && v.powerChanging():
		return Step{Message: "The server is powering on or off, although the provider did not command it", Again: v.Now.Add(s.ActiveInterval)}
	case !off && attempt.PoweredOnAt == nil: // a person powered it on
		now := metav1.NewTime(v.Now)
		attempt.PoweredOnAt = &now
		return Step{Action: RecordBoot, Boot: &attempt, Message: "The server is on, although the provider did not power it on"}
	case !off:
		step := progress(v, attempt)
		step.Again = v.BMC.PowerAt.Add(maxAge)
		if v.BMC.OverrideSet && (bootedFromNetwork(v) || attempt.DataServedAt != nil) {
			step.Action = ClearBootOverride
		}
		return step
	case attempt.DataServedAt != nil && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral && !v.longOff():
		return Step{Message: "The server reads as powered off, which is being confirmed", Again: v.Now.Add(s.ActiveInterval)}
	case attempt.DataServedAt != nil && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral:
		return fail(attempt, v1alpha1.ReasonStateLost,
			"The server was powered off after it got its bootstrap data and before it reported in: delete the Machine to have it replaced")
	case attempt.DataServedAt == nil && !v.networkBootStands(attempt):
		return Step{Action: SetNetworkBoot, Message: "The network is being made the next boot device"}
	case attempt.PoweredOnAt == nil:
		now := metav1.NewTime(v.Now)
		attempt.PoweredOnAt = &now
		return Step{Action: RecordBoot, Boot: &attempt, Message: "The server is to be powered on"}
	default:
		step := command(v, s, PowerOn, CommandPowerOn)
		step.Message = "The server is being powered on"
		return step
	}
}

// networkBootStands is true when the network was made the next boot device for the next power-on of an attempt. A server that came on
// since, and went off by itself, used it up: it would boot its disk.
func (v View) networkBootStands(attempt v1alpha1.BareMetalBootSpec) bool {
	set := v.BMC.NetworkBootSetAt
	if set.IsZero() || v.BMC.CleanedAt.After(set) { // a release takes it back, maybe in the second in which the next boot starts
		return false
	}
	if set.Before(attempt.PoweredOffAt.Time) && !v.recordedAhead(attempt.PoweredOffAt) {
		return false
	}
	// It may have lost its power again before that was read; then the boot server saw it. A sighting has whole seconds, and must be older than the reading:
	// a server that boots may read as off for a while.
	at := v.Furthest.Time.Time
	seen := v.Furthest.Stage != "" && !at.Before(set.Truncate(time.Second)) && v.BMC.PowerAt.After(at.Add(time.Second)) && !at.After(v.Now)
	usedUp := v.BMC.LastPower == CommandPowerOn && v.BMC.LastPowerAt.After(set) && (seen || v.BMC.PowerSince.After(v.BMC.LastPowerAt))
	return !usedUp
}

// recordedAhead is true for a time in the spec that is still to come: the clock was set back since. No fact would be later than that for as long
// as it was set back by, so facts are not compared with it.
func (v View) recordedAhead(t *metav1.Time) bool { return t != nil && t.After(v.Now.Add(time.Second)) }

// bootedFromNetwork is true when the boot loader runs: the override did what it was for.
func bootedFromNetwork(v View) bool {
	return v.Furthest.Stage != "" && v.Furthest.Stage != v1alpha1.StageDHCP && v.Furthest.Stage != v1alpha1.StageLoader
}

// IsPermanent is true for the reason of a problem that follows from objects alone, from spec.boot of the machine and from its bootstrap data. Such a boot ends at once:
// the server would ask in vain until the deadline, every attempt would end the same way, and the server is not to blame. What is fetched, allowed or leased may be there
// the next time, so its problems are not among them.
func IsPermanent(reason string) bool {
	return reason == v1alpha1.ReasonBootSourceInvalid || reason == v1alpha1.ReasonCommandLineTooLong || reason == v1alpha1.ReasonBootstrapDataInvalid
}

// giveUp ends an attempt that came to its deadline. Once bootstrap data was given out the boot is not tried again.
func giveUp(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) Step {
	since := fmt.Sprintf("boot attempt %d began", attempt.Attempt)
	if v.WaitedAt.After(attempt.StartedAt.Time) {
		since = fmt.Sprintf("the server last stood in the line of its network, in boot attempt %d", attempt.Attempt)
	}
	after := fmt.Sprintf("%s after %s: %s", s.BootTimeout, since, progress(v, attempt).Message)
	if v.Problem == nil {
		after += ". The likeliest cause: " + v.awaitingOf(attempt).cause
	}
	switch {
	case attempt.DataServedAt != nil:
		return fail(attempt, v1alpha1.ReasonBootTimedOut, after+
			". It got its bootstrap data, so it is not booted again: look at its console, then delete the Machine to have it replaced")
	case attempt.Attempt >= s.BootAttempts:
		return fail(attempt, v1alpha1.ReasonBootTimedOut, after+". It was the last attempt: delete the Machine to have it replaced")
	case v.Paused || v.Consumer.Paused:
		return v.awaitUnpaused(s, after)
	case v.QueuePosition != nil:
		return v.awaitTurn(after)
	default:
		step := begin(v, attempt.Attempt+1)
		step.Message += ". " + after
		return step
	}
}

// awaitUnpaused begins no attempt while the host, its machine or their Cluster is paused: only what was under way is brought to its end then.
func (v View) awaitUnpaused(s Settings, after string) Step {
	step := Step{
		Phase: v1alpha1.PhaseBooting, Reason: v1alpha1.ReasonPaused, Again: v.Now.Add(s.PollInterval),
		Message: after + ". The next attempt begins when the host, its machine and their Cluster are not paused any more",
	}
	if v.MoveBlocked {
		step.Action = AllowMove
	}
	return step
}

// awaitTurn begins no attempt while others wait whose turn is before. An attempt that follows right after another has its place still; this is for one
// that could not follow right away, as in maintenance.
func (v View) awaitTurn(after string) Step {
	step := v.QueuePosition.wait(v, Step{Phase: v1alpha1.PhaseBooting, Message: after + ". The next attempt waits for a boot slot. "})
	if v.MoveBlocked {
		step.Action = AllowMove
	}
	return step
}
