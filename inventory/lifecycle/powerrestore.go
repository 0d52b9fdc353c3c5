package lifecycle

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// spec.whenPoweredOff: PowerOn powers the servers of a failure domain on that lost their power together (docs/decisions/0048). A single server may be off because a person works
// on it, or because it is broken.
const (
	// minOffForRestore is how long a server must be off before it is powered on: the power may return only for a moment.
	minOffForRestore = 5 * time.Minute
	// restoreTimeout is how long a server has to start before the next try, and how long it keeps its boot slot.
	restoreTimeout = 10 * time.Minute
	// maxPowerOns is how often a server is powered on after one loss of power. Losses less than restoreMemory apart count as one.
	maxPowerOns   = 2
	restoreMemory = time.Hour
	// restoreCheckInterval is how often the other servers of the failure domain are counted again.
	restoreCheckInterval = 30 * time.Second
	// restoreCommandWithin is how soon after its record a power-on must be sent. A later one may be unwanted.
	restoreCommandWithin = time.Minute
	// restoreWithin is how long after its loss of power a server may first be powered on. Later a person decides.
	restoreWithin = 6 * time.Hour
	// TogetherWithin is how far apart the losses of power of one failure domain may be. Its BMCs lost their power too, start again, and are retried at different times.
	TogetherWithin = 15 * time.Minute
)

// Outage is what is known of the other servers of a failure domain that run machines.
type Outage struct {
	// Lost is how many lost their power at the same time.
	Lost int
	// Running is how many kept it.
	Running int
	// Unknown is how many have a BMC that has not answered since, or boot.
	Unknown int
}

// AwaitsOutage is true if the other servers of the failure domain decide whether a server is powered on.
func (v View) AwaitsOutage() bool {
	return v.Provisioned() && v.Host.Spec.WhenPoweredOff == v1alpha1.WhenPoweredOffPowerOn && v.poweredOff() && !v.restoring() && v.PowerOns() < maxPowerOns
}

// OffSince returns since when a server that is reported as powered off has been off.
func (v View) OffSince() time.Time {
	if !v.PowerLoss.PoweredOffTime.IsZero() {
		return v.PowerLoss.PoweredOffTime
	}
	return v.BMC.PowerSince
}

// restoring is true if the server has been off since before it was powered on last, less than restoreMemory ago.
func (v View) restoring() bool {
	r := v.PowerLoss.Restore
	return r != nil && r.EndTime == nil && !v.OffSince().After(r.LastPowerOnTime.Time) && v.Now.Before(r.LastPowerOnTime.Add(restoreMemory))
}

// PowerOns returns how often the server was powered on after this loss of power.
func (v View) PowerOns() int32 {
	r := v.PowerLoss.Restore
	if r == nil {
		return 0
	}
	last := r.LastPowerOnTime.Time
	if r.EndTime != nil {
		last = latest(last, r.EndTime.Time)
	}
	if !v.restoring() && v.OffSince().Sub(last) >= restoreMemory {
		return 0
	}
	return r.PowerOns
}

// restoreUntil returns until when a server that was powered on after a loss of power needs its boot slot; zero if it needs none.
func (p PowerLoss) restoreUntil(now time.Time) time.Time {
	if r := p.Restore; r != nil && r.EndTime == nil && !recordedInFuture(now, &r.LastPowerOnTime) {
		return r.LastPowerOnTime.Add(restoreTimeout)
	}
	return time.Time{}
}

// restorePower adds to the step of a provisioned host how its server is powered on after a loss of power.
func restorePower(v View, step Step, s Settings) Step {
	readiness, since := v.Observed.nodeReadiness()
	r := v.PowerLoss.Restore
	if r != nil && r.EndTime == nil && readiness == v1alpha1.NodeReady && (since.After(r.LastPowerOnTime.Time) || recordedInFuture(v.Now, &r.LastPowerOnTime)) {
		ended := *r
		ended.EndTime = new(metav1.NewTime(v.Now))
		step.Action, step.PowerRestore = RecordPowerRestore, &ended
		return step
	}
	if step.PoweredOffTime.IsZero() || v.Host.Spec.WhenPoweredOff != v1alpha1.WhenPoweredOffPowerOn {
		return step
	}
	change := nextPowerOn(v, s)
	step.Message += ". " + change.Message
	if step.Action == "" { // nothing is read, and no move waits
		step.Action, step.PowerRestore = change.Action, change.PowerRestore
	}
	return step.lookAgainAt(change.RequeueAt)
}

// lookAgainAt returns the step with an earlier RequeueAt, if the time is earlier.
func (step Step) lookAgainAt(at time.Time) Step {
	if !at.IsZero() && (step.RequeueAt.IsZero() || at.Before(step.RequeueAt)) {
		step.RequeueAt = at
	}
	return step
}

// powerOnWithheld says why the server is not powered on; it is empty if nothing speaks against it.
func powerOnWithheld(v View) string {
	boot, o := v.Host.CurrentBoot(), v.PowerLoss.Outage
	switch {
	case v.Host.Spec.Quarantine != nil:
		return "the host is in quarantine"
	case v.Identity.hasConflict() || v.Identity.Replacement != nil:
		return "it is in doubt whose BMC this is (condition Verified)"
	case boot != nil && boot.Purpose == v1alpha1.PurposeClean:
		return "its disks were being erased"
	case v.BMC.HealthCritical:
		return "its BMC reports that its health is critical"
	case v.PowerOns() >= maxPowerOns && !v.powerOnRecorded():
		return fmt.Sprintf("it did that %d times, the last time at %s", v.PowerOns(), v.PowerLoss.Restore.LastPowerOnTime.UTC().Format(time.RFC3339))
	case v.BMC.Override != nil && v.BMC.Override.Persistent && !v.BMC.OverrideSet:
		return "its BMC refused to clear a boot override that applies to every boot"
	case v.restoring():
		return ""
	case v.Now.Sub(v.OffSince()) > restoreWithin:
		return fmt.Sprintf("it has been off for more than %s", restoreWithin)
	case o == nil:
		return "the state of the other servers of its failure domain is not known"
	case o.Running > 0:
		return fmt.Sprintf("%d other servers of failure domain %q did not lose their power", o.Running, v.Host.Spec.FailureDomain)
	case o.Lost == 0:
		return fmt.Sprintf("no other server of failure domain %q is known to have lost its power", v.Host.Spec.FailureDomain)
	case o.Unknown > o.Lost:
		return fmt.Sprintf("%d other servers of failure domain %q boot, or their BMCs do not answer", o.Unknown, v.Host.Spec.FailureDomain)
	default:
		return ""
	}
}

// powerOnRecorded is true if a power-on is recorded and not sent yet.
func (v View) powerOnRecorded() bool {
	r := v.PowerLoss.Restore
	return v.restoring() && !recordedInFuture(v.Now, &r.LastPowerOnTime) && v.BMC.LastPowerAt.Before(r.LastPowerOnTime.Time) && v.Now.Before(r.LastPowerOnTime.Add(restoreCommandWithin))
}

// nextPowerOn returns the next step to power the server on. Each power-on is recorded first, and sent at once: the record of one that was not sent counts.
func nextPowerOn(v View, s Settings) Step {
	due := v.OffSince().Add(minOffForRestore)
	message := "The provider powers it on after " + due.UTC().Format(time.RFC3339)
	if v.restoring() {
		tried := v.PowerLoss.Restore.LastPowerOnTime
		due = latest(due, tried.Add(restoreTimeout))
		message = fmt.Sprintf("The provider powered it on at %s, and tries again after %s", tried.UTC().Format(time.RFC3339), due.UTC().Format(time.RFC3339))
	}
	why := powerOnWithheld(v)
	switch {
	case why != "":
		return Step{
			Message:   "The provider does not power it on as spec.whenPoweredOff requests: " + why,
			RequeueAt: v.Now.Add(restoreCheckInterval),
		}
	case v.powerOnRecorded():
		return onceBMCKnown(v, s, s.ActiveInterval, Step{}, sendPowerOn(v, s))
	case v.Now.Before(due):
		return Step{Message: message, RequeueAt: due}
	case v.QueuePosition != nil:
		return v.QueuePosition.wait(v, Step{Message: "The provider powers it on when it has a boot slot. "})
	}
	return onceBMCKnown(v, s, s.ActiveInterval, Step{}, recordPowerOn(v, s))
}

// sendPowerOn returns the step that powers the server on. A process that did not write the record confirms first that the server is off: the one before may have sent it.
func sendPowerOn(v View, s Settings) Step {
	if !v.BMC.confirmedOff(v.Now, s) {
		return Step{Message: unconfirmedOff, RequeueAt: v.Now.Add(s.ActiveInterval)}
	}
	return Step{Action: PowerOn, Message: "The server is being powered on"}
}

// recordPowerOn returns the step that records a power-on, or what must precede it: the health and the override may have changed in the loss of power. The power is known.
func recordPowerOn(v View, s Settings) Step {
	since := v.OffSince()
	if v.restoring() {
		since = v.PowerLoss.Restore.LastPowerOnTime.Time
	}
	switch {
	case v.BMC.HealthReadAt.Before(since) && v.Now.Before(v.BMC.InspectedTime.Add(restoreCheckInterval)):
		return Step{Message: "The health of the server could not be read: it is read again before the server is powered on", RequeueAt: v.BMC.InspectedTime.Add(restoreCheckInterval)}
	case v.BMC.HealthReadAt.Before(since):
		return Step{Action: Inspect, Message: "Reading the health of the server before it is powered on"}
	case v.BMC.OverrideSet:
		return Step{Action: ClearBootOverride, Message: "The boot override is being cleared before the server is powered on"}
	case v.mediaLeft():
		return Step{Action: EjectMedia, Message: "The boot medium is being ejected before the server is powered on"}
	case !v.BMC.confirmedOff(v.Now, s):
		return Step{Message: unconfirmedOff, RequeueAt: v.Now.Add(s.ActiveInterval)}
	}
	next := v1alpha1.PowerRestore{LostTime: metav1.NewTime(v.OffSince()), PowerOns: v.PowerOns() + 1, LastPowerOnTime: metav1.NewTime(v.Now)}
	if v.restoring() {
		next.LostTime, next.Servers = v.PowerLoss.Restore.LostTime, v.PowerLoss.Restore.Servers
	} else {
		next.Servers = int32(min(v.PowerLoss.Outage.Lost, 1<<20)) + 1 //nolint:gosec // it is bounded
	}
	return Step{
		Action: RecordPowerRestore, PowerRestore: &next,
		Message: fmt.Sprintf("The server will be powered on: %d servers of failure domain %q lost their power together", next.Servers, v.Host.Spec.FailureDomain),
	}
}
