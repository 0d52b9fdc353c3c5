package e2e_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/qemu"
)

// secureUEFI is a PC with OVMF whose Secure Boot is on, with the keys that servers are sold with.
func secureUEFI(args ...string) machine { return withFirmware(qemu.SecureUEFI(), args...) }

// TestSecureBoot: firmware that runs signed programs only boots shim, GRUB and Debian's kernel by the same script, and refuses iPXE,
// which is not signed: without that the rest would prove nothing.
func TestSecureBoot(t *testing.T) {
	s := startSite(t, authoritative(newSegment(t, "10.79.0.0/24")))
	cases := []firmwareCase{
		{name: "UEFI PXE", host: "secure-pxe", machine: secureUEFI(), client: "PXE, EFI x86-64", stages: withLoader},
		{name: "UEFI HTTP boot", host: "secure-http", machine: secureUEFI(httpOnly...), client: "UEFI HTTP boot, EFI x86-64 boot from HTTP", stages: withLoader},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			r := s.emulate(t, c.host, c.machine)
			r.host.Spec.BootMode = v1alpha1.BootModeUEFISecureBoot
			r.register(t)
			r.boot(t, func(c *controllerstest.Claim) { c.BareMetalMachine.Spec.Boot.CommandLine += " " + odd })
			r.awaitProvisioned(t, bootTimeout, c.client, c.stages...)
			// The kernel knows it from shim, which knows it from the firmware.
			g.Expect(r.console()).To(ContainSubstring("secureboot: Secure boot enabled"))
			g.Expect(r.console()).To(ContainSubstring(" "+commandLine+" "+odd+" ds=nocloud;"), "GRUB hands the command line on as it is")
		})
	}
	t.Run("unsigned", func(t *testing.T) {
		t.Parallel()
		r := s.emulate(t, "unsigned", secureUEFI())
		r.register(t)
		r.boot(t)
		r.await(t, bootTimeout, "it fetched iPXE", func() bool { return r.observed(v1alpha1.StageLoader) != nil })
		NewWithT(t).Eventually(r.console, bootTimeout, "500ms").Should(ContainSubstring("Access Denied"))
		NewWithT(t).Expect(r.observed(v1alpha1.StageScript)).To(BeNil(), "iPXE did not run")
	})
}

// odd is a command line with all that means something to GRUB.
const odd = "a=b;c d=$e f={g} h=&i j=|k l=<m> n=#o p=!q r=*s t=?u v=[w] x=~y z=100% $net_default_mac `id` --last"
