package lifecycle

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// The record of a boot is the only proof of an erasure, and the next boot replaces it. So the proof is written as a BareMetalErasure before the host is released, and
// before the boot of an erasure on request is voided. Two releases do not wait for that: in a namespace that is being deleted nothing can be created, and a release
// without fencing is what a user does if nothing else helps.

// RecordOutcome is what became of the BareMetalErasure of the erasure in the host's boot.
type RecordOutcome string

const (
	// RecordNone means that this provider records no erasures.
	RecordNone RecordOutcome = ""
	// RecordDue means that it was not tried for this decision.
	RecordDue RecordOutcome = "Due"
	// RecordWritten means that it exists.
	RecordWritten RecordOutcome = "Written"
	// RecordUnproven means that the report of the agent proves no erasure. Another try does not help.
	RecordUnproven RecordOutcome = "Unproven"
	// RecordFailed means that it could not be written, and that another try may succeed.
	RecordFailed RecordOutcome = "Failed"
	// RecordImpossible means that the namespace of the host is being deleted, or is gone.
	RecordImpossible RecordOutcome = "Impossible"
)

// ErasureRecord is what is known of that BareMetalErasure.
type ErasureRecord struct {
	Outcome RecordOutcome
	// Err is why it was not written; nil otherwise.
	Err error
}

// losesProof is true for a step after which the proof of an erasure is lost. A server without disks has nothing to prove.
func losesProof(v View, step Step) bool {
	b := v.Host.Boot
	return b != nil && b.Erasure != nil && len(b.Erasure.Disks) > 0 && (releasesErased(v, step) || endsRequestedErasure(v, step))
}

// releasesErased is true for the release of a host for whose claim disks were erased.
func releasesErased(v View, step Step) bool {
	ref, b := v.Host.Spec.ConsumerRef, v.Host.Boot
	return step.Action == Release && ref != nil && ref.ClaimID != "" && b.ClaimID == ref.ClaimID && b.Purpose == v1alpha1.PurposeClean
}

// endsRequestedErasure is true for a step that voids the boot of an erasure on request that has succeeded.
func endsRequestedErasure(v View, step Step) bool {
	b := v.Host.Boot
	return step.Action == RecordBoot && step.Boot.VoidedTime != nil && IsRequestedErasure(b) && b.AgentDoneTime != nil && b.Failure == nil
}

func recordIsDue(v View, step Step) bool {
	return v.Erasure.Record.Outcome == RecordDue && losesProof(v, step)
}

func recordErasure(_ View, _ Settings, step Step) Step {
	step.Action = RecordErasure
	return step
}

func recordFailed(v View, step Step) bool {
	unfenced := step.Quarantine != nil && step.Quarantine.Reason == v1alpha1.ReasonReleasedUnfenced
	return v.Erasure.Record.Outcome == RecordFailed && losesProof(v, step) && !unfenced
}

// repeatRecord waits for the record, and for nothing else.
func repeatRecord(_ View, _ Settings, step Step) Step {
	return Step{State: step.State, Action: RecordErasure, Phase: step.Phase, Reason: v1alpha1.ReasonErasureNotRecorded}
}

func notRecordedMessage(v View, step Step) string {
	end := "available"
	if step.Action == Release {
		end = "released"
	}
	return fmt.Sprintf("The disks are erased, but the BareMetalErasure could not be written, so the host is not %s yet: %v", end, v.Erasure.Record.Err)
}

func releasesUnproven(v View, step Step) bool {
	return v.Erasure.Record.Outcome == RecordUnproven && losesProof(v, step) && step.Action == Release && step.Quarantine == nil
}

func quarantineUnproven(v View, _ Settings, step Step) Step {
	step.Quarantine = newQuarantine(v, v1alpha1.ReasonDisksNotErased, unprovenMessage(v, step))
	return step
}

// voidsUnproven is true until the host is in quarantine because of its disks.
func voidsUnproven(v View, step Step) bool {
	isolated := v.Host.Spec.Quarantine != nil && v.Host.Spec.Quarantine.Reason == v1alpha1.ReasonDisksNotErased
	return v.Erasure.Record.Outcome == RecordUnproven && losesProof(v, step) && step.Action != Release && !isolated
}

func isolateUnproven(v View, s Settings, step Step) Step {
	step = quarantineUnproven(v, s, step)
	step.Action, step.Boot = Isolate, nil
	return step
}

func unprovenMessage(v View, _ Step) string {
	return fmt.Sprintf("The agent reported that the disks are erased, but its report proves nothing: %v. Wipe the disks", v.Erasure.Record.Err)
}
