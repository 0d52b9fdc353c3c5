package boot_test

import (
	"net"
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// TestAdmit: Admit decides about a client as Script does, reads nothing from the API server, and binds nothing.
func TestAdmit(t *testing.T) {
	for name, c := range map[string]struct {
		network bootconfig.Network
		asked   bool // the server sent a DHCP request in this boot
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

// TestAdmitRefusal: the first client that Admit refuses in a boot causes an event. Later refusals, also by Script, cause none.
func TestAdmitRefusal(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(leasing)
	refusals := func() (count int) {
		for len(w.events) > 0 {
			event := <-w.events
			if containsRefusal, err := ContainSubstring(controllers.EventRefused).Match(event); err == nil && containsRefusal {
				count++
			}
		}
		return count
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

// TestTenantOfNetwork: a server in a network that its namespace may not use gets neither its script nor its bootstrap data.
func TestTenantOfNetwork(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(bootconfig.Network{Name: "here", Mode: bootconfig.Off, Subnet: netip.PrefixFrom(honest, 24).Masked()})
	w.restart(func(b *boot.Booter) {
		b.Tenants = bootconfig.Tenants{{Namespaces: []string{"dc"}, DHCPNetworks: []string{"another"}}}
	})
	g.Expect(w.Admit(ctx, booting, honest)).To(MatchError(ContainSubstring("do not permit namespace dc")))
	_, err := w.script(honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	w.nothingBound(g)
	w.Tenants[0].DHCPNetworks = []string{"here"}
	g.Expect(w.Admit(ctx, booting, honest)).To(Succeed())
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	w.Tenants[0].DHCPNetworks = []string{"another"}
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}
