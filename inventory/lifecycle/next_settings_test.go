package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

// performance is a profile that is rolled out to released hosts.
var performance = Profile{SettingsProfile: v1alpha1.SettingsProfile{Name: "performance", UID: "uid-p", Generation: 1, Hash: "a"}, Active: true, Scope: v1alpha1.ScopeReleasedHosts}

// virtualization is the plan of a wish: the attribute VT is to be Enabled.
func virtualization(current, pending string) *settings.Plan {
	in := settings.Input{Wishes: []settings.Wish{{Name: "VT", Value: "Enabled"}}, Current: settings.Values{"VT": settings.Text(current)}, Pending: settings.Values{}}
	if pending != "" {
		in.Pending["VT"] = settings.Text(pending)
	}
	plan := settings.NewPlan(in)
	return &plan
}

// settingsRead is the fact that the settings were read, ten seconds ago.
func settingsRead(plan *settings.Plan) func(*View) {
	return func(v *View) {
		v.BIOS.Reading = &SettingsReading{At: noon.Add(-10 * time.Second), Profile: performance.SettingsProfile, Plan: plan}
	}
}

// profiled is a profile that selects the host.
func profiled(v *View) {
	p := performance
	v.BIOS.On, v.BIOS.Profile = true, &p
}

func differs(v *View)   { settingsRead(virtualization("Disabled", ""))(v) }
func otherWish(v *View) { v.BIOS.Record.Profile.Hash = "b" }
func createdAgain(v *View) {
	v.BIOS.Profile.UID, v.BIOS.Profile.Generation = "uid-q", 2
	v.BIOS.Reading.Profile = v.BIOS.Profile.SettingsProfile
}
func noProfile(v *View)     { v.BIOS.Profile = nil }
func conforms(v *View)      { settingsRead(virtualization("Enabled", ""))(v) }
func required(v *View)      { v.BIOS.Profile.Required = true }
func rolloutPaused(v *View) { v.BIOS.Profile.Active = false }
func alsoAvailable(v *View) { v.BIOS.Profile.Scope = v1alpha1.ScopeAvailableHosts }
func offeredNow(v *View)    { v.BIOS.Offered = true }
func offerRecorded(v *View) {
	v.BIOS.Record = &v1alpha1.BareMetalSettingsSpec{OfferedBoots: new(int32(0))}
}
func unreadable(v *View) {
	v.BIOS.Reading.Plan, v.BIOS.Reading.Problem = nil, "it has no BIOS attributes"
}
func refused(v *View) {
	plan := settings.NewPlan(settings.Input{Wishes: []settings.Wish{{Name: "VX", Value: "Enabled"}}, Current: settings.Values{"VT": settings.Text("Disabled")}})
	settingsRead(&plan)(v)
}
func foreignPending(v *View) {
	plan := settings.NewPlan(settings.Input{
		Wishes: []settings.Wish{{Name: "VT", Value: "Enabled"}}, Current: settings.Values{"VT": settings.Text("Enabled"), "SR": settings.Text("Off")},
		Pending: settings.Values{"SR": settings.Text("On")},
	})
	settingsRead(&plan)(v)
}
func keepsDisk(v *View) { v.Host.Spec.Storage = &v1alpha1.HostStorage{Keep: []wire.KeptDisk{{}}} }
func offLately(v *View) {
	v.BMC.PowerAt, v.BMC.PowerSince = noon.Add(-6*time.Second), noon.Add(-6*time.Second)
}
func rolloutWaits(v *View)   { v.BIOS.Rollout = &RolloutWait{Message: "1 of 1 hosts is being changed"} }
func rolloutStopped(v *View) { v.BIOS.Rollout = &RolloutWait{Message: "a host failed", Stopped: true} }

// runRecord is the record of a run that applies a plan.
func runRecord(number int32) *v1alpha1.BareMetalSettingsSpec {
	return &v1alpha1.BareMetalSettingsSpec{
		Number: number, Profile: &v1alpha1.SettingsProfile{Name: "performance", UID: "uid-p", Generation: 1, Hash: "a"}, Changes: []v1alpha1.SettingChange{{Name: "VT", Before: "Disabled", Value: "Enabled"}},
		StartTime: at(10 * time.Minute), DeadlineTime: at(10*time.Minute - settingsRunTimeout),
	}
}

// recordedRun is a run that is recorded and not counted.
func recordedRun(v *View) { v.BIOS.Record = runRecord(1) }

// endedRun is the last run, which ended.
func endedRun(outcome v1alpha1.SettingsOutcome) func(*View) {
	return func(v *View) {
		v.Host.Spec.ProviderState.SettingsRuns, v.Host.Spec.ProviderState.SettingsRunsEnded = 1, 1
		v.BIOS.Record = runRecord(1)
		v.BIOS.Record.Outcome, v.BIOS.Record.EndTime = outcome, at(time.Minute)
	}
}

// runView is a free host whose run is open, and has changed nothing.
func runView(changes ...func(*View)) View {
	v := freeView(profiled, recordedRun, func(v *View) { v.Host.Spec.ProviderState.SettingsRuns = 1 })
	for _, change := range changes {
		change(&v)
	}
	return v
}

func stagingBegan(v *View)   { v.BIOS.Record.StagingTime = at(time.Minute) }
func stagingOverdue(v *View) { v.BIOS.Record.StagingTime = at(stagingTimeout) }
func runOverdue(v *View)     { v.BIOS.Record.DeadlineTime = at(0) }
func staged(v *View) {
	stagingBegan(v)
	v.BIOS.Record.StagedTime = at(50 * time.Second)
}

// runRead is the fact that the settings were read during the run, some time ago.
func runRead(plan *settings.Plan, ago time.Duration) func(*View) {
	return func(v *View) {
		v.BIOS.Reading = &SettingsReading{At: noon.Add(-ago), Profile: performance.SettingsProfile, Plan: plan, Run: 1, RunPlan: plan}
	}
}

// accepted is the fact that the BMC took the changes, and stagingRefused that it did not.
func accepted(v *View) {
	v.BIOS.Staging = &SettingsStaging{Run: 1, At: noon.Add(-10 * time.Second), Task: "/tasks/7"}
}
func stagingRefused(v *View) {
	v.BIOS.Staging = &SettingsStaging{Run: 1, At: noon.Add(-10 * time.Second), Refused: "no"}
}
func clearFailed(v *View) { v.BIOS.Staging.ClearFailed = "no" }
func outcome(o v1alpha1.SettingsOutcome) func(*View) {
	return func(v *View) { v.BIOS.Record.Outcome, v.BIOS.Record.Message = o, "VT is \"Disabled\"" }
}
func runEnded(v *View)    { v.BIOS.Record.EndTime = at(0) }
func recordLost(v *View)  { v.BIOS.Record = nil }
func recordOld(v *View)   { v.Host.Spec.ProviderState.SettingsRuns = 2 }
func switchedOff(v *View) { v.BIOS = BIOS{} }
func endedByUser(v *View) { v.Requests.SettingsEnded = by("anna: looked at the setup") }
func notApplied(v *View) {
	v.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: v1alpha1.ReasonSettingsNotApplied}
}
func claimedInRun(v *View) { claimedDuringInspection(v) }

// restartView is a host that restarts with new settings. Its server is off, the network is its next boot device, and it may be powered on.
func restartView(changes ...func(*View)) View {
	return hostBootView(runView(staged), v1alpha1.PurposeConfigure, "settings-1", changes...)
}

func restartFailed(v *View) {
	v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonSettingsNotApplied, Message: "no request came"}
}
func restartedOff(v *View) { commanded(CommandForceOff, 30*time.Second)(v) }
func restartedLongAgo(v *View) {
	v.Host.Boot.AgentDoneTime = at(verifyTimeout)
}

const (
	unavailable = v1alpha1.PhaseUnavailable
	configuring = v1alpha1.PhaseConfiguring
	inRun       = v1alpha1.ReasonConfiguring
	toConfigure = v1alpha1.ReasonSettingsPending
)

// nextSettings are hosts whose firmware settings a profile changes.
var nextSettings = map[string]nextCase{
	"settings: off":                            {freeView(differs), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: no profile":                     {freeView(profiled, func(v *View) { v.BIOS.Profile = nil }), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: not read":                       {freeView(profiled), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: not read, paused":               {freeView(profiled, rolloutPaused), StateFree, ReadSettings, v1alpha1.PhaseAvailable, ""},
	"settings: not read, offered":              {freeView(profiled, offeredNow), StateFree, ReadSettings, v1alpha1.PhaseAvailable, ""},
	"settings: not read, compared":             {freeView(profiled, offeredNow, func(v *View) { v.BIOS.Compared = true }), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: another generation":             {freeView(profiled, conforms, func(v *View) { v.BIOS.Profile.Generation = 2 }), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: released since":                 {freeView(profiled, conforms, func(v *View) { v.Host.Boot.VoidedTime = at(0) }), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: released by a later clock":      {freeView(profiled, conforms, func(v *View) { v.Host.Boot.VoidedTime = at(-time.Hour) }), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: inspected since":                {freeView(profiled, conforms, func(v *View) { v.BMC.HealthReadAt = noon }), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: inspected by a later clock":     {freeView(profiled, conforms, func(v *View) { v.BMC.HealthReadAt = noon.Add(time.Hour) }), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: read by a later clock":          {freeView(profiled, conforms, func(v *View) { v.BIOS.Reading.At = noon.Add(time.Hour) }), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: unreadable by a later clock":    {freeView(profiled, differs, unreadable, required, func(v *View) { v.BIOS.Reading.At = noon.Add(time.Hour) }), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: differ, keeps disks since":      {freeView(profiled, differs, keepsDisk), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: differ, recorded, other mode":   {freeView(profiled, differs, recordedRun, legacy), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: conform":                        {freeView(profiled, conforms), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: unreadable":                     {freeView(profiled, differs, unreadable, offerRecorded), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: unreadable, required":           {freeView(profiled, differs, unreadable, required), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsUnreadable},
	"settings: refused":                        {freeView(profiled, refused, offerRecorded), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: refused, required":              {freeView(profiled, refused, required), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsRefused},
	"settings: refused, required, offered":     {freeView(profiled, refused, required, offeredNow, offerRecorded), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: differ, paused":                 {freeView(profiled, differs, rolloutPaused), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: differ":                         {freeView(profiled, differs), StateFree, RecordSettings, unavailable, toConfigure},
	"settings: differ, recorded":               {freeView(profiled, differs, recordedRun), StateFree, CountSettings, unavailable, toConfigure},
	"settings: differ, an old wish recorded":   {freeView(profiled, differs, recordedRun, func(v *View) { v.BIOS.Record.Profile.Generation = 9 }), StateFree, RecordSettings, unavailable, toConfigure},
	"settings: differ, recorded long ago":      {freeView(profiled, differs, recordedRun, runOverdue), StateFree, RecordSettings, unavailable, toConfigure},
	"settings: differ, offered":                {freeView(profiled, differs, offeredNow), StateFree, RecordSettings, v1alpha1.PhaseAvailable, ""},
	"settings: differ, the offer is recorded":  {freeView(profiled, differs, offerRecorded), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: differ, offered, in a move":     {freeView(profiled, differs, offeredNow, clusterPaused), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: differ, offered, all hosts":     {freeView(profiled, differs, offeredNow, alsoAvailable), StateFree, RecordSettings, unavailable, toConfigure},
	"settings: differ, the run failed":         {freeView(profiled, differs, endedRun(v1alpha1.SettingsFailed), func(v *View) { v.BIOS.Record.OfferedBoots = new(int32(0)) }), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: differ, the run failed, strict": {freeView(profiled, differs, required, endedRun(v1alpha1.SettingsFailed)), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsNotApplied},
	"settings: differ, the run was refused":    {freeView(profiled, differs, required, endedRun(v1alpha1.SettingsRefused)), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsNotApplied},
	"settings: differ, the run was withdrawn":  {freeView(profiled, differs, required, endedRun(v1alpha1.SettingsWithdrawn)), StateFree, RecordSettings, unavailable, toConfigure},
	"settings: differ, paused since":           {freeView(profiled, differs, required, createdAgain, endedRun(v1alpha1.SettingsFailed)), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsNotApplied},
	"settings: differ, another wish since":     {freeView(profiled, differs, required, endedRun(v1alpha1.SettingsFailed), otherWish), StateFree, RecordSettings, unavailable, toConfigure},
	"settings: another wish, in quarantine":    {freeView(profiled, differs, endedRun(v1alpha1.SettingsFailed), otherWish, notApplied), StateQuarantined, Nothing, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"settings: differ again":                   {freeView(profiled, differs, endedRun(v1alpha1.SettingsApplied)), StateFree, RecordSettings, unavailable, toConfigure},
	"settings: differ after the run": {freeView(profiled, differs, required, endedRun(v1alpha1.SettingsApplied), func(v *View) {
		v.Host.Boot = &v1alpha1.BareMetalBootSpec{Purpose: v1alpha1.PurposeConfigure, ClaimID: "settings-1", VoidedTime: at(time.Minute)}
	}), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsNotApplied},
	"settings: differ, a Cluster is paused": {freeView(profiled, differs, clusterPaused), StateFree, Nothing, unavailable, toConfigure},
	"settings: differ, held off":            {freeView(profiled, differs, powerHeld), StateFree, Nothing, unavailable, toConfigure},
	"settings: differ, wanted on":           {freeView(profiled, differs, required, poweredOn, wantedOn), StateFree, Nothing, unavailable, toConfigure},
	"settings: differ, found running":       {freeView(profiled, differs, poweredOn), StateFree, Nothing, unavailable, v1alpha1.ReasonPoweredOn},
	"settings: differ, read as off once":    {freeView(profiled, differs, justOff), StateFree, Nothing, unavailable, toConfigure},
	"settings: differ, offered, read once":  {freeView(profiled, differs, offeredNow, offerRecorded, alsoAvailable, justOff), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: differ, offered, read again": {freeView(profiled, differs, offeredNow, offerRecorded, alsoAvailable, offLately), StateFree, ReadPower, v1alpha1.PhaseAvailable, ""},
	"settings: differ, the rollout waits":   {freeView(profiled, differs, rolloutWaits), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsQueued},
	"settings: differ, the rollout stopped": {freeView(profiled, differs, rolloutStopped, offerRecorded), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: foreign":                     {freeView(profiled, foreignPending, offerRecorded), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsForeign},
	"settings: foreign, paused":             {freeView(profiled, foreignPending, rolloutPaused), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsForeign},
	"settings: foreign, not offered":        {freeView(profiled, foreignPending), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsForeign},
	"settings: foreign, no profile":         {freeView(profiled, foreignPending, noProfile), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: failed, no profile":          {freeView(profiled, noProfile, endedRun(v1alpha1.SettingsFailed)), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: failed, offered since":       {freeView(profiled, noProfile, endedRun(v1alpha1.SettingsFailed), offeredNow), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: applied, no profile":         {freeView(profiled, noProfile, endedRun(v1alpha1.SettingsApplied)), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: failed, pending":             {freeView(profiled, noProfile, endedRun(v1alpha1.SettingsFailed), foreignPending), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsForeign},
	"settings: failed, nothing pending":     {freeView(profiled, noProfile, endedRun(v1alpha1.SettingsFailed), conforms), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"settings: failed, read before that": {freeView(profiled, noProfile, endedRun(v1alpha1.SettingsFailed), conforms, func(v *View) { v.BIOS.Reading.At = noon.Add(-2 * time.Minute) }), StateFree,
		ReadSettings, unavailable, toConfigure},
	"settings: failed, unreadable":      {freeView(profiled, noProfile, endedRun(v1alpha1.SettingsFailed), conforms, unreadable), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsUnreadable},
	"settings: failed, paused":          {freeView(profiled, rolloutPaused, endedRun(v1alpha1.SettingsFailed)), StateFree, ReadSettings, unavailable, toConfigure},
	"settings: failed, paused, pending": {freeView(profiled, rolloutPaused, endedRun(v1alpha1.SettingsFailed), foreignPending), StateFree, Nothing, unavailable, v1alpha1.ReasonSettingsForeign},
	"settings: inspected first":         {freeView(profiled, byAgent), StateFree, RecordBoot, unavailable, v1alpha1.ReasonInspectionPending},
	"settings: erased first":            {freeView(profiled, differs, toErase), StateFree, RecordBoot, unavailable, v1alpha1.ReasonErasurePending},

	"run: begins":                          {runView(), StateConfiguring, RecordSettings, configuring, inRun},
	"run: a Cluster is paused":             {runView(clusterPaused), StateConfiguring, Nothing, configuring, inRun},
	"run: late before the BMC got it":      {runView(runOverdue), StateConfiguring, RecordSettings, configuring, inRun},
	"run: stages":                          {runView(stagingBegan), StateConfiguring, StageSettings, configuring, inRun},
	"run: stages, the BMC is away":         {runView(stagingBegan, bmcDown), StateConfiguring, Nothing, configuring, v1alpha1.ReasonWaitingForBMC},
	"run: staged":                          {runView(stagingBegan, accepted, runRead(virtualization("Disabled", "Enabled"), 10*time.Second)), StateConfiguring, RecordSettings, configuring, inRun},
	"run: accepted, and not pending":       {runView(stagingBegan, accepted, runRead(virtualization("Disabled", ""), 10*time.Second)), StateConfiguring, Nothing, configuring, inRun},
	"run: accepted, and read again":        {runView(stagingBegan, accepted, runRead(virtualization("Disabled", ""), 31*time.Second)), StateConfiguring, ReadSettings, configuring, inRun},
	"run: pending after a restart of ours": {runView(stagingBegan, runRead(virtualization("Disabled", "Enabled"), 31*time.Second)), StateConfiguring, StageSettings, configuring, inRun},
	"run: refused":                         {runView(stagingBegan, stagingRefused, runRead(virtualization("Disabled", ""), 10*time.Second)), StateConfiguring, RecordSettings, configuring, inRun},
	"run: refused, and pending":            {runView(stagingBegan, stagingRefused, runRead(virtualization("Disabled", "Enabled"), 10*time.Second)), StateConfiguring, ClearSettings, configuring, inRun},
	"run: refused, and stays pending":      {runView(stagingBegan, stagingRefused, clearFailed, runRead(virtualization("Disabled", "Enabled"), 10*time.Second)), StateConfiguring, RecordSettings, configuring, inRun},
	"run: staging is late":                 {runView(stagingOverdue, accepted, runRead(virtualization("Disabled", ""), 10*time.Second)), StateConfiguring, RecordSettings, configuring, inRun},
	"run: staging is late, not read":       {runView(stagingOverdue, bmcDown), StateConfiguring, RecordSettings, configuring, inRun},
	"run: claimed by hand":                 {runView(claimedInRun), StateClaimed, RecordSettings, v1alpha1.PhaseClaimed, inRun},
	"run: claimed by hand, staging":        {runView(stagingBegan, claimedInRun), StateClaimed, ReadSettings, v1alpha1.PhaseClaimed, inRun},
	"run: claimed by hand, staged":         {runView(staged, claimedInRun), StateClaimed, RecordSettings, v1alpha1.PhaseClaimed, inRun},
	"run: the component is off":            {runView(staged, switchedOff), StateConfiguring, Nothing, configuring, inRun},
	"run: the record is lost":              {runView(recordLost), StateConfiguring, Nothing, unavailable, v1alpha1.ReasonSettingsUnknown},
	"run: the record is older":             {runView(recordOld), StateConfiguring, Nothing, unavailable, v1alpha1.ReasonSettingsUnknown},
	"run: the record is lost, and ended":   {runView(recordLost, endedByUser), StateConfiguring, EndSettings, unavailable, v1alpha1.ReasonSettingsUnknown},
	"run: in maintenance":                  {restartView(maintenance), StateMaintenance, RecordBoot, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"run: in quarantine":                   {runView(quarantined), StateQuarantined, Nothing, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"run: the host is deleted":             {restartView(agentRuns, beingDeleted), StateDeleting, ForceOff, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting},

	"restart: begins":                  {runView(staged, pendingNow), StateConfiguring, RecordBoot, configuring, inRun},
	"restart: staged long ago":         {runView(staged, runRead(virtualization("Disabled", "Enabled"), 3*time.Minute)), StateConfiguring, ReadSettings, configuring, inRun},
	"restart: staged by a later clock": {runView(staged, runRead(virtualization("Disabled", "Enabled"), -time.Hour)), StateConfiguring, ReadSettings, configuring, inRun},
	"restart: others are pending":      {runView(staged, pendingForeign), StateConfiguring, Nothing, configuring, inRun},
	"restart: others, read again":      {runView(staged, runRead(stagedWithOthers(), 31*time.Second)), StateConfiguring, ReadSettings, configuring, inRun},
	"restart: no longer pending":       {runView(staged, runRead(virtualization("Disabled", ""), 10*time.Second)), StateConfiguring, Nothing, configuring, inRun},
	"restart: queued":                  {runView(staged, queued), StateConfiguring, Nothing, configuring, v1alpha1.ReasonWaitingForBootSlot},
	"restart: held off":                {runView(staged, powerHeld), StateConfiguring, Nothing, configuring, inRun},
	"restart: a Cluster is paused":     {runView(staged, clusterPaused), StateConfiguring, Nothing, configuring, inRun},
	"restart: the server is on":        {runView(staged, poweredOn), StateConfiguring, Nothing, configuring, inRun},
	"restart: late":                    {runView(staged, runOverdue), StateConfiguring, RecordSettings, configuring, inRun},
	"restart: counted":                 {restartView(uncounted), StateConfiguring, CountBoot, configuring, inRun},
	"restart: set network boot":        {restartView(func(v *View) { v.BMC.NetworkBootSetAt = time.Time{} }), StateConfiguring, SetNetworkBoot, configuring, inRun},
	"restart: power on":                {restartView(), StateConfiguring, PowerOn, configuring, inRun},
	"restart: runs":                    {restartView(poweredOn), StateConfiguring, Nothing, configuring, inRun},
	"restart: someone switched it on":  {restartView(notPoweredOn, poweredOn), StateConfiguring, RecordBoot, configuring, inRun},
	"restart: late attempt":            {restartView(agentRuns, expired), StateConfiguring, RecordBoot, configuring, inRun},
	"restart: claimed, runs":           {restartView(agentRuns, claimedInRun), StateClaimed, Nothing, v1alpha1.PhaseClaimed, inRun},
	"restart: claimed, not counted":    {restartView(uncounted, claimedInRun), StateClaimed, RecordBoot, v1alpha1.PhaseClaimed, inRun},
	"restart: done, on":                {restartView(agentRuns, agentDone), StateConfiguring, ForceOff, configuring, inRun},
	"restart: done, off":               {restartView(agentDone, restartedOff), StateConfiguring, ReadSettings, configuring, inRun},
	"restart: applied":                 {restartView(agentDone, restartedOff, runRead(virtualization("Enabled", ""), time.Second)), StateConfiguring, RecordSettings, configuring, inRun},
	"restart: not applied yet":         {restartView(agentDone, restartedOff, runRead(virtualization("Disabled", "Enabled"), time.Second)), StateConfiguring, Nothing, configuring, inRun},
	"restart: not applied":             {restartView(restartedLongAgo, restartedOff, runRead(virtualization("Disabled", "Enabled"), time.Second)), StateConfiguring, RecordSettings, configuring, inRun},
	"restart: failed":                  {restartView(restartFailed, restartedOff, runRead(virtualization("Enabled", ""), time.Second)), StateConfiguring, RecordSettings, configuring, inRun},
	"restart: outcome Failed":          {restartView(agentDone, outcome(v1alpha1.SettingsFailed)), StateConfiguring, Isolate, configuring, inRun},
	"restart: outcome Failed, claimed": {restartView(agentDone, outcome(v1alpha1.SettingsFailed), claimedInRun), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonSettingsNotApplied},
	"restart: in quarantine for it":    {restartView(agentDone, outcome(v1alpha1.SettingsFailed), notApplied), StateQuarantined, RecordBoot, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"restart: in another quarantine":   {restartView(agentDone, outcome(v1alpha1.SettingsFailed), quarantined), StateQuarantined, Isolate, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"restart: outcome Applied":         {restartView(agentDone, outcome(v1alpha1.SettingsApplied)), StateConfiguring, RecordBoot, configuring, inRun},
	"restart: over":                    {restartView(agentDone, voided, outcome(v1alpha1.SettingsApplied)), StateConfiguring, RecordSettings, configuring, inRun},
	"restart: a user ended the run":    {restartView(agentRuns, func(v *View) { v.Host.Spec.ProviderState.SettingsRunsEnded = 1 }), StateFree, ForceOff, configuring, inRun},
	"restart: ended":                   {restartView(agentDone, voided, outcome(v1alpha1.SettingsApplied), runEnded), StateConfiguring, EndSettings, configuring, inRun},
}

// TestRunRecords: what a step of a run writes.
func TestRunRecords(t *testing.T) {
	for name, test := range map[string]struct {
		view    View
		outcome v1alpha1.SettingsOutcome
		message string
	}{
		"the BMC refused":           {runView(stagingBegan, stagingRefused, runRead(virtualization("Disabled", ""), 10*time.Second)), v1alpha1.SettingsRefused, "refused the settings: no"},
		"it stays pending":          {runView(stagingBegan, stagingRefused, clearFailed, runRead(virtualization("Disabled", "Enabled"), 10*time.Second)), v1alpha1.SettingsFailed, "Some of the settings are pending"},
		"others are pending":        {runView(stagingBegan, accepted, runRead(stagedWithOthers(), 10*time.Second)), v1alpha1.SettingsFailed, "that the run does not set: SR=On"},
		"late":                      {runView(runOverdue), v1alpha1.SettingsWithdrawn, "deadline"},
		"staging late, not read":    {runView(stagingOverdue, bmcDown), v1alpha1.SettingsFailed, "unknown what is pending"},
		"staging late, not pending": {runView(stagingOverdue, accepted, runRead(virtualization("Disabled", ""), 10*time.Second)), v1alpha1.SettingsRefused, "15m0s"},
		"staging late, no answer":   {runView(stagingOverdue, runRead(virtualization("Disabled", ""), 10*time.Second)), v1alpha1.SettingsWithdrawn, "15m0s"},
		"only others are pending":   {runView(stagingBegan, runRead(onlyOthers(), 10*time.Second)), v1alpha1.SettingsWithdrawn, "that the run does not set: SR=On"},
		"claimed":                   {runView(claimedInRun), v1alpha1.SettingsWithdrawn, "claimed"},
		"claimed, staging":          {runView(stagingBegan, claimedInRun, runRead(virtualization("Disabled", ""), 10*time.Second)), v1alpha1.SettingsWithdrawn, "claimed"},
		"claimed, staged":           {runView(staged, claimedInRun), v1alpha1.SettingsFailed, "claimed"},
		"not restarted for others":  {runView(staged, runOverdue, pendingForeign), v1alpha1.SettingsFailed, "not restarted within 2h0m0s. Values are pending that the run does not set: SR=On"},
		"not restarted":             {runView(staged, runOverdue), v1alpha1.SettingsFailed, "not restarted"},
		"applied":                   {restartView(agentDone, restartedOff, runRead(virtualization("Enabled", ""), time.Second)), v1alpha1.SettingsApplied, ""},
		"not applied":               {restartView(restartedLongAgo, restartedOff, runRead(virtualization("Disabled", "Enabled"), time.Second)), v1alpha1.SettingsFailed, `VT is "Disabled", and "Enabled" was set and is still pending`},
		"did not boot":              {restartView(restartFailed, restartedOff, runRead(virtualization("Enabled", ""), time.Second)), v1alpha1.SettingsFailed, "no request came"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(test.view, DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordSettings), step.Message)
			g.Expect(step.Settings.Outcome).To(Equal(test.outcome))
			g.Expect(step.Settings.Message).To(ContainSubstring(test.message))
			g.Expect(step.Settings.Number).To(Equal(int32(1)))
			g.Expect(step.Settings.Changes).To(HaveLen(1))
			g.Expect(step.Settings.EndTime).To(BeNil(), "the quarantine and the end of the boot come first")
		})
	}
}

// stagedWithOthers is the plan of a run that is staged, while the value of somebody else is pending too.
func stagedWithOthers() *settings.Plan {
	plan := settings.NewPlan(settings.Input{
		Wishes: []settings.Wish{{Name: "VT", Value: "Enabled"}}, Current: settings.Values{"VT": settings.Text("Disabled"), "SR": settings.Text("Off")},
		Pending: settings.Values{"VT": settings.Text("Enabled"), "SR": settings.Text("On")},
	})
	return &plan
}

// onlyOthers is the plan of a run that is not staged, while the value of somebody else is pending.
func onlyOthers() *settings.Plan {
	plan := settings.NewPlan(settings.Input{
		Wishes: []settings.Wish{{Name: "VT", Value: "Enabled"}}, Current: settings.Values{"VT": settings.Text("Disabled"), "SR": settings.Text("Off")},
		Pending: settings.Values{"SR": settings.Text("On")},
	})
	return &plan
}

// TestTriedMessage: the message of a run that is not repeated has its outcome. A run that was withdrawn is repeated, and has no message.
func TestTriedMessage(t *testing.T) {
	g := NewWithT(t)
	for _, o := range []v1alpha1.SettingsOutcome{v1alpha1.SettingsRefused, v1alpha1.SettingsFailed} {
		g.Expect(TriedMessage(freeView(profiled, differs, endedRun(o)))).To(ContainSubstring("Run 1 for the same settings ended as " + string(o)))
		g.Expect(TriedMessage(machineView(differs, endedRun(o)))).To(ContainSubstring("is not repeated"))
	}
	for _, o := range []v1alpha1.SettingsOutcome{v1alpha1.SettingsApplied, v1alpha1.SettingsWithdrawn} {
		g.Expect(TriedMessage(freeView(profiled, differs, endedRun(o)))).To(BeEmpty(), string(o))
		g.Expect(TriedMessage(machineView(differs, endedRun(o)))).To(BeEmpty(), string(o))
	}
	g.Expect(TriedMessage(freeView(profiled, differs, noProfile, endedRun(v1alpha1.SettingsFailed)))).To(BeEmpty())
}

// TestRunHasOneNumber: the step that counts a run names the run that it counts.
func TestRunHasOneNumber(t *testing.T) {
	for name, v := range map[string]View{"free": freeView(profiled, differs, recordedRun), "in maintenance": machineView(differs, recordedRun, func(v *View) {
		v.BIOS.Record.RequestedBy = v.Host.Spec.Maintenance.DrainedBy
	})} {
		step := Next(v, DefaultSettings())
		NewWithT(t).Expect([]any{step.Action, step.Message}).To(HaveExactElements(CountSettings, ContainSubstring("Run 1 of")), name)
	}
}

// TestRunOfOfferedHost: the run of an offered host begins when another reading confirms that its server is off, and ends at rest.
func TestRunOfOfferedHost(t *testing.T) {
	w := worldOf(t, freeView(justOff), newTally())
	w.newProfile(9) // active, for available hosts
	w.v.BIOS.On, w.firmware.offered, w.autoBoot = true, true, true
	w.bmcRecovers()
	w.runToRest()
	NewWithT(t).Expect(w.v.BIOS.Record.Outcome).To(Equal(v1alpha1.SettingsApplied))
	NewWithT(t).Expect(w.v.Now).To(BeTemporally("<", noon.Add(2*time.Minute)))
	w.staysAtRest(20 * time.Minute)
}

// TestRunLeavesServerAlone: the record of a restart that is hours old may come from a backup, and a person may have taken the server over: the boot ends without a command.
func TestRunLeavesServerAlone(t *testing.T) {
	old := func(v *View) { v.Host.Boot.StartTime = metav1.NewTime(noon.Add(-5 * time.Hour)) }
	for name, v := range map[string]View{
		"from a backup": restartView(agentRuns, old), "maintenance": restartView(agentRuns, maintenance), "quarantine": restartView(agentRuns, quarantined),
		"detached": restartView(agentRuns, detached), "external": restartView(agentRuns, external),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(v, DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordBoot), step.Message)
			g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
			g.Expect(v.Host.settingsRunOpen()).To(BeTrue(), "the run goes on when the host returns")
		})
	}
}

// TestRunNeedsSecureBootFromInside: the BMC's word is not enough that Secure Boot changed.
func TestRunNeedsSecureBootFromInside(t *testing.T) {
	g := NewWithT(t)
	wished := func(v *View) { v.BIOS.Record.SecureBoot = wire.SecureBootEnabled }
	v := restartView(restartedLongAgo, restartedOff, wished, runRead(virtualization("Enabled", ""), time.Second))
	g.Expect(Next(v, DefaultSettings()).Settings.Outcome).To(Equal(v1alpha1.SettingsFailed), "no agent reported it")
	v.Host.Boot.AgentSecureBoot = wire.SecureBootDisabled
	g.Expect(Next(v, DefaultSettings()).Settings.Message).To(ContainSubstring("found it Disabled"))
	v.Host.Boot.AgentSecureBoot = wire.SecureBootEnabled
	g.Expect(Next(v, DefaultSettings()).Settings.Outcome).To(Equal(v1alpha1.SettingsApplied))
}

// TestRunStagesSecureBoot: a change of Secure Boot that the BMC reports as pending is staged, and may take effect: it is removed before the run ends without a restart.
func TestRunStagesSecureBoot(t *testing.T) {
	on := true
	wished := func(v *View) { v.BIOS.Record.Changes, v.BIOS.Record.SecureBoot = nil, wire.SecureBootEnabled }
	read := func(pending *bool) func(*View) {
		plan := settings.NewPlan(settings.Input{SecureBoot: settings.SecureBootInput{Want: &on, Reported: true, Pending: pending}})
		return runRead(&plan, 10*time.Second)
	}
	g := NewWithT(t)
	step := Next(runView(stagingBegan, wished, accepted, read(&on)), DefaultSettings())
	g.Expect(step.Settings.StagedTime).NotTo(BeNil(), step.Message)
	g.Expect(Next(runView(stagingBegan, wished, accepted, read(nil)), DefaultSettings()).Action).To(Equal(Nothing), "it is not pending yet")
	g.Expect(Next(runView(stagingBegan, wished, stagingRefused, read(&on)), DefaultSettings()).Action).To(Equal(ClearSettings))
	step = Next(runView(stagingBegan, wished, stagingRefused, clearFailed, read(&on)), DefaultSettings())
	g.Expect(step.Settings.Outcome).To(Equal(v1alpha1.SettingsFailed), "it is not untouched")
	g.Expect(Next(freeView(profiled, func(v *View) { read(&on)(v); v.BIOS.Reading.Run, v.BIOS.Reading.RunPlan = 0, nil }, endedRun(v1alpha1.SettingsFailed)), DefaultSettings()).Reason).To(
		Equal(v1alpha1.ReasonSettingsForeign), "a host with a pending change is not offered")
}

// TestRunRecord: the record of a run has what was decided, and no earlier run has its number.
func TestRunRecord(t *testing.T) {
	g := NewWithT(t)
	v := freeView(profiled, differs, recordedRun, func(v *View) {
		v.Host.Spec.ProviderState.SettingsRuns, v.Host.Spec.ProviderState.SettingsRunsEnded, v.BIOS.Record.Number = 3, 3, 4
		v.BIOS.Record.Profile.Generation = 9
	})
	run := Next(v, DefaultSettings()).Settings
	g.Expect(run.Number).To(Equal(int32(5)))
	g.Expect(run.Profile).To(HaveValue(Equal(performance.SettingsProfile)))
	g.Expect(run.Changes).To(ConsistOf(v1alpha1.SettingChange{Name: "VT", Before: "Disabled", Value: "Enabled"}))
	g.Expect(run.DeadlineTime.Sub(run.StartTime.Time)).To(Equal(settingsRunTimeout))
	v.BIOS.Record = run
	step := Next(v, DefaultSettings())
	g.Expect(step.Action).To(Equal(CountSettings))
	g.Expect(step.Settings).To(BeIdenticalTo(run))
}

// TestRunBootsAgent: the restart of a run boots the agent, and nothing else of a free host with an open run boots.
func TestRunBootsAgent(t *testing.T) {
	g := NewWithT(t)
	g.Expect(BootFor(restartView(poweredOn), DefaultSettings())).To(Equal(BootAgent))
	g.Expect(BootFor(restartView(notPoweredOn), DefaultSettings())).To(Equal(BootAfterPowerOn))
	g.Expect(BootFor(restartView(poweredOn, switchedOff), DefaultSettings())).To(Equal(BootAgent), "the boot server does not read the settings")
	g.Expect(BootFor(restartView(agentRuns, agentDone), DefaultSettings())).To(Equal(BootNothing))
	g.Expect(BootFor(runView(staged), DefaultSettings())).To(Equal(BootNothing))
	g.Expect(restartView().BootsUntil(DefaultSettings())).To(BeTemporally(">", noon))
	g.Expect(WantsToBoot(runView(staged, queued, runRead(virtualization("Disabled", "Enabled"), time.Hour)), DefaultSettings())).To(BeTrue())
}

// TestPropertyClaimAndRunNeverBothWin: a claim and the count of a run are patches at the version on which each was decided. Whatever is read late, repeated or lost,
// and however often the manager restarts, no host is claimed while a run is open, and no run is counted on a claimed host.
func TestPropertyClaimAndRunNeverBothWin(t *testing.T) {
	won := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		r := newRace()
		for range rapid.IntRange(20, 80).Draw(t, "moments") {
			switch rapid.SampledFrom([]string{"decide", "perform", "perform", "perform", "look", "claim", "claim", "release", "end", "restart"}).Draw(t, "moment") {
			case "decide":
				r.decide()
			case "perform":
				r.perform(won)
			case "look":
				r.seen = r.now
			case "claim":
				r.claim(won)
			case "release":
				r.release()
			case "end":
				r.end()
			case "restart":
				r.steps = nil
			}
			if s := r.now.spec; s.ConsumerRef != nil && s.ProviderState.SettingsRuns > s.ProviderState.SettingsRunsEnded {
				t.Fatalf("a machine has the host, and run %d is open", s.ProviderState.SettingsRuns)
			}
		}
	})
	if won["claim"] == 0 || won["run"] == 0 || won["claim lost"] == 0 || won["run lost"] == 0 {
		t.Errorf("the race shows nothing: %v", won)
	}
}

// raceHost is a version of a host in the API server.
type raceHost struct {
	version   int
	spec      v1alpha1.BareMetalHostSpec
	available bool
}

// race is a host, a controller that decides on old versions of it, and a machine that claims old versions of it. The record has no lock in common with the host.
type race struct {
	now, seen raceHost // in the API server, and as the machine read it
	record    *v1alpha1.BareMetalSettingsSpec
	steps     []raceStep // decided, and not performed
}

type raceStep struct {
	version int
	step    Step
}

func newRace() *race {
	host := raceHost{spec: freeView().Host.Spec, available: true}
	return &race{now: host, seen: host}
}

func (r *race) decide() {
	v := freeView(profiled, differs, alsoAvailable)
	v.Host.Spec, v.BIOS.Record, v.BIOS.Offered = r.now.spec, r.record, r.now.available
	if r.now.spec.ConsumerRef != nil {
		v.Consumer = &Consumer{Found: true, ClusterFound: true}
	}
	r.steps = append(r.steps, raceStep{r.now.version, Next(v, DefaultSettings())})
}

// perform performs the oldest step.
func (r *race) perform(won map[string]int) {
	if len(r.steps) == 0 {
		return
	}
	step := r.steps[0]
	r.steps = r.steps[1:]
	switch step.step.Action {
	case RecordSettings:
		if r.record == nil || step.step.Settings.Number >= r.record.Number {
			r.record = step.step.Settings
		}
	case CountSettings:
		if step.version != r.now.version {
			won["run lost"]++
			return
		}
		won["run"]++
		r.now.spec.ProviderState.SettingsRuns = step.step.Settings.Number
		r.now.version++
	default:
	}
}

// claim is what a machine does with the version that it has read: its rules are those of inventory/claim.
func (r *race) claim(won map[string]int) {
	s := r.seen.spec
	if s.ConsumerRef != nil || !r.seen.available || s.ProviderState.SettingsRuns > s.ProviderState.SettingsRunsEnded {
		return
	}
	if r.seen.version != r.now.version {
		won["claim lost"]++
		return
	}
	won["claim"]++
	r.now.spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim-1"}
	r.now.version++
}

func (r *race) release() {
	if r.now.spec.ConsumerRef != nil {
		r.now.spec.ConsumerRef = nil
		r.now.version++
	}
}

func (r *race) end() {
	if state := &r.now.spec.ProviderState; state.SettingsRuns > state.SettingsRunsEnded {
		state.SettingsRunsEnded = state.SettingsRuns
		r.now.version++
	}
}
