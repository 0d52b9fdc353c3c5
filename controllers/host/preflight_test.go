package host

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// TestPreflightPassed: the condition shows what to correct at the BMC, and at the interface of the current spec.
func TestPreflightPassed(t *testing.T) {
	known := []v1alpha1.Fact{{Name: "nics", State: v1alpha1.FactKnown}}
	media := []v1alpha1.BootMethod{v1alpha1.MethodVirtualMedia}
	off := []v1alpha1.NIC{{Name: "NIC 1", MACAddress: "52:54:00:00:00:0a", NetworkBoot: new(false)}}
	for name, test := range map[string]struct {
		mac      string
		methods  []v1alpha1.BootMethod
		hardware *v1alpha1.Hardware
		warnings []string
		want     string // the message; empty for True
	}{
		"nothing":                  {"52:54:00:00:00:0a", nil, &v1alpha1.Hardware{Facts: known, NICs: []v1alpha1.NIC{{MACAddress: "52:54:00:00:00:0a"}}}, nil, ""},
		"the BMC":                  {"", nil, &v1alpha1.Hardware{}, []string{"Clock: m", "TLS: n"}, "Clock: m. TLS: n"},
		"the interface":            {"52:54:00:00:00:0a", nil, &v1alpha1.Hardware{Facts: known, NICs: off}, []string{"Clock: m"}, "Network boot: it is disabled for the interface NIC 1 (52:54:00:00:00:0a): enable network boot (PXE or HTTP) in the settings of the firmware. Clock: m"},
		"another interface":        {"52:54:00:00:00:0b", nil, &v1alpha1.Hardware{Facts: known, NICs: off}, nil, "Boot interface: the BMC lists no interface with the MAC address 52:54:00:00:00:0b, but 52:54:00:00:00:0a. Check it, unless this BMC leaves out interfaces"},
		"some are not read":        {"52:54:00:00:00:0b", nil, &v1alpha1.Hardware{Facts: []v1alpha1.Fact{{Name: "nics", State: v1alpha1.FactKnown, Message: "1 of 2 resources could not be read"}}, NICs: off}, nil, ""},
		"media that it has not":    {"52:54:00:00:00:0b", media, &v1alpha1.Hardware{}, []string{"no BootCD"}, "Virtual media: the server cannot boot from virtual media: the BMC may need a licence for it, or the account a right. no BootCD"},
		"no encryption":            {"plain", nil, &v1alpha1.Hardware{}, nil, "TLS: the connection is not encrypted: who is on the network of the BMC can read its password. Enable HTTPS in the BMC"},
		"boots from media":         {"52:54:00:00:00:0b", media, &v1alpha1.Hardware{Facts: known, NICs: off}, nil, ""},
		"interfaces are not known": {"52:54:00:00:00:0b", nil, &v1alpha1.Hardware{NICs: off}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host := &v1alpha1.BareMetalHost{}
			host.Spec.BootMACAddresses, host.Spec.BootMethods = []string{test.mac}, test.methods
			host.Spec.BMC.Address = map[bool]string{true: "redfish+http://192.0.2.1", false: "redfish://192.0.2.1"}[test.mac == "plain"]
			host.Status.Hardware, host.Status.BMC = test.hardware, &v1alpha1.BMCStatus{Warnings: test.warnings, Capabilities: []string{"VirtualMedia", "BootCD"}}
			if slices.Contains(test.warnings, "no BootCD") {
				host.Status.BMC.Capabilities = nil
			}
			setPreflightPassed(host)
			c := conditions.Get(host, v1alpha1.PreflightPassedCondition)
			g.Expect(c.Message).To(Equal(test.want))
			g.Expect(c.Status).To(Equal(map[bool]metav1.ConditionStatus{true: metav1.ConditionTrue, false: metav1.ConditionFalse}[test.want == ""]))
			host.Status.BMC = nil
			setPreflightPassed(host)
			g.Expect(conditions.Get(host, v1alpha1.PreflightPassedCondition)).To(BeNil())
		})
	}
}

// TestSecureBootPreflight: a host that declares Secure Boot, and whose firmware has it disabled, gets the remedy in the condition.
func TestSecureBootPreflight(t *testing.T) {
	g := NewWithT(t)
	host := &v1alpha1.BareMetalHost{}
	host.Spec.BMC.Address, host.Spec.BootMode = "redfish://192.0.2.1", v1alpha1.BootModeUEFISecureBoot
	host.Status.Hardware, host.Status.BMC = &v1alpha1.Hardware{}, &v1alpha1.BMCStatus{SecureBoot: wire.SecureBootDisabled}
	setPreflightPassed(host)
	g.Expect(conditions.GetMessage(host, v1alpha1.PreflightPassedCondition)).To(And(HavePrefix("Secure Boot: "), ContainSubstring("BareMetalProfile")))
	for name, change := range map[string]func(){
		"it is enabled":           func() { host.Status.BMC.SecureBoot = wire.SecureBootEnabled },
		"the BMC does not say it": func() { host.Status.BMC.SecureBoot = "" },
		"it is not declared": func() {
			host.Status.BMC.SecureBoot, host.Spec.BootMode = wire.SecureBootDisabled, v1alpha1.BootModeUEFI
		},
	} {
		change()
		setPreflightPassed(host)
		g.Expect(conditions.IsTrue(host, v1alpha1.PreflightPassedCondition)).To(BeTrue(), name)
		host.Spec.BootMode = v1alpha1.BootModeUEFISecureBoot
	}
}
