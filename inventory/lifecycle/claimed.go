package lifecycle

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// release powers the host off and, once that is confirmed, gives it back. A server whose operating system never came up is
// not asked to shut down: it would not hear.
func release(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseReleasing, Reason: v1alpha1.ReasonReleasing}
	if v.Spec.ExternallyProvisioned {
		step.Action = Release
		return step
	}
	unknown := step
	unknown.Message = "To be powered off. "
	return first(v, s, s.ActiveInterval, unknown, released(v, s, step))
}

// released is release for a host whose power is known.
func released(v View, s Settings, step Step) Step {
	if v.BMC.Power == v1alpha1.PowerOff {
		switch {
		case !v.confirmedOff(s):
		case !v.BMC.CleanedAt.After(v.BMC.LastPowerAt), !v.BMC.CleanedAt.After(v.BMC.NetworkBootSetAt):
			step.Action, step.Message = CleanUp, "The boot override is being taken back and virtual media ejected"
			return step
		default:
			step.Action = Release
			return step
		}
		step.Message, step.Again = "The server is off, which is being confirmed", v.Now.Add(s.ActiveInterval)
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

// confirmedOff is true when a server that was read as powered off is so: after a command that switches it off, or when it was
// read so twice. One reading is not enough: BMCs answer nonsense while they restart, and "off" for some seconds after "on".
func (v View) confirmedOff(s Settings) bool {
	switch v.BMC.LastPower {
	case CommandForceOff, CommandShutDown:
		return true
	case CommandPowerOn:
		if v.Now.Before(v.BMC.LastPowerAt.Add(s.PowerSettle)) {
			return false
		}
	}
	return v.BMC.PowerAt.Sub(v.BMC.PowerSince) >= s.ActiveInterval
}

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

// lost is true when a machine that ran from memory was powered off.
func (v View) lost() bool {
	if v.Spec.Boot != nil && v.Spec.Boot.Failure != nil {
		return true
	}
	return v.Consumer.Persistence == v1alpha1.PersistenceEphemeral && v.longOff()
}

// longOff is true when the server was read as powered off for so long that it is.
func (v View) longOff() bool {
	return v.BMC.Problem == nil && v.BMC.Power == v1alpha1.PowerOff && !v.BMC.PowerSince.IsZero() && v.BMC.PowerAt.Sub(v.BMC.PowerSince) >= lostAfter
}

// lose records that what the machine was is gone. It is recorded because the server may be switched on again.
func lose(v View, s Settings) Step {
	const message = "The machine ran from memory and its server was powered off: delete the Machine to have it replaced"
	step := look(v, s)
	switch {
	case v.Spec.Boot == nil || v.Spec.Boot.Failure == nil:
		attempt := v1alpha1.BootAttempt{Attempt: 1, StartedAt: metav1.NewTime(v.Now)}
		if v.Spec.Boot != nil {
			attempt = *v.Spec.Boot
		}
		step = fail(attempt, v1alpha1.ReasonStateLost, message)
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
	step.Phase, step.Reason, step.Message = v1alpha1.PhaseBootFailed, v.Spec.Boot.Failure.Reason, v.Spec.Boot.Failure.Message
	return step
}

// awaitMachine waits for the machine to take its provider ID, from when on the server gets no command at all: a boot override that
// still stands is taken back before, if the BMC can be asked. A move may go on meanwhile: that the host reported in is recorded in
// the spec.
func awaitMachine(v View, _ Settings) Step {
	step := Step{Phase: v1alpha1.PhaseBooting, Reason: v1alpha1.ReasonWaitingForMachine, Message: "Reported in"}
	switch {
	case v.BMC.OverrideStands && !v.BMC.Busy && !v.bmcBlocked():
		step.Action = ClearBootOverride
	case v.MoveBlocked:
		step.Action = AllowMove
	case v.BMC.OverrideStands && v.bmcBlocked():
		step.Again = v.BMC.Problem.RetryAt
	}
	return step
}

// prepare begins the first boot attempt when everything that it needs is there.
func prepare(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseClaimed}
	if v.Deleting {
		step.Reason, step.Message = v1alpha1.ReasonDeleting, "The host is being deleted: it is not booted"
		return step
	}
	if !v.Consumer.BootstrapReady {
		step.Reason, step.Message = v1alpha1.ReasonWaitingForBootstrapData, "Waiting for the bootstrap provider to write the bootstrap data"
		return step
	}
	unknown := step
	unknown.Reason = v1alpha1.ReasonPreparing
	return first(v, s, s.ActiveInterval, unknown, prepared(v, s, step))
}

// prepared is prepare for a host whose power is known.
func prepared(v View, s Settings, step Step) Step {
	if len(v.SharesMACWith) > 0 {
		step.Reason, step.Message = v1alpha1.ReasonMACConflict, MACConflict(v)
		return step
	}
	if len(v.BMC.Lacks) > 0 {
		step.Reason, step.Message, step.Again = v1alpha1.ReasonCapabilityMissing, Incapable(v), v.nextInspection(s)
		if v.inspectionDue(s) {
			step.Action = Inspect
		}
		return step
	}
	if len(v.SharesConsumerWith) > 0 {
		step.Reason = v1alpha1.ReasonConsumerConflict
		step.Message = fmt.Sprintf("The machine has host %s too: neither is booted. Remove spec.consumerRef from one of them",
			strings.Join(v.SharesConsumerWith, ", "))
		return step
	}
	if v.BMC.Power == v1alpha1.PowerOn && v.Spec.Power != v1alpha1.PowerOn {
		step.Reason = v1alpha1.ReasonPoweredOn
		step.Message = "The server runs although nobody started it, so it may be in use. Power it off to have it booted for its machine"
		step.Again = v.BMC.PowerAt.Add(s.ActiveInterval)
		return step
	}
	return begin(v, 1)
}

// begin starts a boot attempt.
func begin(v View, number int32) Step {
	now := metav1.NewTime(v.Now)
	attempt := &v1alpha1.BootAttempt{Attempt: number, StartedAt: now}
	if v.BMC.Power == v1alpha1.PowerOff && v.BMC.PowerAt.After(v.BMC.LastPowerAt) {
		attempt.PoweredOffAt = &now
	}
	return Step{
		Action: RecordBoot, Boot: attempt, Phase: v1alpha1.PhaseBooting,
		Reason: v1alpha1.ReasonPreparing, Message: fmt.Sprintf("Boot attempt %d begins", number),
	}
}

// fail ends a boot attempt.
func fail(attempt v1alpha1.BootAttempt, reason, message string) Step {
	attempt.Failure = &v1alpha1.BootFailure{Reason: reason, Message: message}
	return Step{Action: RecordBoot, Boot: &attempt, Phase: v1alpha1.PhaseBootFailed, Reason: reason, Message: message}
}

// boot drives a boot attempt: off, network boot, on, and wait for the stages. Before spec.boot.poweredOffAt only "off" is
// commanded and after it only "on", so no restart of the provider power-cycles a server that is booting.
func boot(v View, s Settings) Step {
	attempt := *v.Spec.Boot
	deadline := attempt.StartedAt.Add(s.BootTimeout)
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

func bootStep(v View, s Settings, attempt v1alpha1.BootAttempt) Step {
	maxAge := s.ActiveInterval
	if attempt.PoweredOffAt != nil && v.BMC.Power == v1alpha1.PowerOn {
		// The server is booting: its own requests tell how far it is, the power is read now and then.
		maxAge = 6 * s.ActiveInterval
	}
	return first(v, s, maxAge, Step{}, bootKnown(v, s, attempt, maxAge))
}

// bootKnown is bootStep for a host whose power is known.
func bootKnown(v View, s Settings, attempt v1alpha1.BootAttempt, maxAge time.Duration) Step {
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
	case !off:
		step := progress(v, attempt)
		step.Again = v.BMC.PowerAt.Add(maxAge)
		if v.BMC.OverrideStands && (bootedFromNetwork(v) || attempt.SeededAt != nil) {
			step.Action = ClearBootOverride
		}
		return step
	case attempt.SeededAt != nil && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral && !v.longOff():
		return Step{Message: "The server reads as powered off, which is being confirmed", Again: v.Now.Add(s.ActiveInterval)}
	case attempt.SeededAt != nil && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral:
		return fail(attempt, v1alpha1.ReasonStateLost,
			"The server was powered off after it got its bootstrap data and before it reported in: delete the Machine to have it replaced")
	case attempt.SeededAt == nil && v.BMC.NetworkBootSetAt.Before(attempt.PoweredOffAt.Time):
		return Step{Action: SetNetworkBoot, Message: "The network is being made the next boot device"}
	default:
		step := command(v, s, PowerOn, CommandPowerOn)
		step.Message = "The server is being powered on"
		return step
	}
}

// bootedFromNetwork is true when the boot loader runs: the override did what it was for.
func bootedFromNetwork(v View) bool {
	return v.Furthest != "" && v.Furthest != v1alpha1.StageDHCP && v.Furthest != v1alpha1.StageLoader
}

// giveUp ends an attempt that came to its deadline. Once bootstrap data was given out the boot is not tried again.
func giveUp(v View, s Settings, attempt v1alpha1.BootAttempt) Step {
	waited := progress(v, attempt)
	after := fmt.Sprintf("%s after boot attempt %d began: %s", s.BootTimeout, attempt.Attempt, waited.Message)
	switch {
	case attempt.SeededAt != nil:
		return fail(attempt, v1alpha1.ReasonBootTimedOut, after+
			". It got its bootstrap data, so it is not booted again: look at its console, then delete the Machine to have it replaced")
	case attempt.Attempt >= s.BootAttempts:
		return fail(attempt, v1alpha1.ReasonBootTimedOut, after+". It was the last attempt: delete the Machine to have it replaced")
	default:
		return begin(v, attempt.Attempt+1)
	}
}

// progress says what a booting server was last seen to do, and so what it is waited for.
func progress(v View, attempt v1alpha1.BootAttempt) Step {
	if v.Problem != nil {
		return Step{Reason: v.Problem.Reason, Message: v.Problem.Message}
	}
	stage := v.Furthest
	if attempt.SeededAt != nil && stage != v1alpha1.StageReportedIn {
		stage = v1alpha1.StageSeed
	}
	switch stage {
	case v1alpha1.StageDHCP:
		return Step{Reason: v1alpha1.ReasonWaitingForLoader, Message: "The server asked for its boot file and has not fetched it"}
	case v1alpha1.StageLoader:
		return Step{Reason: v1alpha1.ReasonWaitingForScript, Message: "The server fetched its boot loader, which has not asked for its script"}
	case v1alpha1.StageScript:
		return Step{Reason: v1alpha1.ReasonWaitingForKernel, Message: "The boot loader has its script and has not fetched the kernel"}
	case v1alpha1.StageKernel:
		return Step{Reason: v1alpha1.ReasonWaitingForSeed, Message: "The kernel was fetched, and the operating system has not asked for its bootstrap data"}
	case v1alpha1.StageSeed, v1alpha1.StageReportedIn:
		return Step{Reason: v1alpha1.ReasonWaitingForReport, Message: "The operating system has its bootstrap data and has not reported in"}
	default:
		return Step{Reason: v1alpha1.ReasonWaitingForDHCP, Message: "The server was powered on and has not asked for its boot file" + v.BMC.OverrideNote}
	}
}
