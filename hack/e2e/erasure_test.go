package e2e_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	recording "github.com/capbm-io/cluster-api-provider-baremetal/controllers/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// pattern is what an earlier owner of a disk has left in places that no image and no partition table is written to.
var pattern = []byte("the secret of the last owner")

// plant writes the pattern to a blank disk: into its second half, and to its end.
func (c *chassis) plant(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	disk, err := os.OpenFile(c.file("disk.raw"), os.O_RDWR, 0)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(disk.Close()).To(Succeed()) }()
	size := c.machine.blank.size << 30
	for _, at := range []int64{size/2 + 12345, size - 3<<20, size - int64(len(pattern))} {
		_, err := disk.WriteAt(pattern, at)
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// proven expects a disk without a byte other than zero, and the record of its erasure with a valid signature by a published key.
func (r *emulated) proven(t *testing.T, policy wire.ErasePolicy) {
	t.Helper()
	g := NewWithT(t)
	disk, err := os.Open(r.chassis.file("disk.raw"))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = disk.Close() }() // it was read
	for part, zeros := make([]byte, 1<<20), make([]byte, 1<<20); ; {
		n, err := io.ReadFull(disk, part)
		g.Expect(bytes.Equal(part[:n], zeros[:n])).To(BeTrue(), "the disk has data")
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
	}
	var records v1alpha1.BareMetalErasureList
	g.Expect(env.Client.List(t.Context(), &records, client.InNamespace(r.host.Namespace), client.MatchingLabels{v1alpha1.ErasureHostLabel: r.host.Name})).To(Succeed())
	g.Expect(records.Items).To(HaveLen(1))
	spec := &records.Items[0].Spec
	keys := &corev1.ConfigMap{}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: "capbm-system", Name: recording.PublicKeysConfigMap}, keys)).To(Succeed())
	known, err := erasure.ParsePublicKeys([]byte(keys.Data[spec.Signature.KeyID+".pem"]))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(erasure.Verify(spec, known[spec.Signature.KeyID])).To(Succeed())
	g.Expect(spec.Report.Policy).To(Equal(policy))
	g.Expect(spec.Report.Disks).To(ContainElement(And(
		HaveField("Disk.SerialNumber", "SCSI1"), HaveField("Outcome", wire.Erased), HaveField("Class", policy), HaveField("Verification.Kind", wire.ReadBack),
		HaveField("Verification.Bytes", r.chassis.machine.blank.size<<30),
	)))
	t.Logf("erased in %s", spec.Report.EndTime.Sub(spec.Report.StartTime.Time))
}
