package boot_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// The networks of these tests: one that leases addresses, one beside another DHCP server, one whose DHCP is not observed, and two of IPv6.
var (
	leasing  = rack("leasing", bootconfig.Authoritative, "192.0.2.0/24")
	proxied  = rack("proxied", bootconfig.Proxy, "198.51.100.0/24")
	others   = rack("others", bootconfig.Off, "203.0.113.0/24")
	leasing6 = rack("leasing6", bootconfig.Authoritative, "2001:db8:1::/64")
	proxied6 = rack("proxied6", bootconfig.Proxy, "2001:db8:2::/64")

	honest6    = netip.MustParseAddr("2001:db8:1::9")
	inProxied  = netip.MustParseAddr("198.51.100.7")
	inProxied6 = netip.MustParseAddr("2001:db8:2::7")
	inOthers   = netip.MustParseAddr("203.0.113.7")
	anywhere   = netip.MustParseAddr("10.9.8.7")
	anywhere6  = netip.MustParseAddr("2001:db8:9::7")
)

func rack(name string, mode bootconfig.Mode, subnet string) bootconfig.Network {
	prefix := netip.MustParsePrefix(subnet)
	return bootconfig.Network{Name: name, Mode: mode, Address: prefix.Addr().Next(), Subnet: prefix}
}

// unbounded is a network whose subnet is not configured.
func unbounded(n bootconfig.Network) bootconfig.Network {
	n.Subnet = netip.Prefix{}
	return n
}

// lease leases an address of a network to the server, as DHCP does.
func (w *world) lease(t *testing.T, n bootconfig.Network, address netip.Addr) {
	t.Helper()
	lease, err := w.Lease(ctx, pxe.LeaseRequest{MAC: booting, Wanted: address, Pool: pxe.Pool{
		Network: n.Name, Prefix: n.Subnet, Ranges: []pxe.Range{{First: address, Last: address}},
	}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(lease.Address).To(Equal(address))
}

// dhcp is a DHCP request of the server, answered with an address, or with none if it is invalid.
func (w *world) dhcp(address netip.Addr) {
	w.ObserveStage(booting, pxe.StageDHCP, address, "PXE, EFI x86-64")
}

// nothingBound checks that no client got anything, and that the boot continues.
func (w *world) nothingBound(g Gomega) {
	boot := w.boot().Spec
	g.ExpectWithOffset(1, []string{boot.ScriptAddress, boot.DataAddress}).To(HaveEach(""))
	g.ExpectWithOffset(1, boot.DHCPTime).To(BeNil())
	g.ExpectWithOffset(1, boot.DataServedTime).To(BeNil())
	g.ExpectWithOffset(1, boot.Failure).To(BeNil())
}

// TestBeforePowerOn: a client that asks for a script before the server is powered on is asked to retry, in any network, with an answer that a boot
// loader accepts. Nothing is bound to it, and the boot continues. A DHCP request before the power-on does not count.
func TestBeforePowerOn(t *testing.T) {
	for name, networks := range map[string][]bootconfig.Network{
		"authoritative": {leasing}, "proxy": {unbounded(proxied)}, "off": {unbounded(others)}, "no networks": nil,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(networks...)
			poweredOnTime := w.boot().Spec.PoweredOnTime
			g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = nil })).To(Succeed())
			w.lease(t, leasing, honest)
			w.dhcp(honest)
			answer, err := w.Lookup(ctx, booting)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Boot).To(Equal(pxe.NotYet))
			for _, from := range []netip.Addr{honest, stranger, anywhere6} {
				_, err := w.script(from)
				g.Expect(err).To(MatchError(pxe.ErrNotYet))
				status, script := w.get(pxe.ScriptPath(booting), from)
				g.Expect(status).To(Equal(http.StatusOK))
				g.Expect(script).To(ContainSubstring("asking again in 5 seconds"))
			}
			w.nothingBound(g)

			g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = poweredOnTime })).To(Succeed())
			_, err = w.script(honest)
			if ours := len(networks) > 0 && networks[0].Mode != bootconfig.Off; ours {
				g.Expect(err).To(And(MatchError(pxe.ErrNotYet), MatchError(ContainSubstring("no DHCP request"))), "what came before the power-on is not the server's")
				w.dhcp(honest)
				_, err = w.script(honest)
			}
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

// get asks the boot server over HTTP.
func (w *world) get(path string, from netip.Addr) (status int, body string) {
	handler := &pxe.Handler{Booter: w.Booter, Log: logr.Discard(), BaseURL: func(netip.Addr) string { return "http://192.0.2.1:8480" }}
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	request.RemoteAddr = netip.AddrPortFrom(from, 1234).String()
	recorder := httptest.NewRecorder()
	handler.Mux().ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

// TestAdmission: which client gets the script of a powered-on server, by the DHCP requests of the server. A client that is not admitted binds nothing, and ends no boot.
func TestAdmission(t *testing.T) {
	none := netip.Addr{}
	type dhcp struct {
		lease   bootconfig.Network
		address netip.Addr
	}
	before, proxyDHCP := (*dhcp)(nil), &dhcp{address: none}
	leased, leased6 := &dhcp{leasing, honest}, &dhcp{leasing6, honest6}
	for name, c := range map[string]struct {
		networks []bootconfig.Network
		asked    *dhcp // the server's DHCP request in this boot, nil for none
		from     netip.Addr
		want     error
	}{
		"authoritative, before the request":                    {[]bootconfig.Network{leasing}, before, honest, pxe.ErrNotYet},
		"authoritative, before the request, from elsewhere":    {[]bootconfig.Network{leasing}, before, anywhere, pxe.ErrNotYet},
		"authoritative, the address":                           {[]bootconfig.Network{leasing}, leased, honest, nil},
		"authoritative, another address":                       {[]bootconfig.Network{leasing}, leased, stranger, pxe.ErrRefused},
		"authoritative, from elsewhere":                        {[]bootconfig.Network{leasing}, leased, anywhere, pxe.ErrRefused},
		"authoritative, by the other family":                   {[]bootconfig.Network{leasing}, leased, anywhere6, pxe.ErrRefused},
		"authoritative, by the other family, before":           {[]bootconfig.Network{leasing}, before, anywhere6, pxe.ErrNotYet},
		"proxy, before the request":                            {[]bootconfig.Network{proxied}, before, inProxied, pxe.ErrNotYet},
		"proxy, before the request, from elsewhere":            {[]bootconfig.Network{proxied}, before, anywhere, pxe.ErrNotYet},
		"proxy, without a subnet, before the request":          {[]bootconfig.Network{unbounded(proxied)}, before, anywhere, pxe.ErrNotYet},
		"proxy, by the other family, before the request":       {[]bootconfig.Network{proxied}, before, anywhere6, pxe.ErrNotYet},
		"proxy, the first":                                     {[]bootconfig.Network{proxied}, proxyDHCP, inProxied, nil},
		"proxy, without a subnet, the first":                   {[]bootconfig.Network{unbounded(proxied)}, proxyDHCP, anywhere, nil},
		"off, the first":                                       {[]bootconfig.Network{others}, before, inOthers, nil},
		"off, without a subnet, the first":                     {[]bootconfig.Network{unbounded(others)}, before, anywhere, nil},
		"off, out of its subnet":                               {[]bootconfig.Network{others}, before, anywhere, pxe.ErrRefused},
		"mixed, before, in the leasing one":                    {[]bootconfig.Network{leasing, proxied, others}, before, honest, pxe.ErrNotYet},
		"mixed, before, in the proxied one":                    {[]bootconfig.Network{leasing, proxied, others}, before, inProxied, pxe.ErrNotYet},
		"mixed, before, in that of others":                     {[]bootconfig.Network{leasing, proxied, others}, before, inOthers, nil},
		"mixed, before, from elsewhere":                        {[]bootconfig.Network{leasing, proxied, others}, before, anywhere, pxe.ErrNotYet},
		"mixed, leased, the address":                           {[]bootconfig.Network{leasing, proxied, others}, leased, honest, nil},
		"mixed, leased, another address":                       {[]bootconfig.Network{leasing, proxied, others}, leased, stranger, pxe.ErrRefused},
		"mixed, leased, in the proxied one":                    {[]bootconfig.Network{leasing, proxied, others}, leased, inProxied, pxe.ErrRefused},
		"mixed, leased, in that of others":                     {[]bootconfig.Network{leasing, proxied, others}, leased, inOthers, pxe.ErrRefused},
		"mixed, leased, in that of others, without its subnet": {[]bootconfig.Network{leasing, unbounded(others)}, leased, anywhere, pxe.ErrRefused},
		"mixed, proxied, in the proxied one":                   {[]bootconfig.Network{leasing, proxied, others}, proxyDHCP, inProxied, nil},
		"mixed, proxied, in the leasing one":                   {[]bootconfig.Network{leasing, proxied, others}, proxyDHCP, stranger, pxe.ErrNotYet},
		"IPv6, before the request":                             {[]bootconfig.Network{leasing6}, before, honest6, pxe.ErrNotYet},
		"IPv6, the address":                                    {[]bootconfig.Network{leasing6}, leased6, honest6, nil},
		"IPv6, another address":                                {[]bootconfig.Network{leasing6}, leased6, anywhere6, pxe.ErrRefused},
		"IPv6, by IPv4":                                        {[]bootconfig.Network{leasing6}, leased6, anywhere, pxe.ErrRefused},
		"IPv6 proxied, before the request":                     {[]bootconfig.Network{proxied6}, before, inProxied6, pxe.ErrNotYet},
		"IPv6 proxied, the first":                              {[]bootconfig.Network{proxied6}, proxyDHCP, inProxied6, nil},
		"both families, IPv4, the address":                     {[]bootconfig.Network{leasing, leasing6}, leased, honest, nil},
		"both families, leased IPv4, from IPv6":                {[]bootconfig.Network{leasing, leasing6}, leased, honest6, pxe.ErrNotYet},
		"both families, leased IPv6, from IPv4":                {[]bootconfig.Network{leasing, leasing6}, leased6, honest, pxe.ErrNotYet},
		"both families, IPv6 of others":                        {[]bootconfig.Network{leasing, unbounded(rack("others6", bootconfig.Off, "2001:db8:3::/64"))}, before, anywhere6, nil},
		"both families, IPv6 of others, leased IPv4":           {[]bootconfig.Network{leasing, rack("others6", bootconfig.Off, "2001:db8:3::/64")}, leased, netip.MustParseAddr("2001:db8:3::7"), pxe.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(c.networks...)
			if c.asked != nil {
				if c.asked.address.IsValid() {
					w.lease(t, c.asked.lease, c.asked.address)
				}
				w.dhcp(c.asked.address)
			}
			for range 2 {
				_, err := w.script(c.from)
				if c.want != nil {
					g.Expect(err).To(MatchError(c.want))
					w.nothingBound(g)
					continue
				}
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(w.boot().Spec.ScriptAddress).To(Equal(c.from.String()))
				g.Expect(w.boot().Spec.DHCPTime != nil).To(Equal(c.asked != nil))
			}
			status, script := w.get(pxe.ScriptPath(booting), c.from)
			if errors.Is(c.want, pxe.ErrRefused) {
				g.Expect(status).To(Equal(http.StatusForbidden))
				return
			}
			g.Expect(status).To(Equal(http.StatusOK))
			g.Expect(strings.Contains(script, "/seed/dc/h/")).To(Equal(c.want == nil))
			g.Expect(strings.Contains(script, "asking again in")).To(Equal(c.want != nil))
		})
	}
}

// TestLeasedAddressOnly: where DHCP is authoritative, a client with another address than the server's gets neither script nor bootstrap data, even with the
// token of the server, before and after the server got them; and it ends no boot. In the other modes, a second client ends the boot.
func TestLeasedAddressOnly(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(leasing)
	w.lease(t, leasing, honest)
	w.dhcp(honest)
	refused := func(token string) {
		t.Helper()
		for _, from := range []netip.Addr{stranger, anywhere, anywhere6} {
			_, err := w.script(from)
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, from)
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			_, err = w.BootstrapData(ctx, "dc/h", token, seed.MetaData, from)
			g.Expect(err).To(MatchError(pxe.ErrRefused))
		}
		g.Expect(w.boot().Spec.Failure).To(BeNil())
	}
	refused("guess")
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	refused(token)
	g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	refused(token)
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())

	w = newWorld(proxied)
	w.dhcp(netip.Addr{})
	_, err = w.script(inProxied)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.script(anywhere)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure.Reason).To(Equal(v1alpha1.ReasonSecondRequester))
}

// TestConfiguredAddress: an operating system with an address from spec.network gets the bootstrap data there, and no script.
func TestConfiguredAddress(t *testing.T) {
	static, static6 := netip.MustParseAddr("192.0.2.80"), netip.MustParseAddr("2001:db8:9::80")
	for _, from := range []netip.Addr{static, static6} {
		g := NewWithT(t)
		w := newWorld(leasing)
		g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) {
			h.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{
				Name: "lan0", MACAddress: booting.String(), LinkSettings: v1alpha1.LinkSettings{Addresses: []v1alpha1.IPPrefix{"192.0.2.80/24", "2001:db8:9::80/64"}},
			}}}
		})).To(Succeed())
		w.lease(t, leasing, honest)
		w.dhcp(honest)
		token, err := w.script(honest)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = w.script(from)
		g.Expect(err).To(MatchError(pxe.ErrRefused))
		_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, stranger)
		g.Expect(err).To(MatchError(pxe.ErrRefused))
		_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, from)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(w.boot().Spec.DataAddress).To(Equal(from.String()))
	}
}

// TestSystemOfAnotherNetwork: an operating system may have an address of any network if the server booted from a network with another DHCP server.
func TestSystemOfAnotherNetwork(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(others)
	token, err := w.script(inOthers)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, anywhere)
	g.Expect(err).NotTo(HaveOccurred())
}

// TestDHCPOfEarlierBoots: a DHCP request of an earlier boot, or of another claim, does not count; the address that was leased then does.
func TestDHCPOfEarlierBoots(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(leasing)
	w.lease(t, leasing, honest)
	w.dhcp(honest)
	g.Expect(nextBoot(w)).To(Succeed())
	_, err := w.script(honest)
	g.Expect(err).To(MatchError(pxe.ErrNotYet))
	w.dhcp(honest)
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ClaimID = "next" })).To(Succeed())
	g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.ClaimID = "next" })).To(Succeed())
	_, err = w.script(honest)
	g.Expect(err).To(MatchError(pxe.ErrNotYet))
	_, err = w.script(anywhere)
	g.Expect(err).To(MatchError(pxe.ErrNotYet))
	w.nothingBound(g)
	w.dhcp(honest)
	_, err = w.script(anywhere)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	_, err = w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
}

// TestDHCPOfAnotherServer: another boot server may have received the DHCP request, as the status shows. A status of another boot does not count.
func TestDHCPOfAnotherServer(t *testing.T) {
	saw := func(g Gomega, w *world, number int32, address string) {
		boot := w.boot()
		boot.Status.Stages = []v1alpha1.ObservedStage{{Stage: v1alpha1.StageDHCP, Number: number, Time: metav1.Now(), Address: address}}
		g.Expect(w.Status().Update(ctx, boot)).To(Succeed())
	}
	for name, c := range map[string]struct {
		network bootconfig.Network
		address string // in the status
		from    netip.Addr
	}{"authoritative": {leasing, honest.String(), honest}, "proxy": {proxied, "", inProxied}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(c.network)
			if c.network.Mode == bootconfig.Authoritative {
				w.lease(t, c.network, c.from)
			}
			saw(g, w, 2, c.address)
			_, err := w.script(c.from)
			g.Expect(err).To(MatchError(pxe.ErrNotYet))
			saw(g, w, 3, c.address)
			_, err = w.script(c.from)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(w.boot().Spec.DHCPTime).NotTo(BeNil())
		})
	}
}

// withoutLeases is a cache that does not show Lease objects yet.
type withoutLeases struct{ client.Client }

func (c withoutLeases) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*coordinationv1.LeaseList); ok {
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

// TestLeaseNotInCache: before the cache shows the lease of the first DHCP answer, the server is served, and no other client is.
func TestLeaseNotInCache(t *testing.T) {
	for name, networks := range map[string][]bootconfig.Network{"one network": {leasing}, "mixed": {leasing, unbounded(proxied), unbounded(others)}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(networks...)
			w.lease(t, leasing, honest)
			w.cache.Client = withoutLeases{w.Client}
			w.dhcp(honest)
			for _, from := range []netip.Addr{stranger, anywhere, anywhere6} {
				_, err := w.script(from)
				g.Expect(err).To(MatchError(pxe.ErrRefused))
			}
			w.nothingBound(g)
			_, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

// TestPowerOnNotInCache: while the cache does not show the power-on yet, clients are asked to retry. No client gets anything before the API server has the
// power-on.
func TestPowerOnNotInCache(t *testing.T) {
	g := NewWithT(t)
	cache := newAPI(interceptor.Funcs{})
	w := newWorld(unbounded(others))
	g.Expect((&world{Client: cache}).changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = nil })).To(Succeed())
	w.cache.Client = split{w.Client, cache}
	status, script := w.get(pxe.ScriptPath(booting), honest)
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(script).To(ContainSubstring("asking again in 5 seconds"))
	w.nothingBound(g)

	w.cache.Client = split{w.Client, newAPI(interceptor.Funcs{})}
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = nil })).To(Succeed())
	status, script = w.get(pxe.ScriptPath(booting), honest)
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(script).To(ContainSubstring("asking again in 5 seconds"))
	w.nothingBound(g)
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = &metav1.Time{Time: time.Now()} })).To(Succeed())
	_, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
}

// TestLeaseOfEarlier: a lease from before this boot does not decide about the other address family: the boot loader may have an address of that.
func TestLeaseOfEarlier(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(leasing, proxied6)
	w.lease(t, leasing, honest)
	w.dhcp(netip.Addr{})
	_, err := w.script(inProxied6)
	g.Expect(err).NotTo(HaveOccurred())
}

// TestAdmissionAfterARestart: a boot server that started after the power-on serves a leased address without the DHCP request, which the previous process may
// have answered. No other client gets anything by that.
func TestAdmissionAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		networks []bootconfig.Network
		leased   bool
		from     netip.Addr
		want     error
	}{
		"authoritative, the address":     {[]bootconfig.Network{leasing}, true, honest, nil},
		"authoritative, another address": {[]bootconfig.Network{leasing}, true, stranger, pxe.ErrRefused},
		"authoritative, nothing leased":  {[]bootconfig.Network{leasing}, false, honest, pxe.ErrNotYet},
		"proxy":                          {[]bootconfig.Network{proxied}, false, inProxied, pxe.ErrNotYet},
		"mixed, in the proxied one":      {[]bootconfig.Network{leasing, proxied, others}, false, inProxied, pxe.ErrNotYet},
		"mixed, from elsewhere":          {[]bootconfig.Network{leasing, proxied, others}, false, anywhere, pxe.ErrNotYet},
		"off, out of its subnet":         {[]bootconfig.Network{others}, false, anywhere, pxe.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld(c.networks...)
			if c.leased {
				w.lease(t, leasing, honest)
			}
			stopped, stop := context.WithCancel(ctx)
			stop()
			g.Expect(w.Start(stopped)).To(Succeed()) // it starts, and stops at once
			_, err := w.script(c.from)
			if c.want == nil {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(c.want))
			w.nothingBound(g)
		})
	}
}
