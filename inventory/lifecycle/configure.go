package lifecycle

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

// A run stages its changes at the BMC, and boots the agent once (configureboot.go). Each of its writes precedes what it allows: stagingTime the first request to the BMC,
// stagedTime the boot, outcome the quarantine, and endTime the end. So a restarted provider repeats at most a request that changes nothing the second time.

const (
	// settingsRunTimeout is how long a run may take. After it the run fails.
	settingsRunTimeout = 2 * time.Hour
	// stagingTimeout is how long a BMC may take until it reports all changes as pending.
	stagingTimeout = 15 * time.Minute
	// verifyTimeout is how long after the restart the BMC may report the old values: some read them from the firmware some minutes later.
	verifyTimeout = 10 * time.Minute
	// verifyInterval is how often the settings are read while they are expected to change.
	verifyInterval = 30 * time.Second
)

func configureHost(v View, s Settings) Step {
	return configure(v, s, Step{Phase: v1alpha1.PhaseConfiguring, Reason: v1alpha1.ReasonConfiguring})
}

// configure drives the open run of a host, and ends it. The step has the phase and the reason of the host meanwhile. A machine that has claimed the host waits.
func configure(v View, s Settings, step Step) Step {
	if record, due := restoreBootRecord(v, s); due && !v.Host.Claimed() && v.Host.ConfigureBoot() == nil {
		record.Phase, record.Reason = step.Phase, step.Reason
		return record
	}
	run := v.openRun()
	switch {
	case v.Host.InspectionBoot() != nil:
		return endInspection(v, s, step)
	case v.Host.RequestedErasureBoot() != nil:
		return eraseOnRequest(v, s, step)
	case !v.BIOS.On:
		step = pollInRun(v, s, step)
		step.Message = "A run of a BareMetalProfile is in progress, and this provider does not change settings (--profiles). The host waits until it does"
		return step
	case run == nil:
		return settingsUnknown(v, s, step)
	default:
		return advanceRun(v, s, step, *run)
	}
}

// advanceRun drives an open run whose record is known.
func advanceRun(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	switch {
	case run.Outcome != "" || run.EndTime != nil:
		return concludeRun(v, step, run)
	case run.StagingTime == nil:
		return beginStaging(v, s, step, run)
	case run.StagedTime == nil:
		return stageSettings(v, s, step, run)
	case run.RequestedBy != "" && v.Host.Claimed():
		return restartMachine(v, s, step, run)
	default:
		return applySettings(v, s, step, run)
	}
}

// pollInRun polls the BMC of a host in a run that does not go on, and does nothing else.
func pollInRun(v View, s Settings, step Step) Step {
	polled := pollBMC(v, s)
	polled.Phase, polled.Reason = step.Phase, step.Reason
	if polled.Action == "" && polled.RequeueAt.IsZero() {
		polled.RequeueAt = v.Now.Add(s.PollInterval)
	}
	return polled
}

// settingsUnknown only says that the record of the run is lost, and how to end that. It does nothing: what is pending at the BMC is unknown.
func settingsUnknown(v View, s Settings, step Step) Step {
	step.Reason = v1alpha1.ReasonSettingsUnknown
	if !v.Host.Claimed() {
		step.Phase = v1alpha1.PhaseUnavailable
	}
	step = pollInRun(v, s, step)
	step.Message = ""
	return withNote(step, lostRun(v))
}

// lostRun says that the record of a run is lost, or ends the run as a user requests.
func lostRun(v View) Step {
	if v.Requests.SettingsEnded.Set {
		return Step{
			Action: EndSettings, Drop: []string{v1alpha1.SettingsEndedAnnotation}, Message: "A user ended the run whose record is lost: " + v.Requests.SettingsEnded.why(),
		}
	}
	found := "is missing"
	if r := v.BIOS.Record; r != nil {
		found = fmt.Sprintf("has the number %d", r.Number)
	}
	return Step{Message: fmt.Sprintf("spec.providerState.settingsRuns is %d, and BareMetalSettings %q %s: it is unknown which firmware settings are pending at the BMC. Restore the "+
		"BareMetalSettings from a backup. Or check the server, and set the annotation %s=\"who and how\"", v.Host.Spec.ProviderState.SettingsRuns, v.Host.Name, found,
		v1alpha1.SettingsEndedAnnotation)}
}

// runDeadline is when a run fails that has not ended; zero if its record lacks that.
func runDeadline(run v1alpha1.BareMetalSettingsSpec) time.Time {
	if run.DeadlineTime == nil {
		return time.Time{}
	}
	return run.DeadlineTime.Time
}

func runIsLate(v View, run v1alpha1.BareMetalSettingsSpec) bool {
	return !v.Now.Before(runDeadline(run))
}

// recordRun returns the step that writes the record of a run.
func recordRun(step Step, run v1alpha1.BareMetalSettingsSpec, message string) Step {
	step.Action, step.Settings, step.Message = RecordSettings, &run, message
	return step
}

// endRun returns the step that records how a run ended.
func endRun(v View, step Step, run v1alpha1.BareMetalSettingsSpec, outcome v1alpha1.SettingsOutcome, message string) Step {
	run.Outcome, run.Message = outcome, message
	if b := v.Host.configureBootOf(run.Number); b != nil {
		run.BootNumber = b.Number
	}
	if outcome == v1alpha1.SettingsApplied {
		run.Message, message = "", fmt.Sprintf("The server has the settings of run %d", run.Number)
	}
	return recordRun(step, run, message)
}

// beginStaging records that the BMC gets the changes from now on. Before that a run has changed nothing, and a machine that has claimed the host ends it.
func beginStaging(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	switch {
	case takenFrom(v, run):
		return endRun(v, step, run, v1alpha1.SettingsWithdrawn, takenBefore(run, "the BMC got the settings"))
	case runIsLate(v, run):
		return endRun(v, step, run, v1alpha1.SettingsWithdrawn, "The run did not begin before its deadline")
	case v.Host.PausedCluster != "":
		step.RequeueAt = v.Now.Add(s.PollInterval)
		step.Message = fmt.Sprintf("The BMC gets the settings when Cluster %q is no longer paused: the hosts of the namespace may be moving", v.Host.PausedCluster)
		return untilRunDeadline(run, step)
	default:
		now := metav1.NewTime(v.Now)
		run.StagingTime = &now
		return recordRun(step, run, "The BMC gets the settings")
	}
}

// runPlan returns what of a run is not done, by a reading after a time; nil without such a reading.
func (b BIOS) runPlan(run v1alpha1.BareMetalSettingsSpec, after time.Time) *settings.Plan {
	if r := b.Reading; r != nil && r.Run == run.Number && !r.At.Before(after) {
		return r.RunPlan
	}
	return nil
}

// stagingOf returns what the BMC answered when it got the changes of a run; nil before.
func (b BIOS) stagingOf(run v1alpha1.BareMetalSettingsSpec) *SettingsStaging {
	if b.Staging != nil && b.Staging.Run == run.Number {
		return b.Staging
	}
	return nil
}

func isPending(c settings.Change) bool { return c.Pending }

// isPartlyStaged is true if the BMC reports a change of a run as pending.
func isPartlyStaged(p *settings.Plan) bool {
	return p.SecureBoot != nil && p.SecureBoot.Pending || slices.ContainsFunc(p.Changes, isPending)
}

// pastTime returns a time, or zero if it is in the future: a clock that was set back makes nothing a later reading.
func pastTime(now, at time.Time) time.Time {
	if at.After(now) {
		return time.Time{}
	}
	return at
}

// isStaged is true if the BMC reports all changes of a run as pending, or has them already.
func isStaged(p *settings.Plan) bool {
	return !p.Blocked() && (p.SecureBoot == nil || p.SecureBoot.Pending) && !slices.ContainsFunc(p.Changes, func(c settings.Change) bool { return !c.Pending })
}

// isUntouched is true if the BMC has no change of a run, neither as a current value nor as a pending one.
func isUntouched(run v1alpha1.BareMetalSettingsSpec, p *settings.Plan) bool {
	if run.SecureBoot != "" && (p.SecureBoot == nil || p.SecureBoot.Pending) && !slices.ContainsFunc(p.Refusals, func(r settings.Refusal) bool { return r.Reason == settings.ReasonSecureBoot }) {
		return false
	}
	for _, change := range run.Changes {
		unchanged := slices.ContainsFunc(p.Changes, func(c settings.Change) bool { return c.Name == change.Name && !c.Pending })
		refused := slices.ContainsFunc(p.Refusals, func(r settings.Refusal) bool { return r.Name == change.Name })
		if !unchanged && !refused {
			return false
		}
	}
	return true
}

// stageSettings gives the BMC the changes, and waits until it reports them as pending.
func stageSettings(v View, s Settings, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	plan, staging, deadline := v.BIOS.runPlan(run, pastTime(v.Now, run.StagingTime.Time)), v.BIOS.stagingOf(run), run.StagingTime.Add(stagingTimeout)
	unknown, known := step, step
	unknown.Message = "The BMC gets the settings, until " + timestamp(deadline) + ". "
	switch {
	case takenFrom(v, run) && plan != nil:
		return onceBMCKnown(v, s, s.PollInterval, unknown, endStaging(v, step, run, plan, v1alpha1.SettingsWithdrawn, takenBefore(run, "the BMC had the settings")))
	case plan != nil && staging != nil && staging.Refused == "" && isStaged(plan):
		now := metav1.NewTime(v.Now)
		run.StagedTime, run.Task = &now, staging.Task
		return recordRun(step, run, "The settings are pending at the BMC. The next restart of the server applies them")
	case !v.Now.Before(deadline):
		outcome := v1alpha1.SettingsWithdrawn // it never answered
		if staging != nil {
			outcome = v1alpha1.SettingsRefused
		}
		return endStaging(v, step, run, plan, outcome, fmt.Sprintf("The BMC did not report the settings as pending within %s", stagingTimeout))
	case plan != nil && len(plan.Foreign) > 0:
		return onceBMCKnown(v, s, s.PollInterval, unknown, endStaging(v, step, run, plan, v1alpha1.SettingsWithdrawn,
			"Values are pending at the BMC that the run does not set: "+listForeign(plan)))
	case plan != nil && staging != nil && staging.Refused != "":
		return onceBMCKnown(v, s, s.PollInterval, unknown, endStaging(v, step, run, plan, v1alpha1.SettingsRefused, "The BMC refused the settings: "+staging.Refused))
	case readSettingsLately(v) && v.BIOS.Reading.Run == run.Number:
		known.RequeueAt = v.BIOS.Reading.At.Add(verifyInterval)
	case staging == nil && !takenFrom(v, run):
		known.Action = StageSettings
	default:
		known.Action = ReadSettings
	}
	known.Message = "The BMC gets the settings, until " + timestamp(deadline)
	return onceBMCKnown(v, s, s.PollInterval, unknown, known)
}

// readSettingsLately is true for a reading after which it is too early for another one.
func readSettingsLately(v View) bool {
	r := v.BIOS.Reading
	return r != nil && !r.At.After(v.Now) && v.Now.Before(r.At.Add(verifyInterval))
}

// listForeign lists pending values that nobody wished.
func listForeign(p *settings.Plan) string {
	names := make([]string, 0, len(p.Foreign))
	for _, c := range p.Foreign {
		names = append(names, fmt.Sprintf("%s=%s", c.Name, c.To))
	}
	return inventory.ListNames(names)
}

// endStaging ends a run whose changes the BMC did not take. If some of them are pending, they are removed first; the values of others would be removed with them, so then
// the run has failed. Without a reading it is unknown what is pending. untouched is the outcome if no change reached the BMC.
func endStaging(v View, step Step, run v1alpha1.BareMetalSettingsSpec, plan *settings.Plan, untouched v1alpha1.SettingsOutcome, why string) Step {
	staging := v.BIOS.stagingOf(run)
	switch {
	case plan != nil && isUntouched(run, plan):
		return endRun(v, step, run, untouched, why)
	case plan != nil && len(plan.Foreign) == 0 && isPartlyStaged(plan) && (staging == nil || staging.ClearFailed == "") && !v.BMC.Busy && !v.bmcBlocked():
		step.Action, step.Message = ClearSettings, why+". The settings that are pending are being removed"
		return step
	case plan == nil:
		return endRun(v, step, run, v1alpha1.SettingsFailed, why+". It is unknown what is pending")
	default:
		return endRun(v, step, run, v1alpha1.SettingsFailed, why+". Some of the settings are pending, or took effect")
	}
}

// concludeRun ends a run whose outcome is recorded. After a failure it puts the host into quarantine first. The order makes the outcome certain after a restart. A machine that
// has claimed a host whose run failed waits: its deletion releases the host. A machine whose server was changed in a maintenance keeps it, and the quarantine begins with its release.
func concludeRun(v View, step Step, run v1alpha1.BareMetalSettingsSpec) Step {
	failed := run.Outcome == v1alpha1.SettingsFailed
	message := fmt.Sprintf("Run %d of %s failed. %s", run.Number, profileOf(run), run.Message)
	switch {
	case run.EndTime != nil:
		step.Action, step.Message = EndSettings, fmt.Sprintf("Run %d has ended", run.Number)
	case failed && v.Host.Claimed() && run.RequestedBy == "":
		step.Reason, step.Message = v1alpha1.ReasonSettingsNotApplied, message+". Delete the Machine to have it replaced"
	case failed && (v.Host.Spec.Quarantine == nil || v.Host.Spec.Quarantine.Reason != v1alpha1.ReasonSettingsNotApplied):
		step.Action, step.Message = Isolate, "The firmware settings were not applied"
		step.Quarantine = newQuarantine(v, v1alpha1.ReasonSettingsNotApplied, message+". Check the setup of the firmware")
	case v.Host.ConfigureBoot() != nil:
		return voidInspection(v, step, "The boot of the run is over")
	default:
		now := metav1.NewTime(v.Now)
		run.EndTime = &now
		step = recordRun(step, run, fmt.Sprintf("Run %d has ended: %s", run.Number, run.Outcome))
	}
	return step
}

func profileOf(run v1alpha1.BareMetalSettingsSpec) string {
	if run.Profile == nil {
		return "a profile"
	}
	return fmt.Sprintf("BareMetalProfile %q", run.Profile.Name)
}

// runIsOver is true while the outcome of the open run is recorded, and its end is not counted.
func runIsOver(v View) bool {
	run := v.openRun()
	return v.BIOS.On && run != nil && (run.Outcome != "" || run.EndTime != nil)
}

// secureBootProven is true if the agent found Secure Boot as the run sets it.
func secureBootProven(found wire.SecureBoot, run v1alpha1.BareMetalSettingsSpec) bool {
	return run.SecureBoot == "" || found == run.SecureBoot
}

// describeUnapplied says what of a run did not take effect. found is the state of Secure Boot that the agent found; empty if it is unknown.
func describeUnapplied(found wire.SecureBoot, run v1alpha1.BareMetalSettingsSpec, p *settings.Plan) string {
	var parts []string
	for _, c := range p.Changes {
		part := fmt.Sprintf("%s is %q, and %q was set", c.Name, c.From, c.To)
		if c.Pending {
			part += " and is still pending"
		}
		parts = append(parts, part)
	}
	for _, r := range p.Refusals {
		parts = append(parts, r.Message)
	}
	if len(p.Foreign) > 0 {
		parts = append(parts, "pending values that the run does not set: "+listForeign(p))
	}
	switch {
	case run.SecureBoot == "" || secureBootProven(found, run) && p.SecureBoot == nil:
	case found == "":
		parts = append(parts, fmt.Sprintf("Secure Boot was set to %s, and no agent reported its state%s", run.SecureBoot, stillPending(p)))
	default:
		parts = append(parts, fmt.Sprintf("Secure Boot was set to %s, and the agent found it %s%s", run.SecureBoot, found, stillPending(p)))
	}
	return listParts(parts)
}

// stillPending says that the change of Secure Boot is pending.
func stillPending(p *settings.Plan) string {
	if p.SecureBoot == nil || !p.SecureBoot.Pending {
		return ""
	}
	return ", and it is still pending"
}
