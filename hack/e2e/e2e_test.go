// Package e2e_test boots real firmware in QEMU behind the whole provider: from a BareMetalHost and a BareMetalMachine in a real API
// server, by our manager as a separate program, which switches the machine on through its BMC and is the only DHCP, TFTP and HTTP
// server on the wire, to a Linux that fetches its seed and reports in. It needs root, and what hack/e2e.sh installs; it fails where
// either is missing.
package e2e_test

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/netns"
)

// env is the API server.
var env *controllerstest.Env

func TestMain(m *testing.M) {
	controllerstest.Need(m, "make e2e", "out/agent/amd64/ramdisk", ".cache/osimage/stamp", ".cache/peers/stamp", ".cache/bin/kubectl")
	os.Exit(netns.Main(m, func() int {
		err := netns.Do("ip link set lo up",
			// libvirt opens taps as a user without rights, which not every system lets it.
			"mount --make-rprivate /", "mount -t tmpfs none /dev/net", "mknod -m 666 /dev/net/tun c 10 200")
		if err != nil {
			fmt.Fprintf(os.Stderr, "e2e: %v (hack/e2e.sh installs what is needed)\n", err)
			return 1
		}
		controllerstest.Main(m, &env)
		return 0
	}))
}

// The stages of every boot, and the one more of firmware that loads iPXE.
var (
	stages     = []v1alpha1.BootStage{v1alpha1.StageDHCP, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageData, v1alpha1.StageReportedIn}
	withLoader = append([]v1alpha1.BootStage{v1alpha1.StageLoader}, stages...)
)

// TestAlone: the manager is the only DHCP server on the network.
func TestAlone(t *testing.T) {
	s := startSite(t, authoritative(newSegment(t, "10.77.0.0/24")))
	boots(t, s, []firmwareCase{
		{name: "BIOS PXE by iPXE in ROM", host: "bios-rom", machine: bios(), client: "iPXE, Intel x86PC", stages: stages},
		{name: "BIOS PXE", host: "bios", machine: plainBIOS(), client: "PXE, Intel x86PC", stages: withLoader},
		{name: "UEFI PXE", host: "uefi", machine: uefi(), client: "PXE, EFI x86-64", stages: withLoader},
		{name: "UEFI HTTP boot", host: "uefi-http", machine: uefi(httpOnly...), client: "UEFI HTTP boot, EFI x86-64 boot from HTTP", stages: withLoader},
	})
	for _, c := range []struct {
		name string
		test func(*testing.T, *site)
	}{
		{"cloud-init", testCloudInit}, {"a lossy link", testLossy}, {"sushy-tools and libvirt", testSushy}, {"settings by sushy-tools", testSettings}, {"ipmi_sim", testIPMISim}, {"a stranger", testStranger},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, s)
		})
	}
	toDisk := []firmwareCase{
		{name: "to the disk by a BIOS", host: "disk-bios", machine: bios(), client: "iPXE, Intel x86PC", stages: stages},
		{name: "to the disk by UEFI and iPXE in ROM", host: "disk-uefi-rom", machine: uefi(noIPv6...).withROM(), client: "iPXE, EFI x86-64", stages: stages},
		{name: "to the disk by UEFI", host: "disk-uefi", machine: uefi(noIPv6...), client: "PXE, EFI x86-64", stages: withLoader},
	}
	for _, c := range toDisk {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testDisk(t, s, c)
		})
	}
}

// TestProxy: a real dnsmasq gives the addresses, and knows nothing of booting.
func TestProxy(t *testing.T) {
	w := newSegment(t, "10.78.0.0/24")
	first, last := startDnsmasq(t, w)
	s := startSite(t, beside(w, first, last))
	boots(t, s, []firmwareCase{
		{name: "UEFI PXE", host: "uefi", machine: uefi(), client: "PXE, EFI x86-64", stages: withLoader},
		{name: "BIOS PXE", host: "bios", machine: plainBIOS(), client: "PXE, Intel x86PC", stages: withLoader},
		{name: "BIOS PXE by iPXE in ROM", host: "bios-rom", machine: bios(), client: "iPXE, Intel x86PC", stages: stages},
		{name: "UEFI HTTP boot", host: "uefi-http", machine: uefi(httpOnly...), client: "UEFI HTTP boot, EFI x86-64 boot from HTTP", stages: withLoader},
	})
}

// TestRelay: the servers are on a network behind a router with a DHCP relay.
func TestRelay(t *testing.T) {
	s := startSite(t, throughRelay(t))
	boots(t, s, []firmwareCase{
		{name: "BIOS PXE by iPXE in ROM", host: "bios-rom", machine: bios(), client: "iPXE, Intel x86PC", stages: stages},
		{name: "UEFI PXE", host: "uefi", machine: uefi(), client: "PXE, EFI x86-64", stages: withLoader},
	})
}

// TestIPv6: the hosts' network has no IPv4. Firmware and boot loader get their address by DHCPv6, and the operating system has its own.
func TestIPv6(t *testing.T) {
	s := startSite(t, authoritative(newSegment(t, "fd77::/64")))
	r := s.emulate(t, "uefi", uefi(noIPv4...))
	r.static = s.hosts.at(10)
	// The bootstrap data goes to addresses that were leased, and to those that the host is to have.
	r.host.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{
		Name: "lan0", MACAddress: r.host.Spec.BootMACAddresses[0],
		LinkSettings: v1alpha1.LinkSettings{Addresses: []v1alpha1.IPPrefix{v1alpha1.IPPrefix(netip.PrefixFrom(r.static, s.hosts.prefix.Bits()).String())}},
	}}}
	r.register(t)
	r.boot(t, func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot.CommandLine += fmt.Sprintf(" e2e.address=%s/%d", r.static, s.hosts.prefix.Bits())
	})
	r.awaitProvisioned(t, 2*bootTimeout, "PXE, EFI x86-64 over IPv6", withLoader...)
	for _, stage := range []v1alpha1.BootStage{v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel} {
		from := netip.MustParseAddr(r.observed(stage).Address)
		NewWithT(t).Expect(s.gives(from)).To(BeTrue(), "%s from %s, which is not from %s to %s", stage, from, s.first, s.last)
	}
	r.release(t)
}

// firmwareCase is a kind of firmware, and how its boot must look.
type firmwareCase struct {
	name, host string
	machine    machine
	stages     []v1alpha1.BootStage
	// client is what the DHCP server must have taken the firmware for: the proof that it went the way that it should.
	client string
}

// boots takes a server with each kind of firmware from its registration to Provisioned, and releases it.
func boots(t *testing.T, s *site, cases []firmwareCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := s.emulate(t, c.host, c.machine)
			r.register(t)
			r.boot(t)
			r.awaitProvisioned(t, bootTimeout, c.client, c.stages...)
			r.release(t)
			// It came up by the override, at the first try.
			NewWithT(t).Expect(r.bmc.CommandNames()).To(HaveExactElements("Boot=PXE", "On", "GracefulShutdown", "ForceOff", "Boot=None"))
		})
	}
}

// bootTimeout is how long a boot may take: ten times what it takes on a quiet machine with two processors. GRUB polls its card, so it loads a kernel at a fraction of its rate
// beside other emulators.
const bootTimeout = 10 * time.Minute
