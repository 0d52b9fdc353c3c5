package lifecycle

import "github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"

// notOff is true when the server was read last as anything but off: a server that powers on or off may run.
func (v View) notOff() bool { return v.BMC.Power != "" && v.BMC.Power != v1alpha1.PowerOff }

// powerChanging is true when the server was read last as powering on or off, which is neither on nor off.
func (v View) powerChanging() bool { return v.notOff() && v.BMC.Power != v1alpha1.PowerOn }

// awaitsPower is true while a transition of the power may end without a command. BMCs refuse, or acknowledge and drop, a command that comes meanwhile. A
// transition that takes longer than a power command does is ended by one: an operating system may hang while it shuts down.
func (v View) awaitsPower(s Settings) bool {
	return v.powerChanging() && v.Now.Before(v.BMC.PowerSince.Add(s.PowerSettle))
}

// bringPower brings a server, whose power is known and different, to the power state wanted.
func bringPower(v View, s Settings, want v1alpha1.PowerState) Step {
	if want == v1alpha1.PowerOn {
		return command(v, s, PowerOn, CommandPowerOn)
	}
	first := v.BMC.FirstShutDownAt
	switch {
	case v.awaitsPower(s):
		return Step{Again: v.Now.Add(s.ActiveInterval)}
	case v.BMC.ShutDownUnsupported:
		return command(v, s, ForceOff, CommandForceOff)
	case first.IsZero():
		return Step{Action: ShutDown}
	case v.Now.Before(first.Add(s.ShutDownTimeout)):
		return Step{Again: v.Now.Add(s.ActiveInterval)}
	default:
		return command(v, s, ForceOff, CommandForceOff)
	}
}

// command gives a power command, or waits while the same one may still take effect, or while a transition of the power may end.
func command(v View, s Settings, action Action, c Command) Step {
	if v.BMC.LastPower == c && v.Now.Before(v.BMC.LastPowerAt.Add(s.PowerSettle)) || v.awaitsPower(s) {
		return Step{Again: v.Now.Add(s.ActiveInterval)}
	}
	return Step{Action: action}
}
