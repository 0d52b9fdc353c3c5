package host

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// setPreflightPassed sets the condition PreflightPassed from what the last inventory found, and from the spec.
func setPreflightPassed(host *v1alpha1.BareMetalHost) {
	if host.Status.BMC == nil || host.Status.Hardware == nil {
		conditions.Delete(host, v1alpha1.PreflightPassedCondition)
		return
	}
	c := metav1.Condition{Type: v1alpha1.PreflightPassedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPreflightPassed}
	if warnings := slices.Concat(bootInterfaceWarnings(host), host.Status.BMC.Warnings); len(warnings) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonPreflightWarnings
		c.Message = controllers.Clip(strings.Join(warnings, ". "), controllers.MaxMessage)
	}
	conditions.Set(host, c)
}

// bootInterfaceWarnings says what is wrong with the interface that boots from the network. A host that boots from virtual media alone needs none.
func bootInterfaceWarnings(host *v1alpha1.BareMetalHost) []string {
	at := indexOfFact(host.Status.Hardware.Facts, bmc.FactNICs)
	if at < 0 || host.Status.Hardware.Facts[at].State != v1alpha1.FactKnown || needsMedia(&host.Spec) {
		return nil
	}
	var nics []bmc.NIC
	for _, n := range host.Status.Hardware.NICs {
		nics = append(nics, bmc.NIC{Name: n.Name, MACAddress: n.MACAddress, NetworkBoot: n.NetworkBoot})
	}
	var warnings []string
	for _, warning := range bmc.CheckNICs(nics, strings.ToLower(host.Spec.BootMACAddress)) {
		warnings = append(warnings, warning.String())
	}
	return warnings
}

// needsMedia is true for a host that boots from virtual media alone.
func needsMedia(spec *v1alpha1.BareMetalHostSpec) bool {
	return slices.Equal(spec.BootMethods, []v1alpha1.BootMethod{v1alpha1.MethodVirtualMedia})
}
