package bmctest

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Strict are the faults of a BMC that is strict about power commands, as those of several vendors are. All show only where Options.PowerDelay is set.
var Strict = []Fault{BusyInTransition, DropsInTransition, StalePower, TransitionStates}

// change lets the power change after the delay. A later change replaces one that has not happened. m.mu is held.
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
		if m.changing == timer { // it was not replaced meanwhile
			m.changing = nil
			m.switchTo(on)
		}
	})
	m.changing, m.becoming = timer, on
}

// inTransition is true while a change of power is under way.
func (m *Machine) inTransition() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changing != nil
}

// stale is true while a BMC with StalePower tells the power state from before the last command. m.mu is held.
func (m *Machine) stale() bool { return m.faults.on(StalePower) && time.Now().Before(m.wasUntil) }

// readsOn is true where the BMC tells that the server is on, as well as it knows.
func (m *Machine) readsOn() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stale() {
		return m.was
	}
	return m.on
}

// LastBoot is what the BMC records of the last start of the server.
func (m *Machine) LastBoot() bmc.LastBoot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bmc.LastBoot{ResetAt: m.resetAt}
}
