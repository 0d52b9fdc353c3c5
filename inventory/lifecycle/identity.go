package lifecycle

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// withoutForeignServer returns the view without the facts that were read from another server. That server gets no command, and its power says
// nothing about the host's server. Its inventory is read again every ten minutes: the BMC may have reported a wrong value once, or a person may have
// put the right server back.
func withoutForeignServer(v View) View {
	var problem *BMCProblem
	switch reason, message := Conflict(v); {
	case v.Identity.NotPermitted != "" || v.Identity.BMCTakenBy != "":
		problem = &BMCProblem{Reason: reason, Message: message} // a login with wrong credentials could lock the account of the BMC
	case v.Identity.Replaced != "":
		problem = &BMCProblem{Reason: v1alpha1.ReasonServerReplaced, Message: v.Identity.Replaced, RetryAt: v.BMC.InspectedTime.Add(incapableInspectInterval)}
	case v.Identity.HardwareTakenBy != "":
		problem = &BMCProblem{Reason: reason, Message: message, RetryAt: v.BMC.InspectedTime.Add(incapableInspectInterval)}
	default:
		return v
	}
	if v.BMC.Problem != nil && v.Identity.BMCTakenBy == "" && v.Identity.NotPermitted == "" {
		problem = v.BMC.Problem // why it cannot be queried now
	}
	v.BMC = BMC{Problem: problem, Busy: v.BMC.Busy, OverrideSet: v.BMC.OverrideSet, OverrideNote: v.BMC.OverrideNote}
	return v
}

// BMCProblem returns why the BMC is not used: a request failed, or the BMC belongs to another server. It is nil for a BMC that is used.
func (v View) BMCProblem() *BMCProblem { return withoutForeignServer(v).BMC.Problem }

// Conflict returns the reason and the message of the conflict that keeps the host from using its MAC address, its BMC or its hardware: the
// configuration does not permit them, or another host already has them. Both are empty without a conflict.
func Conflict(v View) (reason, message string) {
	const taken = "%s %s is already that of %s. Correct it, or delete the host that is wrong"
	switch {
	case v.Identity.NotPermitted != "":
		return v1alpha1.ReasonNotPermitted, v.Identity.NotPermitted
	case v.Identity.BMCTakenBy != "":
		return v1alpha1.ReasonBMCConflict, fmt.Sprintf(taken, "spec.bmc.address", v.Host.Spec.BMC.Address, v.Identity.BMCTakenBy)
	case v.Identity.HardwareTakenBy != "":
		return v1alpha1.ReasonHardwareConflict, fmt.Sprintf("The BMC reports the system UUID and the serial number of %s. It may be the same server, so this host is not booted. "+
			"Delete the host that is wrong. If the boards of two servers share both: kubectl annotate baremetalhost %s --namespace %s %s=\"who checked it\"",
			v.Identity.HardwareTakenBy, v.Host.Name, v.Host.Namespace, v1alpha1.SharedHardwareAnnotation)
	case v.Identity.MACTakenBy != "":
		return v1alpha1.ReasonMACConflict, fmt.Sprintf(taken, "spec.bootMACAddresses", v.Identity.TakenMAC, v.Identity.MACTakenBy)
	default:
		return "", ""
	}
}
