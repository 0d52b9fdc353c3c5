package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// activeReasons are the reasons of a free host on which the provider works, so that its power is read often.
var activeReasons = []string{v1alpha1.ReasonPowerChanging, v1alpha1.ReasonInspectionPending, v1alpha1.ReasonErasurePending, v1alpha1.ReasonSettingsPending}

// offerHost makes an unclaimed host available, or says why it is not available.
func offerHost(v View, s Settings) Step {
	if record, due := restoreBootRecord(v, s); due {
		return record
	}
	if v.Host.InspectionBoot() != nil {
		return inspectHost(v, s)
	}
	if v.Host.ConfigureBoot() != nil { // a user ended its run
		return endInspection(v, s, Step{Phase: v1alpha1.PhaseConfiguring, Reason: v1alpha1.ReasonConfiguring})
	}
	if v.Host.RequestedErasureBoot() != nil {
		return eraseOnRequest(v, s, Step{Phase: v1alpha1.PhaseCleaning, Reason: v1alpha1.ReasonErasing})
	}
	known := Step{Phase: v1alpha1.PhaseRegistering, RequeueAt: v.BMC.PowerAt.Add(s.PollInterval)}
	switch {
	case v.Identity.hasConflict():
		_, known.Message = Conflict(v)
	case v.BMC.Inspected && v.Incapable():
		known.Message = MissingCapabilityMessage(v)
	case v.BMC.Problem != nil:
		known.Message = waitingForBMC(v)
	default:
		known = offerVerified(v, s)
	}
	known = withErasureNote(v, known)
	if known.Action == "" && v.inspectionDue(s) {
		known.Action = Inspect
	}
	maxAge := s.PollInterval
	if slices.Contains(activeReasons, known.Reason) {
		maxAge = s.ActiveInterval
	} else {
		known = withHealth(v, s, known)
	}
	step := onceBMCKnown(v, s, maxAge, Step{Phase: v1alpha1.PhaseRegistering}, known)
	if step.Phase == v1alpha1.PhaseRegistering {
		step.Reason = v1alpha1.ReasonNotVerified
	}
	return step
}

// offerVerified is offerHost for a verified host whose power is known.
func offerVerified(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseAvailable, RequeueAt: v.BMC.PowerAt.Add(s.PollInterval)}
	switch want := v.Host.Spec.Power; {
	case v.Claims.UnrecordedConsumer != "":
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonConsumerMissing
		consumer := "spec.consumerRef.name: " + v.Claims.UnrecordedConsumer
		if b := v.Host.StrayBoot(); b != nil && b.MachineName == v.Claims.UnrecordedConsumer {
			consumer = fmt.Sprintf("spec.consumerRef to {name: %s, claimID: %s}", b.MachineName, b.ClaimID)
		}
		step.Message = fmt.Sprintf("BareMetalMachine %q has the providerID of this host, so the server may run it. Set %s to return the host to it. Or delete that machine: the "+
			"disks of the server are not erased then", v.Claims.UnrecordedConsumer, consumer)
	case v.Host.StrayBoot() != nil && v.Claims.BootMachinePending:
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown
		step.Message = fmt.Sprintf("The server has the bootstrap data of BareMetalMachine %q, which spec.consumerRef no longer names. Set spec.consumerRef to {name: %s, "+
			"claimID: %s} to return the host to it, or delete its Machine", v.Host.Boot.MachineName, v.Host.Boot.MachineName, v.Host.Boot.ClaimID)
	case v.Host.StrayBoot() != nil:
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown
		step.Message = fmt.Sprintf("The server was booted for BareMetalMachine %q, which spec.consumerRef no longer names. To return the host to it, set "+
			"spec.consumerRef to {name: %s, claimID: %s}. To offer the host again, power the server off, then delete BareMetalBoot %q. If its disks would have been erased, the host then stays in quarantine until you have "+
			"wiped them%s", v.Host.Boot.MachineName, v.Host.Boot.MachineName, v.Host.Boot.ClaimID, v.Host.Name, v.Host.namedDisks())
	case v.Host.BootHasForeignFinalizer:
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown
		step.Message = fmt.Sprintf("BareMetalBoot %q is being deleted, but a finalizer of another controller keeps it. That controller must remove its finalizer", v.Host.Name)
	case want == "" && v.BMC.powerChanging():
		step.Phase, step.Reason, step.RequeueAt = v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging, v.BMC.PowerAt.Add(s.ActiveInterval)
		step.Message = "The server is powering on or off without a command from the provider"
	case want == "" && v.BMC.notOff():
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonPoweredOn
		step.Message = "The server is on, so it may be in use. Set spec.power: Off to power it off and make the host available, " +
			"or spec.externallyProvisioned: true if something else runs it"
	case want != "" && v.BMC.Power != want:
		change := changePower(v, s, want)
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging
		step.Action, step.RequeueAt = change.Action, change.RequeueAt
		step.Message = fmt.Sprintf("The server's power is being changed to %s", want)
	case v.Erasure.Request != nil && !v.agentInspectionDue():
		return offerErased(v, s, step)
	default:
		return offerConfigured(v, s, offerPurgeable(v, s, offerInspected(v, s, step)))
	}
	return step
}

// Incapable is true for a host that cannot be booted: its BMC lacks a capability, or none of its boot methods is possible.
func (v View) Incapable() bool { return len(v.BMC.Missing) > 0 || methodObstacles(v) != "" }

// MissingCapabilityMessage says which capabilities the BMC lacks, or why no boot method is possible.
func MissingCapabilityMessage(v View) string {
	if len(v.BMC.Missing) == 0 {
		return methodObstacles(v)
	}
	return fmt.Sprintf("The BMC does not support %s, which a network boot needs. Update the BMC's firmware, check whether it needs a licence, "+
		"or use another protocol in spec.bmc.address", strings.Join(v.BMC.Missing, ", "))
}
