package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

// drained is a maintenance that permits a settings run, and alsoMaintained a profile that changes hosts in maintenance.
func drained(v *View) {
	v.Host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "settings", DrainedBy: "anna: kubectl drain"}
}
func alsoMaintained(v *View) { v.BIOS.Profile.Scope = v1alpha1.ScopeHostsInMaintenance }

// machineView is a host that runs its machine, in a maintenance whose Node was drained, with a profile that changes such hosts.
func machineView(changes ...func(*View)) View {
	return claimedView(append([]func(*View){provisioned, poweredOn, drained, profiled, alsoMaintained}, changes...)...)
}

// machineRunView is machineView with an open run.
func machineRunView(changes ...func(*View)) View {
	return machineView(append([]func(*View){recordedRun, func(v *View) {
		v.BIOS.Record.RequestedBy, v.Host.Spec.ProviderState.SettingsRuns = "anna: kubectl drain", 1
	}}, changes...)...)
}

func maintenanceEnds(v *View) { v.Host.Spec.Maintenance = nil }
func goesOff(v *View)         { v.BIOS.Record.PowerOffTime = at(45 * time.Second) }
func cycledOff(v *View) {
	goesOff(v)
	v.BIOS.Record.PoweredOffTime = at(40 * time.Second)
}
func serverOff(v *View) { v.BMC.Power = v1alpha1.PowerOff }
func askedOff(v *View)  { v.BMC.FirstShutDownAt = noon.Add(-30 * time.Second) }

// pendingNow is the fact that the changes of the run are pending, and nothing else.
func pendingNow(v *View) { runRead(virtualization("Disabled", "Enabled"), 10*time.Second)(v) }

// pendingForeign is the fact that the value of somebody else is pending too.
func pendingForeign(v *View) { runRead(stagedWithOthers(), 10*time.Second)(v) }
func nodeReadyAgain(ago time.Duration) func(*View) {
	return func(v *View) {
		v.Observed.Node = &v1alpha1.ObservedNode{Name: "n", Readiness: v1alpha1.NodeReady, ReadinessTime: at(ago)}
	}
}
func wishesSecureBoot(v *View) {
	plan := settings.NewPlan(settings.Input{SecureBoot: settings.SecureBootInput{
		Want: new(false), MayDisable: true, Reported: true, Enabled: true, Mode: "UserMode",
	}})
	settingsRead(&plan)(v)
}

const (
	maintained    = v1alpha1.PhaseMaintenance
	inMaintenance = v1alpha1.ReasonMaintenance
)

// nextMachineRun are hosts that run a machine, and whose firmware settings a profile changes in a maintenance.
var nextMachineRun = map[string]nextCase{
	"machine run: not drained":           {machineView(differs, maintenance), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: not in maintenance":    {machineView(differs, maintenanceEnds), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"machine run: another scope":         {machineView(differs, alsoAvailable), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: paused profile":        {machineView(differs, rolloutPaused), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: from memory":           {machineView(differs, ephemeral), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: not provisioned":       {claimedView(drained, profiled, alsoMaintained, differs), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: the machine is gone":   {machineView(differs, deleting), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: free host":             {freeView(drained, profiled, alsoMaintained, differs), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: off":                   {machineView(differs, switchedOff), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: not read":              {machineView(), StateMaintenance, ReadSettings, maintained, inMaintenance},
	"machine run: conforms":              {machineView(conforms), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: refused":               {machineView(refused), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: foreign":               {machineView(foreignPending), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: Secure Boot":           {machineView(wishesSecureBoot), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: our own server":        {machineView(differs, func(v *View) { v.Provider.RunsHere = true }), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: held off":              {machineView(differs, powerHeld), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: the rollout waits":     {machineView(differs, rolloutWaits), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: begins":                {machineView(differs), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: recorded by another":   {machineView(differs, recordedRun), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: tried":                 {machineView(differs, endedRun(v1alpha1.SettingsFailed)), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: withdrawn":             {machineView(differs, endedRun(v1alpha1.SettingsWithdrawn), func(v *View) { v.BIOS.Record.RequestedBy = "anna" }), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: differ since":          {machineView(differs, endedRun(v1alpha1.SettingsApplied)), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: differ after a run":    {machineView(differs, endedRun(v1alpha1.SettingsApplied), func(v *View) { v.BIOS.Record.RequestedBy = "anna" }), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: stages":                {machineRunView(stagingBegan), StateMaintenance, StageSettings, maintained, inMaintenance},
	"machine run: staged":                {machineRunView(stagingBegan, accepted, runRead(virtualization("Disabled", "Enabled"), 10*time.Second)), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: to be powered off":     {machineRunView(staged, pendingNow), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: staged long ago":       {machineRunView(staged, runRead(virtualization("Disabled", "Enabled"), 3*time.Minute)), StateMaintenance, ReadSettings, maintained, inMaintenance},
	"machine run: others are pending":    {machineRunView(staged, pendingForeign), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: powers off":            {machineRunView(staged, pendingNow, goesOff), StateMaintenance, ShutDown, maintained, inMaintenance},
	"machine run: powers off, not read":  {machineRunView(staged, goesOff), StateMaintenance, ReadSettings, maintained, inMaintenance},
	"machine run: others since":          {machineRunView(staged, pendingForeign, goesOff), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: shuts down":            {machineRunView(staged, goesOff, askedOff), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: off, unconfirmed":      {machineRunView(staged, goesOff, serverOff, justOff), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: was off before":        {machineRunView(staged, pendingNow, serverOff), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: is off":                {machineRunView(staged, goesOff, serverOff), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: powers on":             {machineRunView(staged, serverOff, cycledOff), StateMaintenance, PowerOn, maintained, inMaintenance},
	"machine run: on, not read":          {machineRunView(staged, cycledOff), StateMaintenance, ReadSettings, maintained, inMaintenance},
	"machine run: on, the old values":    {machineRunView(staged, cycledOff, runRead(virtualization("Disabled", ""), time.Second)), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: applied":               {machineRunView(staged, cycledOff, runRead(virtualization("Enabled", ""), time.Second)), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: failed":                {machineRunView(staged, cycledOff, outcome(v1alpha1.SettingsFailed)), StateMaintenance, Isolate, maintained, inMaintenance},
	"machine run: in quarantine":         {machineRunView(staged, cycledOff, outcome(v1alpha1.SettingsFailed), notApplied), StateMaintenance, RecordSettings, maintained, inMaintenance},
	"machine run: over":                  {machineRunView(staged, cycledOff, outcome(v1alpha1.SettingsApplied), runEnded), StateMaintenance, EndSettings, maintained, inMaintenance},
	"machine run: the record is lost":    {machineRunView(staged, recordLost), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: ended, nothing staged": {machineRunView(maintenanceEnds), StateProvisioned, RecordSettings, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, staging":        {machineRunView(stagingBegan, maintenanceEnds), StateProvisioned, ReadSettings, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, pending":        {machineRunView(stagingBegan, maintenanceEnds, runRead(virtualization("Disabled", "Enabled"), time.Second)), StateProvisioned, ClearSettings, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, staged":         {machineRunView(staged, maintenanceEnds), StateProvisioned, ReadSettings, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, to be removed":  {machineRunView(staged, maintenanceEnds, runRead(virtualization("Disabled", "Enabled"), time.Second)), StateProvisioned, ClearSettings, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, removed":        {machineRunView(staged, maintenanceEnds, runRead(virtualization("Disabled", ""), time.Second)), StateProvisioned, RecordSettings, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, off":            {machineRunView(staged, maintenanceEnds, serverOff, cycledOff), StateProvisioned, PowerOn, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, off, late":      {machineRunView(staged, maintenanceEnds, serverOff, cycledOff, runOverdue), StateProvisioned, PowerOn, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, shuts down":     {machineRunView(staged, goesOff, askedOff, maintenanceEnds), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, is off":         {machineRunView(staged, goesOff, serverOff, maintenanceEnds), StateProvisioned, RecordSettings, v1alpha1.PhaseProvisioned, ""},
	"machine run: ended, stays on":       {machineRunView(staged, goesOff, maintenanceEnds), StateProvisioned, ReadSettings, v1alpha1.PhaseProvisioned, ""},
	"machine run: late, shuts down":      {machineRunView(staged, goesOff, askedOff, runOverdue), StateMaintenance, Nothing, maintained, inMaintenance},
	"machine run: late, off":             {machineRunView(staged, serverOff, cycledOff, runOverdue), StateMaintenance, PowerOn, maintained, inMaintenance},
	"machine run: lost, ended by user":   {machineRunView(staged, recordLost, endedByUser), StateMaintenance, EndSettings, maintained, inMaintenance},
	"machine run: lost, ended":           {machineRunView(staged, recordLost, maintenanceEnds), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, v1alpha1.ReasonSettingsUnknown},
	"machine run: lost, ended, by user":  {machineRunView(staged, recordLost, maintenanceEnds, endedByUser), StateProvisioned, EndSettings, v1alpha1.PhaseProvisioned, v1alpha1.ReasonSettingsUnknown},
	"machine run: released":              {machineRunView(staged, unclaimed, serverOff, maintenanceEnds, pendingNow), StateConfiguring, RecordBoot, configuring, inRun},

	"drift: not compared":        {machineView(maintenanceEnds), StateProvisioned, ReadSettings, v1alpha1.PhaseProvisioned, ""},
	"drift: compared":            {machineView(maintenanceEnds, func(v *View) { v.BIOS.Compared = true }), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"drift: with the inventory":  {machineView(maintenanceEnds, conforms, func(v *View) { v.BMC.HealthReadAt = noon }), StateProvisioned, ReadSettings, v1alpha1.PhaseProvisioned, ""},
	"drift: the BMC is away":     {machineView(maintenanceEnds, bmcDown), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"drift: another generation":  {machineView(maintenanceEnds, conforms, func(v *View) { v.BIOS.Profile.Generation = 2 }), StateProvisioned, ReadSettings, v1alpha1.PhaseProvisioned, ""},
	"drift: nothing is repaired": {machineView(maintenanceEnds, differs), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
}

// TestMachineRunRecords: what a run on the server of a machine writes.
func TestMachineRunRecords(t *testing.T) {
	g := NewWithT(t)
	begins := Next(machineView(differs), DefaultSettings())
	g.Expect(begins.Settings.RequestedBy).To(Equal("anna: kubectl drain"))
	counted := machineView(differs, func(v *View) { v.BIOS.Record = begins.Settings })
	g.Expect(Next(counted, DefaultSettings()).Action).To(Equal(CountSettings))
	g.Expect(WantsRun(machineView(differs, rolloutWaits), DefaultSettings())).To(BeTrue(), "the run needs a slot of the rollout")

	first := Next(machineRunView(staged, pendingNow), DefaultSettings()).Settings
	g.Expect([]*metav1.Time{first.PowerOffTime, first.PoweredOffTime}).To(Equal([]*metav1.Time{at(0), nil}), "it is recorded before the first request")
	g.Expect(Next(machineRunView(staged, goesOff, serverOff), DefaultSettings()).Settings.PoweredOffTime).NotTo(BeNil())
	for name, test := range map[string]struct {
		view    View
		outcome v1alpha1.SettingsOutcome
		message string
	}{
		"ended before": {machineRunView(maintenanceEnds), v1alpha1.SettingsWithdrawn, "maintenance ended before the BMC got the settings"},
		"ended, removed": {
			machineRunView(staged, maintenanceEnds, runRead(virtualization("Disabled", ""), time.Second)), v1alpha1.SettingsWithdrawn, "maintenance ended before the server was restarted",
		},
		"ended, stays pending": {
			machineRunView(staged, maintenanceEnds, stagingRefused, clearFailed, runRead(virtualization("Disabled", "Enabled"), time.Second)), v1alpha1.SettingsFailed, "Some of the settings are pending",
		},
		"not powered off":     {machineRunView(staged, runOverdue), v1alpha1.SettingsFailed, "not powered off within"},
		"asked, and stays on": {machineRunView(staged, goesOff, runOverdue, pendingForeign), v1alpha1.SettingsFailed, "that the run does not set: SR=On"},
		"not read":            {machineRunView(staged, cycledOff, runOverdue), v1alpha1.SettingsFailed, "could not be read"},
		"old values, late":    {machineRunView(staged, cycledOff, runOverdue, runRead(virtualization("Disabled", ""), time.Second)), v1alpha1.SettingsFailed, `VT is "Disabled"`},
		"old values, the Node is Ready": {
			machineRunView(staged, func(v *View) {
				v.BIOS.Record.PowerOffTime, v.BIOS.Record.PoweredOffTime = at(20*time.Minute), at(20*time.Minute)
			}, nodeReadyAgain(verifyTimeout), runRead(virtualization("Disabled", ""), time.Second)),
			v1alpha1.SettingsFailed, `VT is "Disabled"`,
		},
		"another machine": {machineRunView(staged, cycledOff, func(v *View) { v.Consumer.ProviderID = "" }, maintenanceEnds), v1alpha1.SettingsFailed, "no longer has the host"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(test.view, DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordSettings), step.Message)
			g.Expect(step.Settings.Outcome).To(Equal(test.outcome))
			g.Expect(step.Settings.Message).To(ContainSubstring(test.message))
		})
	}
}

// TestPropertyMachineRunEndsOn: whatever is known and whatever ends the run, a server that may be off because of it is either on for certain when the run ends, or is powered
// on.
func TestPropertyMachineRunEndsOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		v := machineRunView(staged, goesOff)
		for _, change := range []struct {
			name  string
			apply func(*View)
		}{
			{"off recorded", cycledOff},
			{"no maintenance", maintenanceEnds},
			{"asked to shut down", askedOff},
			{"late", runOverdue},
			{"pending", pendingNow},
			{"others are pending", pendingForeign},
			{"applied", runRead(virtualization("Enabled", ""), time.Second)},
			{"on or off since lately", justOff},
			{"off", serverOff},
		} {
			if d.flag(change.name) {
				change.apply(&v)
			}
		}
		step := Next(v, DefaultSettings())
		if v.BMC.Power == v1alpha1.PowerOff && v.BIOS.Record.PoweredOffTime != nil && step.Action != PowerOn {
			t.Fatalf("%s: the server stays off: %s", step.Action, step.Message)
		}
		mayGoOff := v.BIOS.Record.PoweredOffTime == nil && (!v.BMC.FirstShutDownAt.IsZero() || v.BMC.PowerSince.Equal(v.BMC.PowerAt))
		if step.Action == RecordSettings && step.Settings.Outcome != "" && (v.BMC.Power == v1alpha1.PowerOff || mayGoOff) {
			t.Fatalf("the run ends, and its server is off, or may still shut down: %s", step.Message)
		}
	})
}

// TestMachineRunBootsDisk: the server of a machine boots its disk in the restart of a run, and nothing in any other maintenance.
func TestMachineRunBootsDisk(t *testing.T) {
	g := NewWithT(t)
	withoutRecord := func(v *View) { v.BIOS = BIOS{} }
	g.Expect(BootFor(machineRunView(staged, cycledOff, withoutRecord), DefaultSettings())).To(Equal(BootDisk), "the boot server does not read the record")
	g.Expect(BootFor(machineView(withoutRecord), DefaultSettings())).To(Equal(BootNothing))
	g.Expect(BootFor(machineRunView(maintenance, withoutRecord), DefaultSettings())).To(Equal(BootNothing))
}

// TestPropertyMachineRun: whatever is known, the server of a machine is staged and powered off for a run only while its maintenance permits that and the run is counted,
// and it is powered on again also after the maintenance.
func TestPropertyMachineRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw{t}
		v := machineRunView()
		v.BIOS.Reading, v.BIOS.Staging = nil, nil
		for _, change := range []struct {
			name  string
			apply func(*View)
		}{
			{"staging", stagingBegan},
			{"staged", staged},
			{"going off is recorded", goesOff},
			{"off recorded", cycledOff},
			{"asked to shut down", askedOff},
			{"late", runOverdue},
			{"others are pending", pendingForeign},
			{"no maintenance", maintenanceEnds},
			{"maintenance without a drain", maintenance},
			{"the server is off", serverOff},
			{"the component is off", switchedOff},
			{"read", runRead(virtualization("Disabled", "Enabled"), time.Second)},
			{"accepted", accepted},
			{"the run is not counted", func(v *View) { v.Host.Spec.ProviderState.SettingsRuns = 0 }},
			{"from memory", ephemeral},
			{"the machine is deleted", deleting},
			{"paused", func(v *View) { v.Host.Paused = true }},
		} {
			if d.flag(change.name) {
				change.apply(&v)
			}
		}
		step := Next(v, DefaultSettings())
		if !step.Action.Commands() || v.Consumer.Deleting && v.Host.Spec.Maintenance == nil {
			return
		}
		run, m := v.openRun(), v.Host.Spec.Maintenance
		permitted := m != nil && m.DrainedBy != "" && v.Consumer.Persistence == v1alpha1.PersistenceInstalled && !v.Consumer.Deleting
		switch {
		case run == nil || run.StagingTime == nil || v.Host.Paused || !v.BIOS.On:
			t.Fatalf("%s without an open run that is recorded", step.Action)
		case step.Action == PowerOn && run.PoweredOffTime != nil:
		case (step.Action == ShutDown || step.Action == ForceOff) && (run.PowerOffTime == nil || v.BMC.FirstShutDownAt.IsZero() && (v.BIOS.Reading == nil || !isStaged(v.BIOS.Reading.RunPlan))):
			t.Fatalf("%s before that is recorded, or without a reading that shows what it applies", step.Action)
		case step.Action == ClearSettings && m == nil:
		case !permitted:
			t.Fatalf("%s although nobody drained the Node", step.Action)
		case step.Action != StageSettings && step.Action != ShutDown && step.Action != ForceOff && step.Action != ClearSettings:
			t.Fatalf("%s in a run on the server of a machine", step.Action)
		case (step.Action == ShutDown || step.Action == ForceOff) && (run.StagedTime == nil || run.PoweredOffTime != nil):
			t.Fatalf("%s before the settings are staged, or a second time", step.Action)
		}
	})
}

// TestSecureBootOfMachine: the message of a maintenance says why Secure Boot is not changed.
func TestSecureBootOfMachine(t *testing.T) {
	g := NewWithT(t)
	v := machineView(wishesSecureBoot)
	g.Expect(v.BIOS.Reading.Plan.SecureBoot).NotTo(BeNil())
	g.Expect(Next(v, DefaultSettings()).Message).To(And(HavePrefix("In maintenance: settings. "), ContainSubstring("only on a free host")))
}

// TestRunsSayTheirEnd: a host whose run waits says until when, or for how long.
func TestRunsSayTheirEnd(t *testing.T) {
	checked := 0
	for _, cases := range []map[string]nextCase{nextSettings, nextMachineRun} {
		for name, c := range cases {
			run := c.view.openRun()
			if run == nil || !c.view.BIOS.On || run.Outcome != "" || c.phase == v1alpha1.PhaseQuarantined || c.action != Nothing {
				continue
			}
			checked++
			NewWithT(t).Expect(Next(c.view, DefaultSettings()).Message).To(MatchRegexp(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|within 35m0s`), name)
		}
	}
	NewWithT(t).Expect(checked).To(BeNumerically(">", 10))
}

// TestEditsInRuns: whatever becomes of the profile while a run is open, the host does the same: the run has what it changes, and from whom, in its record.
func TestEditsInRuns(t *testing.T) {
	edits := map[string]func(*Profile) *Profile{
		"other settings": func(p *Profile) *Profile { p.Generation, p.Hash = p.Generation+1, "z"; return p },
		"created again":  func(p *Profile) *Profile { p.UID = "uid-z"; return p },
		"paused":         func(p *Profile) *Profile { p.Active = false; return p },
		"another scope":  func(p *Profile) *Profile { p.Scope, p.Required = v1alpha1.ScopeReleasedHosts, !p.Required; return p },
		"deleted":        func(*Profile) *Profile { return nil },
	}
	checked := 0
	for _, cases := range []map[string]nextCase{nextSettings, nextMachineRun} {
		for name, c := range cases {
			if c.view.openRun() == nil || c.view.BIOS.Profile == nil {
				continue
			}
			want := Next(c.view, DefaultSettings())
			for edit, change := range edits {
				v, p := c.view, *c.view.BIOS.Profile
				v.BIOS.Profile = change(&p)
				checked++
				NewWithT(t).Expect(Next(v, DefaultSettings())).To(Equal(want), "%s, %s", name, edit)
			}
		}
	}
	NewWithT(t).Expect(checked).To(BeNumerically(">", 100))
}
