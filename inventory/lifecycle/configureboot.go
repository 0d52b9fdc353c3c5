package lifecycle

import (
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// The changes of a run take effect when the server restarts. It restarts once, into the agent, which erases and writes nothing: the agent shows that the server still
// boots, reads Secure Boot from inside, and keeps the disk from booting. Then the server is powered off, and the settings are read again.

// ConfigureBoot returns the open boot of a settings run; nil without one. A machine may have claimed the host since it was recorded.
func (h Host) ConfigureBoot() *v1alpha1.BareMetalBootSpec {
	if b := h.Boot; IsOpen(b) && b.Purpose == v1alpha1.PurposeConfigure && b.Number >= h.Spec.ProviderState.Boots {
		return b
	}
	return nil
}

// configureBootOf returns the last boot of the host if it is that of a run, also after it has ended; nil otherwise.
func (h Host) configureBootOf(run int32) *v1alpha1.BareMetalBootSpec {
	if b := h.Boot; b != nil && b.Purpose == v1alpha1.PurposeConfigure && b.ClaimID == configureID(run) && b.Number >= h.Spec.ProviderState.Boots {
		return b
	}
	return nil
}

// configureID is the claimID of the boots of a run.
func configureID(run int32) string { return fmt.Sprintf("settings-%d", run) }

// configures is true while the agent may run on a server in a settings run.
func configures(v View, s Settings) bool {
	b := v.Host.ConfigureBoot()
	return b != nil && v.Host.settingsRunOpen() && b.AgentDoneTime == nil && b.Failure == nil && v.Host.bootCounted() && v.Now.Before(v.Deadline(s))
}

// newConfigureBoot returns the record of an attempt that starts now.
func newConfigureBoot(v View, attempt, run int32) *v1alpha1.BareMetalBootSpec {
	boot := newRecord(v, attempt, v1alpha1.PurposeConfigure)
	boot.ClaimID, boot.Agent = configureID(run), true
	return boot
}

// applySettings restarts the server, and verifies that it has the settings.
func applySettings(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	over, open := runIsLate(v, run), v.Host.ConfigureBoot()
	switch {
	case open != nil && open.ClaimID != configureID(run.Number):
		return voidInspection(v, step, "The boot is that of another run")
	case open != nil && (open.AgentDoneTime != nil || open.Failure != nil):
		return verifySettings(v, s, step, run, *open)
	case open != nil && v.hostBootOutdated(s): // the server may be in other hands since
		return voidInspection(v, step, fmt.Sprintf("The record of boot %d may come from a backup, so the server is left as it is", open.Number))
	case open != nil && over:
		failed := failBoot(*open, v1alpha1.ReasonSettingsNotApplied, fmt.Sprintf("The run did not end within %s", settingsRunTimeout))
		step.Action, step.Boot, step.Message = failed.Action, failed.Boot, failed.Message
		return step
	case over:
		return endRun(v, step, run, v1alpha1.SettingsFailed, fmt.Sprintf("The settings are pending, and the server was not restarted within %s%s", settingsRunTimeout, foreignOf(v, run)))
	case open == nil && v.Host.Claimed():
		return endRun(v, step, run, v1alpha1.SettingsFailed, "A machine claimed the host before the server was restarted. The settings are pending")
	case open == nil:
		unknown := step
		unknown.Message = "The server will be restarted. "
		return untilRunDeadline(run, onceBMCKnown(v, s, s.ActiveInterval, unknown, beginConfigureBoot(v, s, step, run)))
	default:
		return untilRunDeadline(run, configureAttempt(v, s, step, run, *open))
	}
}

// untilRunDeadline requeues a step that waits at the deadline of the run, and says when that is.
func untilRunDeadline(run v1alpha1.BareMetalSettingsSpec, step Step) Step {
	if step.Action != "" {
		return step
	}
	due := run.DeadlineTime.Time
	if step.RequeueAt.IsZero() || due.Before(step.RequeueAt) {
		step.RequeueAt = due
	}
	step.Message += ". The deadline of the run is " + timestamp(due)
	return step
}

// beginConfigureBoot records the first attempt, unless something prevents it. The server must be off.
func beginConfigureBoot(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	const pending = "The settings are pending at the BMC, and the server has to be restarted"
	switch holds := v.powerHolds(); {
	case len(holds) > 0:
		step.Message, step.RequeueAt = pending+". Power holds keep it powered off: "+describeHolds(holds), v.Now.Add(s.PollInterval)
	case v.Host.PausedCluster != "":
		step.Message = fmt.Sprintf("%s. That waits until Cluster %q is no longer paused: the hosts of the namespace may be moving", pending, v.Host.PausedCluster)
		step.RequeueAt = v.Now.Add(s.PollInterval)
	case v.BMC.notOff():
		step.Message, step.RequeueAt = pending+". It is on although the provider did not power it on, so it may be in use. Power it off", v.Now.Add(s.ActiveInterval)
	case !v.BMC.confirmedOff(v.Now, s):
		step.Message, step.RequeueAt = unconfirmedOff, v.Now.Add(s.ActiveInterval)
	case v.QueuePosition != nil:
		step.Message = pending + ". "
		return v.QueuePosition.wait(v, step)
	default:
		if unconfirmed := confirmStaged(v, step, run); unconfirmed != nil {
			return *unconfirmed
		}
		step.Action, step.Boot, step.Message = RecordBoot, newConfigureBoot(v, 1, run.Number), "Attempt 1 to restart the server with the new settings begins"
	}
	return step
}

// maxStagedAge is how old the reading may be that shows what the restart of a run applies. It counts from the start of the reading: that of a large attribute registry takes
// a while.
const maxStagedAge = 2 * time.Minute

// confirmStaged returns nil if a reading of just now shows that the next restart of the server applies the changes of the run, and nothing else. Otherwise it returns the
// step that reads the settings again: since they were staged, hours may have passed.
func confirmStaged(v View, step Step, run v1alpha1.BareMetalSettingsSpec) *Step {
	plan := v.BIOS.runPlan(run, v.Now.Add(-maxStagedAge))
	recent := plan != nil && !v.BIOS.Reading.At.After(v.Now)
	switch {
	case recent && isStaged(plan):
		return nil
	case readSettingsLately(v) && v.BIOS.Reading.Run == run.Number:
		step.RequeueAt = v.BIOS.Reading.At.Add(verifyInterval)
	default:
		step.Action = ReadSettings
	}
	step.Message = "The server is restarted when another reading shows that this applies the settings of the run, and nothing else" + foreignOf(v, run)
	return &step
}

// foreignOf says which values of others were pending at the last reading in a run; empty if none were.
func foreignOf(v View, run v1alpha1.BareMetalSettingsSpec) string {
	if plan := v.BIOS.runPlan(run, time.Time{}); plan != nil && len(plan.Foreign) > 0 {
		return ". Values are pending that the run does not set: " + listForeign(plan)
	}
	return ""
}

// configureAttempt drives an attempt that is not over.
func configureAttempt(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec, attempt v1alpha1.BareMetalBootSpec) Step {
	after, unknown := attemptOver(v, s, attempt), step
	unknown.Message = "The server will be restarted with the new settings. "
	switch {
	case !v.Host.bootCounted() && v.Host.Claimed(): // a boot that is counted after the claim would count as one of its machine
		return voidInspection(v, step, "A machine claimed the host before the server was restarted")
	case !v.Host.bootCounted():
		step.Action, step.Boot, step.Message = CountBoot, &attempt, "The server will be restarted with the new settings"
		return step
	case after == "" && !v.Now.Before(v.Deadline(s)):
		after = describeTimeout(v, s, attempt)
	}
	if after != "" {
		return endConfigureAttempt(v, s, step, run, attempt, after)
	}
	return onceBMCKnown(v, s, s.ActiveInterval, unknown, driveConfigureBoot(v, s, step, attempt))
}

// driveConfigureBoot returns the next step of an attempt. The power is known.
func driveConfigureBoot(v View, s Settings, step Step, attempt v1alpha1.BareMetalBootSpec) Step {
	if attempt.PoweredOffTime != nil && attempt.PoweredOnTime == nil && v.BMC.notOff() {
		return voidInspection(v, step, "Something other than the provider powered the server on. It is restarted with the new settings when it is off")
	}
	return driveHostBoot(v, s, step, attempt, fmt.Sprintf("The server restarts with the new settings, attempt %d", attempt.Attempt))
}

// endConfigureAttempt ends an attempt. After the last one the boot has failed, and the run with it.
func endConfigureAttempt(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec, attempt v1alpha1.BareMetalBootSpec, after string) Step {
	switch {
	case v.Host.Claimed():
		after += ". A machine has claimed the host, so there is no other attempt"
	case attempt.Attempt < maxAttempts(v, s) && (v.Host.PausedCluster != "" || v.QueuePosition != nil):
		step.Message, step.RequeueAt = after+". The next attempt waits until no Cluster of the namespace is paused, and for a boot slot", v.Now.Add(s.ActiveInterval)
		return step
	case attempt.Attempt < maxAttempts(v, s):
		step.Action, step.Boot = RecordBoot, newConfigureBoot(v, attempt.Attempt+1, run.Number)
		step.Message = fmt.Sprintf("Attempt %d to restart the server with the new settings begins. %s", attempt.Attempt+1, after)
		return step
	}
	failed := failBoot(attempt, v1alpha1.ReasonSettingsNotApplied, after+". There is no other attempt")
	step.Action, step.Boot, step.Message = failed.Action, failed.Boot, after
	return step
}

// verifySettings powers the server off if the agent may run on it, reads the settings again, and records the outcome of the run.
func verifySettings(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec, boot v1alpha1.BareMetalBootSpec) Step {
	unknown, known := step, step
	unknown.Message = "The server will be powered off after its restart, and the settings read again. "
	limit := latest(v.Deadline(s), v.Host.Boot.StartTime.Add(settingsRunTimeout)).Add(verifyTimeout)
	switch {
	case !v.Now.Before(limit) && (v.bmcBlocked() || v.mayRunAgent(s) && v.BMC.notOff()):
		return endRun(v, step, run, v1alpha1.SettingsFailed, "The server was restarted, and after that its BMC could not be read, or did not power it off")
	case !v.mayRunAgent(s):
		known = judgeSettings(v, step, run, boot)
	case v.BMC.Power != v1alpha1.PowerOff:
		change := issueCommand(v, s, ForceOff, CommandForceOff)
		known.Action, known.RequeueAt, known.Message = change.Action, change.RequeueAt, "The server is being powered off after its restart"
	case !v.BMC.confirmedOff(v.Now, s):
		known.RequeueAt, known.Message = v.Now.Add(s.ActiveInterval), unconfirmedOff
	case v.mediaLeft():
		known.Action, known.Message = EjectMedia, "The server is off after its restart: its boot medium is being ejected"
	default:
		known = judgeSettings(v, step, run, boot)
	}
	step = onceBMCKnown(v, s, s.ActiveInterval, unknown, known)
	if step.Action == "" && limit.After(v.Now) && (step.RequeueAt.IsZero() || limit.Before(step.RequeueAt)) {
		step.RequeueAt = limit
	}
	return step
}

// judgeSettings compares the settings of a server that was restarted with those of the run. The BMC may report the old values for some minutes.
func judgeSettings(v View, step Step, run v1alpha1.BareMetalSettingsSpec, boot v1alpha1.BareMetalBootSpec) Step {
	since, until := latest(pastTime(v.Now, boot.StartTime.Time), pastTime(v.Now, v.BMC.LastPowerAt)), time.Time{}
	if done := boot.AgentDoneTime; done != nil {
		since, until = latest(since, pastTime(v.Now, done.Time)), done.Add(verifyTimeout)
	}
	plan, waits := v.BIOS.runPlan(run, since), v.Now.Before(until)
	if v.BIOS.Reading == nil || v.BIOS.Reading.At.Before(since) || v.BIOS.Reading.Run != run.Number {
		step.Action, step.Message = ReadSettings, "The settings are being read after the restart of the server"
		return step
	}
	switch {
	case plan != nil && boot.Failure == nil && plan.Conforms() && secureBootProven(boot.AgentSecureBoot, run):
		return endRun(v, step, run, v1alpha1.SettingsApplied, "")
	case waits && readSettingsLately(v):
		step.RequeueAt = v.BIOS.Reading.At.Add(verifyInterval)
		step.Message = fmt.Sprintf("The server was restarted. Until %s the BMC may still report the old settings", timestamp(until))
	case waits:
		step.Action, step.Message = ReadSettings, "The settings are being read after the restart of the server"
	case boot.Failure != nil:
		return endRun(v, step, run, v1alpha1.SettingsFailed, "The server was restarted with the settings, and did not boot: "+boot.Failure.Message)
	case plan == nil:
		return endRun(v, step, run, v1alpha1.SettingsFailed, "The server was restarted, and the settings cannot be read: "+v.BIOS.Reading.Problem)
	default:
		return endRun(v, step, run, v1alpha1.SettingsFailed, "After the restart of the server, "+describeUnapplied(boot.AgentSecureBoot, run, plan))
	}
	return step
}
