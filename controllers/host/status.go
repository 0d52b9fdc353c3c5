package host

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// statusWriter writes the statuses of hosts, with their conditions.
type statusWriter struct {
	client       client.Client
	settings     lifecycle.Settings
	observations *observations
	writeCache   *controllers.WriteCache[*v1alpha1.BareMetalHost]
	throttle     *controllers.Throttle
	// progressDelay is how long the progress of a boot or of a release stays unwritten.
	progressDelay time.Duration
	events        *eventRecorder
}

// firstStatusGrace is the time in which the BMC of a new host is expected to answer all requests. Until then the status is not written: that saves one
// write for each host when a fleet is registered.
const firstStatusGrace = 5 * time.Second

// bootStatusGrace is the time in which a server is expected to be on after its host was claimed, or off after its machine was deleted. Until then its status is not written: one
// write has the claim, the boot and the power. Machines do not claim by the status alone, but by spec.consumerRef, which is written first.
const bootStatusGrace = 10 * time.Second

// powersOnForBoot is true while a boot goes on whose server is about to be powered on.
func powersOnForBoot(view lifecycle.View, step lifecycle.Step) bool {
	boots := step.State == lifecycle.StateClaimed || step.State == lifecycle.StateBooting
	awaitsPower := view.Host.Boot != nil && view.Host.Boot.PoweredOnTime != nil && step.State == lifecycle.StateBooting
	goesOn := step.Action != lifecycle.Nothing || view.BMC.Busy || awaitsPower
	return boots && goesOn && view.BMC.Power != v1alpha1.PowerOn && view.BMCProblem() == nil && view.Observed.Problem == nil && !view.PauseRequested()
}

// powersOffForRelease is true while a server is powered off for a release, which goes well: one write has the release, the cleaning and the power.
func powersOffForRelease(view lifecycle.View, step lifecycle.Step) bool {
	return step.State == lifecycle.StateReleasing && view.BMC.Power != v1alpha1.PowerOff && view.BMCProblem() == nil
}

// startsRunning is true for a server that is on in a boot attempt which the status does not show yet: each attempt is shown once, when its server is on.
func startsRunning(view lifecycle.View, observed hostObservation) bool {
	b := view.Host.CurrentBoot()
	return b != nil && b.PoweredOnTime != nil && b.ReportedTime == nil && b.Number != observed.shownBoot && view.BMC.Power == v1alpha1.PowerOn
}

// writeStatus writes the status with one patch if anything changed. It leaves the status as it is during the first requests of this process to the BMC,
// so that a restart writes nothing.
//
// It returns how long to wait if a write is deferred.
func (w *statusWriter) writeStatus(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) (time.Duration, error) {
	unknown := !view.BMC.Inspected || view.BMC.PowerAt.IsZero()
	asking := view.BMCProblem() == nil && unknown && (view.BMC.Busy || step.Action == lifecycle.Inspect || step.Action == lifecycle.ReadPower)
	key := client.ObjectKeyFromObject(host)
	observed := w.observations.get(key)
	switch {
	case asking && host.Status.ObservedGeneration == host.Generation:
		return 0, nil
	case asking && host.Status.ObservedGeneration == 0 && view.Now.Sub(observed.initializedAt) < firstStatusGrace:
		return firstStatusGrace, nil // a BMC that takes longer is reported
	}
	before := host.DeepCopy()
	w.fillStatus(host, view, step, observed)
	change, err := statusChange(before, host)
	if err != nil {
		return 0, err
	}
	if change == nil {
		w.throttle.Done(key)
		return 0, nil
	}
	// A host that is no longer available is always written immediately: machines claim hosts by their status.
	var wait time.Duration
	switch {
	case asking && !conditions.IsTrue(before, v1alpha1.AvailableCondition):
		wait = w.throttle.Delay(key, view.Now)
	case powersOnForBoot(view, step):
		wait = w.throttle.DelayProgress(key, view.Now, bootStatusGrace)
	case powersOffForRelease(view, step):
		wait = w.throttle.DelayProgress(key, view.Now, min(w.progressDelay, bootStatusGrace))
	case isSignificantChange(before.Status, host.Status), startsRunning(view, observed):
	case controllers.IsBootProgress(conditions.Get(before, v1alpha1.BootedCondition), conditions.Get(host, v1alpha1.BootedCondition)):
		wait = w.throttle.DelayProgress(key, view.Now, w.progressDelay)
	default:
		wait = w.throttle.Delay(key, view.Now)
	}
	if wait > 0 {
		return wait, nil
	}
	if err := w.client.Status().Patch(ctx, host, change); err != nil {
		return 0, err
	}
	w.writeCache.Record(host)
	w.throttle.Done(key)
	if startsRunning(view, observed) {
		w.observations.update(key, func(h *hostObservation) { h.shownBoot = view.Host.Boot.Number })
	}
	w.events.recordStatusEvents(before, host, view.Now, step.Message)
	return 0, nil
}

// forget drops that the status of a host is unwritten.
func (w *statusWriter) forget(key types.NamespacedName) { w.throttle.Done(key) }

// statusChange returns the patch from one status to another, nil without a difference. It computes the patch only if the statuses differ in Go, which they may do in ways that JSON
// does not show: computing it always took a quarter of the allocations of hosts at rest. It is computed once, not again when it is sent.
func statusChange(before, host *v1alpha1.BareMetalHost) (client.Patch, error) {
	if equality.Semantic.DeepEqual(before.Status, host.Status) {
		return nil, nil //nolint:nilnil // no difference is a valid answer
	}
	patch := client.MergeFrom(before)
	change, err := patch.Data(host)
	if err != nil || string(change) == "{}" {
		return nil, err
	}
	return client.RawPatch(patch.Type(), change), nil
}

// isSignificantChange is true if statuses differ in more than progress. It ignores the time of the inspection, which says nothing about the result. It
// also ignores the addresses of a machine that has reported in and is not running yet: they follow from the spec.
func isSignificantChange(before, after v1alpha1.BareMetalHostStatus) bool {
	significant := func(s v1alpha1.BareMetalHostStatus) v1alpha1.BareMetalHostStatus {
		s.ObservedGeneration, s.Conditions = 0, controllers.WithoutMessages(s.Conditions)
		s.Conditions = slices.DeleteFunc(s.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.BootProgressCondition })
		if s.Phase == v1alpha1.PhaseBooting {
			s.Addresses = nil
		}
		s.LastOperation = controllers.WithoutProgress(s.LastOperation)
		if s.BMC != nil {
			bmcStatus := *s.BMC
			bmcStatus.BootOverride, bmcStatus.InspectedTime = nil, nil
			s.BMC = &bmcStatus
		}
		return s
	}
	return !equality.Semantic.DeepEqual(significant(before), significant(after))
}

// fillStatus sets the whole status of the host.
func (w *statusWriter) fillStatus(host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step, observed hostObservation) {
	status := &host.Status
	status.ObservedGeneration = host.Generation
	if step.Phase != "" {
		status.Phase = step.Phase
	}
	if view.BMC.Power != "" {
		status.Power = view.BMC.Power
	}
	if !view.Provisioned() && step.State != lifecycle.StateOrphaned {
		status.PowerRestore = nil
	}
	status.PoweredOffTime = nil
	if !step.PoweredOffTime.IsZero() {
		status.PoweredOffTime = new(truncateToSecond(step.PoweredOffTime))
	}
	if observed.hardware != nil {
		status.Hardware = observed.hardware
	}
	status.Inspection = observed.report.summary
	status.Identity = undisputedIdentity(status.Identity, view)
	status.BMC = observed.bmcStatus()
	switch operation := observed.lastOperation(); {
	case operation != nil:
		status.LastOperation = operation
	case status.LastOperation != nil && status.LastOperation.EndTime == nil:
		status.LastOperation = nil // the process that performed it has ended
	}
	if view.Host.CurrentBoot() != nil || !view.Provisioned() { // a running machine keeps its addresses if its boot record is lost
		status.Addresses = addressesOf(view)
	}
	status.Health = observed.healthStatus(status.Health)
	setConditions(host, view, step)
	setHardwareHealthy(host, observed.health.Rollup(), observed.health.IsStale(view.Now))
	setInspection(host, view, observed.report)
	setProgress(host, lifecycle.BootProgress(view, w.settings, step))
}

// undisputedIdentity returns the identity of the host's server. A part that belongs to another host, or is not permitted, keeps its earlier value.
func undisputedIdentity(before *v1alpha1.HostIdentity, view lifecycle.View) *v1alpha1.HostIdentity {
	if view.Identity.NotPermitted != nil {
		return before
	}
	identity := ptr.Deref(before, v1alpha1.HostIdentity{})
	if view.Identity.MACTakenBy == nil {
		identity.BootMACAddresses = view.Identity.Server.BootMACAddresses
	}
	if view.Identity.BMCTakenBy == nil {
		identity.BMC = view.Identity.Server.BMC
	}
	if view.Identity.HardwareTakenBy == nil && view.Identity.Replacement == nil {
		identity.Hardware = cmp.Or(view.Identity.Server.Hardware, identity.Hardware)
	}
	return &identity
}

// addressesOf returns the address from which the running server reported in.
func addressesOf(view lifecycle.View) clusterv1.MachineAddresses {
	b := view.Host.CurrentBoot()
	if b == nil || b.ReportedTime == nil {
		return nil
	}
	return clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: cmp.Or(b.ReportAddress, b.DataAddress)}}
}
