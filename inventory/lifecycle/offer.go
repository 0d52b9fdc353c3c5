package lifecycle

import (
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// offer makes a free host available, or says why it is not.
func offer(v View, s Settings) Step {
	if record, due := v.keepRecord(); due {
		return record
	}
	known := Step{Phase: v1alpha1.PhaseRegistering, Again: v.BMC.PowerAt.Add(s.PollInterval)}
	switch {
	case v.doubled():
		_, known.Message = Conflict(v)
	case v.BMC.Inspected && len(v.BMC.Missing) > 0:
		known.Message = Incapable(v)
	case v.BMC.Problem != nil:
		known.Message = waitingForBMC(v)
	default:
		known = offered(v, s)
	}
	if known.Action == "" && v.inspectionDue(s) {
		known.Action = Inspect
	}
	maxAge := s.PollInterval
	if known.Reason == v1alpha1.ReasonPowerChanging {
		maxAge = s.ActiveInterval
	}
	step := first(v, s, maxAge, Step{Phase: v1alpha1.PhaseRegistering}, known)
	if step.Phase == v1alpha1.PhaseRegistering {
		step.Reason = v1alpha1.ReasonNotVerified
	}
	return step
}

// offered is offer for a host that is verified and whose power is known.
func offered(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseAvailable, Again: v.BMC.PowerAt.Add(s.PollInterval)}
	switch want := v.Spec.Power; {
	case v.SaidToRun != "":
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonConsumerMissing
		consumer := "spec.consumerRef.name: " + v.SaidToRun
		if b := v.StrayBoot(); b != nil && b.MachineName == v.SaidToRun {
			consumer = fmt.Sprintf("spec.consumerRef to {name: %s, claimID: %s}", b.MachineName, b.ClaimID)
		}
		step.Message = fmt.Sprintf("BareMetalMachine %q has the providerID of this host, so the server may run it. Set %s to give the host back to it, or delete that machine",
			v.SaidToRun, consumer)
	case v.StrayBoot() != nil && v.BootMachineWaits:
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown
		step.Message = fmt.Sprintf("The server has the bootstrap data of BareMetalMachine %q, which spec.consumerRef does not name any more. Set spec.consumerRef to {name: %s, "+
			"claimID: %s} to give the host back to it, or delete its Machine", v.Boot.MachineName, v.Boot.MachineName, v.Boot.ClaimID)
	case v.StrayBoot() != nil:
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown
		step.Message = fmt.Sprintf("The server was booted for BareMetalMachine %q, which spec.consumerRef does not name any more. To give the host back to it, set "+
			"spec.consumerRef to {name: %s, claimID: %s}. To offer the host again, power the server off, then delete BareMetalBoot %q",
			v.Boot.MachineName, v.Boot.MachineName, v.Boot.ClaimID, v.Name)
	case v.BootHeld:
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonBootUnknown
		step.Message = fmt.Sprintf("BareMetalBoot %q is being deleted, and a finalizer that is not the provider's keeps it: whatever set that finalizer has to remove it", v.Name)
	case want == "" && v.powerChanging():
		step.Phase, step.Reason, step.Again = v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging, v.BMC.PowerAt.Add(s.ActiveInterval)
		step.Message = "The server is powering on or off, although the provider did not command it"
	case want == "" && v.notOff():
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonPoweredOn
		step.Message = "The server runs, so it may be in use. Set spec.power: Off to have it powered off and offered, " +
			"or spec.externallyProvisioned: true if something else runs it"
	case want != "" && v.BMC.Power != want:
		change := bringPower(v, s, want)
		step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonPowerChanging
		step.Action, step.Again = change.Action, change.Again
		step.Message = fmt.Sprintf("The server's power is being brought to %s", want)
	}
	return step
}

// Incapable says what the BMC lacks.
func Incapable(v View) string {
	return fmt.Sprintf("The BMC does not offer %s, which a boot over the network needs: update its firmware, look for a licence that it lacks, "+
		"or use another protocol in spec.bmc.address", strings.Join(v.BMC.Missing, ", "))
}
