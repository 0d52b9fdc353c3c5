package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// A profile with the scope HostsInMaintenance also changes the server of a running machine. Two users agree to that: the one of the profile, and the one of the
// maintenance, who drained the Node and wrote that to spec.maintenance.drainedBy. The run has the same record and the same writes as that of a free host up to the restart.
// The agent does not boot, because the record of the boot is that of the machine. powerOffTime is recorded, the operating system is shut down, poweredOffTime is recorded,
// and the server is powered on: it boots its disk. So Secure Boot is not changed here: no agent can prove it. A run that is open when the maintenance ends stages nothing
// and powers nothing off from then on. A server that may be off because of the run, which is so from powerOffTime on, is powered on also after the maintenance and after the
// deadline.

// servesRun is true for a host whose maintenance permits a settings run on the server of its machine.
func servesRun(v View) bool {
	m := v.Host.Spec.Maintenance
	return m != nil && m.DrainedBy != "" && v.Provisioned() && !v.releasing() && v.Consumer.Persistence == v1alpha1.PersistenceInstalled
}

// takenFrom is true if a machine claimed the host since the run began, or if the maintenance is over in which a run on the server of a machine was permitted.
func takenFrom(v View, run v1alpha1.BareMetalSettingsSpec) bool {
	return v.Host.Claimed() && (run.RequestedBy == "" || !servesRun(v))
}

// takenBefore says that a run ends because the host was taken before something.
func takenBefore(run v1alpha1.BareMetalSettingsSpec, what string) string {
	if run.RequestedBy != "" {
		return "The maintenance ended before " + what
	}
	return "A machine claimed the host before " + what
}

// configureInMaintenance begins or drives a run on the server of a machine. The step is that of a host in maintenance.
func configureInMaintenance(v View, s Settings, step Step) Step {
	if !v.BIOS.On || !servesRun(v) || step.Action == RecordBoot || v.Host.MoveBlocked {
		return step
	}
	if v.Host.settingsRunOpen() {
		return driveMachineRun(v, s, step)
	}
	p := v.BIOS.Profile
	if p == nil || !p.Active || p.Scope != v1alpha1.ScopeHostsInMaintenance {
		return step
	}
	return withNote(step, onceBMCKnown(v, s, s.PollInterval, Step{}, beginMachineRun(v, s)))
}

// withNote adds to the step of a host what a run does, or waits for. The host keeps its phase and its reason.
func withNote(step, run Step) Step {
	step.Action, step.Settings, step.Quarantine, step.Drop = cmp.Or(run.Action, step.Action), run.Settings, run.Quarantine, run.Drop
	if !run.RequeueAt.IsZero() {
		step.RequeueAt = run.RequeueAt
	}
	if step.Message != "" && run.Message != "" {
		step.Message += ". "
	}
	step.Message += run.Message
	return step
}

// beginMachineRun records a run on the server of a machine, and counts the one that was recorded. The BMC is known.
func beginMachineRun(v View, s Settings) Step {
	p, r := v.BIOS.Profile, v.BIOS.Reading
	step := Step{RequeueAt: v.BMC.PowerAt.Add(s.PollInterval)}
	switch {
	case r == nil || r.Profile != p.SettingsProfile || r.Plan == nil && r.Problem == "":
		step.Action, step.Message = ReadSettings, "The firmware settings are being read"
		return step
	case r.Problem != "" || r.Plan.Blocked() || r.Plan.Conforms() || triedMachine(v): // the condition SettingsConform says it
		return step
	case r.Plan.SecureBoot != nil:
		step.Message = fmt.Sprintf("BareMetalProfile %q changes Secure Boot, which is changed only on a free host", p.Name)
		return step
	case v.Identity.hasConflict() || v.Host.Deleting:
		return step
	case v.Provider.RunsHere:
		step.Message = "The firmware settings are not changed: this process of the provider runs on the server"
		return step
	case len(v.powerHolds()) > 0:
		step.Message = "The firmware settings have to be changed, and power holds apply: " + describeHolds(v.powerHolds())
		return step
	case v.BIOS.Rollout != nil:
		step.RequeueAt = v.Now.Add(s.ActiveInterval * 6)
		step.Message = fmt.Sprintf("The rollout of BareMetalProfile %q: %s", p.Name, v.BIOS.Rollout.Message)
		return step
	}
	run := newRun(v)
	run.RequestedBy = v.Host.Spec.Maintenance.DrainedBy
	step.Action = RecordSettings
	if runRecorded(v, run) && v.BIOS.Record.RequestedBy == run.RequestedBy {
		step.Action, run = CountSettings, v.BIOS.Record
	}
	step.Settings, step.Message = run, fmt.Sprintf("Run %d of BareMetalProfile %q begins, as %s permits", run.Number, p.Name, run.RequestedBy)
	return step
}

// triedMachine is true if the last run was for what the profile wishes: on the server of a machine it is not repeated. Whatever changes the settings back would
// do so again, and each run is a restart.
func triedMachine(v View) bool {
	r := v.BIOS.Record
	return appliedLast(v) && (r.RequestedBy != "" || r.Outcome != v1alpha1.SettingsApplied)
}

// driveMachineRun drives the open run of a host that its machine keeps, also after its maintenance has ended. A run whose record is lost waits for a user, or for the
// release of the host.
func driveMachineRun(v View, s Settings, step Step) Step {
	switch run := v.openRun(); {
	case run == nil:
		return withNote(step, lostRun(v))
	case run.RequestedBy == "":
		return step
	default:
		return withNote(step, advanceRun(v, s, Step{}, *run))
	}
}

// restartMachine restarts the server of a machine with its new settings, and verifies that it has them.
func restartMachine(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	var known Step
	over, unknown := runIsLate(v, run), step
	unknown.Message = "The server is to be restarted with the new settings. "
	switch {
	case !v.Provisioned():
		return endRun(v, step, run, v1alpha1.SettingsFailed, "The machine no longer has the host. Some of the settings are pending, or took effect")
	case run.PowerOffTime == nil && takenFrom(v, run):
		return undoStaging(v, s, step, run, over)
	case run.PowerOffTime == nil && over:
		return endRun(v, step, run, v1alpha1.SettingsFailed, offTooLate+foreignOf(v, run))
	case run.PoweredOffTime == nil && (over || takenFrom(v, run)):
		known = keepOnAfterRun(v, s, step, run, over)
	case run.PoweredOffTime == nil:
		known = powerOffForRun(v, s, step, run)
	default:
		known = powerOnForRun(v, s, step, run)
	}
	step = onceBMCKnown(v, s, s.ActiveInterval, unknown, known)
	if over {
		return step
	}
	return untilRunDeadline(run, step)
}

var offTooLate = fmt.Sprintf("The settings are pending, and the server was not powered off within %s", settingsRunTimeout)

// undoStaging ends a run whose maintenance ended before the restart. The settings that are pending are removed first.
func undoStaging(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec, over bool) Step {
	since := pastTime(v.Now, run.StagedTime.Time)
	if run.PowerOffTime != nil {
		since = latest(since, pastTime(v.Now, run.PowerOffTime.Time))
	}
	why, unknown, plan := takenBefore(run, "the server was restarted"), step, v.BIOS.runPlan(run, since)
	switch {
	case plan != nil && plan.Conforms(): // a person has restarted the server
		step = endRun(v, step, run, v1alpha1.SettingsApplied, "")
	case plan != nil:
		step = endStaging(v, step, run, plan, v1alpha1.SettingsWithdrawn, why)
	case over:
		return endStaging(v, step, run, nil, v1alpha1.SettingsWithdrawn, why)
	case readSettingsLately(v) && v.BIOS.Reading.Run == run.Number: // they could not be read
		step.RequeueAt, step.Message = v.BIOS.Reading.At.Add(verifyInterval), why
	default:
		step.Action, step.Message = ReadSettings, why+". The settings are being read"
	}
	return onceBMCKnown(v, s, s.PollInterval, unknown, step)
}

// keepOnAfterRun ends a run whose server may still shut down although its maintenance, or its time, is over. The server gets no further request to power off. If it is off
// it is powered on. The power is known.
func keepOnAfterRun(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec, over bool) Step {
	switch {
	case v.BMC.Power == v1alpha1.PowerOff:
		return recordPoweredOff(v, s, step, run)
	case v.BMC.powerChanging() || !v.BMC.confirmedOn(run.PowerOffTime, s):
		step.RequeueAt = v.Now.Add(s.ActiveInterval)
		step.Message = fmt.Sprintf("The server was asked to shut down for the new settings, and may still do so within %s. It is powered on after that", maxShutDownTime)
		return step
	case takenFrom(v, run):
		return undoStaging(v, s, step, run, over)
	default:
		return endRun(v, step, run, v1alpha1.SettingsFailed, offTooLate+foreignOf(v, run))
	}
}

// powerOffForRun shuts the server of a machine down, and records once confirmed that it is off. Before the first request it records that the server may be off from now on.
// The power is known.
func powerOffForRun(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	if v.BMC.Power == v1alpha1.PowerOff && run.PowerOffTime != nil {
		return recordPoweredOff(v, s, step, run)
	}
	switch unconfirmed := confirmStaged(v, step, run); {
	case unconfirmed != nil && v.BMC.FirstShutDownAt.IsZero():
		return *unconfirmed
	case run.PowerOffTime == nil:
		now := metav1.NewTime(v.Now)
		run.PowerOffTime = &now
		return recordRun(step, run, "The server will be powered off, to restart it with the new settings")
	}
	change := changePower(v, s, v1alpha1.PowerOff)
	step.Action, step.RequeueAt, step.Message = change.Action, change.RequeueAt, "The server is being powered off, to restart it with the new settings"
	return step
}

// recordPoweredOff records once confirmed that the server is off. The power is known.
func recordPoweredOff(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	if !v.BMC.confirmedOff(v.Now, s) {
		step.RequeueAt, step.Message = v.Now.Add(s.ActiveInterval), unconfirmedOff
		return step
	}
	now := metav1.NewTime(v.Now)
	run.PoweredOffTime = &now
	return recordRun(step, run, "The server is off, and is powered on with the new settings")
}

// powerOnForRun powers a server on that the run has powered off, and verifies its settings. The power is known.
func powerOnForRun(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	switch {
	case v.BMC.Power == v1alpha1.PowerOff:
		change := issueCommand(v, s, PowerOn, CommandPowerOn)
		step.Action, step.RequeueAt, step.Message = change.Action, change.RequeueAt, "The server is being powered on with the new settings"
		return step
	case v.BMC.powerChanging():
		step.RequeueAt, step.Message = v.Now.Add(s.ActiveInterval), "The server is powering on with the new settings"
		return step
	}
	since, until := restartedForRun(v, run), runDeadline(run)
	if readiness, ready := v.Observed.nodeReadiness(); readiness == v1alpha1.NodeReady && ready.After(since) && ready.Add(verifyTimeout).Before(until) {
		until = ready.Add(verifyTimeout)
	}
	plan := v.BIOS.runPlan(run, since)
	switch {
	case plan != nil && plan.Conforms():
		return endRun(v, step, run, v1alpha1.SettingsApplied, "")
	case !v.Now.Before(until):
		return endRun(v, step, run, v1alpha1.SettingsFailed, describeLateRestart(v, run))
	case readSettingsLately(v) && v.BIOS.Reading.Run == run.Number && !v.BIOS.Reading.At.Before(since):
		step.RequeueAt = v.BIOS.Reading.At.Add(verifyInterval)
	default:
		step.Action = ReadSettings
	}
	step.Message = fmt.Sprintf("The server was restarted. Until %s its BMC may still report the old settings", timestamp(until))
	return step
}

// restartedForRun is the time after which a reading shows what the restart of a machine's server has applied.
func restartedForRun(v View, run v1alpha1.BareMetalSettingsSpec) time.Time {
	return latest(pastTime(v.Now, run.PoweredOffTime.Time), pastTime(v.Now, v.BMC.LastPowerAt))
}

// describeLateRestart says what a server does not have at the end of the wait for its settings.
func describeLateRestart(v View, run v1alpha1.BareMetalSettingsSpec) string {
	if plan := v.BIOS.runPlan(run, restartedForRun(v, run)); plan != nil {
		return "After the restart of the server, " + describeUnapplied("", run, plan) // it does not set Secure Boot
	}
	return "The server was powered off to restart it, and its settings could not be read after that"
}

// readDrift reads the settings of a running machine's server if that is due, and nothing else is to be done.
func readDrift(v View, s Settings, step Step) Step {
	if step.Action != "" || !driftReadingDue(v) {
		return step
	}
	if _, wait := refreshBMC(v, s, s.PollInterval); !wait {
		step.Action = ReadSettings
	}
	return step
}

// driftReadingDue is true if the settings of a running machine's server must be read: they are compared once a day, with its inventory, and when the profile changes.
func driftReadingDue(v View) bool {
	p, r := v.BIOS.Profile, v.BIOS.Reading
	switch {
	case !v.BIOS.On || p == nil || v.Host.settingsRunOpen():
		return false
	case r == nil:
		return !v.BIOS.Compared || !v.BMC.HealthReadAt.IsZero()
	case r.Problem == "" && r.Terms != v.Host.PlanTerms():
		return true
	default:
		return r.Profile != p.SettingsProfile || r.At.After(v.Now) || pastTime(v.Now, v.BMC.HealthReadAt).After(r.At)
	}
}
