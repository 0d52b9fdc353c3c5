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

// TestTemplate: what is wrong with an iPXE template is said on the machine, and the server boots by it once it is right.
func TestTemplate(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	systems := make(chan *pxetest.System, 1)
	l.server("h", 28, func(_ context.Context, system *pxetest.System) { systems <- system })
	claim := l.claim("m", kernel)
	template := func(text string) {
		controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Spec.Boot.IPXETemplate = text })
	}
	template("#!ipxe\n{{ .Secret }}\n")
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		ready := conditions.Get(m, v1alpha1.ReadyCondition)
		g.Expect(ready).NotTo(BeNil())
		g.Expect(ready.Reason).To(Equal(v1alpha1.ReasonBootSourceInvalid))
		g.Expect(ready.Message).To(ContainSubstring("iPXE template: "))
	})
	template("#!ipxe\nkernel --name kernel {{ .Kernel }} host={{ .Hostname }} {{ .CommandLine }}\nboot\n")
	var system *pxetest.System
	g.Eventually(systems, "60s").Should(Receive(&system))
	g.Expect(system.CommandLine).To(HavePrefix("host=m console=ttyS0 ds=nocloud;dsmode=net;s=http://"))
	g.Expect(string(system.UserData)).To(Equal("#cloud-config\n"))
}
