package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// PowerHoldTimes is the record of a server that power holds keep off: spec.powerHoldSince and spec.powerHoldOffAt.
type PowerHoldTimes struct{ Since, OffAt *metav1.Time }

// PowerRequests are what people want of a server's power, by annotations on the host.
type PowerRequests struct {
	// Holds are those of the holders, which are the keys of the annotations.
	Holds []v1alpha1.PowerHold
	// Cycles are the annotations that want one power cycle, and On those that want the server switched on.
	Cycles, On []string
	// All are all of these annotations.
	All []string
}

// Once are the annotations that are removed when what they want was done.
func (r PowerRequests) Once() []string { return slices.Concat(r.Cycles, r.On) }

// holds are who wants the server off now. One who wants a power cycle is among them until it was off.
func (v View) holds() []v1alpha1.PowerHold {
	all := slices.Concat(v.Spec.PowerHolds, v.PowerRequests.Holds)
	for _, key := range v.PowerRequests.Cycles {
		all = append(all, v1alpha1.PowerHold{Holder: key, Reason: "one power cycle"})
	}
	return all
}

// held is true when power holds keep a server off that runs a machine, when it is owed its power since they did, or when somebody wants it on.
func (v View) held() bool {
	return v.Provisioned() && (len(v.holds()) > 0 || len(v.PowerRequests.On) > 0 || v.Spec.PowerHoldSince != nil)
}

// hold switches a server off for those who hold it, and on again when they are gone. Before spec.powerHoldOffAt only "off" is commanded. The
// record is written before the first command, and powerHoldOffAt is taken away before the server is switched on: so it says at any time that the
// server is off, and a provider that restarts in between knows what is left to do.
func hold(v View, s Settings) Step {
	holds := v.holds()
	step := Step{Phase: v1alpha1.PhasePowerHold, Reason: v1alpha1.ReasonPowerHold, Message: holders(holds)}
	change := Step{}
	now := metav1.NewTime(v.Now)
	switch since, offAt, wanted := v.Spec.PowerHoldSince, v.Spec.PowerHoldOffAt, len(holds) > 0; {
	case v.MoveBlocked:
		change.Action = AllowMove
	case since == nil && !wanted:
		change = first(v, s, s.ActiveInterval, Step{}, wishOn(v, now))
	case since == nil:
		change.Action, change.Held = RecordHold, &PowerHoldTimes{Since: &now}
	case wanted && offAt != nil && !v.notOff() && len(v.PowerRequests.Cycles) > 0:
		change.Action, change.Held, change.Drop = RecordHold, &PowerHoldTimes{Since: since, OffAt: offAt}, v.PowerRequests.Cycles
	case wanted && offAt != nil && !v.notOff():
		// Somebody works on the hardware, or detaches volumes, because it is off: that it is on has to be seen soon.
		change = first(v, s, s.ActiveInterval, Step{}, Step{Again: v.BMC.PowerAt.Add(s.ActiveInterval)})
	case wanted && offAt != nil:
		change.Action, change.Held, change.Message = RecordHold, &PowerHoldTimes{Since: since}, "Somebody switched the server on"
	case wanted:
		change = first(v, s, s.ActiveInterval, Step{}, powerOffForHold(v, s))
	case offAt != nil:
		change.Action, change.Held = RecordHold, &PowerHoldTimes{Since: since}
	default:
		change = first(v, s, s.ActiveInterval, Step{}, bringBackOn(v, s))
	}
	step.Action, step.Again, step.Held, step.Drop = change.Action, change.Again, change.Held, change.Drop
	if change.Message != "" {
		step.Message += ". " + change.Message
	}
	return step
}

// wishOn does what somebody wants who wants a server on, whose power is known.
func wishOn(v View, now metav1.Time) Step {
	if v.BMC.Power == v1alpha1.PowerOn {
		return Step{Action: DropRequests, Drop: v.PowerRequests.On}
	}
	return Step{Action: RecordHold, Held: &PowerHoldTimes{Since: &now}}
}

// powerOffForHold brings a server off, whose power is known, and records that it is once that is confirmed.
func powerOffForHold(v View, s Settings) Step {
	if v.BMC.Power == v1alpha1.PowerOff {
		if !v.surelyOff(s) {
			return Step{Message: "The server reads as powered off, which is being confirmed", Again: v.Now.Add(s.ActiveInterval)}
		}
		now := metav1.NewTime(v.Now)
		return Step{Action: RecordHold, Held: &PowerHoldTimes{Since: v.Spec.PowerHoldSince, OffAt: &now}, Drop: v.PowerRequests.Cycles, Message: "The server is off"}
	}
	step := bringPower(v, s, v1alpha1.PowerOff)
	for _, h := range v.holds() {
		if h.Force {
			step = command(v, s, ForceOff, CommandForceOff)
		}
	}
	step.Message = "The server is being powered off"
	return step
}

// bringBackOn brings a server on, whose power is known, and removes the record once it is. A machine that ran from memory is not switched on: it is
// lost as soon as the power-off is confirmed, and would count as running again.
func bringBackOn(v View, s Settings) Step {
	if v.BMC.Power == v1alpha1.PowerOff && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral {
		return Step{Message: "The server reads as powered off, which is being confirmed", Again: v.Now.Add(s.ActiveInterval)}
	}
	if v.BMC.Power == v1alpha1.PowerOff {
		step := command(v, s, PowerOn, CommandPowerOn)
		step.Message = "The server is being powered on"
		return step
	}
	if v.powerChanging() {
		return Step{Message: "The server is powering on or off", Again: v.Now.Add(s.ActiveInterval)}
	}
	if !v.staysOn(s) {
		return Step{Message: "The server is on, and may still shut down", Again: v.Now.Add(s.ActiveInterval)}
	}
	return Step{Action: RecordHold, Held: &PowerHoldTimes{}, Drop: v.PowerRequests.On, Message: "The server is on"}
}

// surelyOff is true when a server was read as powered off twice, some time apart, since it is held. Others rely on it that nothing runs there
// any more, and one reading is not enough for that even after a command: BMCs answer nonsense while they restart. Where this process gave no
// command since, another may have switched the server on, which takes its time to be seen.
func (v View) surelyOff(s Settings) bool {
	since := v.BMC.PowerSince
	if v.Spec.PowerHoldSince.After(since) && !v.recordedAhead(v.Spec.PowerHoldSince) {
		since = v.Spec.PowerHoldSince.Time
	}
	apart := s.ActiveInterval
	if !v.BMC.LastPowerAt.After(v.Spec.PowerHoldSince.Time) {
		apart = max(s.ActiveInterval, s.PowerSettle)
	}
	return v.confirmedOff(s) && v.BMC.PowerAt.Sub(since) >= apart
}

// longestShutDown is how long an operating system may take to shut down, once it was asked to. After 30 minutes systemd cuts the power by itself
// (JobTimeoutSec of its poweroff.target).
const longestShutDown = 35 * time.Minute

// staysOn is true when a server that was read as powered on will stay so: this process switched it on since it is held, or no command to
// switch it off can still take effect. A hold may be taken back while the operating system shuts down: where it was asked to, by a request that
// counts even if its answer was an error or was lost, it is owed its power as long as that may take. Another process may have asked too, so it
// must be seen on for as long as a shutdown takes as a rule.
func (v View) staysOn(s Settings) bool {
	unasked := v.BMC.FirstShutDownAt.IsZero() && v.BMC.OffUnansweredAt.IsZero()
	if unasked && v.BMC.LastPower == CommandPowerOn && v.BMC.LastPowerAt.After(v.Spec.PowerHoldSince.Time) {
		return true
	}
	seenFor := v.BMC.PowerAt.Sub(latest(v.BMC.PowerSince, v.BMC.LastPowerAt))
	askedFor := v.BMC.PowerAt.Sub(latest(v.BMC.FirstShutDownAt, v.BMC.OffUnansweredAt))
	return seenFor >= max(s.ShutDownTimeout, s.PowerSettle) && (unasked || askedFor >= max(longestShutDown, s.ShutDownTimeout))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// holders says who holds a server off, and why.
func holders(holds []v1alpha1.PowerHold) string {
	if len(holds) == 0 {
		return "Nobody holds the server off any more"
	}
	all := make([]string, 0, len(holds))
	for _, h := range holds {
		all = append(all, fmt.Sprintf("%s (%s)", h.Holder, h.Reason))
	}
	return "Held off by " + strings.Join(all, ", ")
}
