package host

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// inventoryOf returns an inventory with some known facts and some that timed out.
func inventoryOf(i bmc.Inventory, known []bmc.FactName, late ...bmc.FactName) bmc.Inventory {
	for _, name := range known {
		i.SetFact(bmc.Fact{Name: name, State: bmc.FactKnown, Source: "/new"})
	}
	for _, name := range late {
		i.SetFact(bmc.Fact{Name: name, State: bmc.FactUnknown, TimedOut: true, Message: "time ran out"})
	}
	return i
}

// TestPartialInventory: facts that timed out keep their earlier values, and are read again within the day.
func TestPartialInventory(t *testing.T) {
	g := NewWithT(t)
	before, now := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(9000, 0))
	const uuid = "8b7a1c2e-0d3f-4a5b-9c6d-000000000001"
	h := &hostObservation{}
	h.noteInventory(inventoryOf(bmc.Inventory{
		SystemUUID: uuid, MemoryMiB: 1024, DIMMs: []bmc.DIMM{{Name: "A1", SizeMiB: 1024}}, Disks: []bmc.Disk{{Name: "old"}}, CPUSockets: 1,
	}, []bmc.FactName{bmc.FactSystemUUID, bmc.FactCPU, bmc.FactMemory, bmc.FactDisks}), &v1alpha1.BMCStatus{}, before)
	g.Expect(h.bmc.Partial).To(BeFalse())
	g.Expect(h.description.InspectedTime).To(HaveValue(Equal(before)))

	h.noteInventory(inventoryOf(bmc.Inventory{SystemUUID: uuid, CPUSockets: 2}, []bmc.FactName{bmc.FactSystemUUID, bmc.FactCPU}, bmc.FactMemory, bmc.FactDisks, bmc.FactNICs),
		&v1alpha1.BMCStatus{}, now)
	g.Expect(h.bmc.Partial).To(BeTrue(), "it is due again soon")
	g.Expect(h.description.InspectedTime).To(HaveValue(Equal(before)), "a restart reads it again")
	g.Expect(h.hardware.CPU.Sockets).To(BeEquivalentTo(2), "what was read is new")
	g.Expect(h.hardware.DIMMs).To(HaveLen(1))
	g.Expect(h.hardware.Memory.String()).To(Equal("1Gi"))
	g.Expect(h.hardware.Disks).To(ConsistOf(HaveField("Name", "old")))
	g.Expect(h.hardware.Facts).To(ContainElements(
		And(HaveField("Name", "disks"), HaveField("State", v1alpha1.FactKnown), HaveField("Message", ContainSubstring("earlier inspection"))),
		And(HaveField("Name", "nics"), HaveField("State", v1alpha1.FactUnknown), HaveField("Message", "time ran out")),
	))

	h.noteInventory(inventoryOf(bmc.Inventory{}, nil, bmc.FactSystemUUID), &v1alpha1.BMCStatus{}, now)
	g.Expect(h.hardware.SystemUUID).To(Equal(uuid), "which server it is stays known")

	h.noteInventory(inventoryOf(bmc.Inventory{SystemUUID: "8b7a1c2e-0d3f-4a5b-9c6d-000000000002"}, nil, bmc.FactDisks), &v1alpha1.BMCStatus{}, now)
	g.Expect(h.hardware.SystemUUID).To(Equal(uuid))
	g.Expect(h.replacement.Disks).To(BeEmpty(), "another server's are not its own")
	g.Expect(h.description.InspectedTime).To(BeNil(), "a restart reads it again")
}

// TestPowerReadReserve: an inspection ends before its job does, so that time remains to read the power state.
func TestPowerReadReserve(t *testing.T) {
	g := NewWithT(t)
	job, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	inspecting, end := withReserve(job)
	defer end()
	deadline, _ := job.Deadline()
	earlier, ok := inspecting.Deadline()
	g.Expect(ok).To(BeTrue())
	g.Expect(deadline.Sub(earlier)).To(Equal(powerReadReserve))
}
