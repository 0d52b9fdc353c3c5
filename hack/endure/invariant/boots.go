package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// bootFacts are what the rules read from a BareMetalBoot. They are comparable: only changes are kept.
type bootFacts struct {
	exists bool

	uid, claimID, machine                     string
	purpose                                   v1alpha1.BootPurpose
	number, committedNumber                   int32
	started                                   time.Time
	agent, committed, agentDone               bool
	wasOff, poweredOn, served, reported       bool
	failed, voided, requested                 bool
	scriptAddress, dataAddress, reportAddress string
	// written are the disks that are recorded as written, one a line.
	written string
}

// bootFactsOf returns the facts of a boot. A nil boot does not exist.
func bootFactsOf(b *v1alpha1.BareMetalBoot) bootFacts {
	if b == nil {
		return bootFacts{}
	}
	s := &b.Spec
	return bootFacts{
		exists: true, uid: string(b.UID), claimID: s.ClaimID, machine: s.MachineName, purpose: s.Purpose, number: s.Number, started: s.StartTime.Time,
		agent: s.Agent, committedNumber: s.CommittedNumber, committed: s.CommitAllowedTime != nil, agentDone: s.AgentDoneTime != nil,
		wasOff: s.PoweredOffTime != nil, poweredOn: s.PoweredOnTime != nil, served: s.DataServedTime != nil, reported: s.ReportedTime != nil,
		failed: s.Failure != nil, voided: s.VoidedTime != nil, requested: s.ErasureRequest != nil,
		scriptAddress: s.ScriptAddress, dataAddress: s.DataAddress, reportAddress: s.ReportAddress, written: writtenOf(s.WrittenDisks),
	}
}

// String returns the facts as a line of a history.
func (f bootFacts) String() string {
	switch {
	case !f.exists:
		return "is not there"
	case f.number == 0:
		return "no boot yet"
	}
	text := fmt.Sprintf("number=%d claim=%s off=%t on=%t served=%t reported=%t failed=%t void=%t", f.number, f.claimID, f.wasOff, f.poweredOn, f.served, f.reported, f.failed, f.voided)
	if f.agent {
		text += fmt.Sprintf(" %s committed=%t committedNumber=%d done=%t written=%q", f.purpose, f.committed, f.committedNumber, f.agentDone, f.written)
	}
	return text
}

// isOf is true for the record of the last boot of a host's claim. It follows ARCHITECTURE.md and not the implementation.
func (f bootFacts) isOf(h hostFacts) bool {
	return f.exists && h.claimID != "" && f.claimID == h.claimID && !f.voided && f.number >= h.boots
}

// open is true for a boot that is not void. Its server may be booted.
func (f bootFacts) open() bool { return f.exists && f.claimID != "" && !f.voided }

// stands is true for a boot that gives its machine rights to a server. An inspection and an erasure on request have no machine.
func (f bootFacts) stands() bool { return f.open() && !f.isHostBoot() }

// isHostBoot is true for a boot without a machine: an inspection, the restart of a settings run, or an erasure on request.
func (f bootFacts) isHostBoot() bool {
	return f.purpose == v1alpha1.PurposeInspect || f.purpose == v1alpha1.PurposeConfigure || f.requested
}

// ObserveBoot records a version of a boot; nil means that the boot is gone. The caller passes every version.
func (c *Checker) ObserveBoot(name string, b *v1alpha1.BareMetalBoot) {
	now := time.Now()
	c.observeBoot(name, b, span{now, now}, true)
}

func (c *Checker) observeBoot(name string, b *v1alpha1.BareMetalBoot, written span, every bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after := bootFactsOf(b)
	all := c.boots[name]
	if all == nil {
		all = &history[bootFacts]{}
		c.boots[name] = all
	}
	before := all.last()
	revision := ""
	if b != nil {
		revision = b.ResourceVersion
	}
	if !all.add(written, revision, after) {
		return
	}
	c.bootStands(name, after)
	switch {
	case before.exists && after.exists && before.uid == after.uid:
		c.bootChanged(name, before, after)
		if every {
			c.writtenChanged(name, before, after)
		}
	case before.stands() && !after.exists && every:
		c.pending = append(c.pending, event{time.Now(), func() { c.judgeLoss(name, before, written) }})
	}
}

// bootStands checks one version of a boot.
func (c *Checker) bootStands(name string, f bootFacts) {
	if (f.scriptAddress != "" || f.dataAddress != "" || f.served) && !f.poweredOn {
		c.violatef(promise.Records, name, "boot %d was served something before its server was to be powered on", f.number)
	}
	if f.claimID == "" {
		return
	}
	key := name + " " + f.claimID
	if used := c.used[key]; used != 0 && used != f.number && f.purpose == v1alpha1.PurposeProvision {
		c.violatef(promise.Data, name, "boot %d of claim %s began although a system may use the bootstrap data of boot %d", f.number, f.claimID, used)
	}
	if f.isUsed() {
		c.used[key] = f.number
	}
	c.agentBootStands(name, f)
}

// isUsed is true once an operating system may use the bootstrap data of a boot. The data of an agent is on a disk that does not boot, or of which the next agent
// finds out whether it does. It is used once the agent says that the disk is complete, or the operating system reports.
func (f bootFacts) isUsed() bool {
	if f.agent {
		return f.purpose == v1alpha1.PurposeProvision && (f.agentDone || f.reported)
	}
	return f.served
}

// bootChanged checks a change of a boot. Its rules hold also if versions in between were missed.
func (c *Checker) bootChanged(name string, before, after bootFacts) {
	moved := func(before, after string) bool { return before != "" && before != after }
	switch {
	case after.number < before.number:
		c.violatef(promise.Numbers, name, "the number of its boot fell from %d to %d", before.number, after.number)
	case after.number > before.number || before.number == 0:
	case moved(before.claimID, after.claimID), moved(before.machine, after.machine), moved(string(before.purpose), string(after.purpose)), before.agent != after.agent,
		before.committedNumber != after.committedNumber, !after.started.Equal(before.started):
		c.violatef(promise.Records, name, "boot %d was of claim %s of machine %s, and is of claim %s of machine %s", before.number, before.claimID, before.machine, after.claimID, after.machine)
	case moved(before.dataAddress, after.dataAddress):
		c.violatef(promise.Data, name, "the bootstrap data was given to %s and to %q", before.dataAddress, after.dataAddress)
	case moved(before.scriptAddress, after.scriptAddress):
		c.violatef(promise.Records, name, "the script was given to %s and to %q", before.scriptAddress, after.scriptAddress)
	case before.wasOff && !after.wasOff, before.poweredOn && !after.poweredOn, before.served && !after.served, before.reported && !after.reported,
		before.failed && !after.failed, before.voided && !after.voided, before.committed && !after.committed, before.agentDone && !after.agentDone:
		c.violatef(promise.Records, name, "a record of boot %d was taken back", after.number)
	}
}

// judgeLoss checks that the record of a claim is gone only after the host was released or deleted.
func (c *Checker) judgeLoss(name string, lost bootFacts, written span) {
	for _, v := range c.history(name).during(written.from, written.to) {
		if !v.facts.exists || v.facts.deleting || v.facts.claimID != lost.claimID {
			return
		}
	}
	c.violatef(promise.Records, name, "the record of boot %d is gone, and machine %s still has the host", lost.number, lost.machine)
}

// judgeVoid checks that the boot of a free host was void at a revision of the host.
func (c *Checker) judgeVoid(name, revision string, at span, what string) {
	if revision == "" || c.unseen(at.from.Add(-time.Minute), at.to) {
		return // an earlier version may have been missed
	}
	if f, known := c.bootHistory(name).before(revision); known && f.stands() {
		c.violatef(promise.Void, name, "it was free when it was %s, and boot %d of claim %s was not void", what, f.number, f.claimID)
	}
}

// unseen is true if changes between two times may have been missed.
func (c *Checker) unseen(from, to time.Time) bool {
	return slices.ContainsFunc(c.gaps, func(gap span) bool { return gap.to.After(from) && gap.from.Before(to) })
}

func (c *Checker) bootHistory(host string) *history[bootFacts] {
	if b := c.boots[host]; b != nil {
		return b
	}
	return &history[bootFacts]{}
}

// moment is a state of a host, its boot and its machine that may have been true at one time.
type moment struct {
	host    hostFacts
	boot    bootFacts
	machine machineFacts
}

// moments returns all states that may have been true between two times.
func (c *Checker) moments(host string, from, to time.Time) []moment {
	namespace, _, _ := strings.Cut(host, "/")
	var all []moment
	for _, h := range c.history(host).during(from, to) {
		m := c.machines[namespace+"/"+h.facts.consumer]
		if h.facts.consumer == "" || m == nil {
			m = &history[machineFacts]{}
		}
		for _, b := range c.bootHistory(host).during(from, to) {
			for _, w := range m.during(from, to) {
				all = append(all, moment{h.facts, b.facts, w.facts})
			}
		}
	}
	return all
}

// watchedBoot records a version of a boot from a watch.
func (c *Checker) watchedBoot(name string, object runtime.Object, written span, every bool) {
	boot, _ := object.(*v1alpha1.BareMetalBoot)
	c.observeBoot(name, boot, written, every)
}
