package e2e_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/agenttest"
)

// TestAgent: each kind of firmware gets to the agent by the boot server's scripts, and the agent to its boot server, which is one for tests. With Secure Boot
// on the kernel loads only modules with Debian's signatures: the agent gets its address through one.
func TestAgent(t *testing.T) {
	s := startSite(t, authoritative(newSegment(t, "10.76.0.0/24")))
	output := filepath.Join(controllerstest.Root(), "out", "agent", "amd64")
	kernel := serve(t, filepath.Join(output, "kernel"), "make agent writes it")
	ramdisk := serve(t, filepath.Join(output, "ramdisk"), "make agent writes it")
	for _, c := range []struct {
		name, host string
		machine    machine
		mode       v1alpha1.BootMode
		firmware   wire.FirmwareMode
	}{
		{"UEFI HTTP boot", "agent-http", uefi(httpOnly...), "", wire.FirmwareUEFI},
		{"BIOS PXE by iPXE in ROM", "agent-rom", bios(), "", wire.FirmwareBIOS},
		{"BIOS PXE", "agent-bios", plainBIOS(), "", wire.FirmwareBIOS},
		{"UEFI PXE", "agent-uefi", uefi(), "", wire.FirmwareUEFI},
		{"Secure Boot by UEFI PXE", "agent-secure-pxe", secureUEFI(), v1alpha1.BootModeUEFISecureBoot, wire.FirmwareUEFI},
		{"Secure Boot by UEFI HTTP boot", "agent-secure-http", secureUEFI(httpOnly...), v1alpha1.BootModeUEFISecureBoot, wire.FirmwareUEFI},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			boots := &agenttest.Server{Host: s.namespace + "/" + c.host, Token: "a-token", Next: agent.Wait, Plan: agent.Plan{Title: c.name, Purpose: "Nothing"}}
			listener, err := net.Listen("tcp", netip.AddrPortFrom(s.hosts.address, 0).String()) //nolint:noctx // at an address of this test
			g.Expect(err).NotTo(HaveOccurred())
			web := &http.Server{Handler: boots}
			go func() { _ = web.Serve(listener) }()
			t.Cleanup(func() { _ = web.Close() })

			r := s.emulate(t, c.host, c.machine)
			if c.mode != "" {
				r.host.Spec.BootMode = c.mode
			}
			r.register(t)
			r.boot(t, func(claim *controllerstest.Claim) {
				boot := &claim.BareMetalMachine.Spec.Boot
				boot.Kernel, boot.Initrds = kernel, []v1alpha1.Artifact{ramdisk}
				boot.CommandLine = fmt.Sprintf("%s %s=http://%s %s=%s %s=%s", commandLine, agent.ParamServer, listener.Addr(), agent.ParamHost, boots.Host, agent.ParamToken, boots.Token)
			})
			r.await(t, 2*bootTimeout, "the agent reported the end of its plan", func() bool { return boots.Result() != nil })
			plan := boots.Requests(agent.EndpointPlan)[0]
			t.Logf("the agent asked for its plan from %s", plan.From)
			var hello agent.Hello
			g.Expect(json.Unmarshal(plan.Body, &hello)).To(Succeed())
			g.Expect(hello.Firmware).To(Equal(c.firmware))
			// Firmware, boot loader and agent are one client of DHCP.
			g.Expect(netip.MustParseAddrPort(plan.From).Addr().String()).To(Equal(r.observed(v1alpha1.StageDHCP).Address))
			if c.mode == v1alpha1.BootModeUEFISecureBoot {
				g.Expect(r.console()).To(ContainSubstring("secureboot: Secure boot enabled"))
			}
			g.Expect(r.console()).NotTo(ContainSubstring("Failed to load kernel modules"))
			g.Expect(r.console()).NotTo(ContainSubstring("The variables of UEFI are not available"))
			r.release(t)
		})
	}
}
