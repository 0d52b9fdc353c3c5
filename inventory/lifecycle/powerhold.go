package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// PowerHoldTimes is the record of a power hold: spec.providerState.powerHoldStartTime and spec.providerState.powerHoldOffTime.
type PowerHoldTimes struct{ Since, OffTime *metav1.Time }

// PowerRequests are the annotations of a host by which users control its server's power.
type PowerRequests struct {
	// Holds are the power holds. Their holders are the keys of the annotations.
	Holds []v1alpha1.PowerHold
	// Cycles are the annotations that request one power cycle, and On those that request a power-on.
	Cycles, On []string
	// All are all these annotations.
	All []string
}

// Once returns the annotations that are removed once their request is met.
func (r PowerRequests) Once() []string { return slices.Concat(r.Cycles, r.On) }

// powerHolds returns the power holds that apply now. A request for a power cycle is one until the server was off.
func (v View) powerHolds() []v1alpha1.PowerHold {
	all := slices.Concat(v.Host.Spec.PowerHolds, v.Requests.Power.Holds)
	for _, key := range v.Requests.Power.Cycles {
		all = append(all, v1alpha1.PowerHold{Holder: key, Reason: "one power cycle"})
	}
	return all
}

// powerHoldActive is true for the server of a provisioned machine while power holds apply, until it is on again after them, or while a power-on is
// requested.
func powerHoldActive(v View) bool {
	return v.Provisioned() && (len(v.powerHolds()) > 0 || len(v.Requests.Power.On) > 0 || v.Host.Spec.ProviderState.PowerHoldStartTime != nil)
}

// applyPowerHold switches a server off while power holds apply, and on again after them. Before powerHoldOffTime is recorded it commands only "off". It
// writes the record before the first command, and clears powerHoldOffTime before it switches the server on. So while powerHoldOffTime is recorded the
// provider commands nothing that switches the server on, and after a restart the provider knows what is left to do.
func applyPowerHold(v View, s Settings) Step {
	holds := v.powerHolds()
	step := Step{Phase: v1alpha1.PhasePowerHold, Reason: v1alpha1.ReasonPowerHold, Message: describeHolds(holds)}
	change := Step{}
	now := metav1.NewTime(v.Now)
	switch since, offTime, wanted := v.Host.Spec.ProviderState.PowerHoldStartTime, v.Host.Spec.ProviderState.PowerHoldOffTime, len(holds) > 0; {
	case since == nil && !wanted:
		change = onceBMCKnown(v, s, s.ActiveInterval, Step{}, recordPowerOnRequest(v, now))
	case since == nil:
		change.Action, change.PowerHold = RecordPowerHold, &PowerHoldTimes{Since: &now}
	case wanted && offTime != nil && !v.BMC.notOff() && len(v.Requests.Power.Cycles) > 0:
		change.Action, change.PowerHold, change.Drop = RecordPowerHold, &PowerHoldTimes{Since: since, OffTime: offTime}, v.Requests.Power.Cycles
	case wanted && offTime != nil && !v.BMC.notOff():
		// A person may work on the hardware, or a program detach volumes, because the server is off. So the provider must notice soon if it is powered on.
		change = onceBMCKnown(v, s, s.ActiveInterval, Step{}, Step{RequeueAt: v.BMC.PowerAt.Add(s.ActiveInterval)})
	case wanted && offTime != nil:
		change.Action, change.PowerHold, change.Message = RecordPowerHold, &PowerHoldTimes{Since: since}, "Something other than the provider switched the server on"
	case wanted:
		change = onceBMCKnown(v, s, s.ActiveInterval, Step{}, powerOffForHold(v, s))
	case offTime != nil:
		change.Action, change.PowerHold = RecordPowerHold, &PowerHoldTimes{Since: since}
	default:
		change = onceBMCKnown(v, s, s.ActiveInterval, Step{}, powerOnAfterHold(v, s))
	}
	step.Action, step.RequeueAt, step.PowerHold, step.Drop = change.Action, change.RequeueAt, change.PowerHold, change.Drop
	if change.Message != "" {
		step.Message += ". " + change.Message
	}
	return step
}

// recordPowerOnRequest handles a request for a power-on. The power is known: a server that is on needs no record.
func recordPowerOnRequest(v View, now metav1.Time) Step {
	if v.BMC.Power == v1alpha1.PowerOn {
		return Step{Action: DropRequests, Drop: v.Requests.Power.On}
	}
	return Step{Action: RecordPowerHold, PowerHold: &PowerHoldTimes{Since: &now}}
}

// powerOffForHold powers a server off, and records once confirmed that it is off. The power is known.
func powerOffForHold(v View, s Settings) Step {
	if v.BMC.Power == v1alpha1.PowerOff {
		if !v.BMC.confirmedOffForHold(v.Now, v.Host.Spec.ProviderState.PowerHoldStartTime, s) {
			return Step{Message: unconfirmedOff, RequeueAt: v.Now.Add(s.ActiveInterval)}
		}
		now := metav1.NewTime(v.Now)
		record := &PowerHoldTimes{Since: v.Host.Spec.ProviderState.PowerHoldStartTime, OffTime: &now}
		return Step{Action: RecordPowerHold, PowerHold: record, Drop: v.Requests.Power.Cycles, Message: "The server is off"}
	}
	step := changePower(v, s, v1alpha1.PowerOff)
	for _, h := range v.powerHolds() {
		if h.Force {
			step = issueCommand(v, s, ForceOff, CommandForceOff)
		}
	}
	step.Message = "The server is being powered off"
	return step
}

// powerOnAfterHold powers a server on, and removes the record once it is on. The power is known. The server of a machine that ran from memory is not
// switched on: the machine is lost as soon as the power-off is confirmed, and would count as running again.
func powerOnAfterHold(v View, s Settings) Step {
	if v.BMC.Power == v1alpha1.PowerOff && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral {
		return Step{Message: unconfirmedOff, RequeueAt: v.Now.Add(s.ActiveInterval)}
	}
	if v.BMC.Power == v1alpha1.PowerOff {
		step := issueCommand(v, s, PowerOn, CommandPowerOn)
		step.Message = "The server is being powered on"
		return step
	}
	if v.BMC.powerChanging() {
		return Step{Message: "The server is powering on or off", RequeueAt: v.Now.Add(s.ActiveInterval)}
	}
	if !v.BMC.confirmedOn(v.Host.Spec.ProviderState.PowerHoldStartTime, s) {
		return Step{Message: "The server is on, but may still shut down", RequeueAt: v.Now.Add(s.ActiveInterval)}
	}
	return Step{Action: RecordPowerHold, PowerHold: &PowerHoldTimes{}, Drop: v.Requests.Power.On, Message: "The server is on"}
}

// confirmedOffForHold is true when two readings some time apart, both since the start of the power hold, say that the server is off. Users of the hold
// rely on a server that runs nothing. One reading is not enough for that, even after a command: BMCs answer nonsense while they restart. If this
// process gave no command since then, another process may have switched the server on, which becomes visible only after PowerSettle.
func (b BMC) confirmedOffForHold(now time.Time, start *metav1.Time, s Settings) bool {
	since := start.Time
	if recordedInFuture(now, start) {
		since = time.Time{}
	}
	apart := s.ActiveInterval
	if !b.LastPowerAt.After(start.Time) {
		apart = max(s.ActiveInterval, s.PowerSettle)
	}
	return b.confirmedOff(now, s) && b.powerUnchangedFor(since) >= apart
}

// maxShutDownTime is how long an operating system may take to shut down after the request. systemd cuts the power after 30 minutes (JobTimeoutSec of
// its poweroff.target).
const maxShutDownTime = 35 * time.Minute

// confirmedOn is true when a server that reads as on will stay on. That is so if this process switched it on since the start of the power hold, and
// did not ask it to shut down after that. Otherwise a request to shut down may still take effect: users may remove a hold while the operating system
// shuts down. A request of this process, even one whose answer was an error or was lost, may take maxShutDownTime. Another process may have sent one
// too, so the server must read as on for ShutDownTimeout, which a shutdown rarely exceeds.
func (b BMC) confirmedOn(start *metav1.Time, s Settings) bool {
	notAsked := b.FirstShutDownAt.IsZero() && b.OffUnansweredAt.IsZero()
	if notAsked && b.LastPower == CommandPowerOn && b.LastPowerAt.After(start.Time) {
		return true
	}
	onFor := b.powerUnchangedFor(b.LastPowerAt)
	sinceRequest := b.PowerAt.Sub(latest(b.FirstShutDownAt, b.OffUnansweredAt))
	return onFor >= max(s.ShutDownTimeout, s.PowerSettle) && (notAsked || sinceRequest >= max(maxShutDownTime, s.ShutDownTimeout))
}

// describeHolds returns who keeps a server powered off, and why.
func describeHolds(holds []v1alpha1.PowerHold) string {
	if len(holds) == 0 {
		return "No power hold keeps the server off any more"
	}
	all := make([]string, 0, len(holds))
	for _, h := range holds {
		all = append(all, fmt.Sprintf("%s (%s)", h.Holder, h.Reason))
	}
	return "Kept powered off by " + strings.Join(all, ", ")
}
