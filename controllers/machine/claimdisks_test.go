package machine_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestClaimRecordsDisks: a claim records the disks that the agent found, which the release must find again, and the policy of the machine. For a host
// that the agent does not inspect it records no disks, whatever an old report says.
func TestClaimRecordsDisks(t *testing.T) {
	found := []wire.InspectedDisk{
		{Name: "nvme0n1", SerialNumber: "S1", WWN: "eui.1", SizeBytes: 480e9, Transport: wire.TransportNVMe}, {Name: "sdb", ByPath: "pci-0000:00:1f.2-ata-1", SizeBytes: 16e9},
		{Name: "sr0", SerialNumber: "CD", SizeBytes: 1e9, Removable: true}, {Name: "sdc", SerialNumber: "USB", SizeBytes: 1e9, Transport: wire.TransportUSB}, {Name: "sdd", SerialNumber: "S4"},
	}
	known := []wire.DiskIdentity{{SerialNumber: "S1", WWN: "eui.1", SizeBytes: 480e9}, {ByPath: "pci-0000:00:1f.2-ata-1", SizeBytes: 16e9}}
	start(t)
	for name, c := range map[string]struct {
		inspection v1alpha1.InspectionPolicy
		report     bool
		want       []wire.DiskIdentity
	}{
		"by the agent":                         {v1alpha1.InspectionAgent, true, known},
		"by the agent and the BMC":             {v1alpha1.InspectionBoth, true, known},
		"by both, and the agent did not yet":   {v1alpha1.InspectionBoth, false, nil},
		"by the BMC, with a report of earlier": {v1alpha1.InspectionBMC, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			namespace := env.Namespace(t)
			if c.report {
				env.Create(t, &v1alpha1.BareMetalInspection{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"}, Spec: v1alpha1.BareMetalInspectionSpec{
						Inspection: wire.Inspection{Disks: found}, BootNumber: 1, ReceivedTime: metav1.Now().Rfc3339Copy(),
					},
				})
			}
			h := newHost(t, namespace, "h", 1, nil)
			controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = c.inspection })
			env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) { c.BareMetalMachine.Spec.CleaningPolicy = wire.PolicyClear })
			controllerstest.Wait(t, env, h, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.ConsumerRef).NotTo(BeNil()) })
			g.Expect(h.Spec.ConsumerRef.CleaningPolicy).To(Equal(wire.PolicyClear))
			g.Expect(h.Spec.ConsumerRef.Disks).To(Equal(c.want))
		})
	}
}
