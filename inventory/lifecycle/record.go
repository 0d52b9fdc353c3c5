package lifecycle

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// The record of a boot is two writes: first the boot object gets its number, then the host's spec.boots is raised to it, in the patch that blocks a
// move. The boot counts from then on. So the number of an intact record is never below spec.boots: one that is below comes from a backup that is older
// than the host, and does not tell what the server was given since.

// IsOpen is true for the record of a boot whose claim has not ended.
func IsOpen(b *v1alpha1.BareMetalBootSpec) bool {
	return b != nil && b.ClaimID != "" && b.VoidedAt == nil
}

// CurrentBoot is the record of the last boot of the claim; nil when there is none.
func (v View) CurrentBoot() *v1alpha1.BareMetalBootSpec {
	ref, b := v.Spec.ConsumerRef, v.Boot
	if ref == nil || b == nil || ref.ClaimID == "" || b.ClaimID != ref.ClaimID || b.VoidedAt != nil || b.Number < v.Spec.Boots {
		return nil
	}
	return b
}

// counted is true if the host counts its boot: before that nothing was done for it.
func (v View) counted() bool { return v.Boot.Number == v.Spec.Boots }

// booting is true from when a boot is recorded until it ends.
func (v View) booting() bool {
	b := v.CurrentBoot()
	return b != nil && b.ReportedAt == nil && b.Failure == nil && !v.Provisioned()
}

// InFlight is true while a boot is under way. A boot in flight is finished even while its Cluster is paused.
func (v View) InFlight() bool { return v.booting() && v.counted() }

// StrayBoot is the record of a boot of a host that nobody has, which is open: somebody else cleared spec.consumerRef. It is nil where
// there is none.
func (v View) StrayBoot() *v1alpha1.BareMetalBootSpec {
	if v.Claimed() || !IsOpen(v.Boot) {
		return nil
	}
	return v.Boot
}

// bootUnknown is true where it is not known what the server was given for its claim, and that matters: a boot could give it the same again, or a machine
// that runs from memory could count as running although its loss was recorded.
func (v View) bootUnknown() bool {
	if !v.Claimed() || v.CurrentBoot() != nil || v.Provisioned() && v.Consumer.Persistence != v1alpha1.PersistenceEphemeral {
		return false
	}
	return v.bootDoubt() != ""
}

// bootedSinceClaim is true where a boot was counted since the machine claimed the host.
func (v View) bootedSinceClaim() bool { return v.Spec.Boots > v.Spec.ConsumerRef.BootsBefore }

// bootDoubt is why it is not known what the server was given for its claim; empty where nothing was.
func (v View) bootDoubt() string {
	switch ref, b := v.Spec.ConsumerRef, v.Boot; {
	case ref.ClaimID == "":
		return "spec.consumerRef has no claimID"
	case b != nil && b.ClaimID == ref.ClaimID && b.VoidedAt != nil:
		return fmt.Sprintf("BareMetalBoot %q says that the claim ended", v.Name)
	case b == nil && v.bootedSinceClaim():
		return fmt.Sprintf("BareMetalBoot %q is missing, and spec.boots is %d", v.Name, v.Spec.Boots)
	case b == nil:
		return ""
	case b.Number < v.Spec.Boots && (v.bootedSinceClaim() || b.ClaimID == ref.ClaimID):
		return fmt.Sprintf("BareMetalBoot %q has the number %d, and spec.boots is %d: it is older than the host", v.Name, b.Number, v.Spec.Boots)
	case b.Number >= v.Spec.Boots && IsOpen(b):
		return fmt.Sprintf("BareMetalBoot %q is that of another claim, of BareMetalMachine %q", v.Name, b.MachineName)
	default:
		return ""
	}
}

// leaveUnknown does nothing with a host of which it is not known what its server was given, and says what ends that.
func leaveUnknown(v View, s Settings) Step {
	step := look(v, s)
	if v.MoveBlocked {
		step = Step{Action: AllowMove}
	}
	step.Phase, step.Reason = v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown
	step.Message = fmt.Sprintf("%s. It is not known what the server was given, so nothing is done. %s, or delete the Machine to have it replaced", v.bootDoubt(), v.bootRemedy())
	return step
}

// bootRemedy is what ends the doubt of bootDoubt, besides the end of the claim. The API server lets nobody replace a void record, nor that of another claim.
func (v View) bootRemedy() string {
	switch b := v.Boot; {
	case v.Spec.ConsumerRef.ClaimID == "":
		return "Restore spec.consumerRef.claimID: the BareMetalBoot of the claim has it too"
	case b == nil, b.Number < v.Spec.Boots:
		return "Restore the BareMetalBoot from a backup"
	default:
		return "Correct spec.consumerRef if it was edited by hand"
	}
}

// keepRecord returns the step that restores the record of a host that nobody has, and whether one is needed. What was given for an earlier claim does
// not matter then, but its number does.
func (v View) keepRecord() (Step, bool) {
	step := Step{Phase: v1alpha1.PhaseRegistering, Reason: v1alpha1.ReasonNotVerified}
	switch b := v.Boot; {
	case b == nil, b.Number < v.Spec.Boots:
		step.Action, step.Boot = RecordBoot, &v1alpha1.BareMetalBootSpec{Number: v.Spec.Boots}
		step.Message = fmt.Sprintf("BareMetalBoot %q is being created", v.Name)
	case v.BootDeleting && !v.BootHeld && !v.BootMachineWaits:
		step.Action, step.Message = ForgetBoot, fmt.Sprintf("BareMetalBoot %q is being recreated", v.Name)
	default:
		return Step{}, false
	}
	return step, true
}

// void ends a boot together with its claim: its tokens open nothing from then on.
func (v View) void() Step {
	boot, now := *v.Boot, metav1.NewTime(v.Now)
	boot.VoidedAt = &now
	return Step{Action: RecordBoot, Boot: &boot}
}

// voidFirst puts off a release until the boot is void, so that at no time a host is free whose boot is not. The boot of a machine that waits stays: it may be
// another one than the host is released from, or one that does not know that its host is let go.
func (v View) voidFirst(step Step) Step {
	if !IsOpen(v.Boot) || v.BootMachineWaits {
		return step
	}
	first := v.void()
	first.State, first.Phase, first.Reason, first.Message = step.State, step.Phase, step.Reason, step.Message
	return first
}

// leave lets a host go that nobody has. Where a boot of it is under way, the server is powered off first, unless it must get no power command.
func leave(v View, s Settings) Step {
	booting := v.StrayBoot() != nil && v.Boot.PoweredOffAt != nil
	if !booting || v.Spec.Maintenance != nil || v.Spec.ExternallyProvisioned || v.NamespaceDeleting && v.secretGone() {
		return forget(v, s)
	}
	step := Step{Phase: v1alpha1.PhaseDeleting, Reason: v1alpha1.ReasonDeleting}
	unknown := step
	unknown.Message = "To be powered off, since a boot is under way. "
	known := step
	switch {
	case v.BMC.Power != v1alpha1.PowerOff:
		change := command(v, s, ForceOff, CommandForceOff)
		known.Action, known.Again, known.Message = change.Action, change.Again, "A boot is under way: the server is being powered off"
	case !v.confirmedOff(s):
		known.Again, known.Message = v.Now.Add(s.ActiveInterval), "The server is off, which is being confirmed"
	case v.BootMachineWaits: // its boot is kept until that machine is gone: so the machine claims no other host
		known.Action, known.Message = Forget, "The server is off"
	default:
		end := v.void()
		known.Action, known.Boot, known.Message = end.Action, end.Boot, "The server is off: its boot is over"
	}
	return first(v, s, s.ActiveInterval, unknown, known)
}
