package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/slots"
)

// rollout limits how many hosts of a profile are changed at once (rollout.maxUnavailable and maxUnavailablePerFailureDomain), and queues the others in the order of their
// names. It stops a profile after rollout.maxFailures hosts on which it failed, and keeps rollout.minAvailable hosts available. A host has its slots from the reconcile that
// may start its run until the run ends. A host that cannot start its run leaves the queue, so that it blocks no other host. The hosts and their BareMetalSettings say which runs are open: the queue of a new process is built from them. It is nil while the component is off.
type rollout struct {
	*settings.Rollout[types.NamespacedName]

	client       client.Client // reads from the cache
	settings     lifecycle.Settings
	observations *observations
	watchFilter  string

	mu     sync.Mutex
	loaded bool // the hosts whose runs are open have their slots
}

const (
	// rolloutTTL is how long a host that is no longer reconciled stays queued. A queued host is reconciled twice a minute.
	rolloutTTL = 2 * time.Minute
	// runSlot is how long a host keeps its slot after it was reconciled with an open run.
	runSlot = time.Hour
)

// newRollout returns a rollout that calls wake for each host that may have a slot now.
func newRollout(c client.Client, lifecycleSettings lifecycle.Settings, observations *observations, watchFilter string, wake func(types.NamespacedName)) *rollout {
	return &rollout{client: c, settings: lifecycleSettings, observations: observations, watchFilter: watchFilter, Rollout: settings.NewRollout(slots.Options[types.NamespacedName]{
		QueueTTL: rolloutTTL, PositionTTL: 30 * time.Second, Wake: wake,
		Compare: func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) },
	})}
}

// rolloutOf is what the limits of a profile count for. A profile that is created again goes on with the runs that are open.
func rolloutOf(namespace, name string) string { return namespace + "/" + name }

// rolloutHost is a host in the rollout of a profile of its namespace.
func rolloutHost(host *v1alpha1.BareMetalHost, profile string) settings.RolloutHost[types.NamespacedName] {
	return settings.RolloutHost[types.NamespacedName]{Profile: rolloutOf(host.Namespace, profile), Domain: host.Spec.FailureDomain, Key: client.ObjectKeyFromObject(host)}
}

// forget removes a host that is gone.
func (r *rollout) forget(host types.NamespacedName, now time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Release(host, now)
}

// leave removes a host from the queues, or takes its slots. A host whose run is open keeps them.
func (r *rollout) leave(host *v1alpha1.BareMetalHost, now time.Time) {
	if state := host.Spec.ProviderState; r == nil || state.SettingsRuns > state.SettingsRunsEnded {
		return
	}
	r.Leave(client.ObjectKeyFromObject(host), now)
}

// leaveAfter lets a host leave whose step failed, unless its run may be open: the error of a count does not always say that the count was not written.
func (r *rollout) leaveAfter(host *v1alpha1.BareMetalHost, step lifecycle.Step, err error, now time.Time) {
	var answer apierrors.APIStatus
	refused := errors.As(err, &answer) && answer.Status().Code >= 400 && answer.Status().Code < 500
	if step.Action != lifecycle.CountSettings || refused {
		r.leave(host, now)
	}
}

// load gives the hosts whose runs are open their slots, once.
func (r *rollout) load(ctx context.Context, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return nil
	}
	var all v1alpha1.BareMetalSettingsList
	if err := r.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the BareMetalSettings: %w", err)
	}
	for i := range all.Items {
		spec, key := &all.Items[i].Spec, client.ObjectKeyFromObject(&all.Items[i])
		if spec.Profile == nil || spec.EndTime != nil {
			continue
		}
		var host v1alpha1.BareMetalHost
		switch err := r.client.Get(ctx, key, &host); {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read the host of BareMetalSettings: %w", err)
		case err == nil && controllers.HasWatchFilter(&host, r.watchFilter) && host.Spec.ProviderState.SettingsRuns == spec.Number:
			r.Hold(rolloutHost(&host, spec.Profile.Name), now.Add(runSlot), now)
		}
	}
	r.loaded = true
	return nil
}

// acquire gives a host whose run is open, or that could start one, its slot; or writes to the view why it must wait.
func (r *rollout) acquire(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	if r == nil {
		return nil
	}
	if err := r.load(ctx, view.Now); err != nil {
		return err
	}
	key, state := client.ObjectKeyFromObject(host), host.Spec.ProviderState
	if record := view.BIOS.Record; state.SettingsRuns > state.SettingsRunsEnded {
		if record != nil && record.Profile != nil {
			r.Hold(rolloutHost(host, record.Profile.Name), view.Now.Add(runSlot), view.Now)
		}
		return nil
	}
	profile := r.observations.get(key).firmware.profile
	if profile == nil || !lifecycle.WantsRun(*view, r.settings) {
		r.Release(key, view.Now)
		return nil
	}
	wait, err := r.waitOf(ctx, host, profile, view)
	if err != nil {
		return err
	}
	if wait != nil && wait.Stopped {
		r.Release(key, view.Now)
	}
	view.BIOS.Rollout = wait
	return nil
}

// waitOf returns why a host that could start a run must not; nil if it may, and has a slot.
func (r *rollout) waitOf(ctx context.Context, host *v1alpha1.BareMetalHost, profile *v1alpha1.BareMetalProfile, view *lifecycle.View) (*lifecycle.RolloutWait, error) {
	candidate, spec := rolloutHost(host, profile.Name), profile.Spec.Rollout
	failed, err := r.failures(ctx, profile)
	switch {
	case err != nil:
		return nil, err
	case failed >= max(int(spec.MaxFailures), 1):
		return &lifecycle.RolloutWait{Stopped: true, Message: fmt.Sprintf(
			"it stopped after %d hosts did not get the settings (rollout.maxFailures). Change the settings, or raise maxFailures, to continue", failed)}, nil
	}
	r.SetLimits(candidate.Profile, settings.RolloutLimits{Hosts: int(spec.MaxUnavailable), PerDomain: int(spec.MaxUnavailablePerFailureDomain)})
	position, ok := r.Acquire(candidate, profile.CreationTimestamp.Time, view.Now.Add(runSlot), view.Now)
	switch {
	case !ok && position.InDomain:
		return &lifecycle.RolloutWait{Message: fmt.Sprintf("the host is number %d in the queue of failure domain %q, in which %d hosts have a slot "+
			"(rollout.maxUnavailablePerFailureDomain)", position.Number, candidate.Domain, position.Holding)}, nil
	case !ok:
		return &lifecycle.RolloutWait{Message: fmt.Sprintf("the host is number %d in the queue, and %d hosts are changed now (rollout.maxUnavailable)", position.Number, position.Holding)}, nil
	}
	if view.BIOS.Offered && spec.MinAvailable != nil {
		left, err := r.availableWithout(ctx, host, profile, view.Now)
		if err != nil || left < int(*spec.MinAvailable) {
			r.Release(candidate.Key, view.Now)
			return &lifecycle.RolloutWait{Message: fmt.Sprintf("%d other hosts are Available, and %d must be (rollout.minAvailable)", left, *spec.MinAvailable)}, err
		}
	}
	return nil, nil //nolint:nilnil // it may start
}

// failures returns on how many hosts of the namespace the settings of a profile failed.
func (r *rollout) failures(ctx context.Context, profile *v1alpha1.BareMetalProfile) (int, error) {
	var failed v1alpha1.BareMetalSettingsList
	err := r.client.List(ctx, &failed, client.InNamespace(profile.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingFields{settingsFailedIndex: failedProfileValue(controllers.SettingsProfileOf(profile))})
	if err != nil {
		return 0, fmt.Errorf("list the BareMetalSettings of failed runs: %w", err)
	}
	return len(failed.Items), nil
}

// availableWithout returns how many hosts of a profile are Available, without one that is to be changed and those that have a slot.
func (r *rollout) availableWithout(ctx context.Context, host *v1alpha1.BareMetalHost, profile *v1alpha1.BareMetalProfile, now time.Time) (int, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := r.client.List(ctx, &hosts, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("list the hosts of the namespace: %w", err)
	}
	changing := map[types.NamespacedName]bool{client.ObjectKeyFromObject(host): true}
	for _, key := range r.Holding(rolloutOf(profile.Namespace, profile.Name), now) {
		changing[key] = true
	}
	left := 0
	for i := range hosts.Items {
		other := &hosts.Items[i]
		if !changing[client.ObjectKeyFromObject(other)] && other.Spec.ConsumerRef == nil && conditions.IsTrue(other, v1alpha1.AvailableCondition) &&
			controllers.SelectsHost(&profile.Spec.Hosts, other, other.Status.Hardware) {
			left++
		}
	}
	return left, nil
}
