package diskname

import (
	"testing"

	. "github.com/onsi/gomega"
)

// TestSame: serial numbers and WWNs are compared in the forms that users copy from tools. A blank one, and a WWN that is only a prefix, is that of no disk.
func TestSame(t *testing.T) {
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
