package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// QueuePosition is where a host is in the boot queue of its failure domain. It is queued because as many hosts of the domain boot as --boot-concurrency permits.
type QueuePosition struct {
	// Number is 1 for the next host to boot.
	Number int
	// Booting is how many hosts of the failure domain boot.
	Booting int
}

// QueuePositionInterval is how often a queued host is reconciled, and so how old the position in its message is. A host that may boot is enqueued at once.
const QueuePositionInterval = 30 * time.Second

// wait writes to a step what its host waits for.
func (p QueuePosition) wait(v View, step Step) Step {
	of := fmt.Sprintf("of failure domain %q", v.Host.Spec.FailureDomain)
	if v.Host.Spec.FailureDomain == "" {
		of = "without a failure domain"
	}
	step.Reason, step.RequeueAt = v1alpha1.ReasonWaitingForBootSlot, v.Now.Add(QueuePositionInterval)
	step.Message += fmt.Sprintf("Number %d in the boot queue: %d hosts %s boot (--boot-concurrency)", p.Number, p.Booting, of)
	return step
}

// StartsBoot is true for a step that starts a boot attempt, or powers the server of a machine on after a loss of power.
func StartsBoot(v View, step Step) bool {
	if step.Action == RecordPowerRestore {
		return step.PowerRestore.EndTime == nil
	}
	before, b := v.Host.Boot, step.Boot
	return step.Action == RecordBoot && IsOpen(b) && b.Failure == nil && (before == nil || before.Number != b.Number)
}

// AwaitStart returns what the status says of a step that starts a boot while it waits for the boots of other hosts to start. A host is Claimed until its first attempt.
func AwaitStart(step Step) Step {
	if step.Phase == v1alpha1.PhaseBooting && step.Boot.Attempt == 1 {
		step.Phase = v1alpha1.PhaseClaimed
	}
	step.Message = "Waiting for the boots of other hosts to start. Then: " + step.Message
	return step
}

// WantsToBoot is true for a host that starts a boot attempt, or is powered on after a loss of power, as soon as it has a slot, and its power and its settings are read again: it belongs in the boot queue. A host whose BMC
// does not answer does not belong there: it would block the hosts behind it.
func WantsToBoot(v View, s Settings) bool {
	if state := StateOf(v); (state == StateClaimed || state == StateProvisioned) && !v.BMC.usable() {
		return false
	}
	v.QueuePosition, v.Requests.RetryBMC, v.BMC.Busy = nil, false, false
	v.BMC.PowerAt = latest(v.BMC.PowerAt, v.Now)
	v.BIOS = v.BIOS.readAgain(v.Now)
	return StartsBoot(v, Next(v, s))
}

// Deadline is when the current boot times out: BootTimeout after its start, or after its server was last queued for a slot of its network. The time in that queue is
// not part of the boot. The progress of an agent moves the deadline, but to lastDeadline at most: an agent that makes progress without an end does not occupy a
// server for ever. Once the agent is done, the operating system has its whole BootTimeout, also after an agent that needed all of its time.
func (v View) Deadline(s Settings) time.Time {
	progress, done := v.Observed.AgentAt, v.Host.Boot.AgentDoneTime
	switch {
	case done == nil:
	case v.Host.Boot.Purpose == v1alpha1.PurposeProvision: // what the agent reports afterwards does not count
		return latest(v.Observed.countedFrom(v.Host.Boot), done.Time).Add(s.BootTimeout)
	default:
		progress = latest(progress, done.Time)
	}
	deadline := latest(v.Observed.countedFrom(v.Host.Boot), progress).Add(s.BootTimeout)
	if last := v.Observed.lastDeadline(v.Host.Boot, s); deadline.After(last) {
		return last
	}
	return deadline
}

// lastDeadline is when the current boot times out even if its agent makes progress: AgentTimeout later than without, or EraseTimeout after the start of an erasure,
// which takes hours or a day on large hard disks.
func (o Observed) lastDeadline(b *v1alpha1.BareMetalBootSpec, s Settings) time.Time {
	if b.Purpose == v1alpha1.PurposeClean {
		return o.countedFrom(b).Add(max(s.EraseTimeout, s.BootTimeout))
	}
	return o.countedFrom(b).Add(s.BootTimeout + s.AgentTimeout)
}

// countedFrom is when the time of the current boot begins.
func (o Observed) countedFrom(b *v1alpha1.BareMetalBootSpec) time.Time {
	return latest(b.StartTime.Time, o.WaitedAt)
}

// slotGrace is how long after the deadline of an attempt its host keeps its slot. The next attempt starts within this time and has the slot.
const slotGrace = time.Minute

// BootsUntil returns until when a host counts as booting; the zero time if it does not boot. It counts from the record of a boot until the boot is reported,
// fails or is void, and until slotGrace after its deadline at most: a host that is not reconciled, or whose BMC does not answer, loses its slot then. After a loss of power it
// counts until its Node is Ready, and for restoreTimeout at most.
func (v View) BootsUntil(s Settings) time.Time {
	b := cmp.Or(v.Host.CurrentBoot(), v.Host.HostBoot())
	if b == nil || b.ReportedTime != nil || b.Failure != nil {
		return v.PowerLoss.restoreUntil(v.Now)
	}
	return latest(v.Deadline(s).Add(slotGrace), v.PowerLoss.restoreUntil(v.Now))
}
