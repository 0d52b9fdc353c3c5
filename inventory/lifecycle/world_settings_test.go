package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

// firmware is the truth about the only BIOS attribute of a server, VT.
type firmware struct {
	current, pending string
	// read is what was pending when it was read last.
	read string
	// keeps is true for firmware that ignores what is pending, and partly for a BMC that refuses a change and stages some of it.
	keeps, partly bool
	// offered is what the status of the host says.
	offered bool
}

// wishOf is the value that a generation of the profile wishes.
func wishOf(generation int64) string { return fmt.Sprintf("v%d", generation) }

func (f firmware) plan(want string) *settings.Plan {
	in := settings.Input{Current: settings.Values{"VT": settings.Text(cmp.Or(f.current, "v0"))}, Pending: settings.Values{}}
	if want != "" {
		in.Wishes = []settings.Wish{{Name: "VT", Value: want}}
	}
	if f.pending != "" {
		in.Pending["VT"] = settings.Text(f.pending)
	}
	plan := settings.NewPlan(in)
	return &plan
}

// change is the value that a run sets.
func changeOf(run *v1alpha1.BareMetalSettingsSpec) string {
	if run == nil || len(run.Changes) == 0 {
		return ""
	}
	return run.Changes[0].Value
}

// readSettings is what a job reads.
func (w *world) readSettings() {
	w.firmware.read = w.firmware.pending
	r := &SettingsReading{At: w.v.Now, Terms: w.v.Host.PlanTerms(), Plan: w.firmware.plan("")}
	if p := w.v.BIOS.Profile; p != nil {
		r.Profile, r.Plan = p.SettingsProfile, w.firmware.plan(wishOf(p.Generation))
	}
	v := w.v
	if run := v.openRun(); run != nil {
		r.Run, r.RunPlan = run.Number, w.firmware.plan(changeOf(run))
	}
	w.v.BIOS.Reading = r
}

// executeSettings applies a job that is about settings. It returns false for other jobs.
func (w *world) executeSettings(action Action) bool {
	run := w.v.openRun()
	switch {
	case action != ReadSettings && action != StageSettings && action != ClearSettings:
		return false
	case action == ReadSettings || run == nil:
	case action == StageSettings:
		staging := &SettingsStaging{Run: run.Number, At: w.v.Now}
		if w.mood == refuses {
			staging.Refused = "no"
		}
		if w.mood != pretends && (w.mood != refuses || w.firmware.partly) {
			w.firmware.pending = changeOf(run)
		}
		if w.mood != silent {
			w.v.BIOS.Staging = staging
		}
	default:
		staging := &SettingsStaging{Run: run.Number, At: w.v.Now, Refused: "no"}
		if w.mood == refuses || w.mood == pretends {
			staging.ClearFailed = "no"
		} else {
			w.firmware.pending = ""
		}
		w.v.BIOS.Staging = staging
	}
	if w.mood != silent {
		w.readSettings()
	}
	return true
}

// post is what the firmware does when the server is switched on.
func (w *world) post() {
	if w.firmware.pending != "" && !w.firmware.keeps {
		w.notef("the firmware has %s now", w.firmware.pending)
		w.firmware.current = w.firmware.pending
	}
	if !w.firmware.keeps {
		w.firmware.pending = ""
	}
}

// performSettings performs a step that is about settings. It returns false for other steps.
func (w *world) performSettings(step Step) bool {
	state := &w.v.Host.Spec.ProviderState
	switch step.Action {
	case RecordSettings:
		w.v.BIOS.Record = step.Settings
	case CountSettings:
		state.SettingsRuns = step.Settings.Number
	case EndSettings:
		state.SettingsRunsEnded = state.SettingsRuns
	default:
		return false
	}
	return true
}

// judgeSettings judges a step that is about settings.
func (w *world) judgeSettings(v View, step Step) {
	before, now := v.BIOS.Record, step.Settings
	switch {
	case step.Phase == v1alpha1.PhaseAvailable && v.Host.settingsRunOpen():
		w.brokenf(promise.Clean, "offered although its settings are being changed")
	case step.Phase == v1alpha1.PhaseAvailable && v.BIOS.On && failedRun(v) != nil && w.firmware.pending != "" && w.firmware.pending == changeOf(before):
		w.brokenf(promise.Clean, "offered although %s is pending, which a run staged that failed", w.firmware.pending)
	case step.Action == CountSettings && v.Host.Claimed():
		w.brokenf(promise.Command, "a run begins on a host that a machine has")
	case step.Action == CountSettings && (before == nil || now.Number != before.Number || now.Number <= v.Host.Spec.ProviderState.SettingsRuns):
		w.brokenf(promise.Records, "a run is counted that is not recorded")
	case step.Action == RecordBoot && StartsBoot(v, step) && v.Host.settingsRunOpen() && step.Boot.Purpose != v1alpha1.PurposeConfigure && v.Host.HostBoot() == nil && step.State != StateCleaning:
		w.brokenf(promise.Command, "a boot begins while settings may be pending")
	case step.Action == RecordBoot && StartsBoot(v, step) && step.Boot.Purpose == v1alpha1.PurposeConfigure && (v.openRun() == nil || before.StagedTime == nil || v.Host.Claimed()):
		w.brokenf(promise.Command, "a server is restarted for settings that are not staged, or that a machine has")
	case step.Action == EndSettings && !v.Host.settingsRunOpen(), step.Action == EndSettings && (before == nil || before.EndTime == nil) && !v.Requests.SettingsEnded.Set:
		w.brokenf(promise.Records, "a run ends that is not over")
	case step.Action != RecordSettings || before == nil:
	case now.Number < before.Number:
		w.brokenf(promise.Numbers, "the number of the run falls")
	case now.Number == before.Number && (before.StagingTime != nil && now.StagingTime == nil || before.Outcome != "" && now.Outcome != before.Outcome || before.EndTime != nil && now.EndTime == nil):
		w.brokenf(promise.Records, "a record of a run is taken back")
	case now.Number != before.Number && v.Host.settingsRunOpen():
		w.brokenf(promise.Records, "another run begins before the last one has ended")
	case now.Outcome == v1alpha1.SettingsApplied && before.Outcome == "" && w.firmware.current != changeOf(now) && len(now.Changes) > 0:
		w.brokenf(promise.Records, "recorded as applied, and the firmware has %q", w.firmware.current)
	case now.EndTime != nil && before.EndTime == nil && now.Outcome == v1alpha1.SettingsFailed && (v.Host.Spec.Quarantine == nil || v.Host.Spec.Quarantine.Reason != v1alpha1.ReasonSettingsNotApplied):
		w.brokenf(promise.Clean, "a run that failed is over, and the host is not in quarantine")
	}
}

// judgeSettingsCommand judges a command that stages settings, or removes them.
func (w *world) judgeSettingsCommand(v View, a Action) {
	run := v.openRun()
	switch {
	case run == nil || run.StagingTime == nil || run.EndTime != nil || run.Outcome != "":
		w.brokenf(promise.Command, "%s without a run that is recorded", a)
	case run.StagedTime != nil:
		w.brokenf(promise.Command, "%s after the settings were staged", a)
	case a == StageSettings && v.Host.Claimed():
		w.brokenf(promise.Command, "%s on a host that a machine has", a)
	case v.Host.Spec.Quarantine != nil:
		w.brokenf(promise.Command, "%s to a host in quarantine", a)
	}
}

// newProfile makes a user create a profile, or change it.
func (w *world) newProfile(p uint64) {
	generation := int64(1)
	if w.v.BIOS.Profile != nil {
		generation = w.v.BIOS.Profile.Generation + 1
	}
	w.v.BIOS.Profile = &Profile{
		SettingsProfile: v1alpha1.SettingsProfile{Name: "p", UID: "uid-p", Generation: generation, Hash: wishOf(generation)}, Active: p%4 != 0, Required: p/4%2 == 0,
		Scope: choose(p/8, v1alpha1.ScopeReleasedHosts, v1alpha1.ScopeAvailableHosts),
	}
}

func runIsOpen(w *world) bool      { return w.v.Host.settingsRunOpen() }
func isFreeAndStays(w *world) bool { return isFree(w) && !w.v.Host.Deleting }

// setProfiles switches the component of profiles on or off: the provider is started again with another argument.
func (w *world) setProfiles(on bool) {
	w.v.BIOS.On = on
	w.restart()
}

// wantRun makes a user wish for a run on a free host.
func (w *world) wantRun(p uint64) {
	w.v.BIOS.On, w.v.BIOS.Rollout = true, nil
	w.newProfile(1 + p%8/2*2)
	w.v.BIOS.Profile.Scope = v1alpha1.ScopeAvailableHosts
	w.bmcRecovers()
}

// goOnWithRun makes a run go on.
func goOnWithRun(w *world, p uint64) {
	w.bmcRecovers()
	w.v.QueuePosition = nil
	for range 10 + p%30 {
		w.reconcile()
		w.pass(5 * time.Second)
		w.advanceBoot()
	}
}

// settingsEvents are the events of profiles.
var settingsEvents = []event{
	{name: "a BareMetalProfile", weight: 5, when: always, do: func(w *world, p uint64) { w.v.BIOS.On = true; w.newProfile(p) }},
	{name: "the BareMetalProfile is deleted", weight: 1, when: always, do: func(w *world, _ uint64) { w.v.BIOS.Profile = nil }},
	{name: "a run begins", weight: 8, when: isFreeAndStays, do: func(w *world, p uint64) {
		w.wantRun(p)
		for range 3 + p%10 {
			w.reconcile()
			w.pass(3 * time.Second)
		}
	}},
	{name: "the run goes on", weight: 12, when: runIsOpen, do: goOnWithRun},
	{name: "the BMC refuses what a run stages", weight: 4, when: isFreeAndStays, do: func(w *world, p uint64) {
		w.wantRun(p)
		for range 60 {
			if w.reconcile(); w.job != nil && w.job.action == StageSettings {
				w.mood, w.firmware.partly = choose(p, refuses, pretends), p/2%4 > 0
				break
			}
			w.pass(time.Second / 2)
		}
		w.pass(time.Second)
		if p/8%2 == 0 {
			w.mood = obeys
		}
		w.pass(time.Minute)
	}},
	{name: "a machine claims a host in a run by hand", weight: 6, when: func(w *world) bool {
		return isFree(w) && runIsOpen(w) && w.visited == StateConfiguring && w.inServiceAt(StateConfiguring)
	}, do: func(w *world, p uint64) { w.claim(p) }},
	{name: "a host in a run is claimed by hand, and its machine is deleted", weight: 6, when: func(w *world) bool {
		return isFree(w) && runIsOpen(w) && w.visited == StateConfiguring && w.inServiceAt(StateConfiguring)
	}, do: func(w *world, p uint64) {
		w.claim(p)
		w.reconcile()
		w.change(func(c *Consumer) { c.Deleting, c.DeletingSince = true, w.v.Now })
		w.bmcRecovers()
		for range 40 {
			w.reconcile()
			w.pass(2 * time.Second)
		}
	}},
	{name: "a user ends a run whose record is lost", weight: 2, when: runIsOpen, do: func(w *world, _ uint64) { w.v.Requests.SettingsEnded = by("anna: looked") }},
	toggle("the record of the run is lost", 1, func(w *world) bool { return w.lostRun != nil },
		func(w *world, _ uint64) {
			if runIsOpen(w) && w.v.BIOS.Record != nil {
				w.lostRun, w.v.BIOS.Record = w.v.BIOS.Record, nil
			}
		},
		func(w *world) {
			if w.v.BIOS.Record == nil {
				w.v.BIOS.Record = w.lostRun
			}
			w.lostRun = nil
		}),
	toggle("the firmware ignores what is pending", 2, func(w *world) bool { return w.firmware.keeps },
		func(w *world, _ uint64) { w.firmware.keeps = true }, func(w *world) { w.firmware.keeps = false }),
	toggle("somebody stages settings", 1, func(w *world) bool { return w.firmware.pending == "foreign" },
		func(w *world, _ uint64) { w.firmware.pending = "foreign" }, func(w *world) { w.firmware.pending = "" }),
	toggle("the component of profiles is off", 1, func(w *world) bool { return !w.v.BIOS.On },
		func(w *world, _ uint64) { w.setProfiles(false) }, func(w *world) { w.setProfiles(true) }),
	toggle("the rollout waits", 2, func(w *world) bool { return w.v.BIOS.Rollout != nil },
		func(w *world, p uint64) {
			w.v.BIOS.Rollout = &RolloutWait{Message: "1 host is changed", Stopped: p%2 == 0}
		}, func(w *world) { w.v.BIOS.Rollout = nil }),
}

// bios draws what is known of the settings. The record and the count of runs are drawn with the boot.
func (d draw) bios() BIOS {
	profile := v1alpha1.SettingsProfile{Name: "p", UID: "uid-p", Generation: 1, Hash: "v1"}
	truth := firmware{current: pick(d, "vt", "v0", "v1"), pending: pick(d, "vt pending", "", "", "v1", "foreign")}
	b := BIOS{
		On: pick(d, "profiles", true, true, false), Conflict: pick(d, "conflict", "", "", `BareMetalProfiles "p" and "q"`), Offered: d.flag("offered"), Compared: d.flag("compared"),
		Rollout: pick(d, "rollout", nil, nil, &RolloutWait{Message: "1 host is changed"}, &RolloutWait{Message: "one failed", Stopped: true}),
		Staging: pick(d, "staging", nil, &SettingsStaging{Run: 1, At: d.ago("staged at")}, &SettingsStaging{Run: 1, At: d.ago("refused at"), Refused: "no", ClearFailed: pick(d, "clear", "", "no")}),
	}
	if d.flag("profile") {
		b.Profile = &Profile{SettingsProfile: profile, Active: d.flag("active"), Required: d.flag("required"), Scope: pick(d, "scope", v1alpha1.ScopeReleasedHosts, v1alpha1.ScopeAvailableHosts)}
	}
	if d.flag("settings read") {
		b.Reading = &SettingsReading{At: d.ago("read at"), Profile: profile, Plan: truth.plan("v1"), Run: 1, RunPlan: truth.plan("v1"), Problem: pick(d, "unreadable", "", "", "no")}
		if b.Reading.Problem != "" {
			b.Reading.Plan, b.Reading.RunPlan = nil, nil
		}
	}
	return b
}

// settingsRun draws the record of the last run, and the counts of runs. Most records are those of an open run.
func (d draw) settingsRun(v *View) {
	if r := v.BIOS.Reading; r != nil && !d.flag("other terms") {
		r.Terms = v.Host.PlanTerms()
	}
	state := &v.Host.Spec.ProviderState
	state.SettingsRuns = pick(d, "runs", 0, 0, int32(1), 2)
	state.SettingsRunsEnded = pick(d, "runs ended", 0, state.SettingsRuns, state.SettingsRuns)
	if !d.flag("run recorded") {
		return
	}
	start := d.ago("run started")
	run := &v1alpha1.BareMetalSettingsSpec{
		Number: pick(d, "run", max(state.SettingsRuns, 1), max(state.SettingsRuns, 1), state.SettingsRuns+1, 1), Profile: &v1alpha1.SettingsProfile{Name: "p", UID: "uid-p", Generation: 1, Hash: "v1"},
		Changes: []v1alpha1.SettingChange{{Name: "VT", Before: "v0", Value: "v1"}}, StartTime: &metav1.Time{Time: start}, DeadlineTime: &metav1.Time{Time: start.Add(settingsRunTimeout)},
		OfferedBoots: pick(d, "offered boots", nil, nil, new(state.Boots)),
	}
	if d.flag("staging") {
		run.StagingTime = &metav1.Time{Time: start}
		run.StagedTime = pick(d, "staged", nil, run.StagingTime)
		run.Outcome = pick(d, "outcome", "", "", v1alpha1.SettingsApplied, v1alpha1.SettingsRefused, v1alpha1.SettingsWithdrawn, v1alpha1.SettingsFailed)
		if run.Outcome != "" {
			run.EndTime = pick(d, "run ended", nil, run.StagingTime)
		}
	}
	v.BIOS.Record = run
	if b := v.Host.Boot; b != nil && b.Purpose == v1alpha1.PurposeConfigure && rapid.Bool().Draw(d.T, "boot of the run") {
		b.ClaimID, b.MachineName = configureID(run.Number), ""
	}
}

// settingsRest is true for a host in a run that this world does not end without an event.
func settingsRest(v View) bool {
	return !v.BIOS.On || v.openRun() == nil && !v.Requests.SettingsEnded.Set
}

// awaitsRun is true for a free host whose run begins when another reading confirms that its server is off.
func (w *world) awaitsRun(v View) bool {
	v.Now = v.Now.Add(w.s.PowerSettle)
	return v.BIOS.Rollout == nil && WantsRun(v, w.s)
}
