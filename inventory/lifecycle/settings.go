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

// A BareMetalProfile changes the firmware settings of a free host by a run. Two writes start it, in this order: the record with the next number, then the count in the
// host (settingsRuns), in a patch at the version on which it was decided. A claim is a patch at such a version too, so a run and a claim never both win. A run is open
// until settingsRunsEnded of the host has reached its number. The host alone says so: its state does not depend on the record, nor on the component that changes
// settings. A record that is ahead of the count has changed nothing.

// BIOS is what is known of the firmware settings of a server: its BIOS attributes and Secure Boot. All of it is empty while the component is off.
type BIOS struct {
	// On is true if this provider changes settings. Without that no run starts, and an open one waits.
	On bool
	// Record is the record of the last run; nil without one.
	Record *v1alpha1.BareMetalSettingsSpec
	// Profile is the profile that selects the host; nil without one, and if several do.
	Profile *Profile
	// Conflict names the profiles that select the host if there are several; empty otherwise.
	Conflict string
	// Offered is true for a host that machines can claim, as its status says.
	Offered bool
	// Compared is true if the status of the BareMetalSettings is that of a comparison with this generation of the profile.
	Compared bool
	// Reading is the last reading of the settings by this process; nil before.
	Reading *SettingsReading
	// Staging is what the BMC answered to this process when it got the changes of a run; nil before.
	Staging *SettingsStaging
	// Rollout is why the rollout of the profile does not let the host start a run now; nil if it may.
	Rollout *RolloutWait
}

// Profile is a BareMetalProfile that selects a host.
type Profile struct {
	v1alpha1.SettingsProfile
	// Active is false while the rollout is paused.
	Active bool
	// Required is true if a host that does not have the settings is not to be offered.
	Required bool
	// Scope says which hosts are changed.
	Scope v1alpha1.RolloutScope
}

// SettingsReading is a reading of the settings of a server, compared with what they are to be.
type SettingsReading struct {
	// At is when it began.
	At time.Time
	// Profile is the profile that Plan is for, and Terms what of the host it depends on.
	Profile v1alpha1.SettingsProfile
	Terms   PlanTerms
	// Plan is what the profile would change, and what is pending; nil after a Problem. Without a profile it has only what is pending.
	Plan *settings.Plan
	// Run is the number of the run that RunPlan is for.
	Run int32
	// RunPlan is what of the changes of the run is not done; nil without a run, and after a Problem.
	RunPlan *settings.Plan
	// Problem is why the settings could not be read; empty if they were.
	Problem string
}

// PlanTerms are what of the spec of a host the plan of a profile depends on.
type PlanTerms struct {
	// KeepsDisks is true for a host with disks in spec.storage.keep.
	KeepsDisks bool
	BootMode   v1alpha1.BootMode
}

// PlanTerms returns what of the spec of the host the plan of a profile depends on.
func (h Host) PlanTerms() PlanTerms {
	return PlanTerms{KeepsDisks: h.Spec.Storage != nil && len(h.Spec.Storage.Keep) > 0, BootMode: h.Spec.BootMode}
}

// SettingsStaging is what a BMC answered when it got the changes of a run.
type SettingsStaging struct {
	// Run is the number of the run.
	Run int32
	// At is when the BMC answered.
	At time.Time
	// Task is the path of the task that applies the changes; empty if the BMC names none.
	Task string
	// Refused is why the BMC did not accept the changes; empty if it did.
	Refused string
	// ClearFailed is why the BMC did not remove what was staged; empty before that, and if it did.
	ClearFailed string
}

// RolloutWait is why a rollout does not let a host start.
type RolloutWait struct {
	// Message is a sentence.
	Message string
	// Stopped is true for a rollout that does not continue on its own.
	Stopped bool
}

// readAgain returns the facts as they would be if another reading of the settings said the same.
func (b BIOS) readAgain(now time.Time) BIOS {
	if b.Reading != nil {
		again := *b.Reading
		again.At = latest(again.At, now)
		b.Reading = &again
	}
	return b
}

// offered is true for a host that machines can claim. The status says so, and for a host whose settings differ also the record, because a status may be lost.
func (v View) offered() bool { return v.BIOS.Offered || v.offerRecorded() }

func (v View) offerRecorded() bool {
	r := v.BIOS.Record
	return r != nil && r.OfferedBoots != nil && *r.OfferedBoots == v.Host.Spec.ProviderState.Boots
}

// settingsRunOpen is true from the count of a run until its end is counted.
func (h Host) settingsRunOpen() bool {
	return h.Spec.ProviderState.SettingsRuns > h.Spec.ProviderState.SettingsRunsEnded
}

// openRun returns the record of the open run; nil without one, and if the record is lost, or is that of another run.
func (v View) openRun() *v1alpha1.BareMetalSettingsSpec {
	if r := v.BIOS.Record; r != nil && v.Host.settingsRunOpen() && r.Number == v.Host.Spec.ProviderState.SettingsRuns {
		return r
	}
	return nil
}

// failedRun returns the record of the last run if that failed: what it staged may be pending until a reading shows that it is not. It returns nil otherwise.
func failedRun(v View) *v1alpha1.BareMetalSettingsSpec {
	if r := v.BIOS.Record; r != nil && r.Outcome == v1alpha1.SettingsFailed && !v.Host.settingsRunOpen() && r.Number <= v.Host.Spec.ProviderState.SettingsRuns {
		return r
	}
	return nil
}

// readSinceFailure is true if the settings were read, or could not be read, since the last run failed; also if no run failed.
func readSinceFailure(v View) bool {
	run, r := failedRun(v), v.BIOS.Reading
	return run == nil || run.EndTime == nil || !r.At.Before(pastTime(v.Now, run.EndTime.Time))
}

// settingsReadingDue is true if the settings must be read before the host is offered again. Those of an offered host are read with its inventory, and when its profile changes.
func settingsReadingDue(v View) bool {
	p, r, last := v.BIOS.Profile, v.BIOS.Reading, v.Host.Boot
	switch {
	case p == nil && failedRun(v) == nil:
		return false
	case r == nil:
		return !v.offered() || p != nil && (!v.BIOS.Compared || !v.BMC.HealthReadAt.IsZero())
	case r.At.After(v.Now) || !readSinceFailure(v): // the clock was set back: nothing says what it is later than
		return true
	case r.Problem != "":
		return !v.Now.Before(r.At.Add(partialInspectInterval))
	case r.Terms != v.Host.PlanTerms(): // no run begins by a plan for other terms
		return true
	default:
		return p != nil && r.Profile != p.SettingsProfile || r.Plan == nil || pastTime(v.Now, v.BMC.HealthReadAt).After(r.At) ||
			last != nil && last.VoidedTime != nil && pastTime(v.Now, last.VoidedTime.Time).After(r.At)
	}
}

// offerConfigured begins the run of a profile on a server that could be offered otherwise, or says why the host is not offered. A host that is offered already stays
// offered until its run begins: a profile empties no pool. That a host is offered although its settings differ is recorded before, but not while a move may bring the record.
func offerConfigured(v View, s Settings, step Step) Step {
	p, r := v.BIOS.Profile, v.BIOS.Reading
	switch {
	case step.Phase != v1alpha1.PhaseAvailable || !v.BIOS.On:
		return step
	case p == nil:
		return readSettingsBeforeOffer(v, step)
	}
	step = compareSettings(v, s, step)
	conforms := r == nil || r.Plan != nil && r.Plan.Conforms()
	if step.Phase != v1alpha1.PhaseAvailable || step.Action != "" || conforms || !p.Active || v.offerRecorded() || pendingSettings(v) != "" || v.Host.PausedCluster != "" {
		return step
	}
	var record v1alpha1.BareMetalSettingsSpec
	if v.BIOS.Record != nil {
		record = *v.BIOS.Record
	}
	boots := v.Host.Spec.ProviderState.Boots
	record.OfferedBoots = &boots
	return recordRun(step, record, "The host is offered with its old firmware settings")
}

// compareSettings is offerConfigured, without the record of the offer.
func compareSettings(v View, s Settings, step Step) Step {
	p, r := v.BIOS.Profile, v.BIOS.Reading
	required := p.Active && p.Required
	switch {
	case settingsReadingDue(v), r == nil, r.Problem != "": // without a reading, the status has the comparison
		return readSettingsBeforeOffer(v, step)
	case len(r.Plan.Refusals) > 0:
		return withholdOffer(v, step, required, v1alpha1.ReasonSettingsRefused, RefusalMessage(p.Name, r.Plan))
	case len(r.Plan.Foreign) > 0 || r.Plan.Conforms() || !p.Active || v.offered() && p.Scope == v1alpha1.ScopeReleasedHosts:
		return step
	case triedSettings(v):
		return withholdOffer(v, step, required, v1alpha1.ReasonSettingsNotApplied, fmt.Sprintf("The settings differ from BareMetalProfile %q: %s. %s", p.Name, ListChanges(r.Plan),
			TriedMessage(v)))
	default:
		return beginRun(v, s, step, required)
	}
}

// readSettingsBeforeOffer reads the settings if that is due. A host whose last run failed is not offered before a reading shows that nothing is pending, also without a
// profile, and with one that is paused.
func readSettingsBeforeOffer(v View, step Step) Step {
	p, r, failed := v.BIOS.Profile, v.BIOS.Reading, failedRun(v) != nil
	switch {
	case settingsReadingDue(v):
		step = withholdOffer(v, step, failed || p.Active, v1alpha1.ReasonSettingsPending, "The firmware settings are being read")
		step.Action = ReadSettings
	case r != nil && r.Problem != "" && (failed || p != nil):
		step.RequeueAt = r.At.Add(partialInspectInterval)
		step = withholdOffer(v, step, failed || p.Active && p.Required, v1alpha1.ReasonSettingsUnreadable, "The firmware settings cannot be read: "+r.Problem)
	}
	return step
}

// withholdOffer keeps a host that is not offered yet from being offered.
func withholdOffer(v View, step Step, withhold bool, reason, message string) Step {
	if withhold && !v.offered() {
		step.Phase, step.Reason, step.Message = v1alpha1.PhaseUnavailable, reason, message
	}
	return step
}

// appliedLast is true if the last run was for what the profile wishes, and ended for a reason of the settings or of the server.
func appliedLast(v View) bool {
	r, p := v.BIOS.Record, v.BIOS.Profile
	return p != nil && r != nil && r.Profile != nil && r.Profile.SameWish(p.SettingsProfile) && r.Number <= v.Host.Spec.ProviderState.SettingsRuns && r.Outcome != "" &&
		r.Outcome != v1alpha1.SettingsWithdrawn
}

// triedSettings is true if the last run was for what the profile wishes, and another one would do the same: it did not succeed, or the server was not booted since.
func triedSettings(v View) bool {
	r := v.BIOS.Record
	return appliedLast(v) && (r.Outcome != v1alpha1.SettingsApplied || v.Host.configureBootOf(r.Number) != nil)
}

// TriedMessage says that the last run is not repeated, and how to have another one; empty if another one may begin.
func TriedMessage(v View) string {
	tried := triedSettings(v)
	if v.Host.Claimed() {
		tried = triedMachine(v)
	}
	if !tried {
		return ""
	}
	r, how := v.BIOS.Record, ""
	if r.Message != "" {
		how = ": " + r.Message
	}
	return fmt.Sprintf("Run %d for the same settings ended as %s, so it is not repeated%s. Change the settings in the profile to have another run, or delete the BareMetalSettings", r.Number, r.Outcome, how)
}

// beginRun records a run, and counts the one that was recorded.
func beginRun(v View, s Settings, step Step, required bool) Step {
	const pending = v1alpha1.ReasonSettingsPending
	profile, wait := v.BIOS.Profile, v.BIOS.Rollout
	switch holds := v.powerHolds(); {
	case v.Host.Spec.Power == v1alpha1.PowerOn:
		return withholdOffer(v, step, required, pending, "The firmware settings are changed only on a server that is off. Remove spec.power, or set it to Off")
	case len(holds) > 0:
		return withholdOffer(v, step, true, pending, "The firmware settings have to be changed, but power holds keep the server powered off: "+describeHolds(holds))
	case v.Host.PausedCluster != "":
		step.RequeueAt = v.Now.Add(s.PollInterval)
		return withholdOffer(v, step, true, pending, fmt.Sprintf("The firmware settings have to be changed. That starts when Cluster %q is no longer paused: the hosts of the "+
			"namespace may be moving", v.Host.PausedCluster))
	case v.BMC.Power != v1alpha1.PowerOff || !v.BMC.confirmedOff(v.Now, s):
		step.RequeueAt = v.Now.Add(s.ActiveInterval)
		if !v.BMC.powerKnown(v.Now, s.ActiveInterval) { // an offered host has no reason for which its power is read often
			step.Action = ReadPower
		}
		return withholdOffer(v, step, true, pending, unconfirmedOff)
	case wait != nil:
		step.RequeueAt = v.Now.Add(s.ActiveInterval * 6)
		return withholdOffer(v, step, required || !wait.Stopped, v1alpha1.ReasonSettingsQueued, fmt.Sprintf("The rollout of BareMetalProfile %q: %s", profile.Name, wait.Message))
	}
	run := newRun(v)
	step.Phase, step.Reason, step.Action = v1alpha1.PhaseUnavailable, pending, RecordSettings
	if runRecorded(v, run) {
		step.Action, run = CountSettings, v.BIOS.Record
	}
	step.Settings, step.Message = run, fmt.Sprintf("Run %d of BareMetalProfile %q begins", run.Number, profile.Name)
	return step
}

// runRecorded is true if the run was recorded and not counted. A record of an earlier decision does not count: the wish, or the server, has changed since.
func runRecorded(v View, run *v1alpha1.BareMetalSettingsSpec) bool {
	r := v.BIOS.Record
	if r == nil || r.Number <= v.Host.Spec.ProviderState.SettingsRuns || r.Profile == nil || r.DeadlineTime == nil || r.StagingTime != nil || r.Outcome != "" || r.EndTime != nil {
		return false
	}
	same := func(a, b v1alpha1.SettingChange) bool { return a.Name == b.Name && a.Value == b.Value }
	return *r.Profile == *run.Profile && r.SecureBoot == run.SecureBoot && slices.EqualFunc(r.Changes, run.Changes, same) && v.Now.Before(r.DeadlineTime.Time)
}

// newRun returns the record of a run that starts now. No earlier run of the host has its number.
func newRun(v View) *v1alpha1.BareMetalSettingsSpec {
	number, plan, profile := v.Host.Spec.ProviderState.SettingsRuns, v.BIOS.Reading.Plan, v.BIOS.Profile.SettingsProfile
	if v.BIOS.Record != nil {
		number = max(number, v.BIOS.Record.Number)
	}
	start, deadline := metav1.NewTime(v.Now), metav1.NewTime(v.Now.Add(settingsRunTimeout))
	run := &v1alpha1.BareMetalSettingsSpec{Number: number + 1, Profile: &profile, StartTime: &start, DeadlineTime: &deadline}
	for _, c := range plan.Changes {
		run.Changes = append(run.Changes, v1alpha1.SettingChange{Name: c.Name, Before: c.From.String(), Value: c.To.String()})
	}
	if c := plan.SecureBoot; c != nil {
		run.SecureBoot = wire.SecureBootDisabled
		if c.To {
			run.SecureBoot = wire.SecureBootEnabled
		}
	}
	return run
}

// StartsRun is true for a step that starts a settings run.
func StartsRun(v View, step Step) bool {
	records := step.Action == RecordSettings && !v.Host.settingsRunOpen() && step.Settings.OfferedBoots == nil
	return step.Action == CountSettings || records && step.Settings.Number > v.Host.Spec.ProviderState.SettingsRuns
}

// WantsRun is true for a host that starts a settings run as soon as the rollout of its profile lets it, and its power is read again.
func WantsRun(v View, s Settings) bool {
	if !v.BMC.usable() {
		return false
	}
	v.BIOS.Rollout, v.QueuePosition, v.Requests.RetryBMC, v.BMC.Busy = nil, nil, false, false
	v.BMC.PowerAt = latest(v.BMC.PowerAt, v.Now)
	return StartsRun(v, Next(v, s))
}

// pendingSettings says which values are pending at the BMC of a host that would be offered; empty if none is, and if neither a profile selects the host nor its last run
// failed. A profile that is paused does not make values safe that were staged before.
func pendingSettings(v View) string {
	p, r := v.BIOS.Profile, v.BIOS.Reading
	if p == nil && failedRun(v) == nil || r == nil || r.Plan == nil {
		return ""
	}
	var names []string
	for _, c := range slices.Concat(r.Plan.Foreign, r.Plan.Changes) {
		if c.Pending {
			names = append(names, fmt.Sprintf("%s=%s", c.Name, c.To))
		}
	}
	if c := r.Plan.SecureBoot; c != nil && c.Pending {
		names = append(names, settings.SecureBootName)
	}
	if len(names) == 0 {
		return ""
	}
	return inventory.ListNames(names)
}

func offersPendingSettings(v View, step Step) bool {
	return step.Phase == v1alpha1.PhaseAvailable && pendingSettings(v) != ""
}

func keepPendingSettings(_ View, _ Settings, step Step) Step {
	step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonSettingsForeign
	return step
}

func pendingSettingsMessage(v View, _ Step) string {
	return fmt.Sprintf("Values are pending at the BMC, and no run is in progress: %s. The next restart of the server would apply them. Remove them in the setup of the firmware, "+
		"or restart the server, then set the annotation %s", pendingSettings(v), v1alpha1.RetryBMCAnnotation)
}
