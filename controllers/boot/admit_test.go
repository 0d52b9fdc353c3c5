package boot_test

import (
	"net"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// TestAdmit: Admit judges a client as Script does, reads nothing from the API server, and binds nothing.
func TestAdmit(t *testing.T) {
	for name, c := range map[string]struct {
		network bootconfig.Network
		asked   bool // the server asked DHCP in this boot
		from    netip.Addr
		want    error
	}{
		"authoritative, before the DHCP request":               {leasing, false, honest, pxe.ErrNotYet},
		"authoritative, before the DHCP request, from outside": {leasing, false, anywhere, pxe.ErrNotYet},
		"authoritative, the leased address":                    {leasing, true, honest, nil},
		"authoritative, another address":                       {leasing, true, stranger, pxe.ErrRefused},
		"authoritative, from outside":                          {leasing, true, anywhere, pxe.ErrRefused},
		"proxy, before the DHCP request":                       {proxied, false, inProxied, pxe.ErrNotYet},
		"proxy, the first address":                             {proxied, true, inProxied, nil},
		"off, the first address":                               {others, false, inOthers, nil},
		"off, from outside":                                    {others, false, anywhere, pxe.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(c.network)
			switch {
			case c.asked && c.network.Mode == bootconfig.Authoritative:
				w.lease(t, c.network, honest)
				w.dhcp(honest)
			case c.asked:
				w.dhcp(netip.Addr{})
			}
			before := w.reads.Load()
			for range 3 {
				err := w.Admit(ctx, booting, c.from)
				if c.want == nil {
					g.Expect(err).NotTo(HaveOccurred())
				} else {
					g.Expect(err).To(MatchError(c.want))
				}
			}
			g.Expect(w.reads.Load()).To(Equal(before), "the cache is enough")
			w.nothingBound(g)
			_, err := w.script(c.from)
			if c.want == nil {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(c.want))
		})
	}
}

// TestAdmitRefusal: an event is recorded of the first client that Admit refuses in a boot, and of no other, also when Script refuses it too.
func TestAdmitRefusal(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(leasing)
	refusals := func() (told int) {
		for len(w.events) > 0 {
			event := <-w.events
			if containsRefusal, err := ContainSubstring(controllers.EventRefused).Match(event); err == nil && containsRefusal {
				told++
			}
		}
		return told
	}
	g.Expect(w.Admit(ctx, booting, honest)).To(MatchError(pxe.ErrNotYet))
	g.Expect(refusals()).To(BeZero())
	w.lease(t, leasing, honest)
	w.dhcp(honest)
	g.Expect(w.Admit(ctx, booting, stranger)).To(MatchError(pxe.ErrRefused))
	g.Expect(refusals()).To(Equal(1))
	g.Expect(w.Admit(ctx, booting, stranger)).To(MatchError(pxe.ErrRefused))
	_, err := w.script(stranger)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(refusals()).To(BeZero())
}

// TestAdmitUnknown: a server that is not in the inventory is refused; one whose boot the cache does not show yet is too early.
func TestAdmitUnknown(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(leasing)
	g.Expect(w.Admit(ctx, net.HardwareAddr{2, 0, 0, 0, 0, 1}, honest)).To(MatchError(pxe.ErrRefused))
	g.Expect(deleted("h", &v1alpha1.BareMetalBoot{})(w)).To(Succeed())
	g.Expect(w.Admit(ctx, booting, honest)).To(MatchError(pxe.ErrNotYet))
}
