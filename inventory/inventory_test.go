package inventory

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

func TestProviderID(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ProviderID("dc", "host-1", "m-1")).To(Equal("baremetal://dc/host-1/m-1"))
	namespace, machine := MachineOf("baremetal://dc/host-1/m-1")
	g.Expect([]string{namespace, machine}).To(Equal([]string{"dc", "m-1"}))
	for _, other := range []string{"", "aws:///eu-1/i-1", "baremetal://dc/m-1", "baremetal://dc/host-1/m-1/x"} {
		namespace, machine := MachineOf(other)
		g.Expect(namespace+machine).To(BeEmpty(), other)
	}
}

func TestHardwareID(t *testing.T) {
	g := NewWithT(t)
	const id = "4c4c4544-0042-3510-8053-b4c04f4d3132"
	for _, spelling := range []string{id, strings.ToUpper(id), "44454c4c-4200-1035-8053-b4c04f4d3132", " " + id + "\n"} {
		g.Expect(HardwareID(spelling)).To(Equal("44454c4c-4200-1035-8053-b4c04f4d3132"), spelling)
	}
	for _, none := range []string{
		"", "Not Specified", "00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
		"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009",
	} {
		g.Expect(HardwareID(none)).To(BeEmpty(), none)
	}
	rapid.Check(t, func(t *rapid.T) {
		a := uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid"))
		b := a
		b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7] = a[3], a[2], a[1], a[0], a[5], a[4], a[7], a[6]
		if HardwareID(a.String()) != HardwareID(strings.ToUpper(b.String())) {
			t.Fatalf("%s and %s are one server's", a, b)
		}
	})
}
