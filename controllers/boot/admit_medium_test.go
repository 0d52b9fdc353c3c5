package boot_test

import (
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// TestAdmitMedium: the system of a boot medium needs no DHCP request, in any network, and is bound to its first address. The script for its MAC address,
// which has the same token, is served to nobody: any client can name a MAC address.
func TestAdmitMedium(t *testing.T) {
	for name, network := range map[string]bootconfig.Network{"authoritative": leasing, "proxy": proxied, "off": others} {
		for _, method := range []v1alpha1.BootMethod{v1alpha1.MethodPXE, v1alpha1.MethodUefiHTTP, v1alpha1.MethodVirtualMedia} {
			t.Run(name+" "+string(method), func(t *testing.T) {
				g := NewWithT(t)
				w, _ := newAgentWorld(t)
				request := w.agentRequest(g) // the token, of a world without networks; a medium contains it
				g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress, b.Method = "", method })).To(Succeed())
				w.restart(func(b *boot.Booter) { b.Networks = []bootconfig.Network{network} })
				request.From = anywhere
				if method != v1alpha1.MethodPXE {
					request.Key, request.TLS = ownKey, true
				}
				_, err := w.Plan(ctx, request, hello)
				if method == v1alpha1.MethodPXE && network.Mode == bootconfig.Off {
					g.Expect(err).NotTo(HaveOccurred(), "an operating system may have any address there")
					return
				}
				if method == v1alpha1.MethodPXE {
					g.Expect(err).To(Or(MatchError(pxe.ErrNotYet), MatchError(pxe.ErrRefused)))
					w.nothingBound(g)
					return
				}
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(w.boot().Spec.DataAddress).To(Equal(anywhere.String()))
				w.lease(t, leasing, honest)
				for _, from := range []netip.Addr{honest, stranger, inOthers} {
					g.Expect(w.Admit(ctx, booting, from)).To(MatchError(pxe.ErrNotYet), from.String())
					_, err = w.Script(ctx, booting, from)
					g.Expect(err).To(MatchError(pxe.ErrNotYet), from.String())
				}
				g.Expect(w.boot().Spec.ScriptAddress).To(BeEmpty())
				request.Key = foreignKey
				_, err = w.Plan(ctx, at(request, netip.MustParseAddr("203.0.113.9")), hello)
				g.Expect(err).To(MatchError(pxe.ErrRefused), "a second agent")
			})
		}
	}
}

// TestAdmitMediumInAuthoritativeNetwork: in a network where this provider gives the addresses, the system of a medium needs one of its server.
func TestAdmitMediumInAuthoritativeNetwork(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	request := w.agentRequest(g)
	request.Key, request.TLS = ownKey, true
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress, b.Method = "", v1alpha1.MethodVirtualMedia })).To(Succeed())
	w.restart(func(b *boot.Booter) { b.Networks = []bootconfig.Network{leasing} })
	_, err := w.Plan(ctx, at(request, honest), hello)
	g.Expect(err).To(MatchError(pxe.ErrNotYet), "it leased no address yet")
	w.nothingBound(g)
	w.lease(t, leasing, honest)
	_, err = w.Plan(ctx, at(request, stranger), hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	w.nothingBound(g)
	_, err = w.Plan(ctx, at(request, honest), hello)
	g.Expect(err).NotTo(HaveOccurred(), "without a DHCP request of the firmware")
}

// TestSeedOfMedium: the same holds for the bootstrap data of a system that a medium starts. A network that its tenant may not use stays closed.
func TestSeedOfMedium(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress, b.Method = "", v1alpha1.MethodVirtualMedia })).To(Succeed())
	w.restart(func(b *boot.Booter) {
		b.Networks, b.Tenants = []bootconfig.Network{leasing}, bootconfig.Tenants{{Namespaces: []string{"dc"}, DHCPNetworks: []string{"another"}}}
	})
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	w.restart(func(b *boot.Booter) { b.Tenants = nil })
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, anywhere)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, inOthers)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure).NotTo(BeNil(), "two clients have the token")
}
