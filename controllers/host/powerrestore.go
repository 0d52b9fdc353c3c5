package host

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// observeOutage counts the other servers of the failure domain that run machines, where they decide whether a server is powered on. Those of other namespaces do not
// count: a tenant could name any failure domain.
func (r *Reconciler) observeOutage(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	if !view.AwaitsOutage() || host.Spec.FailureDomain == "" {
		return nil
	}
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy); err != nil { // read only
		return fmt.Errorf("list the hosts of the failure domain: %w", err)
	}
	view.Outage = &lifecycle.Outage{}
	for i := range hosts.Items {
		if other := &hosts.Items[i]; other.Name != host.Name && other.Spec.FailureDomain == host.Spec.FailureDomain {
			count(view.Outage, other, view.OffSince())
		}
	}
	return nil
}

// count adds a server to those that lost their power together with one that has been off since a time, or to the others.
func count(outage *lifecycle.Outage, host *v1alpha1.BareMetalHost, offSince time.Time) {
	if lostPowerAt(host, offSince) {
		outage.Lost++
		return
	}
	switch host.Status.Phase {
	case v1alpha1.PhaseProvisioned, v1alpha1.PhaseExternallyProvisioned, v1alpha1.PhaseMaintenance, v1alpha1.PhasePowerHold:
	default: // nothing that should run is on it, or it is started again
		return
	}
	switch {
	case !conditions.IsTrue(host, v1alpha1.BMCReadyCondition):
		outage.Unknown++
	case host.Status.Power != v1alpha1.PowerOff:
		outage.Running++
	}
}

// lostPowerAt is true if a host lost its power at about a time. It may have been powered on since.
func lostPowerAt(host *v1alpha1.BareMetalHost, at time.Time) bool {
	within := func(t time.Time) bool { return t.Sub(at).Abs() <= lifecycle.TogetherWithin }
	if off := host.Status.PoweredOffTime; off != nil && within(off.Time) {
		return true
	}
	restored := host.Status.PowerRestore
	return restored != nil && within(restored.LostTime.Time)
}

// recordPowerRestore writes status.powerRestore: before a power-on, and at the end. The slot is held before the write: it may succeed although its answer is lost.
func (r *Reconciler) recordPowerRestore(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) error {
	r.holdBootSlot(host, view, step)
	changed := host.DeepCopy()
	restore := step.PowerRestore.DeepCopy()
	restore.LostTime, restore.LastPowerOnTime = truncateToSecond(restore.LostTime.Time), truncateToSecond(restore.LastPowerOnTime.Time)
	if restore.EndTime != nil {
		restore.EndTime = new(truncateToSecond(restore.EndTime.Time))
	}
	changed.Status.PowerRestore = restore
	if err := r.Client.Status().Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("record the power-on: %w", err)
	}
	r.writeCache.Record(changed)
	ctrl.LoggerFrom(ctx).Info("Recorded the power-on after a loss of power", "powerOns", restore.PowerOns, "servers", restore.Servers, "ended", restore.EndTime != nil)
	if restore.EndTime == nil {
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventOutagePowerOn, "Power",
			"Powering the server on: %d servers of failure domain %s lost their power together (try %d)", restore.Servers, host.Spec.FailureDomain, restore.PowerOns)
	}
	return nil
}
