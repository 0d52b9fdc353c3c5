package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// observeOutage counts the other servers of the failure domain that run machines, where they decide whether a server is powered on. Those of other namespaces do not
// count: a tenant could name any failure domain.
func (g *gatherer) observeOutage(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	if !view.AwaitsOutage() || host.Spec.FailureDomain == "" {
		return nil
	}
	var hosts v1alpha1.BareMetalHostList
	if err := g.client.List(ctx, &hosts, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy); err != nil { // read only
		return fmt.Errorf("list the hosts of the failure domain: %w", err)
	}
	view.PowerLoss.Outage = &lifecycle.Outage{}
	for i := range hosts.Items {
		if other := &hosts.Items[i]; other.Name != host.Name && other.Spec.FailureDomain == host.Spec.FailureDomain {
			countNeighbour(view.PowerLoss.Outage, other, view.OffSince(), max(silentWithin, 2*g.settings.PollInterval))
		}
	}
	return nil
}

// silentWithin is how long after a loss of power the provider notices at the latest that a BMC lost its power too, unless it polls less often. One that fails later had shown
// that its server runs.
const silentWithin = 10 * time.Minute

// countNeighbour adds a server to those that lost their power together with one that has been off since a time, or to the others.
func countNeighbour(outage *lifecycle.Outage, host *v1alpha1.BareMetalHost, offSince time.Time, silent time.Duration) {
	ready := conditions.Get(host, v1alpha1.BMCReadyCondition)
	switch {
	case lostPowerAt(host, offSince):
		outage.Lost++
	case host.Spec.ConsumerRef == nil && !host.Spec.ExternallyProvisioned && host.Spec.Maintenance == nil: // nothing should run on it
	case host.Status.Power == v1alpha1.PowerOff:
	case slices.Contains(poweredOnByProvider, host.Status.Phase): // it may have been powered on since
		outage.Unknown++
	case ready == nil || ready.Status != metav1.ConditionTrue && !ready.LastTransitionTime.After(offSince.Add(silent)):
		outage.Unknown++
	default:
		outage.Running++
	}
}

// poweredOnByProvider are the phases in which the provider powers servers on for a boot or an erasure.
var poweredOnByProvider = []v1alpha1.HostPhase{v1alpha1.PhaseClaimed, v1alpha1.PhaseBooting, v1alpha1.PhaseCleaning}

// lostPowerAt is true if a host lost its power at about a time. It may have been powered on since, but its Node is not Ready again, or only since a later time.
func lostPowerAt(host *v1alpha1.BareMetalHost, at time.Time) bool {
	within := func(t time.Time) bool { return t.Sub(at).Abs() <= lifecycle.TogetherWithin }
	if off := host.Status.PoweredOffTime; off != nil && within(off.Time) {
		return true
	}
	r := host.Status.PowerRestore
	return r != nil && within(r.LostTime.Time) && (r.EndTime == nil || !at.After(r.EndTime.Time))
}

// recordPowerRestore writes status.powerRestore: before a power-on, and at the end. The slot is held before the write: it may succeed although its answer is lost.
func (p *performer) recordPowerRestore(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) error {
	p.queue.holdBootSlot(host, view, step)
	changed := host.DeepCopy()
	restore := step.PowerRestore.DeepCopy()
	restore.LostTime, restore.LastPowerOnTime = truncateToSecond(restore.LostTime.Time), truncateToSecond(restore.LastPowerOnTime.Time)
	if restore.EndTime != nil {
		restore.EndTime = new(truncateToSecond(restore.EndTime.Time))
	}
	changed.Status.PowerRestore = restore
	if err := p.client.Status().Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("record the power-on: %w", err)
	}
	p.writeCache.Record(changed)
	ctrl.LoggerFrom(ctx).Info("Recorded the power-on after a loss of power", "powerOns", restore.PowerOns, "servers", restore.Servers, "ended", restore.EndTime != nil)
	if restore.EndTime == nil {
		p.events.recordEvent(host, corev1.EventTypeNormal, controllers.EventOutagePowerOn, "Power",
			"Powering the server on: %d servers of failure domain %s lost their power together (try %d)", restore.Servers, host.Spec.FailureDomain, restore.PowerOns)
	}
	return nil
}
