package host

import (
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestHardwareHealthy: the condition names the components that are not healthy, the critical ones first.
func TestHardwareHealthy(t *testing.T) {
	many := v1alpha1.Hardware{Health: "Warning"}
	for i := range 20 {
		many.Disks = append(many.Disks, v1alpha1.Disk{Name: strconv.Itoa(i), Health: "Warning"})
	}
	for name, test := range map[string]struct {
		hardware *v1alpha1.Hardware
		status   metav1.ConditionStatus
		reason   string
		message  string
	}{
		"healthy": {
			&v1alpha1.Hardware{Health: "OK", Disks: []v1alpha1.Disk{{Name: "0", Health: "OK"}, {Name: "1"}}}, metav1.ConditionTrue, v1alpha1.ReasonHardwareOK, "",
		},
		"without health": {
			&v1alpha1.Hardware{}, metav1.ConditionUnknown, v1alpha1.ReasonHealthUnknown, "The BMC does not report the health of the server",
		},
		"the server alone": {
			&v1alpha1.Hardware{Health: "Critical"}, metav1.ConditionFalse, v1alpha1.ReasonHardwareCritical, "The BMC reports server: Critical",
		},
		"a disk, although the server is OK": {
			&v1alpha1.Hardware{Health: "OK", Disks: []v1alpha1.Disk{{Name: "3", Model: "VK000960", SerialNumber: "S1", Health: "Critical"}}},
			metav1.ConditionFalse, v1alpha1.ReasonHardwareCritical, "The BMC reports disk 3 (model VK000960, serial number S1): Critical",
		},
		"a server that is worse than its parts": {
			&v1alpha1.Hardware{Health: "Critical", DIMMs: []v1alpha1.DIMM{{Name: "A1", Health: "Warning"}}},
			metav1.ConditionFalse, v1alpha1.ReasonHardwareCritical, "The BMC reports server: Critical; memory module A1: Warning",
		},
		"several": {
			&v1alpha1.Hardware{
				Health: "Warning", DIMMs: []v1alpha1.DIMM{{Name: "A1", Health: "Warning"}}, PowerSupplies: []v1alpha1.PowerSupply{{Name: "PSU 2", Health: "Critical"}},
				Devices: []v1alpha1.Device{{Class: "GPU", Name: "SXM 4", Health: "Warning"}, {Name: "NIC", Health: "OK"}},
			},
			metav1.ConditionFalse, v1alpha1.ReasonHardwareCritical, "The BMC reports power supply PSU 2: Critical; memory module A1: Warning; GPU SXM 4: Warning",
		},
		"a warning of the server": {
			&v1alpha1.Hardware{Health: "Warning"}, metav1.ConditionFalse, v1alpha1.ReasonHardwareWarning, "The BMC reports server: Warning",
		},
		"many": {
			&many, metav1.ConditionFalse, v1alpha1.ReasonHardwareWarning, "The BMC reports disk 0: Warning; disk 1: Warning; disk 2: Warning; disk 3: Warning; disk 4: Warning; " +
				"disk 5: Warning; disk 6: Warning; disk 7: Warning; and 12 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host := &v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{Hardware: test.hardware}}
			setHardwareHealthy(host)
			c := conditions.Get(host, v1alpha1.HardwareHealthyCondition)
			g.Expect([]string{string(c.Status), c.Reason, c.Message}).To(Equal([]string{string(test.status), test.reason, test.message}))
			host.Status.Hardware = nil
			setHardwareHealthy(host)
			g.Expect(conditions.Get(host, v1alpha1.HardwareHealthyCondition)).To(BeNil())
		})
	}
}
