package bmctest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// power is the power of an emulated server, and what runs on it.
type power struct {
	*core

	nextBoot   *bootOverride
	firmware   *biosSetup
	on         bool
	changing   *time.Timer // ends the power transition; nil without a transition
	becoming   bool        // the value of on after the transition
	staleOn    bool        // the value of on at the last power command
	staleUntil time.Time   // until when a BMC with StalePower reports staleOn
	readsOff   time.Time   // until when the BMC reports that the server is off
	resetAt    time.Time   // when the server was last powered on or reset, by the BMC's clock
	booted     bool
	stop       context.CancelFunc
	ended      chan struct{} // closed when the last Run has returned; nil before the first one
	running    sync.WaitGroup
}

// Close switches the server off and waits until Run has returned.
func (p *power) Close() {
	p.mu.Lock()
	if p.changing != nil {
		p.changing.Stop()
		p.changing = nil
	}
	p.switchTo(false)
	p.mu.Unlock()
	p.running.Wait()
}

// On is true while the server is switched on.
func (p *power) On() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on
}

// SetPower switches the server like its power button: at once, and without a command to the BMC.
func (p *power) SetPower(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.switchTo(on)
}

// switchTo changes the power now. p.mu is held.
func (p *power) switchTo(on bool) {
	if p.on == on {
		return
	}
	p.on, p.booted = on, false
	p.etag++
	if !on {
		p.log(bmc.HealthOK, "Power off")
		if p.stop != nil {
			p.stop()
		}
		return
	}
	p.log(bmc.HealthOK, "Power on")
	p.resetAt = p.now()
	p.boot()
}

// boot starts Run. p.mu is held.
func (p *power) boot() {
	boot := p.nextBoot.take()
	p.firmware.applyStaged()
	if p.opts.Run == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	earlier, ended := p.ended, make(chan struct{})
	p.stop, p.ended = cancel, ended
	p.running.Go(func() {
		defer close(ended)
		defer cancel()
		if earlier != nil {
			<-earlier
		}
		p.opts.Run(ctx, boot, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if ctx.Err() == nil {
				p.booted = true
			}
		})
	})
}

// reset executes a Redfish reset type. It returns false for an unknown type.
func (p *power) reset(kind string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(resetTypes, kind) {
		return false
	}
	p.commands = append(p.commands, Command{kind, time.Now(), p.changing != nil})
	if p.faults.take(PowerIgnored) || p.changing != nil && p.faults.on(DropsInTransition) {
		return true
	}
	p.staleOn, p.staleUntil = p.on, time.Now().Add(2*p.opts.PowerDelay)
	switch kind {
	case "On":
		p.change(true)
	case "ForceOff":
		p.change(false)
	case "GracefulShutdown":
		if p.booted {
			p.change(false)
		}
	case "Nmi":
		p.log(bmc.HealthCritical, "NMI")
	default:
		p.switchTo(false)
		p.change(true)
	}
	return true
}

// resetTypes are the supported Redfish reset types.
var resetTypes = []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "PowerCycle", "Nmi"}

// Strict are the faults of a BMC that is strict about power commands, as those of several vendors are. They need Options.PowerDelay.
var Strict = []Fault{BusyInTransition, DropsInTransition, StalePower, TransitionStates}

// change changes the power after the delay. A later change replaces a pending one. p.mu is held.
func (p *power) change(on bool) {
	if p.changing != nil {
		p.changing.Stop()
		p.changing = nil
	} else if p.on == on {
		return
	}
	if p.opts.PowerDelay == 0 {
		p.switchTo(on)
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(p.opts.PowerDelay, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.changing == timer { // no later change has replaced it
			p.changing = nil
			p.switchTo(on)
		}
	})
	p.changing, p.becoming = timer, on
}

// inTransition is true during a change of power.
func (p *power) inTransition() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changing != nil
}

// stale is true while a BMC with StalePower reports the power state from before the last command. p.mu is held.
func (p *power) stale() bool { return p.faults.on(StalePower) && time.Now().Before(p.staleUntil) }

// ReadOff makes the BMC report for some time that the server is off, whatever it is, as BMCs do while they restart.
func (p *power) ReadOff(duration time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readsOff = time.Now().Add(duration)
}

// readsOn is true if the BMC reports that the server is on.
func (p *power) readsOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Now().Before(p.readsOff) {
		return false
	}
	if p.stale() {
		return p.staleOn
	}
	return p.on
}

// LastBoot is the BMC's record of the last start of the server.
func (p *power) LastBoot() bmc.LastBoot {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bmc.LastBoot{ResetAt: p.resetAt}
}
