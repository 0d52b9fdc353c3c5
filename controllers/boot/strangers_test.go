package boot_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
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

// TestOtherDHCPServers: another DHCP server is recorded once in an attempt, whatever addresses the requests name, if the server does not boot from a boot server of the provider in
// half a minute. It replaces no other problem.
func TestOtherDHCPServers(t *testing.T) {
	for name, test := range map[string]struct {
		later  time.Duration
		before func(*world)
		want   string
	}{
		"it does not boot":  {30 * time.Second, func(*world) {}, v1alpha1.ReasonOtherDHCPServer},
		"it may still boot": {29 * time.Second, func(*world) {}, ""},
		"it boots from another one of ours": {time.Minute, func(w *world) {
			NewWithT(t).Expect(controllers.ApplyStages(ctx, w.Client, w.boot(), controllers.NewStage(w.boot(), v1alpha1.StageLoader))).To(Succeed())
		}, ""},
		"something else is wrong": {time.Minute, func(w *world) {
			w.ObserveFailure(booting, fmt.Errorf("%w: nothing", pxe.ErrBootSource))
		}, v1alpha1.ReasonBootSourceInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			c := clocktesting.NewFakePassiveClock(time.Now())
			w.restart(func(b *boot.Booter) { b.Clock = c })
			for n := range 100 {
				w.ObserveFailure(booting, fmt.Errorf("%w: the server took the answer of 192.0.2.%d", pxe.ErrOtherDHCPServer, n))
			}
			g.Expect(w.Start(over())).To(Succeed())
			g.Expect(w.boot().Status.Problem).To(BeNil(), "it is not decided yet")
			test.before(w)
			c.SetTime(c.Now().Add(test.later))
			g.Expect(w.Start(over())).To(Succeed())
			if test.want == "" {
				g.Expect(w.boot().Status.Problem).To(BeNil())
				g.Expect(w.drain()).To(BeEmpty())
				return
			}
			g.Expect(w.boot().Status.Problem.Reason).To(Equal(test.want))
			g.Expect(w.drain()).To(ConsistOf(HavePrefix("Warning BootNotServed Boot attempt 1: " + test.want)))
		})
	}
}

// over returns a context that has ended.
func over() context.Context {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}
