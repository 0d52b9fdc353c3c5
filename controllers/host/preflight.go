package host

import (
	"net/url"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// setPreflightPassed sets the condition PreflightPassed from what the last inventory found, and from the spec. Capabilities that are missing are in the condition Verified.
func setPreflightPassed(host *v1alpha1.BareMetalHost) {
	if host.Status.BMC == nil || host.Status.Hardware == nil {
		conditions.Delete(host, v1alpha1.PreflightPassedCondition)
		return
	}
	c := metav1.Condition{Type: v1alpha1.PreflightPassedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPreflightPassed}
	if warnings := slices.Concat(bootInterfaceWarnings(host), secureBootWarnings(host), connectionWarnings(host), host.Status.BMC.Warnings); len(warnings) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonPreflightWarnings
		c.Message = controllers.Clip(strings.Join(warnings, ". "), controllers.MaxMessage)
	}
	conditions.Set(host, c)
}

// bootInterfaceWarnings says what is wrong with the interface that boots from the network. A host that boots from virtual media alone needs none.
func bootInterfaceWarnings(host *v1alpha1.BareMetalHost) []string {
	facts := host.Status.Hardware.Facts
	at := indexOfFact(facts, bmc.FactNICs)
	if at < 0 || !bmc.IsComplete(bmc.Fact{State: bmc.FactState(facts[at].State), Message: facts[at].Message}) || needsMedia(&host.Spec) {
		return nil
	}
	var nics []bmc.NIC
	for _, n := range host.Status.Hardware.NICs {
		nics = append(nics, bmc.NIC{Name: n.Name, MACAddress: n.MACAddress, NetworkBoot: n.NetworkBoot})
	}
	return textsOf(bmc.CheckNICs(nics, host.Spec.BootMACAddresses...))
}

// secureBootWarnings says that the firmware does not do what spec.bootMode declares. The server boots then, and its machine runs without Secure Boot.
func secureBootWarnings(host *v1alpha1.BareMetalHost) []string {
	if host.Spec.BootMode != v1alpha1.BootModeUEFISecureBoot || host.Status.BMC.SecureBoot != wire.SecureBootDisabled {
		return nil
	}
	return []string{"Secure Boot: spec.bootMode is UEFISecureBoot, and Secure Boot is disabled in the firmware. Enable it there, or with secureBoot: Enabled in a BareMetalProfile"}
}

// connectionWarnings says what is wrong with the connection to the BMC, and that a host which is to boot from virtual media cannot.
func connectionWarnings(host *v1alpha1.BareMetalHost) []string {
	var warnings []bmc.Warning
	if address, err := url.Parse(host.Spec.BMC.Address); err == nil {
		warnings = bmc.CheckConnection(address, host.Spec.BMC.InsecureSkipTLSVerify)
	}
	if slices.Contains(host.Spec.BootMethods, v1alpha1.MethodVirtualMedia) {
		var can []bmc.Capability
		for _, name := range host.Status.BMC.Capabilities {
			can = append(can, bmc.Capability(name))
		}
		warnings = append(warnings, bmc.CheckMedia(can)...)
	}
	return textsOf(warnings)
}

func textsOf(warnings []bmc.Warning) []string {
	texts := make([]string, 0, len(warnings))
	for _, warning := range warnings {
		texts = append(texts, warning.String())
	}
	return texts
}

// needsMedia is true for a host that boots from virtual media alone.
func needsMedia(spec *v1alpha1.BareMetalHostSpec) bool {
	return slices.Equal(spec.BootMethods, []v1alpha1.BootMethod{v1alpha1.MethodVirtualMedia})
}
