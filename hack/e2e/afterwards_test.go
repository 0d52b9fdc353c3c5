package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// testDisk: a server that runs its machine, and is set up to boot from the network first, is restarted without the provider. The boot
// server sends it to its disk.
func testDisk(t *testing.T, s *site, c firmwareCase) {
	t.Helper()
	g := NewWithT(t)
	r := s.emulate(t, c.host, c.machine)
	r.networkFirst.Store(true)
	r.register(t)
	r.boot(t)
	r.awaitProvisioned(t, bootTimeout, c.client, c.stages...)
	commands := r.bmc.CommandNames()
	before := len(r.chassis.dhcpPackets(t))
	g.Expect(r.console()).NotTo(ContainSubstring(diskSays))
	g.Expect(before).To(BeNumerically(">", 0))

	r.bmc.SetPower(false)
	g.Eventually(r.chassis.isOn, "30s").Should(BeFalse())
	if c.machine.mode() == v1alpha1.BootModeUEFI {
		r.chassis.networkThenDisk(t)
	}
	r.start = time.Now()
	r.bmc.SetPower(true)
	// OVMF looks for an answer with a boot file for a minute.
	g.Eventually(r.console, 2*bootTimeout, "100ms").Should(ContainSubstring(diskSays))
	t.Logf("%5.1f s  the disk is booted", r.elapsed())
	g.Expect(r.chassis.dhcpPackets(t)).NotTo(BeEmpty(), "it asked the network first")
	g.Expect(strings.Count(r.console(), "e2e: I am ")).To(Equal(1), "it got its seed again")
	r.await(t, bootTimeout, "the host still is Provisioned, and on", func() bool {
		return r.host.Status.Phase == v1alpha1.PhaseProvisioned && r.host.Status.Power == v1alpha1.PowerOn
	})
	g.Expect(r.record.Spec.Attempt).To(Equal(int32(1)))
	g.Expect(r.bmc.CommandNames()).To(Equal(commands), "the BMC was given a command")
}

// testStranger: a server of the inventory boots while one with another MAC address asks as well. The stranger gets nothing, and
// boots its disk.
func testStranger(t *testing.T, s *site) {
	t.Helper()
	g := NewWithT(t)
	stranger := bios().build(t, s.hosts, nextMAC())
	_, err := stranger.on(true)
	g.Expect(err).NotTo(HaveOccurred())
	r := s.emulate(t, "beside-a-stranger", bios())
	r.register(t)
	r.boot(t)
	r.awaitProvisioned(t, bootTimeout, "iPXE, Intel x86PC", stages...)
	g.Eventually(stranger.console, bootTimeout, "100ms").Should(ContainSubstring(diskSays))
	t.Logf("%5.1f s  the stranger booted its disk", r.elapsed())
	var asked int
	for _, p := range stranger.dhcpPackets(t) {
		if p.ClientHWAddr.String() != stranger.mac {
			continue // the other's are broadcast
		}
		if p.OpCode == dhcpv4.OpcodeBootRequest {
			asked++
			continue
		}
		// Another server may give it an address. Ours says nothing.
		g.Expect(p.ServerIPAddr.Equal(s.manager.address.AsSlice())).To(BeFalse(), "our server answered: %s", p)
		g.Expect(p.BootFileName).To(BeEmpty())
	}
	g.Expect(asked).To(BeNumerically(">", 0))
	t.Logf("the stranger asked %d times", asked)
}

// testLossy: the boot loader is loaded over a link that loses packets.
func testLossy(t *testing.T, s *site) {
	t.Helper()
	r := s.emulate(t, "lossy", uefi())
	lose(t, r.chassis.tap, 10)
	r.register(t)
	r.boot(t)
	r.awaitProvisioned(t, bootTimeout, "PXE, EFI x86-64", withLoader...)
	t.Logf("lost: %s", strings.Join(strings.Fields(run(t, "nft", "list", "table", "netdev", r.chassis.tap)), " "))
}
