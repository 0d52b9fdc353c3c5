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

func TestCompare(t *testing.T) {
	const one, swapped, other = "4c4c4544-0042-3510-8053-b4c04f4d3132", "44454C4C-4200-1035-8053-B4C04F4D3132", "4c4c4544-0042-3510-8053-b4c04f4d3133"
	for name, c := range map[string]struct {
		a, b ServerID
		want Match
	}{
		"one UUID":                     {ServerID{one, ""}, ServerID{one, ""}, SameServer},
		"one UUID in two byte orders":  {ServerID{one, ""}, ServerID{swapped, ""}, SameServer},
		"one UUID, two serial numbers": {ServerID{one, "BOARD-1"}, ServerID{one, "TAG-1"}, SameServer},
		"two UUIDs":                    {ServerID{one, ""}, ServerID{other, ""}, OtherServer},
		"two UUIDs, one serial number": {ServerID{one, "S1"}, ServerID{other, "S1"}, OtherServer},
		"no UUID, one serial number":   {ServerID{"", "S1"}, ServerID{one, " s1 "}, SameServer},
		"no UUID, two serial numbers":  {ServerID{"", "S1"}, ServerID{one, "S2"}, OtherServer},
		"a placeholder of a UUID":      {ServerID{"00000000-0000-0000-0000-000000000000", "S1"}, ServerID{one, "S2"}, OtherServer},
		"ones":                         {ServerID{"FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", ""}, ServerID{one, "S2"}, MatchUnknown},
		"to be filled":                 {ServerID{"", "To be filled by O.E.M."}, ServerID{"", "S2"}, MatchUnknown},
		"counted":                      {ServerID{"", "0123456789"}, ServerID{"", "S2"}, MatchUnknown},
		"zeros":                        {ServerID{"", "00000000"}, ServerID{"", "S2"}, MatchUnknown},
		"nothing":                      {ServerID{}, ServerID{one, "S1"}, MatchUnknown},
		"nothing in common":            {ServerID{one, ""}, ServerID{"", "S1"}, MatchUnknown},
	} {
		if got := c.a.Compare(c.b); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
		if got := c.b.Compare(c.a); got != c.want {
			t.Errorf("%s, the other way round: %d, want %d", name, got, c.want)
		}
	}
}

// TestDescribeOtherServer: a person can tell the two servers apart, and what counts as unknown.
func TestDescribeOtherServer(t *testing.T) {
	g := NewWithT(t)
	text := DescribeOtherServer(ServerID{"4c4c4544-0042-3510-8053-b4c04f4d3132", "Default string"}, ServerID{"", "S2"})
	for _, part := range []string{"4c4c4544-0042-3510-8053-b4c04f4d3132", `"Default string" is a placeholder`, "no system UUID", "serial number S2", "spec.bootMACAddresses", "spec.systemUUID"} {
		g.Expect(text).To(ContainSubstring(part))
	}
}
