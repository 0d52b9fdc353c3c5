package boot_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// TestDuplicateMAC: a host that boots is served nothing while another host has its MAC address, whichever of the two the cache lists first, and is
// served when that host is gone.
func TestDuplicateMAC(t *testing.T) {
	for _, namespace := range []string{"before", "elsewhere"} { // the host that boots is in "dc"
		t.Run(namespace, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			another := &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{BootMACAddress: booting.String()}}
			another.Namespace, another.Name = namespace, "h2"
			g.Expect(w.Create(ctx, another)).To(Succeed())

			g.Expect(w.Lookup(ctx, booting)).To(Equal(pxe.Answer{Known: true}), "it may keep its address, and boots nothing")
			g.Expect(w.Admit(ctx, booting, honest)).To(MatchError(pxe.ErrRefused))
			_, err := w.script(honest)
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			w.nothingBound(g)
			g.Expect(w.boot().Spec.Failure).To(BeNil(), "the boot may go on when the mistake is corrected")

			g.Expect(w.Delete(ctx, another)).To(Succeed())
			answer, err := w.Lookup(ctx, booting)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Boot).To(Equal(pxe.Network))
			g.Expect(w.Admit(ctx, booting, honest)).To(Succeed())
			_, err = w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

// TestMACChanged: the script of a boot is not served for the MAC address that the host had, when a cache that is behind still shows that one and the host is
// read from the API server.
func TestMACChanged(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	old := newAPI(interceptor.Funcs{})
	g.Expect((&world{Client: old}).changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Boots = 2 })).To(Succeed()) // so it does not show the boot
	w.Booter.Client = split{w.Client, old}
	g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddress = "52:54:00:00:00:0a" })).To(Succeed())
	_, err := w.script(honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	w.nothingBound(g)
}
