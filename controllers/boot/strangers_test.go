package boot_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// TestFilesOfStrangers: anybody can ask for a boot loader and a kernel with the MAC address of a server. A kernel is a stage of the boot only
// for the client that has the script: the override is cleared then. A boot loader is one only after the DHCP request: the method has worked then.
func TestFilesOfStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		network        bootconfig.Network
		method         v1alpha1.BootMethod
		asked          bool // the server sent a DHCP request in this boot, and has its script
		from           netip.Addr
		loader, kernel bool // count as stages
	}{
		"before the DHCP request":           {network: leasing, from: stranger},
		"another address":                   {network: leasing, asked: true, from: stranger, loader: true}, // which shows no more than the DHCP request
		"from outside":                      {network: leasing, asked: true, from: anywhere, loader: true},
		"the server":                        {network: leasing, asked: true, from: honest, loader: true, kernel: true},
		"no script yet":                     {network: others, from: inOthers, loader: true},
		"a medium":                          {network: others, method: v1alpha1.MethodVirtualMedia, from: inOthers},
		"a medium, and a client of a lease": {network: leasing, method: v1alpha1.MethodUefiHTTP, from: honest},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(c.network)
			g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = c.method })).To(Succeed())
			if c.asked {
				w.lease(t, c.network, honest)
				w.dhcp(honest)
				_, err := w.script(honest)
				g.Expect(err).NotTo(HaveOccurred())
			}
			w.ObserveStage(booting, pxe.StageLoader, c.from, "HTTP")
			w.ObserveStage(booting, pxe.StageKernel, c.from, "HTTP")
			g.Expect(w.Start(over())).To(Succeed(), "it writes what was observed, and ends")
			g.Expect(controllers.ObservedStage(w.boot(), v1alpha1.StageLoader) != nil).To(Equal(c.loader))
			g.Expect(controllers.ObservedStage(w.boot(), v1alpha1.StageKernel) != nil).To(Equal(c.kernel))
		})
	}
}

// TestOtherDHCPServers: another DHCP server is recorded once in an attempt, whatever addresses the requests name.
func TestOtherDHCPServers(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	for n := range 100 {
		w.ObserveFailure(booting, fmt.Errorf("%w: the server took the answer of 192.0.2.%d", pxe.ErrOtherDHCPServer, n))
	}
	g.Expect(w.drain()).To(ConsistOf(ContainSubstring("BootNotServed Boot attempt 1: OtherDHCPServer: another DHCP server answers: the server took the answer of 192.0.2.0")))
	g.Expect(w.Start(over())).To(Succeed())
	g.Expect(w.boot().Status.Problem.Reason).To(Equal(v1alpha1.ReasonOtherDHCPServer))
}

// over returns a context that has ended.
func over() context.Context {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}
