package host

import (
	"encoding/json"
	"math"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestHardwareAsRead: computed sizes equal the sizes read back from the API server, so they cause no write.
func TestHardwareAsRead(t *testing.T) {
	g := NewWithT(t)
	computed := &v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{Hardware: hardwareStatus(bmc.Inventory{
		MemoryMiB: 65470, Disks: []bmc.Disk{{Name: "a", SizeBytes: 480e9}, {Name: "b"}},
	})}}
	text, err := json.Marshal(computed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(ContainSubstring(`"memory":"65470Mi"`))
	g.Expect(text).To(ContainSubstring(`"disks":[{"name":"a","size":"447Gi"},{"name":"b"}]`), "a size that the BMC does not report is absent")
	read := &v1alpha1.BareMetalHost{}
	g.Expect(json.Unmarshal(text, read)).To(Succeed())

	g.Expect(statusChange(read, computed)).To(BeNil())
	g.Expect(isSignificantChange(read.Status, computed.Status)).To(BeFalse())

	computed.Status.Hardware.Memory.Add(quantityOf(1, gibibyte))
	change, err := statusChange(read, computed)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(change.Data(&v1alpha1.BareMetalHost{})).To(ContainSubstring(`"memory"`), "whatever the object shows when it is sent")
}

// TestQuantityOf: no number that a BMC reports becomes a negative size.
func TestQuantityOf(t *testing.T) {
	g := NewWithT(t)
	large := quantityOf(math.MaxInt64, mebibyte)
	g.Expect(large.Value()).To(BeNumerically(">", int64(math.MaxInt64)-mebibyte))
	none := quantityOf(0, mebibyte)
	g.Expect(none.IsZero()).To(BeTrue())
}
