package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// Disk is what an agent left on a disk of an emulated server.
type Disk struct {
	// Serial is the serial number.
	Serial string
	// Bootable is true if firmware boots the disk, whether it is complete or not.
	Bootable bool
	// Instance is the instance ID of the bootstrap data on the disk. It is empty without bootstrap data.
	Instance string
}

// isOf is true if the disk has the bootstrap data of a claim.
func (d Disk) isOf(claimID string) bool { return isOfClaim(d.Instance, claimID) }

// isOfClaim is true for the instance ID of a boot of a claim.
func isOfClaim(instance, claimID string) bool {
	return claimID != "" && strings.HasPrefix(instance, claimID+"-")
}

// claimOf returns the claim of an instance ID.
func claimOf(instance string) string { return instance[:max(0, strings.LastIndex(instance, "-"))] }

// system is an operating system that ran from a disk.
type system struct{ host, serial, instance string }

// writtenOf returns the written disks of a boot as text: the number of the boot that wrote it, and the place of the bootstrap data.
func writtenOf(disks []v1alpha1.WrittenDisk) string {
	var lines []string
	for _, w := range disks {
		lines = append(lines, fmt.Sprintf("%d:%s", w.Number, placeOf(w)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func placeOf(w v1alpha1.WrittenDisk) string {
	return fmt.Sprintf("%s/%s/%s/%d+%d", w.Disk.SerialNumber, w.Disk.WWN, w.Disk.ByPath, w.DataOffset, w.DataLength)
}

// places are the recorded places of disks. The record of an earlier boot may be replaced by that of a later one with the same place.
func (f bootFacts) places() []string {
	var places []string
	for line := range strings.Lines(f.written) {
		_, place, _ := strings.Cut(strings.TrimSpace(line), ":")
		places = append(places, place)
	}
	return places
}

// wrote is true if a disk is recorded for the boot with a number.
func (f bootFacts) wrote(number int32) bool {
	return slices.ContainsFunc(strings.Split(f.written, "\n"), func(line string) bool { return strings.HasPrefix(line, fmt.Sprintf("%d:", number)) })
}

// agentBootStands checks one version of a boot that writes an image.
func (c *Checker) agentBootStands(name string, f bootFacts) {
	if !f.agent || f.purpose != v1alpha1.PurposeProvision {
		return
	}
	found := f.agentDone && f.wrote(f.committedNumber) // its agent found the disk of that boot complete, and wrote nothing
	switch {
	case f.committed && !f.served:
		c.violatef(promise.Commit, name, "boot %d may make a disk bootable, and no bootstrap data was given out for it", f.number)
	case (f.committed || f.served && !found) && !f.wrote(f.number):
		c.violatef(promise.Commit, name, "boot %d has a disk with bootstrap data, or one that boots, and its place is not recorded: %q", f.number, f.written)
	case f.agentDone && !f.committed && f.committedNumber == 0:
		c.violatef(promise.Commit, name, "the agent of boot %d completed a disk without permission", f.number)
	}
	key := name + " " + f.claimID
	if before := c.commits[key]; before != 0 && before < f.number && f.committedNumber != before {
		c.violatef(promise.Commit, name, "boot %d must look for the disk of boot %d, which was allowed to make it bootable, and looks for the disk of boot %d", f.number, before, f.committedNumber)
	}
	if f.committed {
		c.commits[key] = max(c.commits[key], f.number)
	}
}

// writtenChanged checks that no written disk is forgotten before it was erased. The record of a boot whose erasure failed is empty: a person wipes the disks.
func (c *Checker) writtenChanged(name string, before, after bootFacts) {
	if after.purpose == v1alpha1.PurposeClean && (after.agentDone || after.failed) {
		return
	}
	for _, place := range before.places() {
		if !slices.Contains(after.places(), place) {
			c.violatef(promise.Erased, name, "boot %d knew that the disk %s was written, and boot %d does not", before.number, place, after.number)
		}
	}
}

// Ran records that an operating system was booted from a disk that an agent wrote. instance is the instance ID of the bootstrap data that it found.
func (c *Checker) Ran(host, machine, instance, serial string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(host, fmt.Sprintf("the system of %s (%s) boots from disk %s", machine, instance, serial))
	now, claim := system{host, serial, instance}, claimOf(instance)
	if before, ran := c.systems[claim]; ran && before != now {
		c.violatef(promise.System, host, "claim %s ran the system %v, and now %v", claim, before, now)
	}
	c.systems[claim] = now
	at := time.Now()
	c.pending = append(c.pending, event{at, func() { c.judgeSystem(host, instance, at) }})
}

// judgeSystem checks that a system ran on the host of its claim, with a permission to make its disk bootable. A host in quarantine may run the system that it was
// released with, and so may a server whose host is gone.
func (c *Checker) judgeSystem(host, instance string, at time.Time) {
	from, to := c.window(at)
	registered, had := false, false
	for _, m := range c.moments(host, from, to) {
		if !m.host.exists {
			continue
		}
		registered = true
		if m.host.quarantine != "" || isOfClaim(instance, m.host.claimID) && m.boot.permitsSystem(instance) {
			return
		}
		had = had || isOfClaim(instance, m.host.claimID)
	}
	switch {
	case !registered, c.unseen(from, to):
	case had:
		c.violatef(promise.Commit, host, "it booted the system %s, whose disk was not to be made bootable", instance)
	default:
		c.violatef(promise.System, host, "it booted the system %s, and its claim is another one", instance)
	}
}

// permitsSystem is true if a disk with the bootstrap data of an instance may boot: the boot that wrote it had the permission. A server that is switched on before its
// disks are erased boots them.
func (f bootFacts) permitsSystem(instance string) bool {
	of := func(number int32) bool { return instance == fmt.Sprintf("%s-%d", f.claimID, number) }
	return f.committed && of(f.number) || f.committedNumber != 0 && of(f.committedNumber) || f.purpose == v1alpha1.PurposeClean
}

// judgeErased checks the disks of a host that was released from a claim. The next machine may have the server already, so only what is of the claim counts, and what
// boots without bootstrap data.
func (c *Checker) judgeErased(name string, released hostFacts, written span) {
	if !released.erases {
		return
	}
	for _, d := range c.servers[name].Disks() {
		switch {
		case d.isOf(released.claimID):
			c.violatef(promise.Erased, name, "machine %s released it, and disk %s has its bootstrap data (boots: %t)", released.consumer, d.Serial, d.Bootable)
		case d.Bootable && !c.cameOn[name].After(written.from):
			c.violatef(promise.Erased, name, "machine %s released it, and disk %s boots", released.consumer, d.Serial)
		}
	}
}

// ObserveErasure records a BareMetalErasure. host is the namespace and the name of its host.
func (c *Checker) ObserveErasure(host string, e *v1alpha1.BareMetalErasure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.erasures[host+" "+e.Spec.ClaimID] = true
}

// judgeProven checks that an erasure of all disks was recorded. A claim that never booted its server needs no record.
func (c *Checker) judgeProven(name string, released hostFacts, at time.Time) {
	erased := slices.ContainsFunc(c.bootHistory(name).versions, func(v version[bootFacts]) bool {
		return v.facts.claimID == released.claimID && v.facts.purpose == v1alpha1.PurposeClean && v.facts.agentDone
	})
	if erased && !c.erasures[name+" "+released.claimID] && !c.unseen(at.Add(-c.times.Slack), at) {
		c.violatef(promise.Proven, name, "machine %s released it, and no BareMetalErasure is about claim %s", released.consumer, released.claimID)
	}
}
