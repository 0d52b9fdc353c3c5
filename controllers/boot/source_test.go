package boot_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// TestTemplate: a server boots with its machine's iPXE template. A template that cannot be rendered ends the boot at once, and the machine shows it.
func TestTemplate(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	systems := make(chan *pxetest.System, 1)
	boots := func(name, template string) *controllerstest.Claim {
		l.server(name, func(_ context.Context, system *pxetest.System) { systems <- system })
		claim := env.NewClaim(t, l.namespace, name)
		l.boots(claim, kernel, func(b *v1alpha1.BootSource) { b.IPXETemplate = template })
		return claim
	}
	claim := boots("bad", "#!ipxe\n{{ .Secret }}\n")
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		ready := conditions.Get(m, v1alpha1.ReadyCondition)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(ready.Reason).To(Equal(v1alpha1.ReasonBootSourceInvalid))
		g.Expect(ready.Message).To(And(ContainSubstring("iPXE template: "), ContainSubstring("delete the Machine")))
	})
	boots("m", "#!ipxe\nkernel --name kernel {{ .Kernel }} host={{ .Hostname }} {{ .CommandLine }}\nboot\n")
	var system *pxetest.System
	g.Eventually(systems, "60s").Should(Receive(&system))
	g.Expect(system.CommandLine).To(HavePrefix("host=m console=ttyS0 ds=nocloud;dsmode=net;s=http://"))
	g.Expect(string(system.UserData)).To(Equal("#cloud-config\n"))
}
