package lifecycle

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

// A boot is recorded with two writes. First the BareMetalBoot gets the boot's number. Then the host's spec.providerState.boots is raised to that number, in the patch
// that also blocks a move. The boot counts from then on. So the number of an intact record is never less than spec.providerState.boots. A smaller number comes from
// a backup that is older than the host, and does not show what the server got since.

// IsOpen is true for the record of a boot whose claim has not ended.
func IsOpen(b *v1alpha1.BareMetalBootSpec) bool {
	return b != nil && b.ClaimID != "" && b.VoidedTime == nil
}

// CurrentBoot returns the record of the claim's last boot; nil without one. A host boot is never that of a claim, whatever its record says.
func (h Host) CurrentBoot() *v1alpha1.BareMetalBootSpec {
	ref, b := h.Spec.ConsumerRef, h.Boot
	if ref == nil || b == nil || ref.ClaimID == "" || b.ClaimID != ref.ClaimID || b.VoidedTime != nil || b.Number < h.Spec.ProviderState.Boots || isHostBoot(b) {
		return nil
	}
	return b
}

// bootCounted is true when the host's spec.providerState.boots counts the boot. Before that the provider does nothing for the boot.
func (h Host) bootCounted() bool { return h.Boot.Number == h.Spec.ProviderState.Boots }

// booting is true from the record of a boot until its end.
func (v View) booting() bool {
	b := v.Host.CurrentBoot()
	return b != nil && b.Purpose != v1alpha1.PurposeClean && b.ReportedTime == nil && b.Failure == nil && !v.Provisioned()
}

// InFlight is true while a boot is under way. A boot in flight is finished even while its Cluster is paused.
func (v View) InFlight() bool { return v.booting() && v.Host.bootCounted() }

// StrayBoot returns the open boot of a claim although the host is unclaimed: something other than the provider cleared spec.consumerRef. It is nil without one.
func (h Host) StrayBoot() *v1alpha1.BareMetalBootSpec {
	if h.Claimed() || !IsOpen(h.Boot) || isHostBoot(h.Boot) {
		return nil
	}
	return h.Boot
}

// forgetsStrayBoot is true while the record of a stray boot is being deleted, and only the provider keeps it.
func (v View) forgetsStrayBoot() bool {
	return v.Host.StrayBoot() != nil && v.Host.BootDeleting && !v.Host.BootHasForeignFinalizer && !v.Claims.BootMachinePending
}

// unerasedStray returns the quarantine of a host whose stray boot is forgotten: its record is all that says that the disks have the data of a machine. It is nil if a release
// would not have erased them.
func unerasedStray(v View, s Settings) *v1alpha1.Quarantine {
	b, policy := v.Host.StrayBoot(), v.Host.policy(s)
	booted := b.PoweredOnTime != nil || b.DataServedTime != nil
	if !cleaning.Erases(policy) || len(b.WrittenDisks) == 0 && (!cleaning.AllDisks(policy) || !booted) {
		return nil
	}
	return newQuarantine(v, v1alpha1.ReasonDisksNotErased, fmt.Sprintf("BareMetalBoot %q was deleted while the server was that of BareMetalMachine %q, so its disks were not erased. "+
		"Wipe the disks%s", v.Host.Name, b.MachineName, v.Host.namedDisks()))
}

// bootUnknown is true when it is unknown what the server got for its claim, and that matters. Another boot could serve the same bootstrap data again, or
// a machine that runs from memory could count as running although its loss was recorded.
func bootUnknown(v View) bool {
	if !v.Host.Claimed() || v.Host.CurrentBoot() != nil || v.Provisioned() && v.Consumer.Persistence != v1alpha1.PersistenceEphemeral {
		return false
	}
	return v.Host.bootUnknownCause() != ""
}

// bootedSinceClaim is true when a boot was counted since the machine claimed the host.
func (h Host) bootedSinceClaim() bool {
	return h.Spec.ProviderState.Boots > h.Spec.ConsumerRef.BootsBefore
}

// bootUnknownCause returns why it is unknown what the server got for its claim; empty if that is known.
func (h Host) bootUnknownCause() string {
	switch ref, b := h.Spec.ConsumerRef, h.Boot; {
	case ref.ClaimID == "":
		return "spec.consumerRef has no claimID"
	case b != nil && b.ClaimID == ref.ClaimID && b.VoidedTime != nil:
		return fmt.Sprintf("BareMetalBoot %q says that the claim ended", h.Name)
	case b == nil && h.bootedSinceClaim():
		return fmt.Sprintf("BareMetalBoot %q is missing, and spec.providerState.boots is %d", h.Name, h.Spec.ProviderState.Boots)
	case b == nil:
		return ""
	case b.Number < h.Spec.ProviderState.Boots && (h.bootedSinceClaim() || b.ClaimID == ref.ClaimID):
		return fmt.Sprintf("BareMetalBoot %q has the number %d, and spec.providerState.boots is %d: it is older than the host", h.Name, b.Number, h.Spec.ProviderState.Boots)
	case b.Number >= h.Spec.ProviderState.Boots && IsOpen(b) && !isHostBoot(b):
		return fmt.Sprintf("BareMetalBoot %q is that of another claim, of BareMetalMachine %q", h.Name, b.MachineName)
	default:
		return ""
	}
}

// stayBootUnknown only polls a host whose boot is unknown, and says how to end that.
func stayBootUnknown(v View, s Settings) Step {
	step := pollBMC(v, s)
	step.Phase, step.Reason = v1alpha1.PhaseBootUnknown, v1alpha1.ReasonBootUnknown
	step.Message = fmt.Sprintf("%s. It is unknown which bootstrap data the server got, so nothing is done. %s, or delete the Machine to have it replaced",
		v.Host.bootUnknownCause(), v.Host.bootUnknownRemedy())
	return step
}

// bootUnknownRemedy returns the remedy for bootUnknownCause, besides the deletion of the Machine. The API server refuses to replace a voided record or
// that of another claim.
func (h Host) bootUnknownRemedy() string {
	switch b := h.Boot; {
	case h.Spec.ConsumerRef.ClaimID == "":
		return "Restore spec.consumerRef.claimID: the BareMetalBoot of the claim has it too"
	case b == nil, b.Number < h.Spec.ProviderState.Boots:
		return "Restore the BareMetalBoot from a backup"
	default:
		return "Correct spec.consumerRef if it was edited by hand"
	}
}

// restoreBootRecord returns the step that restores the record of an unclaimed host, and whether one is needed. Only the number of the last boot matters
// then, not what the server got for an earlier claim.
func restoreBootRecord(v View, s Settings) (Step, bool) {
	step := Step{Phase: v1alpha1.PhaseRegistering, Reason: v1alpha1.ReasonNotVerified}
	switch b := v.Host.Boot; {
	case b == nil, b.Number < v.Host.Spec.ProviderState.Boots:
		step.Action, step.Boot = RecordBoot, &v1alpha1.BareMetalBootSpec{Number: v.Host.Spec.ProviderState.Boots}
		step.Message = fmt.Sprintf("BareMetalBoot %q is being created", v.Host.Name)
	case v.Host.RequestedErasureBoot() != nil: // it says what was erased
		return Step{}, false
	case v.forgetsStrayBoot() && unerasedStray(v, s) != nil:
		step.Action, step.Quarantine = Isolate, unerasedStray(v, s)
		step.Message = step.Quarantine.Message
	case v.Host.BootDeleting && !v.Host.BootHasForeignFinalizer && !v.Claims.BootMachinePending:
		step.Action, step.Message = ForgetBoot, fmt.Sprintf("BareMetalBoot %q is being recreated", v.Host.Name)
	default:
		return Step{}, false
	}
	return step, true
}

// newRecord returns the record of a boot that starts now. No earlier boot of the host has its number.
func newRecord(v View, attempt int32, purpose v1alpha1.BootPurpose) *v1alpha1.BareMetalBootSpec {
	number := v.Host.Spec.ProviderState.Boots
	if v.Host.Boot != nil {
		number = max(number, v.Host.Boot.Number)
	}
	identity := v.Identity.Server
	boot := &v1alpha1.BareMetalBootSpec{
		Number: number + 1, Attempt: attempt, Purpose: purpose, StartTime: metav1.NewTime(v.Now), Identity: &identity, Method: methodFor(v, attempt),
	}
	if v.Host.Boot != nil {
		boot.WrittenDisks = v.Host.Boot.WrittenDisks
	}
	// A reading from before the last command does not count: the server that an attempt before has powered on may read as off still.
	if v.BMC.Power == v1alpha1.PowerOff && v.BMC.PowerAt.After(v.BMC.LastPowerAt) {
		boot.PoweredOffTime = &boot.StartTime
	}
	return boot
}

// voidBoot returns the step that ends a boot together with its claim. The boot's tokens are invalid from then on.
func voidBoot(v View) Step {
	boot, now := *v.Host.Boot, metav1.NewTime(v.Now)
	boot.VoidedTime = &now
	return Step{Action: RecordBoot, Boot: &boot}
}
