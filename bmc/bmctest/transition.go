package bmctest

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Strict are the faults of a BMC that is strict about power commands, as those of several vendors are. They need Options.PowerDelay.
var Strict = []Fault{BusyInTransition, DropsInTransition, StalePower, TransitionStates}

// change changes the power after the delay. A later change replaces a pending one. m.mu is held.
func (m *Machine) change(on bool) {
	if m.changing != nil {
		m.changing.Stop()
		m.changing = nil
	} else if m.on == on {
		return
	}
	if m.opts.PowerDelay == 0 {
		m.switchTo(on)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(m.opts.PowerDelay, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.changing == timer { // no later change has replaced it
			m.changing = nil
			m.switchTo(on)
		}
	})
	m.changing, m.becoming = timer, on
}

// inTransition is true during a change of power.
func (m *Machine) inTransition() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changing != nil
}

// stale is true while a BMC with StalePower reports the power state from before the last command. m.mu is held.
func (m *Machine) stale() bool { return m.faults.on(StalePower) && time.Now().Before(m.staleUntil) }

// ReadOff makes the BMC report for some time that the server is off, whatever it is, as BMCs do while they restart.
func (m *Machine) ReadOff(duration time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readsOff = time.Now().Add(duration)
}

// readsOn is true if the BMC reports that the server is on.
func (m *Machine) readsOn() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.readsOff) {
		return false
	}
	if m.stale() {
		return m.staleOn
	}
	return m.on
}

// LastBoot is the BMC's record of the last start of the server.
func (m *Machine) LastBoot() bmc.LastBoot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bmc.LastBoot{ResetAt: m.resetAt}
}
