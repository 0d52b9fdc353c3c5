package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

// settingsTimeout limits a job that reads or stages firmware settings: an attribute registry has up to 4 MiB.
const settingsTimeout = 5 * time.Minute

// firmwareObservation is what this process knows of the firmware settings of a server. The values behind its pointers are replaced, never changed.
type firmwareObservation struct {
	profile *v1alpha1.BareMetalProfile // that selects the host; nil without one
	reading *lifecycle.SettingsReading
	staging *lifecycle.SettingsStaging
	status  *v1alpha1.BareMetalSettingsStatus // of the reading, without conditions and time
}

// settingsWork is what a job about settings needs.
type settingsWork struct {
	profile *v1alpha1.BareMetalProfile      // nil without one
	run     *v1alpha1.BareMetalSettingsSpec // the open run; nil without one
	terms   lifecycle.PlanTerms
}

// workOf returns what a job about settings needs.
func workOf(view lifecycle.View, observed firmwareObservation) settingsWork {
	work := settingsWork{profile: observed.profile, terms: view.Host.PlanTerms()}
	if state, r := view.Host.Spec.ProviderState, view.BIOS.Record; r != nil && state.SettingsRuns > state.SettingsRunsEnded && r.Number == state.SettingsRuns {
		work.run = r.DeepCopy()
	}
	return work
}

// isAboutSettings is true for the actions that read or write firmware settings.
func isAboutSettings(action lifecycle.Action) bool {
	return action == lifecycle.ReadSettings || action == lifecycle.StageSettings || action == lifecycle.ClearSettings
}

// settingsExecutor reads and stages the firmware settings of servers, and records what it read in the observations.
type settingsExecutor struct {
	clock        clock.PassiveClock
	observations *observations
	events       *eventRecorder
}

// readFirmware is what a BMC reports of the settings of a server.
type readFirmware struct {
	bios                         bmc.BIOS
	registry                     *settings.Registry // nil without one
	current, pending             settings.Values
	reportsSecureBoot, isEnabled bool
	pendingSecureBoot            *bool // what is staged; nil if nothing is
	mode                         string
	keys                         *bmc.SecureBootKeys // nil if they are unknown
}

// execute carries out a job about settings. A BMC that offers no settings, or refuses them, works otherwise: that is no error of the job.
func (e *settingsExecutor) execute(ctx context.Context, j job, c bmc.Client) error {
	at := e.clock.Now()
	before, err := e.read(ctx, j, c)
	if err != nil {
		return e.noteUnreadable(ctx, j, at, err)
	}
	switch {
	case j.action == lifecycle.ReadSettings || j.settings.run == nil:
		e.note(j, at, before)
		return nil
	case j.action == lifecycle.StageSettings:
		err = e.stage(ctx, j, c, at, before)
	default:
		err = e.clear(ctx, j, c, before)
	}
	if err != nil {
		return err
	}
	at = e.clock.Now()
	after, err := e.read(ctx, j, c)
	if err != nil {
		return e.noteUnreadable(ctx, j, at, err)
	}
	e.note(j, at, after)
	return nil
}

// answersOtherwise is true for an error after which the BMC still works: it does not have the function, or refused the request.
func answersOtherwise(err error) bool {
	kind := bmc.KindOf(err)
	return kind == bmc.Unsupported || kind == bmc.Failed
}

// noteUnreadable records that the settings cannot be read.
func (e *settingsExecutor) noteUnreadable(ctx context.Context, j job, at time.Time, err error) error {
	if ctx.Err() != nil || !answersOtherwise(err) {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Failed to read the firmware settings", "error", err.Error())
	reading := &lifecycle.SettingsReading{At: at, Problem: controllers.Clip(err.Error(), controllers.MaxText)}
	if j.settings.profile != nil {
		reading.Profile = profileView(j.settings.profile).SettingsProfile
	}
	if j.settings.run != nil {
		reading.Run = j.settings.run.Number
	}
	e.observations.updateByJob(j, func(h *hostObservation) { h.firmware.reading, h.firmware.status = reading, nil })
	return nil
}

// note records a reading, compared with the profile and with the run.
func (e *settingsExecutor) note(j job, at time.Time, f *readFirmware) {
	reading, work := &lifecycle.SettingsReading{At: at, Terms: j.settings.terms}, j.settings
	var status *v1alpha1.BareMetalSettingsStatus
	if work.profile != nil {
		reading.Profile, reading.Plan = profileView(work.profile).SettingsProfile, f.planOf(work.profile, work.terms)
		status = f.statusOf(work.profile, reading.Plan)
	} else {
		reading.Plan = f.plan(nil, settings.SecureBootInput{}, "")
	}
	if work.run != nil {
		reading.Run, reading.RunPlan = work.run.Number, f.planOfRun(work.run)
	}
	e.observations.updateByJob(j, func(h *hostObservation) { h.firmware.reading, h.firmware.status = reading, status })
}

// read reads everything that a plan needs. A server whose profile is only about Secure Boot needs no BIOS attributes.
func (e *settingsExecutor) read(ctx context.Context, j job, c bmc.Client) (*readFirmware, error) {
	f := &readFirmware{}
	configurer, err := bmc.As[bmc.BIOSConfigurer](c, "Read the BIOS attributes")
	if err == nil {
		f.bios, err = configurer.BIOS(ctx)
	}
	if err != nil && (bmc.KindOf(err) != bmc.Unsupported || j.settings.needsAttributes()) {
		return nil, err
	}
	if f.bios.Registry != nil {
		if f.registry, err = settings.ParseRegistry(f.bios.Registry); err != nil { // most checks of a profile would be missing
			return nil, &bmc.Error{Kind: bmc.Failed, Op: "Read the BIOS attributes", Err: err}
		}
		f.bios.Registry = nil // it has megabytes
	}
	f.current, _ = settings.ValuesOf(f.bios.Attributes)
	f.pending, _ = settings.ValuesOf(f.bios.Pending)
	return f, f.readSecureBoot(ctx, c)
}

func (w settingsWork) needsAttributes() bool {
	return w.profile != nil && len(w.profile.Spec.BIOSSettings) > 0 || w.run != nil && len(w.run.Changes) > 0
}

// readSecureBoot reads Secure Boot and its keys, as far as the BMC shows them.
func (f *readFirmware) readSecureBoot(ctx context.Context, c bmc.Client) error {
	f.pendingSecureBoot = f.bios.PendingSecureBoot
	booter, err := bmc.As[bmc.SecureBooter](c, "Read Secure Boot")
	var state bmc.SecureBoot
	if err == nil {
		state, err = booter.SecureBoot(ctx)
	}
	if err != nil {
		if bmc.KindOf(err) == bmc.Unsupported {
			return nil
		}
		return err
	}
	f.reportsSecureBoot, f.isEnabled, f.mode = true, state.Enabled, state.Mode
	f.pendingSecureBoot = cmp.Or(f.pendingSecureBoot, state.Pending)
	reader, err := bmc.As[bmc.SecureBootKeyReader](c, "Read the keys of Secure Boot")
	var keys bmc.SecureBootKeys
	if err == nil {
		keys, err = reader.SecureBootKeys(ctx)
	}
	switch {
	case err == nil:
		f.keys = &keys
	case !answersOtherwise(err):
		return err
	}
	return nil // keys that cannot be read are unknown, as the plan says
}

// planOf returns the plan of a profile.
func (f *readFirmware) planOf(profile *v1alpha1.BareMetalProfile, terms lifecycle.PlanTerms) *settings.Plan {
	spec := &profile.Spec
	wishes := make([]settings.Wish, 0, len(spec.BIOSSettings))
	for _, s := range spec.BIOSSettings {
		if s.Value != nil { // the API server refuses a setting without one
			wishes = append(wishes, settings.Wish{Name: s.Name, Value: s.Value.String()})
		}
	}
	secure := settings.SecureBootInput{
		BootsSigned: new(terms.BootMode == v1alpha1.BootModeUEFISecureBoot), KeepsDisks: terms.KeepsDisks, MayDisable: slices.Contains(spec.Allow, v1alpha1.PermitSecureBoot), MayLoseSealedDisks: slices.Contains(spec.Allow, v1alpha1.PermitKeptDisks),
	}
	if f.keys != nil {
		secure.KeysKnown, secure.Authorities = true, f.keys.Authorities
	}
	return f.plan(wishes, secure, spec.SecureBoot)
}

// planOfRun returns what of a run is not done. What the run may change was decided when it began.
func (f *readFirmware) planOfRun(run *v1alpha1.BareMetalSettingsSpec) *settings.Plan {
	wishes := make([]settings.Wish, 0, len(run.Changes))
	for _, c := range run.Changes {
		wishes = append(wishes, settings.Wish{Name: c.Name, Value: c.Value})
	}
	return f.plan(wishes, settings.SecureBootInput{MayDisable: true, MayLoseSealedDisks: true}, run.SecureBoot)
}

func (f *readFirmware) plan(wishes []settings.Wish, secure settings.SecureBootInput, want wire.SecureBoot) *settings.Plan {
	if want != "" {
		secure.Want = new(want == wire.SecureBootEnabled)
	}
	secure.Reported, secure.Enabled, secure.Pending, secure.Mode = f.reportsSecureBoot, f.isEnabled, f.pendingSecureBoot, f.mode
	plan := settings.NewPlan(settings.Input{Wishes: wishes, Registry: f.registry, Current: f.current, Pending: f.pending, SecureBoot: secure})
	if f.bios.DefaultsPending {
		plan.Foreign = append(plan.Foreign, settings.Change{Name: "all attributes", To: settings.Text("their defaults"), Pending: true})
	}
	return &plan
}

// stage gives the BMC the changes of a run. Values of others that are pending stop it: the lifecycle decides about them.
func (e *settingsExecutor) stage(ctx context.Context, j job, c bmc.Client, at time.Time, before *readFirmware) error {
	run := j.settings.run
	plan := before.planOfRun(run)
	staging := &lifecycle.SettingsStaging{Run: run.Number}
	switch {
	case len(plan.Foreign) > 0:
		return nil
	case len(plan.Refusals) > 0:
		staging.Refused = lifecycle.RefusalMessage(profileName(run), plan)
	default:
		staged, err := stageChange(ctx, c, plan)
		if err != nil && !answersOtherwise(err) {
			return err // the next job reads first, and sends only what is missing
		}
		if staging.Task = controllers.Clip(staged.Task, controllers.MaxText); err != nil {
			staging.Refused = controllers.Clip(maskError(err).Error(), controllers.MaxText)
		}
		ctrl.LoggerFrom(ctx).Info("Staged the firmware settings", "run", run.Number, "sent", staged.Sent, "task", staged.Task, "refused", staging.Refused, "readAt", at)
	}
	e.noteStaging(j, staging)
	return nil
}

func profileName(run *v1alpha1.BareMetalSettingsSpec) string {
	if run.Profile == nil {
		return ""
	}
	return run.Profile.Name
}

// stageChange sends what a plan changes. Nothing is sent if the server has it already.
func stageChange(ctx context.Context, c bmc.Client, plan *settings.Plan) (bmc.StagedBIOS, error) {
	change := bmc.BIOSChange{Attributes: plan.Attributes()}
	if plan.SecureBoot != nil {
		change.SecureBoot = &plan.SecureBoot.To
	}
	if change.Attributes == nil && change.SecureBoot == nil {
		return bmc.StagedBIOS{}, nil
	}
	configurer, err := bmc.As[bmc.BIOSConfigurer](c, "Stage the BIOS attributes")
	if err == nil {
		var staged bmc.StagedBIOS
		staged, err = configurer.StageBIOS(ctx, change)
		if err == nil || bmc.KindOf(err) != bmc.Unsupported {
			return staged, err
		}
	}
	if change.Attributes != nil {
		return bmc.StagedBIOS{}, err
	}
	return bmc.StagedBIOS{Sent: true}, setSecureBoot(ctx, c, *change.SecureBoot) // the BMC has no BIOS attributes
}

func setSecureBoot(ctx context.Context, c bmc.Client, enabled bool) error {
	booter, err := bmc.As[bmc.SecureBooter](c, "Set Secure Boot")
	if err != nil {
		return err
	}
	return booter.SetSecureBoot(ctx, enabled)
}

// clear removes what is staged. Secure Boot may be staged elsewhere than the attributes.
func (e *settingsExecutor) clear(ctx context.Context, j job, c bmc.Client, before *readFirmware) error {
	configurer, err := bmc.As[bmc.BIOSConfigurer](c, "Clear the staged BIOS attributes")
	if err == nil {
		err = configurer.ClearStagedBIOS(ctx)
	}
	if before.reportsSecureBoot && before.pendingSecureBoot != nil && (err == nil || bmc.KindOf(err) == bmc.Unsupported) {
		err = setSecureBoot(ctx, c, before.isEnabled)
	}
	if err != nil && !answersOtherwise(err) {
		return err
	}
	staging := &lifecycle.SettingsStaging{Run: j.settings.run.Number, Refused: "the settings were removed"}
	if last := e.observations.get(j.key).firmware.staging; last != nil && last.Run == staging.Run {
		staging.Refused, staging.Task = last.Refused, last.Task
	}
	if err != nil {
		staging.ClearFailed = controllers.Clip(fmt.Sprint(maskError(err)), controllers.MaxText)
	}
	e.noteStaging(j, staging)
	return nil
}

func (e *settingsExecutor) noteStaging(j job, staging *lifecycle.SettingsStaging) {
	staging.At = e.clock.Now()
	e.observations.updateByJob(j, func(h *hostObservation) { h.firmware.staging = staging })
}
