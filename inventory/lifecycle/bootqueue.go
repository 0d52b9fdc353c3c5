package lifecycle

import (
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// QueuePosition is where a host stands among those that wait to boot, because as many hosts of its failure domain boot already as may at once.
type QueuePosition struct {
	// Number is its place; the next one to boot has 1.
	Number int
	// Booting is how many hosts of the failure domain boot.
	Booting int
}

// QueuePositionInterval is how often a host that waits to boot looks what its place is, and at most is told. Its turn is told to it at once; the place is for people, and each
// change of it is a write to the API server.
const QueuePositionInterval = 30 * time.Second

// wait says in a step what its host waits for.
func (l QueuePosition) wait(v View, step Step) Step {
	of := fmt.Sprintf("of failure domain %q", v.Spec.FailureDomain)
	if v.Spec.FailureDomain == "" {
		of = "without a failure domain"
	}
	step.Reason, step.RequeueAt = v1alpha1.ReasonWaitingForBootSlot, v.Now.Add(QueuePositionInterval)
	step.Message += fmt.Sprintf("Number %d of those that wait to boot: %d hosts %s boot already (--boot-concurrency)", l.Number, l.Booting, of)
	return step
}

// StartsBoot is true for a step that begins a boot attempt.
func StartsBoot(v View, step Step) bool {
	before, b := v.Boot, step.Boot
	return step.Action == RecordBoot && IsOpen(b) && b.Failure == nil && (before == nil || before.Number != b.Number)
}

// WantsToBoot is true when nothing but its turn, and a fresh look at the power, keeps a host from the begin of a boot attempt: it stands in line.
// A host whose BMC cannot be asked does not, for nobody could be let on while it is the next.
func WantsToBoot(v View, s Settings) bool {
	if StateOf(v) == StateClaimed && !v.usable() {
		return false
	}
	v.QueuePosition, v.RetryNow, v.BMC.Busy = nil, false, false
	v.BMC.PowerAt = latest(v.BMC.PowerAt, v.Now)
	return StartsBoot(v, Next(v, s))
}

// Deadline is when the current boot times out: so long after it started, or after its server last waited in the queue of its network. That it was told to
// wait is no reason to give it up, and when its turn comes it has all the time that a boot may take.
func (v View) Deadline(s Settings) time.Time {
	return latest(v.Boot.StartedAt.Time, v.WaitedAt).Add(s.BootTimeout)
}

// slotGrace is how long after the deadline of an attempt its host keeps its place among those that boot: so the attempt that follows has it.
const slotGrace = time.Minute

// BootsUntil returns until when a host counts among those that boot; the zero time if it does not. It does from when a boot is recorded until it is
// reported, fails or is void; and no longer than a moment after its deadline, whatever became of it: so a host that nobody drives, or whose BMC does not
// answer, gives its slot to others in the end.
func (v View) BootsUntil(s Settings) time.Time {
	b := v.CurrentBoot()
	if b == nil || b.ReportedAt != nil || b.Failure != nil {
		return time.Time{}
	}
	return v.Deadline(s).Add(slotGrace)
}
