package v1alpha1_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestHostStatusIsBounded: the strings and lists from a BMC have a maximum size in the status.
func TestHostStatusIsBounded(t *testing.T) {
	long, many := strings.Repeat("x", 257), slices.Repeat([]string{"x"}, 257)
	type status = *v1alpha1.BareMetalHostStatus
	hardware := func(change func(*v1alpha1.Hardware)) func(status) {
		return func(s status) { s.Hardware = &v1alpha1.Hardware{}; change(s.Hardware) }
	}
	namespace := env.Namespace(t)
	for _, c := range []struct {
		field  string
		change func(status)
	}{
		{"status.hardware.model", hardware(func(h *v1alpha1.Hardware) { h.Model = long })},
		{"status.hardware.cpu.model", hardware(func(h *v1alpha1.Hardware) { h.CPU.Model = long })},
		{"status.hardware.facts", hardware(func(h *v1alpha1.Hardware) { h.Facts = make([]v1alpha1.Fact, 33) })},
		{"status.hardware.facts[0].message", hardware(func(h *v1alpha1.Hardware) {
			h.Facts = []v1alpha1.Fact{{Name: "cpu", State: v1alpha1.FactUnknown, Message: long}}
		})},
		{"status.hardware.dimms", hardware(func(h *v1alpha1.Hardware) { h.DIMMs = make([]v1alpha1.DIMM, 257) })},
		{"status.hardware.disks", hardware(func(h *v1alpha1.Hardware) { h.Disks = make([]v1alpha1.Disk, 257) })},
		{"status.hardware.disks[0].name", hardware(func(h *v1alpha1.Hardware) { h.Disks = []v1alpha1.Disk{{Name: long}} })},
		{"status.hardware.nics", hardware(func(h *v1alpha1.Hardware) { h.NICs = make([]v1alpha1.NIC, 257) })},
		{"status.hardware.devices", hardware(func(h *v1alpha1.Hardware) { h.Devices = make([]v1alpha1.Device, 257) })},
		{"status.hardware.devices[0].firmwareVersion", hardware(func(h *v1alpha1.Hardware) { h.Devices = []v1alpha1.Device{{FirmwareVersion: long}} })},
		{"status.hardware.powerSupplies", hardware(func(h *v1alpha1.Hardware) { h.PowerSupplies = make([]v1alpha1.PowerSupply, 257) })},
		{"status.bmc.protocol", func(s status) { s.BMC = &v1alpha1.BMCStatus{Protocol: long} }},
		{"status.bmc.capabilities", func(s status) { s.BMC = &v1alpha1.BMCStatus{Capabilities: many} }},
		{"status.bmc.quirks[0]", func(s status) { s.BMC = &v1alpha1.BMCStatus{Quirks: []string{long}} }},
		{"status.bmc.bootOverride.warning", func(s status) {
			s.BMC = &v1alpha1.BMCStatus{BootOverride: &v1alpha1.BootOverrideStatus{Warning: long}}
		}},
		{"status.lastOperation.message", func(s status) {
			s.LastOperation = &v1alpha1.Operation{Name: "Inspect", StartTime: metav1.Now(), Message: strings.Repeat("x", 1025)}
		}},
	} {
		t.Run(c.field, func(t *testing.T) {
			host := validHost()
			host.Namespace, host.GenerateName = namespace, "verbose-"
			NewWithT(t).Expect(env.Client.Create(t.Context(), host)).To(Succeed())
			c.change(&host.Status)
			expectRefused(t, env.Client.Status().Update(t.Context(), host), c.field, "Too ")
		})
	}
}
