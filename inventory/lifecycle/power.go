package lifecycle

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// notOff is true when the last reading of the power is anything except off: a server that powers on or off may run.
func (b BMC) notOff() bool { return b.Power != "" && b.Power != v1alpha1.PowerOff }

// powerChanging is true when the last reading of the power is powering on or powering off.
func (b BMC) powerChanging() bool { return b.notOff() && b.Power != v1alpha1.PowerOn }

// powerTransitionPending is true while a transition of the power may still end without a command. During a transition, BMCs refuse a command, or
// acknowledge it and drop it. A transition that takes longer than PowerSettle is ended by a command: an operating system may hang while it shuts down.
func (b BMC) powerTransitionPending(now time.Time, s Settings) bool {
	return b.powerChanging() && now.Before(b.PowerSince.Add(s.PowerSettle))
}

// powerUnchangedFor returns for how long all readings of the power after a time were the same.
func (b BMC) powerUnchangedFor(since time.Time) time.Duration {
	return b.PowerAt.Sub(latest(b.PowerSince, since))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// changePower returns the step that changes the server's power to the wanted state. The power is known and different.
func changePower(v View, s Settings, want v1alpha1.PowerState) Step {
	if want == v1alpha1.PowerOn {
		return issueCommand(v, s, PowerOn, CommandPowerOn)
	}
	asked := v.BMC.FirstShutDownAt
	switch {
	case v.BMC.powerTransitionPending(v.Now, s):
		return Step{RequeueAt: v.Now.Add(s.ActiveInterval)}
	case v.BMC.ShutDownUnsupported:
		return issueCommand(v, s, ForceOff, CommandForceOff)
	case asked.IsZero():
		return Step{Action: ShutDown}
	case v.Now.Before(asked.Add(s.ShutDownTimeout)):
		return Step{RequeueAt: v.Now.Add(s.ActiveInterval)}
	default:
		return issueCommand(v, s, ForceOff, CommandForceOff)
	}
}

// issueCommand gives a power command. It waits while the same command may still take effect, or while a transition of the power is pending.
func issueCommand(v View, s Settings, action Action, c Command) Step {
	if v.BMC.LastPower == c && v.Now.Before(v.BMC.LastPowerAt.Add(s.PowerSettle)) || v.BMC.powerTransitionPending(v.Now, s) {
		return Step{RequeueAt: v.Now.Add(s.ActiveInterval)}
	}
	return Step{Action: action}
}

// unconfirmedOff is the message while one reading says that the server is off, and another one must confirm it.
const unconfirmedOff = "The BMC reports that the server is off. Another reading must confirm that"

// confirmedOff is true when the server, which reads as off, is off: after a command to switch it off, or after two readings some time apart. One
// reading is not enough: BMCs answer nonsense while they restart, and "off" for some seconds after "on". If this process gave no command yet, the
// process before it may have switched the server on, which becomes visible only after PowerSettle.
func (b BMC) confirmedOff(now time.Time, s Settings) bool {
	apart := s.ActiveInterval
	switch b.LastPower {
	case CommandForceOff, CommandShutDown:
		return true
	case CommandPowerOn:
		if now.Before(b.LastPowerAt.Add(s.PowerSettle)) {
			return false
		}
	default:
		apart = max(apart, s.PowerSettle)
	}
	return b.powerUnchangedFor(time.Time{}) >= apart
}
