package invariant

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// ObserveHost records a version of a host; nil means that the host is gone. The caller passes every version.
func (c *Checker) ObserveHost(name string, h *v1alpha1.BareMetalHost) {
	now := time.Now()
	c.observeHost(name, h, span{now, now}, true)
}

// observeHost is ObserveHost. every is false if versions before this one may have been missed: the change may have been several.
func (c *Checker) observeHost(name string, h *v1alpha1.BareMetalHost, written span, every bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := factsOf(h)
	all := c.hosts[name]
	if all == nil {
		all = &history[hostFacts]{}
		c.hosts[name] = all
	}
	before := all.last()
	c.latestHosts[name] = h
	revision := ""
	if h != nil {
		revision = h.ResourceVersion
	}
	if !all.add(written, revision, after) {
		return
	}
	if before.phase != after.phase || before.boots != after.boots || before.consumer != after.consumer {
		all.phaseFor = 0
	}
	c.holderChanged(name, before.consumer, after.consumer)
	if before.exists && after.exists && before.uid == after.uid {
		c.countChanged(name, before, after, every)
	}
	if (before.consumer == "") != (after.consumer == "") && after.exists && every {
		what, now := map[bool]string{true: "released", false: "claimed"}[after.consumer == ""], time.Now()
		c.pending = append(c.pending, event{now, func() { c.judgeVoid(name, revision, span{written.from, now}, what) }})
	}
	if every && before.exists && after.exists && before.uid == after.uid {
		c.hostChanged(name, before, after, written)
	}
}

// hostChanged checks a change of a host of which every version is known.
func (c *Checker) hostChanged(name string, before, after hostFacts, written span) {
	switch {
	case before.consumer == after.consumer:
	case before.consumer != "" && after.consumer != "":
		c.violatef(promise.OneMachine, name, "it went from machine %s to %s without a release", before.consumer, after.consumer)
	case after.consumer != "" && (after.quarantine != "" || before.quarantine != ""):
		c.violatef(promise.Claimable, name, "claimed by %s in quarantine (%s)", after.consumer, after.quarantine+before.quarantine)
	case after.consumer != "" && (after.maintained || after.external || after.detached || after.deleting || after.tainted):
		c.violatef(promise.Claimable, name, "claimed by %s although it is not offered: %s", after.consumer, after)
	case after.consumer != "" && (before.configures || after.configures):
		c.violatef(promise.Claimable, name, "claimed by %s while settings run %d is open", after.consumer, after.runs)
	case after.consumer == "":
		c.released(name, before, after, written)
	}
}

// countChanged checks a change of the number of a host's boots. every is false if versions in between may have been missed.
func (c *Checker) countChanged(name string, before, after hostFacts, every bool) {
	switch {
	case after.boots < before.boots:
		c.violatef(promise.Numbers, name, "the number of its boots fell from %d to %d", before.boots, after.boots)
	case after.runs < before.runs:
		c.violatef(promise.Numbers, name, "the number of its settings runs fell from %d to %d", before.runs, after.runs)
	case after.configures && !before.configures && after.consumer != "" && !after.drained:
		c.violatef(promise.Command, name, "settings run %d began on the server of machine %s", after.runs, after.consumer)
	case after.phase == v1alpha1.PhaseBootUnknown && before.phase != after.phase:
		c.violatef(promise.Records, name, "it is %s, and nobody took the record of its boot away", after.phase)
	case !every:
	case before.consumer != "" && before.consumer == after.consumer && before.claimID != after.claimID:
		c.violatef(promise.Forgotten, name, "machine %s had it by claim %s, and has it by claim %q", before.consumer, before.claimID, after.claimID)
	case before.boots != after.boots && !after.blocked:
		now := time.Now()
		c.pending = append(c.pending, event{now, func() { c.judgeUnblocked(name, after.boots, now) }})
	}
}

// judgeUnblocked checks a boot that was counted and does not block a move. A boot that inspects or erases a server has no machine that could be booted twice.
func (c *Checker) judgeUnblocked(name string, number int32, at time.Time) {
	boots := c.bootHistory(name).versions
	var last bootFacts // a host that is registered again counts from one again
	for _, v := range slices.Backward(boots) {
		if v.facts.number == number && v.facts.claimID != "" {
			last = v.facts
			break
		}
	}
	if last.exists && last.purpose != v1alpha1.PurposeProvision || !last.exists && c.unseen(at.Add(-time.Minute), at) {
		return
	}
	c.violatef(promise.Records, name, "boot %d is under way, and no move waits for it", number)
}

// released checks a release: the server is off, and its drive is empty. The release may become known when the next machine already has the server. Commands
// for that machine do not count here, since the rule of commands covers them.
func (c *Checker) released(name string, before, after hostFacts, written span) {
	now, server := time.Now(), c.servers[name]
	if server == nil || c.troubled(now) || after.quarantine != "" || before.external || now.Sub(c.lost[name]) < c.times.Lag {
		return
	}
	if !before.cleaning {
		c.violatef(promise.Clean, name, "machine %s released it without a cleaning", before.consumer)
	}
	if server.On() && !c.cameOn[name].After(written.from) {
		c.violatef(promise.Clean, name, "machine %s released it, and the server is on", before.consumer)
	}
	c.judgeErased(name, before, written)
	if before.erasesAll {
		c.pending = append(c.pending, event{now, func() { c.judgeProven(name, before, now) }})
	}
	if image := server.Image(); image != "" {
		c.pending = append(c.pending, event{now, func() {
			if !c.insertedIn(name, written.from, now) {
				c.violatef(promise.Clean, name, "machine %s released it, and %s is in its drive", before.consumer, image)
			}
		}})
	}
}

// insertedIn is true if a BMC got a command to insert a medium between two times.
func (c *Checker) insertedIn(host string, from, to time.Time) bool {
	return slices.ContainsFunc(c.notes[host], func(n note) bool {
		return strings.HasPrefix(n.what, bmcNote+mediaCommand) && n.what != bmcNote+noMedia && n.at.After(from) && !n.at.After(to)
	})
}

// holderChanged keeps the hosts of each machine.
func (c *Checker) holderChanged(name, before, after string) {
	if before == after {
		return
	}
	namespace, _, _ := strings.Cut(name, "/")
	if before != "" {
		delete(c.holders[namespace+"/"+before], name)
	}
	if after == "" {
		return
	}
	machine := namespace + "/" + after
	if c.holders[machine] == nil {
		c.holders[machine] = map[string]bool{}
	}
	c.holders[machine][name] = true
	if len(c.holders[machine]) > 1 {
		c.violatef(promise.OneHost, name, "machine %s has the hosts %v", machine, slices.Sorted(maps.Keys(c.holders[machine])))
	}
}

// ObserveMachine records a version of a BareMetalMachine; nil means that the machine is gone.
func (c *Checker) ObserveMachine(name string, m *v1alpha1.BareMetalMachine) {
	now := time.Now()
	c.observeMachine(name, m, span{now, now})
}

func (c *Checker) observeMachine(name string, m *v1alpha1.BareMetalMachine, written span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.machines[name]
	if all == nil {
		all = &history[machineFacts]{}
		c.machines[name] = all
	}
	before := all.last()
	c.latestMachines[name] = m
	after := machineFactsOf(m)
	all.add(written, "", after)
	if before.host != after.host || before.uid != after.uid {
		all.phaseFor = 0
	}
	if before.providerID != "" && before.uid == after.uid && before.providerID != after.providerID {
		c.violatef(promise.Forgotten, name, "its provider ID was %s and is %q", before.providerID, after.providerID)
	}
}

// bmcNote starts the note of a command.
const bmcNote = "BMC: "

// Command records a command to the BMC of a host.
func (c *Checker) Command(host, name string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes[host] = append(c.notes[host], note{at, bmcNote + name})
	c.pending = append(c.pending, event{at, func() { c.judgeCommand(host, name, at) }})
}

// PoweredOn records that a server was powered on.
func (c *Checker) PoweredOn(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.note(host, "powered on")
	c.cameOn[host] = now
	lost := c.lost[host]
	c.pending = append(c.pending, event{now, func() { c.judgePowerOn(host, now, lost) }})
}

// judgePowerOn checks a power-on. lost is the last time that the server lost or regained its power without a command. The times of versions are known to
// about a second: if several versions may have been true, one that permits the power-on counts.
func (c *Checker) judgePowerOn(host string, at, lost time.Time) {
	var b bootFacts
	for _, m := range slices.Backward(c.moments(host, at, at)) {
		b = m.boot
		counted := b.isOf(m.host) || b.open() && b.isHostBoot()
		if counted && b.number == m.host.boots && b.wasOff && !b.reported && !b.failed {
			break
		}
		b = bootFacts{}
	}
	if !b.exists || lost.After(b.started.Add(-c.times.Lag)) {
		return
	}
	key := fmt.Sprintf("%s %s %d", host, b.uid, b.number)
	ons := c.powerOns[key]
	if len(ons) > 0 && b.agent && c.suspended(host, ons[len(ons)-1], at) {
		ons = ons[:len(ons)-1]
	}
	c.powerOns[key] = append(ons, at)
	if n := len(c.powerOns[key]); n > 1 {
		c.violatef(promise.PowerCycle, host, "the server came on %d times in boot %d for machine %s", n, b.number, b.machine)
	}
}

// suspended is true if people had a host detached or in maintenance at some time between two times. An agent that asks then is refused and powers its server off, and the
// boot continues with another power-on.
func (c *Checker) suspended(host string, from, to time.Time) bool {
	return slices.ContainsFunc(c.history(host).during(from, to), func(v version[hostFacts]) bool { return v.facts.maintained || v.facts.detached })
}

// Seeded records that a server got the bootstrap data of a machine's instance at an address. life counts the power-ons of the server. It is 0 for an agent, which
// may get the data again after its server lost its power.
func (c *Checker) Seeded(host, machine, instance, address string, life int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(host, fmt.Sprintf("got the bootstrap data of %s (%s) at %s", machine, instance, address))
	now := seed{host, address, life}
	if before, again := c.seeds[instance]; again && before != now {
		c.violatef(promise.Data, host, "the bootstrap data of %s was handed out to %v and to %v", instance, before, now)
	}
	c.seeds[instance] = now
	at := time.Now()
	c.pending = append(c.pending, event{at, func() { c.judgeSeed(host, machine, instance, at) }})
}

// judgeSeed checks that a server got bootstrap data: the machine had the server, now or a moment before, and that was recorded before.
func (c *Checker) judgeSeed(host, machine, instance string, at time.Time) {
	from, to := c.window(at)
	had := false
	for _, m := range c.moments(host, from, to) {
		if m.host.consumer != machine || !isOfClaim(instance, m.host.claimID) {
			continue
		}
		if had = true; m.boot.isOf(m.host) && m.boot.served && m.boot.poweredOn {
			return
		}
	}
	switch {
	case !had:
		c.violatef(promise.Data, host, "it got the bootstrap data %s of machine %s, whose claim does not have it", instance, machine)
	case !c.unseen(from, to):
		c.violatef(promise.Data, host, "it got the bootstrap data of machine %s, and no boot has a record of it", machine)
	}
}

// Judge judges the events that can be judged already. Call it every second.
func (c *Checker) Judge(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.troubled(now) {
		return
	}
	var later []event
	for _, e := range c.pending {
		if now.Sub(e.at) < c.times.Lag || !c.knows(e.at) {
			later = append(later, e)
			continue
		}
		e.judge()
	}
	c.pending = later
	if !c.starved {
		c.judgeTimes(now)
	}
}

// knows is true if all writes before a time are known.
func (c *Checker) knows(at time.Time) bool {
	return !slices.ContainsFunc(c.watched, func(d *dates) bool { return !d.complete().After(at) })
}

func (c *Checker) history(host string) *history[hostFacts] {
	if h := c.hosts[host]; h != nil {
		return h
	}
	return &history[hostFacts]{}
}

// window returns the period in which a command was decided. A disturbance of the plane makes it longer.
func (c *Checker) window(at time.Time) (from, to time.Time) {
	from, to = at.Add(-c.times.Slack), at
	for _, s := range c.troubles {
		if !s.to.Add(c.times.Slack).Before(at) && s.from.Before(at.Add(c.times.Lag)) {
			from, to = earlier(from, s.from.Add(-c.times.Slack)), later(to, s.to.Add(c.times.Lag))
		}
	}
	return from, to
}

// judgeCommand checks a command: it must have been in order at one time at least in the period in which it was decided.
func (c *Checker) judgeCommand(host, name string, at time.Time) {
	from, to := c.window(at)
	switch {
	case slices.ContainsFunc(c.moments(host, from, to), func(m moment) bool { return permits(m, host, name) }):
		c.Judged++
	case c.unseen(from, to):
		c.Unjudged++ // the version that permits it may have been missed
	default:
		c.Judged++
		c.violatef(promise.Command, host, "%s at %s: at no moment between %s and %s was it in order", name, at.Format(clock), from.Format(clock), to.Format(clock))
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
