package lifecycle

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// agentDisk is the truth about the disk that agents write.
type agentDisk struct {
	// bootable is true once the disk is complete for the machine that has the host, and by is the number of the boot that wrote it.
	bootable bool
	by       int32
	// ran is the number of the boot whose system the machine ran from the disk; 0 for none.
	ran int32
	// data is true while the disk has bootstrap data of any machine.
	data bool
	// step is what the agent did since the server was switched on.
	step agentStep
	// used is true once a boot for the machine that has the host was counted, until all disks are erased.
	used bool
	// missing is true while a disk is gone that the server had at the claim.
	missing bool
	// begun is true from the start of an erasure on request until it is complete, or until a user has checked the server.
	begun bool
}

type agentStep int

const (
	agentStarts agentStep = iota
	agentGotData
	agentMayCommit
	agentCommitted
)

// bootsAgent makes a booting view one of a machine with an image.
func bootsAgent(v *View) {
	v.Consumer.Image, v.Consumer.Persistence, v.Observed.Image.Ready = true, v1alpha1.PersistenceInstalled, true
	if v.Host.Boot != nil {
		v.Host.Boot.Agent = true
	}
}

// advanceAgent advances a boot that runs the agent by one step. The agent does what pxe/agent describes.
func (w *world) advanceAgent(v View, b v1alpha1.BareMetalBootSpec) bool {
	now := metav1.NewTime(v.Now)
	switch {
	case !w.on || b.Failure != nil || b.AgentRefusedTime != nil && !w.runs:
		return false
	case w.runs: // the operating system, whose disk became bootable although the agent's result is missing
		if b.DataServedTime == nil || b.Purpose == v1alpha1.PurposeClean || v.Consumer.Deleting {
			return false // such a report is refused
		}
		b.ReportedTime, w.seeded = &now, true
	case BootFor(v, w.s) != BootAgent || !w.fromNetwork:
		return false
	case v.Observed.Furthest.Stage != v1alpha1.StageAgent && v.Observed.Furthest.Stage != v1alpha1.StageData && v.Observed.Furthest.Stage != v1alpha1.StageCommitted:
		w.observe([]v1alpha1.BootStage{"", v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageAgent})
		return true
	case b.Purpose == v1alpha1.PurposeClean && w.disk.missing && cleaning.AllDisks(b.CleaningPolicy):
		w.v.Observed.Problem = &v1alpha1.BootFailure{Reason: wire.ReasonEraseFailed, Message: "disk d2 is missing"}
		return false
	case b.Purpose == v1alpha1.PurposeClean:
		w.eraseDisks(v, &b, now)
	default:
		w.provisionStep(&b, now)
	}
	w.v.Host.Boot = &b
	return true
}

// eraseDisks is the end of an agent that erases disks: all of them, or those that the provider wrote.
func (w *world) eraseDisks(v View, b *v1alpha1.BareMetalBootSpec, now metav1.Time) {
	all := cleaning.AllDisks(b.CleaningPolicy)
	w.notef("the agent erased the disks: %q", b.CleaningPolicy)
	switch {
	case !v.Host.Claimed() || !v.releasing():
		w.brokenf(promise.Command, "the disks of a host are erased that no machine releases")
	case all && !w.disk.used:
		w.brokenf(promise.Command, "all disks of a server are erased that was not booted for its machine")
	}
	b.AgentDoneTime, b.WrittenDisks, b.Erasure, w.installed = &now, nil, erasureReport(), false
	w.disk = agentDisk{used: w.disk.used && !all, missing: w.disk.missing, begun: w.disk.begun && !all}
}

// observe moves the furthest stage forward by one in a list.
func (w *world) observe(all []v1alpha1.BootStage) v1alpha1.BootStage {
	last := w.v.Observed.Furthest.Stage
	if last == v1alpha1.StageWaiting {
		last = v1alpha1.StageLoader
	}
	next := all[min(slices.Index(all, last)+1, len(all)-1)]
	w.v.Observed.Furthest = v1alpha1.ObservedStage{Stage: next, Time: metav1.NewTime(w.v.Now)}
	return next
}

// provisionStep is one step of an agent that writes an image.
func (w *world) provisionStep(b *v1alpha1.BareMetalBootSpec, now metav1.Time) {
	switch {
	case w.disk.step == agentStarts && w.disk.bootable:
		if looksFor := committedNumber(b); looksFor != w.disk.by {
			w.brokenf(promise.Commit, "an agent looks for the disk of boot %d, and writes the one that boot %d made bootable", looksFor, w.disk.by)
		}
		w.disk.step = agentCommitted
	case w.disk.step == agentStarts:
		w.notef("the agent gets the bootstrap data")
		w.disk.step, w.disk.data = agentGotData, true
		if b.DataServedTime == nil {
			b.DataServedTime = &now
		}
		recordDisk(b)
	case w.disk.step == agentGotData:
		w.disk.step = agentMayCommit
		if b.CommitAllowedTime == nil {
			b.CommitAllowedTime = &now
		}
	case w.disk.step == agentMayCommit:
		w.notef("the disk is bootable")
		w.disk.step, w.disk.bootable, w.disk.by, w.installed = agentCommitted, true, b.Number, true
	default:
		w.notef("the agent is done")
		b.AgentDoneTime, w.seeded = &now, true
		if b.DataServedTime == nil {
			b.DataServedTime = &now
		}
		w.fromNetwork = false
		w.runInstalled()
	}
}

// recordDisk records the only disk as the boot server does: the record of the boot whose commit an agent has to check is kept.
func recordDisk(b *v1alpha1.BareMetalBootSpec) {
	written := v1alpha1.WrittenDisk{Disk: wire.DiskIdentity{SerialNumber: "d1"}, Number: b.Number, DataOffset: 1 << 30, DataLength: 32 << 20}
	disks := slices.DeleteFunc(slices.Clone(b.WrittenDisks), func(w v1alpha1.WrittenDisk) bool { return w.Number != b.CommittedNumber || w.Number == b.Number })
	disks = append(disks, written)
	b.WrittenDisks = disks
}

// runInstalled boots the system that is on the disk. A machine has one system: two would be two members of its cluster.
func (w *world) runInstalled() {
	w.runs = true
	if !w.disk.bootable {
		return // it installed itself
	}
	if w.disk.ran != 0 && w.disk.ran != w.disk.by {
		w.brokenf(promise.System, "the system of boot %d runs, and that of boot %d ran before for the same machine", w.disk.by, w.disk.ran)
	}
	w.disk.ran = w.disk.by
}

// judgeAgentBoot judges the record of a boot after an earlier record of the same host.
func (w *world) judgeAgentBoot(v View, before, b *v1alpha1.BareMetalBootSpec) {
	wiped := b.Failure != nil && b.Failure.Reason == v1alpha1.ReasonDisksNotErased // by a person, as the quarantine says
	switch {
	case v.Host.Claimed() && v.Host.Boot != nil && v.Host.Boot.Number >= v.Host.Spec.ProviderState.Boots && len(v.Host.Boot.WrittenDisks) > 0 && len(b.WrittenDisks) == 0 && !wiped:
		w.brokenf(promise.Clean, "it is forgotten that disks were written")
	case before == nil:
	case b.Number == before.Number && (before.CommitAllowedTime != nil && b.CommitAllowedTime == nil || before.AgentDoneTime != nil && b.AgentDoneTime == nil || before.CommittedNumber != b.CommittedNumber):
		w.brokenf(promise.Records, "a record of the agent is taken back")
	case b.Number != before.Number && b.Purpose == v1alpha1.PurposeProvision && before.Purpose == v1alpha1.PurposeProvision && before.AgentDoneTime != nil:
		w.brokenf(promise.Command, "an attempt follows an agent that was done")
	case b.Number != before.Number && b.Purpose == v1alpha1.PurposeProvision && before.CommitAllowedTime != nil && b.CommittedNumber != before.Number,
		b.Number != before.Number && b.Purpose == v1alpha1.PurposeProvision && before.CommitAllowedTime == nil && b.CommittedNumber != before.CommittedNumber:
		w.brokenf(promise.Commit, "the next attempt does not know that the disk may be bootable")
	}
}

// advanceHostBoot advances an inspection, or the restart of a run, by one step. The agent powers the server off after its report.
func (w *world) advanceHostBoot(v View, b v1alpha1.BareMetalBootSpec) bool {
	switch {
	case BootFor(v, w.s) != BootAgent || !w.on || !w.fromNetwork || b.AgentRefusedTime != nil:
		return false
	case v.Observed.Furthest.Stage != v1alpha1.StageAgent:
		w.observe([]v1alpha1.BootStage{"", v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageAgent})
		return true
	}
	w.notef("the agent reports")
	b.AgentDoneTime = &metav1.Time{Time: v.Now}
	w.v.Host.Boot, w.v.Inspection.Reported = &b, w.v.Inspection.Reported || b.Purpose == v1alpha1.PurposeInspect
	w.switchTo(false, 2*time.Second)
	return true
}

// agentEvents are the events of boots that run the agent.
var agentEvents = []event{
	{name: "the image is ready", weight: 20, when: func(w *world) bool { return hasMachine(w) && w.machine().Image && !w.v.Observed.Image.Ready }, do: func(w *world, _ uint64) { w.v.Observed.Image.Ready = true }},
	{name: "spec.inspection", weight: 4, when: always, do: func(w *world, p uint64) {
		w.v.Host.Spec.Inspection = choose(p, "", v1alpha1.InspectionAgent, v1alpha1.InspectionBoth)
	}},
	{name: "a user requests an inspection", weight: 2, when: always, do: func(w *world, _ uint64) { w.v.Requests.Inspect = true }},
	{name: "the report of the inspection is deleted", weight: 2, when: always, do: func(w *world, _ uint64) { w.v.Inspection.Reported = false }},
	{name: "the inspection completes", weight: 8, when: isFree, do: func(w *world, p uint64) {
		w.bmcRecovers()
		for range 10 + p%20 {
			w.reconcile()
			w.pass(5 * time.Second)
			w.advanceBoot()
		}
	}},
	{name: "a machine claims a host whose inspection begins", weight: 4, when: func(w *world) bool { return isFree(w) && w.v.Host.InspectionBoot() != nil && w.inService() }, do: func(w *world, p uint64) { w.claim(p) }},
	toggle("a Cluster of the namespace is paused", 2, func(w *world) bool { return w.v.Host.PausedCluster != "" },
		func(w *world, _ uint64) { w.v.Host.PausedCluster = "c" }, func(w *world) { w.v.Host.PausedCluster = "" }),
	toggle("a disk is missing", 1, func(w *world) bool { return w.disk.missing },
		func(w *world, _ uint64) { w.disk.missing = true }, func(w *world) { w.disk.missing = false }),
	toggle("reports of agents prove no erasure", 1, func(w *world) bool { return w.recordUnproven },
		func(w *world, _ uint64) { w.recordUnproven = true }, func(w *world) { w.recordUnproven = false }),
	toggle("erasures cannot be recorded", 1, func(w *world) bool { return w.recordFails },
		func(w *world, _ uint64) { w.recordFails = true }, func(w *world) { w.recordFails = false }),
	toggle("a disk cannot be purged", 1, func(w *world) bool { return w.v.Inspection.NotPurgeable.Any() },
		func(w *world, _ uint64) {
			w.v.Inspection.NotPurgeable = cleaning.Unpurgeable{Disks: []v1alpha1.NotPurgeableDisk{{SerialNumber: "d1"}}}
		}, func(w *world) { w.v.Inspection.NotPurgeable = cleaning.Unpurgeable{} }),
	{name: "the disks are erased", weight: 3, when: func(w *world) bool { return hasMachine(w) && !claimContinues(w) }, do: func(w *world, p uint64) {
		w.bmcRecovers()
		w.v.QueuePosition = nil
		for range 15 + p%20 {
			w.reconcile()
			w.pass(5 * time.Second)
			w.advanceBoot()
		}
	}},
	{name: "the agent gives up", weight: 2, when: func(w *world) bool {
		b := cmp.Or(w.v.Host.CurrentBoot(), w.v.Host.HostBoot())
		return b != nil && b.Agent && mayRepeat(*b) && w.v.Observed.Furthest.Stage != ""
	}, do: func(w *world, p uint64) {
		w.v.Observed.Problem = &v1alpha1.BootFailure{Reason: choose(p, wire.ReasonDiskFailed, wire.ReasonDiskFailed, wire.ReasonNoDiskMatches), Message: "x"}
	}},
	{name: "a second address presents the agent's token", weight: 2, when: func(w *world) bool {
		b := cmp.Or(w.v.Host.CurrentBoot(), w.v.Host.HostBoot())
		return b != nil && b.Agent && b.DataServedTime == nil && BootFor(w.v, w.s) == BootAgent
	}, do: func(w *world, _ uint64) {
		b := *w.v.Host.Boot
		b.AgentRefusedTime = &metav1.Time{Time: w.v.Now}
		w.v.Host.Boot = &b
	}},
	{name: "the agent reports progress", weight: 4, when: func(w *world) bool { return w.v.Observed.Furthest.Stage == v1alpha1.StageAgent }, do: func(w *world, _ uint64) { w.v.Observed.AgentAt = w.v.Now }},
	{name: "the server with an agent loses power", weight: 4, when: func(w *world) bool { return w.on && w.disk.step > agentStarts }, do: func(w *world, _ uint64) { w.switchTo(false, 0) }},
}
