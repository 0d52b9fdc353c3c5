package peertest_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
)

// TestIPMISimObeys: ipmi_sim marks every boot flag as invalid when it is read back, so the test reads its state directly.
func TestIPMISimObeys(t *testing.T) {
	g := NewWithT(t)
	sim := peertest.StartIPMISim(t, "")
	client, err := (&ipmi.Driver{Permit: peertest.Permit}).Open(t.Context(), sim.Subject.Endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close(t.Context())).To(Succeed()) }()
	for _, c := range []struct {
		target bmc.BootTarget
		device string
	}{{bmc.BootPXE, "pxe"}, {bmc.BootDisk, "default"}, {bmc.BootCD, "cdrom"}, {bmc.BootNone, "none"}} {
		_, err := client.SetBootOverride(t.Context(), bmc.BootOverride{Target: c.target, Mode: bmc.BootUEFI}, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(sim.BootDevice(t)).To(Equal(c.device), "%s", c.target)
	}
}
