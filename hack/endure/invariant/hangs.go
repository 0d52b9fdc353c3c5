package invariant

import (
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// judgeEvery is how often Judge is called.
const judgeEvery = time.Second

// underWay is true for a host in a transient phase, which must end.
func underWay(f hostFacts) bool {
	switch f.phase {
	case v1alpha1.PhaseRegistering, v1alpha1.PhaseInspecting, v1alpha1.PhaseConfiguring, v1alpha1.PhaseClaimed, v1alpha1.PhaseReleasing, v1alpha1.PhaseCleaning, v1alpha1.PhaseBooting:
		return true
	case v1alpha1.PhaseDeleting:
		return f.consumer == ""
	case v1alpha1.PhasePowerHold:
		return !f.wanted
	default:
		return f.phase == "" && f.exists
	}
}

// runsAgent is true for a host that is inspected or cleaned by the agent, which is booted for that.
func (c *Checker) runsAgent(name string, f hostFacts) bool {
	if f.phase != v1alpha1.PhaseInspecting && f.phase != v1alpha1.PhaseConfiguring && f.phase != v1alpha1.PhaseCleaning {
		return false
	}
	b := c.bootHistory(name).last()
	return b.open() && b.purpose != v1alpha1.PurposeProvision
}

// judgeTimes finds objects that hang. Time counts only while neither the plane nor the BMC of the host has a fault.
func (c *Checker) judgeTimes(now time.Time) {
	available := 0
	for name, h := range c.hosts {
		f := h.last()
		if f.phase == v1alpha1.PhaseAvailable && f.consumer == "" && !f.tainted && !f.maintained && !f.detached && !f.external && !f.deleting && strings.HasPrefix(name, c.times.Alike+"/") {
			available++
		}
		if c.faults[name] > 0 || now.Sub(c.faultEnded[name]) < c.times.Lag || !underWay(f) || f.maintained || f.detached || f.external {
			continue
		}
		h.phaseFor += judgeEvery
		bound := c.times.Phase
		if f.phase == v1alpha1.PhaseBooting || c.runsAgent(name, f) {
			bound = c.times.Boot
		}
		if h.phaseFor > bound {
			c.violatef(promise.Ends, name, "it is %s for more than %s, and nothing is wrong with its BMC", f.phase, bound)
			h.phaseFor = 0
		}
	}
	for name, m := range c.machines {
		f := m.last()
		if available == 0 || !f.exists || f.deleting || f.host != "" || f.providerID != "" || !strings.HasPrefix(name, c.times.Alike+"/") {
			m.phaseFor = 0
			continue
		}
		if m.phaseFor += judgeEvery; m.phaseFor > c.times.Phase {
			c.violatef(promise.Unclaimed, name, "it has no host for more than %s, and %d hosts are Available", c.times.Phase, available)
			m.phaseFor = 0
		}
	}
}

// Rest checks the state at rest: nothing is under way, and free servers are off.
func (c *Checker) Rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, h := range c.hosts {
		f := h.last()
		if !f.exists {
			continue
		}
		if underWay(f) {
			c.violatef(promise.Ends, name, "it is %s, and everything else is at rest", f.phase)
		}
		if b := c.bootHistory(name).last(); f.consumer == "" && b.stands() {
			c.violatef(promise.Void, name, "it is free, and boot %d of claim %s is not void", b.number, b.claimID)
		}
		server := c.servers[name]
		if server != nil && f.phase == v1alpha1.PhaseAvailable {
			c.restsAvailable(name, f, server)
		}
	}
}

// restsAvailable checks a host that is Available when nothing is under way.
func (c *Checker) restsAvailable(name string, f hostFacts, server Server) {
	if server.On() || server.Image() != "" {
		c.violatef(promise.Clean, name, "it is Available, and its server is on or has an image in its drive")
	}
	for _, d := range server.Disks() {
		if f.erases && (d.Bootable || d.Instance != "") {
			c.violatef(promise.Erased, name, "it is Available, and disk %s boots (%t) or has the bootstrap data %q", d.Serial, d.Bootable, d.Instance)
		}
	}
}
