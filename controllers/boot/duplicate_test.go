package boot_test

import (
	"net"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// TestDuplicateMAC: of two hosts with one MAC address only the one that keeps it is served, in whatever order the cache lists them. The other one is served
// when the first is gone.
func TestDuplicateMAC(t *testing.T) {
	for _, namespace := range []string{"before", "elsewhere"} { // the host that boots is in "dc"
		another := func(accepted string) *v1alpha1.BareMetalHost {
			h := &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{BootMACAddresses: []string{booting.String()}}}
			h.Namespace, h.Name = namespace, "h2"
			h.Status.Identity = &v1alpha1.HostIdentity{BootMACAddresses: []string{accepted}}
			return h
		}
		t.Run("booted, beside "+namespace, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
				b.Identity = &v1alpha1.HostIdentity{BootMACAddresses: []string{booting.String()}}
			})).To(Succeed())
			g.Expect(w.Create(ctx, another(booting.String()))).To(Succeed())
			g.Expect(w.Admit(ctx, booting, honest)).To(Succeed())
			_, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
		})
		t.Run("taken, beside "+namespace, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			keeper := another(booting.String())
			g.Expect(w.Create(ctx, keeper)).To(Succeed())
			g.Expect(w.Lookup(ctx, booting)).To(Equal(pxe.Answer{Known: true}), "it may keep its address, and boots nothing")
			g.Expect(w.Admit(ctx, booting, honest)).NotTo(Succeed())
			_, err := w.script(honest)
			g.Expect(err).To(HaveOccurred())
			w.nothingBound(g)
			g.Expect(w.boot().Spec.Failure).To(BeNil(), "the boot may go on when the mistake is corrected")

			g.Expect(w.Delete(ctx, keeper)).To(Succeed())
			answer, err := w.Lookup(ctx, booting)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Boot).To(Equal(pxe.Network))
			g.Expect(w.Admit(ctx, booting, honest)).To(Succeed())
			_, err = w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

// TestSecondInterface: a server boots from whichever of its interfaces is up. The record says which one asked for the script, and does not change.
func TestSecondInterface(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	first := "52:54:00:00:00:0a"
	g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = []string{first, booting.String()} })).To(Succeed())
	answer, err := w.Lookup(ctx, booting)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Boot).To(Equal(pxe.Network))
	_, err = w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Spec.ScriptMACAddress).To(Equal(booting.String()))
	_, err = w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	other, err := net.ParseMAC(first)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.Script(ctx, other, honest)
	g.Expect(err).To(MatchError(pxe.ErrNotYet), "the firmware has moved on to it: the next attempt starts again")
	g.Expect(w.boot().Spec.Failure).To(BeNil())
	g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = []string{first} })).To(Succeed())
	g.Expect(w.Lookup(ctx, booting)).To(Equal(pxe.Answer{}), "it is of no host any more")
}

// TestMACChanged: the script of a boot is not served for the old MAC address of the host, when a stale cache still shows that one and the host is
// read from the API server.
func TestMACChanged(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	old := newAPI(interceptor.Funcs{})
	g.Expect((&world{Client: old}).changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots = 2 })).To(Succeed()) // so it does not show the boot
	w.cache.Client = split{w.Client, old}
	g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = []string{"52:54:00:00:00:0a"} })).To(Succeed())
	_, err := w.script(honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	w.nothingBound(g)
}
