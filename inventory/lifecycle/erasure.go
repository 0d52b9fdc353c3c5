package lifecycle

import (
	"cmp"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

// A release erases the disks by a boot of the agent with the purpose Clean. Its record has the policy, so a change of the host does not change an erasure that has
// begun. Only positive facts lead to an erasure: the claim, and the record of a boot for it, or of a disk that the provider wrote. If such a fact is missing, the host
// goes into quarantine instead, and a person decides.

// policy returns how thoroughly the disks of the host are to be erased.
func (h Host) policy(s Settings) wire.ErasePolicy {
	var claimed wire.ErasePolicy
	if ref := h.Spec.ConsumerRef; ref != nil {
		claimed = ref.CleaningPolicy
	}
	return cleaning.Effective(h.Spec.CleaningPolicy, claimed, s.MinimumCleaningPolicy)
}

// erasing is true while a boot erases the disks of a host that is being released.
func (h Host) erasing() bool {
	b := h.CurrentBoot()
	return b != nil && b.Purpose == v1alpha1.PurposeClean && b.AgentDoneTime == nil && b.Failure == nil
}

// ErasureRuns is true while an agent may be erasing the disks of a host that is being released, or of a free host. It is so too while nothing is done to the host,
// because it is paused or in maintenance: an erasure that has begun ends without a command.
func (v View) ErasureRuns(s Settings) bool {
	return (v.Host.erasing() && v.Host.bootCounted() && v.Now.Before(v.Deadline(s)) || v.erasesOnRequest(s)) && v.Host.Boot.PoweredOnTime != nil
}

// mayHaveBooted is true if the server may have been booted for the claim.
func (v View) mayHaveBooted() bool {
	b := v.Host.recordOfClaim()
	return v.Host.bootedSinceClaim() || v.Provisioned() || b != nil && (b.PoweredOnTime != nil || b.DataServedTime != nil)
}

// erasureDue is true until the disks are erased, or that has failed in this claim. An erasure that has begun is finished, whatever the policy is now. A policy for all
// disks counts if the server was booted for the claim. Otherwise the disks count that the provider wrote and that were not erased since: their record may belong to
// an earlier claim.
func erasureDue(v View, s Settings) bool {
	b := v.Host.Boot
	if b == nil || b.Number < v.Host.Spec.ProviderState.Boots || v.Host.Spec.ConsumerRef.ClaimID == "" {
		return false
	}
	if e := v.Host.erasure(); e != nil {
		return e.AgentDoneTime == nil && e.Failure == nil && e.VoidedTime == nil
	}
	switch policy := v.Host.policy(s); {
	case !cleaning.Erases(policy):
		return false
	case cleaning.AllDisks(policy) && v.mayHaveBooted():
		return v.Host.recordOfClaim() != nil
	default:
		return len(b.WrittenDisks) > 0
	}
}

// recordedPolicy returns the policy that the next attempt to erase the disks records: that of the attempt before, or the policy of the host. It is empty for an erasure
// of the disks that the provider wrote.
func recordedPolicy(v View, s Settings) wire.ErasePolicy {
	if e := v.Host.erasure(); e != nil {
		return e.CleaningPolicy
	}
	if policy := v.Host.policy(s); cleaning.AllDisks(policy) && v.mayHaveBooted() {
		return policy
	}
	return ""
}

// erasure returns the last boot that erased disks for the claim, also after it was voided; nil without one.
func (h Host) erasure() *v1alpha1.BareMetalBootSpec {
	if b := h.recordOfClaim(); b != nil && b.Purpose == v1alpha1.PurposeClean {
		return b
	}
	return nil
}

// recordOfClaim returns the record of the claim's last boot, also after it was voided; nil without one.
func (h Host) recordOfClaim() *v1alpha1.BareMetalBootSpec {
	ref, b := h.Spec.ConsumerRef, h.Boot
	if ref == nil || ref.ClaimID == "" || b == nil || b.ClaimID != ref.ClaimID || b.Number < h.Spec.ProviderState.Boots {
		return nil
	}
	return b
}

// quarantineUnerased returns the quarantine of a host whose disks should have been erased and were not; nil for any other host.
func quarantineUnerased(v View, s Settings) *v1alpha1.Quarantine {
	const unerased = "The server is off, but its disks were not erased"
	if b := v.Host.erasure(); b != nil && b.Failure != nil {
		return newQuarantine(v, v1alpha1.ReasonDisksNotErased, unerased+". "+b.Failure.Message)
	}
	if b := v.Host.erasure(); b != nil && b.AgentDoneTime == nil { // its record was voided, for a release that was requested without a power-off and then not
		return newQuarantine(v, v1alpha1.ReasonDisksNotErased, unerased+", because their erasure was interrupted. Wipe the disks"+v.Host.namedDisks())
	}
	if b := v.Host.Boot; IsRequestedErasure(b) && b.Number >= v.Host.Spec.ProviderState.Boots && b.AgentDoneTime == nil && (b.PoweredOnTime != nil || b.Attempt > 1) {
		return newQuarantine(v, v1alpha1.ReasonDisksNotErased, unerased+", because the erasure for a BareMetalErasureRequest was not completed. Wipe the disks")
	}
	policy := v.Host.policy(s)
	written := v.Consumer.Image && v.mayHaveBooted()
	switch {
	case !cleaning.Erases(policy) || v.Host.recordOfClaim() != nil:
		return nil
	case written || cleaning.AllDisks(policy) && v.mayHaveBooted():
		return newQuarantine(v, v1alpha1.ReasonDisksNotErased, fmt.Sprintf("%s, because the record of the boots of BareMetalMachine %q is missing. Wipe the disks%s",
			unerased, v.Host.Spec.ConsumerRef.Name, v.Host.namedDisks()))
	default:
		return nil
	}
}

// namedDisks names the disks that a person has to wipe: those that the agent found before the claim, or otherwise those that the provider wrote. It is empty if none is
// known.
func (h Host) namedDisks() string {
	var disks []wire.DiskIdentity
	if ref := h.Spec.ConsumerRef; ref != nil {
		disks = ref.Disks
	}
	if len(disks) == 0 && h.Boot != nil {
		for _, w := range h.Boot.WrittenDisks {
			disks = append(disks, w.Disk)
		}
	}
	var names []string
	for _, d := range disks {
		names = append(names, cmp.Or(d.SerialNumber, d.WWN, d.ByPath))
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s)", inventory.ListNames(names))
}

// eraseDisks boots the agent on a server that is being released, to erase its disks. The power is known.
func eraseDisks(v View, s Settings, step Step) Step {
	current := v.Host.CurrentBoot()
	if current == nil || current.Purpose != v1alpha1.PurposeClean {
		return beginErasure(v, s, step, 1)
	}
	attempt := *current
	switch {
	case !v.Host.bootCounted():
		step.Action, step.Boot, step.Message = CountBoot, &attempt, "The disks will be erased"
		return step
	case attemptOver(v, s, attempt) != "":
		return endErasure(v, s, step, attempt, attemptOver(v, s, attempt))
	case !v.Now.Before(v.Deadline(s)):
		return endErasure(v, s, step, attempt, describeTimeout(v, s, attempt))
	}
	drive := bootFromNetwork(v, s, attempt, s.ActiveInterval)
	drive.Phase, drive.Reason = step.Phase, step.Reason
	drive.Message = fmt.Sprintf("The disks are being erased, attempt %d. %s", attempt.Attempt, drive.Message)
	if deadline := v.Deadline(s); drive.Action == "" && (drive.RequeueAt.IsZero() || drive.RequeueAt.After(deadline)) {
		drive.RequeueAt = deadline
	}
	return untilMethodDeadline(v, s, attempt, drive)
}

// beginErasure records a new attempt to erase the disks.
func beginErasure(v View, s Settings, step Step, attempt int32) Step {
	if v.QueuePosition != nil {
		step.Message = "The disks will be erased. "
		return v.QueuePosition.wait(v, step)
	}
	boot := newBoot(v, attempt)
	boot.Purpose, boot.Agent, boot.CommittedNumber, boot.CleaningPolicy = v1alpha1.PurposeClean, true, 0, recordedPolicy(v, s)
	step.Action, step.Boot = RecordBoot, boot
	step.Message = fmt.Sprintf("Attempt %d to erase the disks begins (%s)", attempt, describePolicy(boot.CleaningPolicy))
	return step
}

// describePolicy describes the policy of an erasure for users.
func describePolicy(policy wire.ErasePolicy) string {
	if policy == "" {
		return "Metadata of the disks that the provider wrote"
	}
	return string(policy)
}

// endErasure ends an attempt to erase the disks. After the last one the boot fails, and the host goes into quarantine.
func endErasure(v View, s Settings, step Step, attempt v1alpha1.BareMetalBootSpec, after string) Step {
	if attempt.Attempt < maxAttempts(v, s) && !v.Observed.metOtherServer(attempt) {
		step = beginErasure(v, s, step, attempt.Attempt+1)
		step.Message += ". " + after
		return step
	}
	failed := failBoot(attempt, v1alpha1.ReasonDisksNotErased,
		fmt.Sprintf("%s. There is no other attempt. Wipe the disks%s, then remove spec.quarantine", after, v.Host.namedDisks()))
	failed.Boot.WrittenDisks = nil // a person wipes them: the quarantine says so, and the next release does not look for a disk that was replaced
	step.Action, step.Boot, step.Message = failed.Action, failed.Boot, after
	return step
}
