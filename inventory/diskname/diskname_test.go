package diskname

import (
	"testing"

	. "github.com/onsi/gomega"
)

// TestIdentifies: a name is a serial number or a WWN, in the forms that users copy from tools. A blank one, and one that is only a prefix, identifies no disk.
func TestIdentifies(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{"S1", " s1 ", "5000c500a1b2c3d4", "0x5000C500A1B2C3D4", "naa.5000c500a1b2c3d4", "wwn-0x5000c500a1b2c3d4"} {
		g.Expect(Identifies(name, "S1", "0x5000c500a1b2c3d4")).To(BeTrue(), name)
	}
	for _, name := range []string{"", " ", "S", "S11", "5000c500a1b2c3d5"} {
		g.Expect(Identifies(name, "S1", "5000c500a1b2c3d4")).To(BeFalse(), name)
	}
	for _, name := range []string{"", " ", "0x", "naa."} {
		g.Expect(Identifies(name, "", "")).To(BeFalse(), "%q", name)
		g.Expect(Identifies(name, " ", "0x")).To(BeFalse(), "%q", name)
	}
}
