package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// withoutForeignServer returns the view without the facts that were read from another server. That server gets no command, and its power says
// nothing about the host's server. Its inventory is read again every ten minutes: the BMC may have reported a wrong value once, or a person may have
// put the right server back.
func withoutForeignServer(v View) View {
	var problem *BMCProblem
	switch reason, message := Conflict(v); {
	case v.Identity.NotPermitted != nil || v.Identity.BMCTakenBy != nil:
		problem = &BMCProblem{Reason: reason, Message: message} // a login with wrong credentials could lock the account of the BMC
	case v.Identity.Replacement != nil:
		problem = &BMCProblem{Reason: v1alpha1.ReasonServerReplaced, Message: ReplacementMessage(v), RetryAt: v.BMC.InspectedTime.Add(incapableInspectInterval)}
	case v.Identity.HardwareTakenBy != nil:
		problem = &BMCProblem{Reason: reason, Message: message, RetryAt: v.BMC.InspectedTime.Add(incapableInspectInterval)}
	default:
		return v
	}
	if v.BMC.Problem != nil && v.Identity.BMCTakenBy == nil && v.Identity.NotPermitted == nil {
		problem = v.BMC.Problem // why it cannot be queried now
	}
	v.BMC = BMC{Problem: problem, Busy: v.BMC.Busy, OverrideSet: v.BMC.OverrideSet, Override: v.BMC.Override}
	return v
}

// BMCProblem returns why the BMC is not used: a request failed, or the BMC belongs to another server. It is nil for a BMC that is used.
func (v View) BMCProblem() *BMCProblem { return withoutForeignServer(v).BMC.Problem }

// Conflict returns the reason and the message of the conflict that keeps the host from using its MAC address, its BMC or its hardware: the
// configuration does not permit them, or another host already has them. Both are empty without a conflict.
func Conflict(v View) (reason, message string) {
	const taken = "%s %s is already that of %s. Correct it, or delete the host that is wrong"
	switch {
	case v.Identity.NotPermitted != nil:
		return v1alpha1.ReasonNotPermitted, v.Identity.NotPermitted.Error()
	case v.Identity.BMCTakenBy != nil:
		return v1alpha1.ReasonBMCConflict, fmt.Sprintf(taken, "spec.bmc.address", v.Host.Spec.BMC.Address, NameFor(v.Host.Namespace, *v.Identity.BMCTakenBy))
	case v.Identity.HardwareTakenBy != nil:
		return v1alpha1.ReasonHardwareConflict, fmt.Sprintf("The BMC reports the system UUID and the serial number of %s. It may be the same server, so this host is not booted. "+
			"Delete the host that is wrong. If the boards of two servers share both: kubectl annotate baremetalhost %s --namespace %s %s=\"who checked it\"",
			NameFor(v.Host.Namespace, *v.Identity.HardwareTakenBy), v.Host.Name, v.Host.Namespace, v1alpha1.SharedHardwareAnnotation)
	case v.Identity.MACTakenBy != nil:
		return v1alpha1.ReasonMACConflict, fmt.Sprintf(taken, "spec.bootMACAddresses", v.Identity.TakenMAC, NameFor(v.Host.Namespace, *v.Identity.MACTakenBy))
	default:
		return "", ""
	}
}

// ReplacementMessage says that the BMC reports another server, and how a user confirms it. What the BMC reports is quoted, and never part of the command.
func ReplacementMessage(v View) string {
	r, known := v.Identity.Replacement, "the machine was booted on a server with other values"
	if k := r.Known; k != nil {
		known = fmt.Sprintf("the inventory has %q and %q", k.SystemUUID, k.SerialNumber)
	}
	return fmt.Sprintf("The BMC reports system UUID %q and serial number %q, but %s: it may be another server, so it gets no commands. "+
		"If the server or its board was replaced: kubectl annotate baremetalhost %s --namespace %s --overwrite %s=%s",
		r.Reported.SystemUUID, r.Reported.SerialNumber, known, v.Host.Name, v.Host.Namespace,
		v1alpha1.ConfirmServerAnnotation, inventory.Fingerprint(r.Reported.SystemUUID, r.Reported.SerialNumber))
}

// NameFor names a host in a message to the users of a namespace. A host of another namespace is not named: they may not be allowed to read it.
func NameFor(namespace string, host types.NamespacedName) string {
	if host.Namespace != namespace {
		return "a host of another namespace"
	}
	return "host " + host.Name
}
