package diskname

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// TestSame: a disk is the known one only if it surely is.
func TestSame(t *testing.T) {
	full := wire.DiskIdentity{SerialNumber: "S1", WWN: "5000c500a1b2c3d4", ByPath: "pci-1", SizeBytes: 7}
	for name, c := range map[string]struct {
		known, found wire.DiskIdentity
		same         bool
	}{
		"itself":                               {full, full, true},
		"at another place, in other notations": {full, wire.DiskIdentity{SerialNumber: "s1 ", WWN: "naa.5000C500A1B2C3D4", ByPath: "pci-2"}, true},
		"with another WWN":                     {full, wire.DiskIdentity{SerialNumber: "S1", WWN: "5000c500a1b2c3d5"}, false},
		"with another serial number":           {full, wire.DiskIdentity{SerialNumber: "S2", WWN: full.WWN}, false},
		"of which only the serial number":      {full, wire.DiskIdentity{SerialNumber: "S1"}, true},
		"of which only the WWN":                {full, wire.DiskIdentity{WWN: full.WWN}, true},
		"of which only the path":               {full, wire.DiskIdentity{ByPath: "pci-1"}, false},
		"with nothing in common but the path":  {wire.DiskIdentity{SerialNumber: "S1", ByPath: "pci-1"}, wire.DiskIdentity{WWN: full.WWN, ByPath: "pci-1"}, false},
		"known by its path":                    {wire.DiskIdentity{ByPath: "pci-1"}, full, true},
		"known by another path":                {wire.DiskIdentity{ByPath: "pci-2"}, full, false},
		"known by a blank serial number":       {wire.DiskIdentity{SerialNumber: " ", ByPath: "pci-1"}, full, false},
		"known by a WWN that is only a prefix": {wire.DiskIdentity{WWN: "0x"}, wire.DiskIdentity{WWN: "0x"}, false},
		"nothing is known":                     {wire.DiskIdentity{}, wire.DiskIdentity{}, false},
		"only the size is known":               {wire.DiskIdentity{SizeBytes: 7}, full, false},
		"of another size":                      {full, wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 8}, true},
	} {
		NewWithT(t).Expect(Same(c.known, c.found)).To(Equal(c.same), name)
	}
}

// TestIsNamed: a serial number or a WWN names a disk, and nothing else does.
func TestIsNamed(t *testing.T) {
	g := NewWithT(t)
	disk := wire.DiskIdentity{SerialNumber: "S1", WWN: "5000c500a1b2c3d4", ByPath: "pci-1"}
	for _, by := range []wire.KeptDisk{{SerialNumber: "s1 "}, {WWN: "0x5000C500A1B2C3D4"}} {
		g.Expect(IsNamed(disk, by)).To(BeTrue(), "%+v", by)
	}
	for _, by := range []wire.KeptDisk{{}, {Label: "S1"}, {SerialNumber: "5000c500a1b2c3d4"}, {SerialNumber: "S"}, {WWN: "0x"}} {
		g.Expect(IsNamed(disk, by)).To(BeFalse(), "%+v", by)
		g.Expect(IsNamed(wire.DiskIdentity{}, by)).To(BeFalse(), "%+v", by)
	}
}

// TestNotations: serial numbers and WWNs are compared in the forms that users copy from tools. A blank one, and a WWN that is only a prefix, is that of no disk.
func TestNotations(t *testing.T) {
	g := NewWithT(t)
	g.Expect(SameSerial(" s1 ", "S1")).To(BeTrue())
	for _, wwn := range []string{"5000c500a1b2c3d4", "0x5000C500A1B2C3D4", "naa.5000c500a1b2c3d4", "wwn-0x5000c500a1b2c3d4", "wwn-naa.5000c500a1b2c3d4", "WWN-eui.5000c500a1b2c3d4"} {
		g.Expect(SameWWN(wwn, "0x5000c500a1b2c3d4")).To(BeTrue(), wwn)
	}
	for _, other := range []string{"", " ", "S", "S11"} {
		g.Expect(SameSerial(other, "S1")).To(BeFalse(), other)
	}
	for _, blank := range []string{"", " ", "0x", "naa.", "wwn-naa.", "naa.0x"} {
		g.Expect(SameSerial(blank, " ")).To(BeFalse(), "%q", blank)
		g.Expect(SameWWN(blank, "0x")).To(BeFalse(), "%q", blank)
		g.Expect(SameWWN(blank, "5000c500a1b2c3d5")).To(BeFalse(), "%q", blank)
	}
}
