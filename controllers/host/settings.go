package host

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalprofiles,verbs=list;watch

var errRecordChanged = errors.New("the record of the run was changed meanwhile")

// settingsFacts reads what decides about the firmware settings of hosts. It is nil while the component is off.
type settingsFacts struct {
	client       client.Client // reads from the cache
	observations *observations
	records      *settingsRecords
}

// observeSettings adds to the view what is known of the settings of a host.
func (f *settingsFacts) observeSettings(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	if f == nil {
		return nil
	}
	key := client.ObjectKeyFromObject(host)
	profiles, err := controllers.ProfilesOf(ctx, f.client, host, f.observations.knownHardware(host))
	if err != nil {
		return err
	}
	object, err := f.records.ofHost(ctx, host)
	if err != nil {
		return err
	}
	observed := f.observations.get(key).firmware
	facts := lifecycle.BIOS{
		On: true, Offered: conditions.IsTrue(host, v1alpha1.AvailableCondition), Reading: observed.reading, Staging: observed.staging,
	}
	var profile *v1alpha1.BareMetalProfile
	switch len(profiles) {
	case 0:
	case 1:
		profile = profiles[0]
		facts.Profile = profileView(profile)
	default:
		facts.Conflict = fmt.Sprintf("BareMetalProfiles %q and %q", profiles[0].Name, profiles[1].Name)
	}
	if object != nil {
		if spec := object.Spec; spec.Number > 0 || spec.OfferedBoots != nil {
			facts.Record = &spec
		}
		facts.Compared = facts.Profile != nil && object.Status.Profile != nil && *object.Status.Profile == facts.Profile.SettingsProfile
	}
	f.observations.update(key, func(h *hostObservation) { h.firmware.profile = profile })
	view.BIOS = facts
	if view.Host.PausedCluster == "" && !view.Host.Claimed() && (profile != nil || host.Spec.ProviderState.SettingsRuns > host.Spec.ProviderState.SettingsRunsEnded) {
		view.Host.PausedCluster, err = controllers.PausedCluster(ctx, f.client, host.Namespace)
	}
	return err
}

func profileView(p *v1alpha1.BareMetalProfile) *lifecycle.Profile {
	return &lifecycle.Profile{
		SettingsProfile: controllers.SettingsProfileOf(p),
		Active:          p.Spec.Rollout.State == v1alpha1.RolloutActive, Required: p.Spec.Enforcement == v1alpha1.EnforceRequired, Scope: p.Spec.Rollout.Scope,
	}
}

// hostsOfProfile returns the hosts of the namespace of a profile. Those that it selected before an edit are among them.
func (m *watchMapper) hostsOfProfile(ctx context.Context, o client.Object) []reconcile.Request {
	return m.requestsForHosts(ctx, client.InNamespace(o.GetNamespace()))
}

// settingsFailedIndex finds the BareMetalSettings whose last run failed, by the name of its profile and what that wished: a profile that is paused, or created again, has the
// same failures.
const settingsFailedIndex = "spec.failedProfile"

func failedProfileOf(o client.Object) []string {
	object, ok := o.(*v1alpha1.BareMetalSettings)
	if !ok || object.Spec.Outcome != v1alpha1.SettingsFailed || object.Spec.Profile == nil {
		return nil
	}
	return []string{failedProfileValue(*object.Spec.Profile)}
}

func failedProfileValue(p v1alpha1.SettingsProfile) string { return p.Name + "/" + p.Hash }
