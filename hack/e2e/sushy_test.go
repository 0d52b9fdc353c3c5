package e2e_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
)

// testSushy boots a machine of libvirt, which sushy-tools gives a Redfish BMC. Nothing of ours is between the manager and the
// machine. The machine has a disk, which it boots from unless the BMC has a boot override.
func testSushy(t *testing.T, s *site) {
	t.Helper()
	machine := peertest.Machine{Name: "sushy", UUID: "27946b59-9e44-4fa7-8e91-f3527a1e0077", MAC: nextMAC(), Tap: s.hosts.tap(t, peertest.TapOwner)}
	libvirt := peertest.StartLibvirtWith(t, machine)
	machine = libvirt.Machines[0]
	sushy := peertest.StartSushyLibvirt(t, libvirt)
	r := s.enlist(machine.Name, machine.MAC, v1alpha1.BootModeUEFI, sushy.Endpoint(machine.UUID))
	r.console = consoleOf(t, machine)
	r.register(t)
	r.boot(t)
	r.awaitProvisioned(t, bootTimeout, "PXE, EFI x86-64", withLoader...)
	g := NewWithT(t)
	g.Expect(r.host.Status.BMC.BootOverride.Worked).To(BeTrue())
	g.Expect(r.host.Status.Hardware).NotTo(BeNil())
	r.release(t)
}
