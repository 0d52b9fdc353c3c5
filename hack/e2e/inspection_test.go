package e2e_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestInspection: the agent reads the hardware of a new server, which is offered after that. It writes nothing to the disk.
func TestInspection(t *testing.T) {
	s := startSite(t, authoritative(newSegment(t, "10.80.0.0/24")))
	for firmware, m := range map[string]machine{"UEFI": uefi(noIPv6...).onBlankDisk(virtioDisk), "BIOS": bios().onBlankDisk(ahciDisk)} {
		t.Run(firmware, func(t *testing.T) {
			t.Parallel()
			r := s.emulateBlank(t, "inspected-"+strings.ToLower(firmware), m)
			r.host.Spec.Inspection = v1alpha1.InspectionAgent
			r.register(t)
			r.inspected(t, firmware)
			NewWithT(t).Expect(r.chassis.diskUsage(t)).To(BeZero(), "an inspection writes nothing")
		})
	}
}

// inspected demands the report of an inspection of a server with an empty disk of 4 GiB.
func (r *server) inspected(t *testing.T, firmware string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(r.record.Spec.Purpose).To(Equal(v1alpha1.PurposeInspect))
	report := &v1alpha1.BareMetalInspection{}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(r.host), report)).To(Succeed())
	spec := report.Spec
	t.Logf("agent to report: %.1f s; %d problems: %q", spec.ReceivedTime.Sub(r.observed(v1alpha1.StageAgent).Time.Time).Seconds(), len(spec.Problems), spec.Problems)
	g.Expect(spec.BootNumber).To(Equal(r.record.Spec.Number))
	g.Expect(spec.CPU.Architecture).To(Equal("amd64"))
	g.Expect(spec.CPU.Threads).To(BeNumerically(">", 0))
	g.Expect(spec.Memory.Bytes).To(BeNumerically(">=", 200<<20))
	g.Expect(spec.FirmwareMode).To(BeEquivalentTo(firmware))
	g.Expect(spec.Disks).To(ContainElement(And(HaveField("SizeBytes", BeEquivalentTo(4<<30)), HaveField("SerialNumber", Not(BeEmpty())), HaveField("Signatures", BeEmpty()))))
	g.Expect(spec.NICs).To(ContainElement(And(HaveField("MACAddress", r.host.Spec.BootMACAddresses[0]), HaveField("LinkUp", true))))
	g.Expect(r.host.Status.Inspection.Disks).To(ConsistOf(v1alpha1.DiskGroup{Count: 1, SizeBytes: 4 << 30, Rotational: r.host.Status.Inspection.Disks[0].Rotational}))
	t.Logf("contradictions of the emulated BMC and QEMU: %s", conditions.GetMessage(r.host, v1alpha1.InspectionConsistentCondition))
	g.Expect(conditions.GetMessage(r.host, v1alpha1.InspectionConsistentCondition)).NotTo(ContainSubstring("spec.bootMACAddresses"))
}
