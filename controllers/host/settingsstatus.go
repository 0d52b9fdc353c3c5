package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

const (
	// maxDifferences is how many differences the status of a BareMetalSettings has, as in the API.
	maxDifferences = 20
	// maxDifference is the maximum length of each of their values.
	maxDifference = 128
)

// statusOf returns the status of the BareMetalSettings, without conditions and time.
func (f *readFirmware) statusOf(profile *v1alpha1.BareMetalProfile, plan *settings.Plan) *v1alpha1.BareMetalSettingsStatus {
	differences := differencesOf(plan)
	named := map[string]bool{}
	for _, s := range profile.Spec.BIOSSettings {
		named[s.Name] = true
	}
	status := &v1alpha1.BareMetalSettingsStatus{
		Profile: &profileView(profile).SettingsProfile, Registry: controllers.Clip(f.bios.RegistryName, controllers.MaxText),
		Differences: differences[:min(len(differences), maxDifferences)], DifferenceCount: new(int32(len(differences))), //nolint:gosec // there are at most some thousand
		NamedHash: f.hash(func(name string) bool { return named[name] }), OtherHash: f.hash(func(name string) bool { return !named[name] }),
	}
	if f.reportsSecureBoot {
		status.SecureBoot = wire.SecureBootDisabled
		if f.isEnabled {
			status.SecureBoot = wire.SecureBootEnabled
		}
	}
	return status
}

// differencesOf returns the attributes that are not as wished, and those with a pending value, one of each name.
func differencesOf(plan *settings.Plan) []v1alpha1.SettingDifference {
	var all []v1alpha1.SettingDifference
	clip := func(v settings.Value) string { return controllers.Clip(v.String(), maxDifference) }
	for _, c := range plan.Changes {
		d := v1alpha1.SettingDifference{Name: controllers.Clip(c.Name, maxDifference), Observed: clip(c.From), Wished: clip(c.To)}
		if c.Pending {
			d.Pending = clip(c.To)
		}
		all = append(all, d)
	}
	for _, c := range plan.Foreign {
		name := controllers.Clip(c.Name, maxDifference)
		if i := slices.IndexFunc(all, func(d v1alpha1.SettingDifference) bool { return d.Name == name }); i >= 0 {
			all[i].Pending = clip(c.To)
			continue
		}
		all = append(all, v1alpha1.SettingDifference{Name: name, Observed: clip(c.From), Pending: clip(c.To)})
	}
	return all
}

// hash returns a hash of the values of some attributes.
func (f *readFirmware) hash(of func(name string) bool) string {
	h := sha256.New()
	for _, name := range f.current.Names() {
		if of(name) {
			_, _ = io.WriteString(h, fmt.Sprintf("%q=%q\n", name, f.current[name].String())) // a hash takes everything
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// setSettingsConform sets the condition SettingsConform, and the name of the profile that the host conforms to. Without a profile both are absent.
// What the status says of an earlier comparison stays until the settings are read.
func setSettingsConform(host *v1alpha1.BareMetalHost, view lifecycle.View) {
	b := view.BIOS
	set := func(status metav1.ConditionStatus, reason, message string) {
		conditions.Set(host, metav1.Condition{
			Type: v1alpha1.SettingsConformCondition, Status: status, Reason: reason, Message: controllers.Clip(message, controllers.MaxMessage), ObservedGeneration: host.Generation,
		})
	}
	switch r := b.Reading; {
	case !b.On || b.Profile == nil && b.Conflict == "":
		conditions.Delete(host, v1alpha1.SettingsConformCondition)
	case b.Conflict != "":
		set(metav1.ConditionFalse, v1alpha1.ReasonSettingsProfilesConflict, b.Conflict+" select this host, so none of them is applied. Correct spec.hosts of one")
	case r == nil && b.Compared && conditions.Has(host, v1alpha1.SettingsConformCondition):
	case r == nil || r.Profile != b.Profile.SettingsProfile:
		set(metav1.ConditionUnknown, v1alpha1.ReasonSettingsUnread, fmt.Sprintf("The settings were not read yet for BareMetalProfile %q", b.Profile.Name))
	case r.Problem != "":
		set(metav1.ConditionUnknown, v1alpha1.ReasonSettingsUnreadable, r.Problem)
	case r.Plan == nil:
		set(metav1.ConditionUnknown, v1alpha1.ReasonSettingsUnread, "")
	case len(r.Plan.Refusals) > 0:
		set(metav1.ConditionFalse, v1alpha1.ReasonSettingsRefused, lifecycle.RefusalMessage(b.Profile.Name, r.Plan))
	case len(r.Plan.Foreign) > 0:
		set(metav1.ConditionFalse, v1alpha1.ReasonSettingsForeign, "Values are pending that the profile does not name. BareMetalSettings "+host.Name+" lists them")
	case r.Plan.Conforms():
		set(metav1.ConditionTrue, v1alpha1.ReasonSettingsConform, strings.Join(r.Plan.Notes, ". "))
	default:
		message := strings.Join(append([]string{fmt.Sprintf("BareMetalProfile %q: %s", b.Profile.Name, lifecycle.ListChanges(r.Plan))}, r.Plan.Notes...), ". ")
		if b.Rollout != nil && b.Rollout.Stopped { // a position in the queue would be a write of each host that waits
			message += ". The rollout: " + b.Rollout.Message
		}
		if tried := lifecycle.TriedMessage(view); tried != "" {
			message += ". " + tried
		}
		set(metav1.ConditionFalse, v1alpha1.ReasonSettingsDiffer, message)
	}
	host.Status.SettingsProfile = ""
	if b.Profile != nil && conditions.IsTrue(host, v1alpha1.SettingsConformCondition) {
		host.Status.SettingsProfile = b.Profile.Name
	}
}

// settingsStatusWriter writes the statuses of the BareMetalSettings. It is nil while the component is off.
type settingsStatusWriter struct {
	client       client.Client
	observations *observations
	records      *settingsRecords
}

// recordMayFollow is true for a host without a BareMetalSettings whose record may come by a move or a restore, for which an object without a record would be in the way: a
// Cluster of the namespace is paused, or a run is open.
func (w *settingsStatusWriter) recordMayFollow(ctx context.Context, host *v1alpha1.BareMetalHost) (bool, error) {
	if state := host.Spec.ProviderState; state.SettingsRuns > state.SettingsRunsEnded {
		return true, nil
	}
	paused, err := controllers.PausedCluster(ctx, w.client, host.Namespace)
	return paused != "", err
}

// writeSettingsStatus writes what was read of the settings of a host, if it differs from what was read before. Nothing is written at rest.
func (w *settingsStatusWriter) writeSettingsStatus(ctx context.Context, host *v1alpha1.BareMetalHost, step lifecycle.Step) error {
	if w == nil || step.State.ReadOnly() {
		return nil
	}
	key := client.ObjectKeyFromObject(host)
	observed := w.observations.get(key).firmware
	if observed.status == nil || observed.reading == nil || observed.profile == nil || profileView(observed.profile).SettingsProfile != *observed.status.Profile {
		return nil
	}
	object, err := w.records.get(ctx, key)
	if err != nil {
		return err
	}
	if object == nil {
		if wait, err := w.recordMayFollow(ctx, host); wait || err != nil {
			return err
		}
		if object, err = w.records.create(ctx, host, v1alpha1.BareMetalSettingsSpec{}); err != nil {
			return err
		}
	}
	before := object.DeepCopy()
	readTime := object.Status.ReadTime
	status := *observed.status.DeepCopy()
	status.Conditions, status.ReadTime = object.Status.Conditions, readTime
	object.Status = status
	if c := conditions.Get(host, v1alpha1.SettingsConformCondition); c != nil {
		mirrored := *c
		mirrored.ObservedGeneration = object.Generation
		conditions.Set(object, mirrored)
	}
	if equality.Semantic.DeepEqual(before.Status, object.Status) {
		return nil
	}
	object.Status.ReadTime = new(truncateToSecond(observed.reading.At))
	if err := w.client.Status().Patch(ctx, object, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("write the status of the host's BareMetalSettings: %w", err)
	}
	w.records.written.Record(object)
	return nil
}
