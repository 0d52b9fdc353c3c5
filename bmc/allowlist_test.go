package bmc_test

import (
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestPermit: loopback and link-local addresses are refused in every notation, unless their network is allowed.
func TestPermit(t *testing.T) {
	none := bmc.AllowList{}
	some := bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("169.254.3.0/24"), netip.MustParsePrefix("fe80::/64"), netip.MustParsePrefix("127.0.0.0/8")}}
	for address, c := range map[string]struct{ none, some bool }{
		"192.0.2.10":             {none: true, some: true},
		"2001:db8::10":           {none: true, some: true},
		"::ffff:192.0.2.10":      {none: true, some: true},
		"169.254.169.254":        {}, // cloud metadata
		"::ffff:169.254.169.254": {},
		"169.254.3.254":          {some: true}, // the service network of a BMC (DSP0270)
		"fe80::1":                {some: true},
		"fe80::1%eth0":           {some: true},
		"fe81::1":                {},
		"127.0.0.1":              {some: true},
		"::ffff:127.0.0.1":       {some: true},
		"::1":                    {},
		"224.0.0.1":              {},
		"ff02::1":                {},
		"0.0.0.0":                {},
		"::":                     {},
	} {
		t.Run(address, func(t *testing.T) {
			g := NewWithT(t)
			ip := netip.MustParseAddr(address)
			for permit, allowed := range map[*bmc.AllowList]bool{&none: c.none, &some: c.some} {
				err := permit.Check("bmc.example", ip)
				if allowed {
					g.Expect(err).NotTo(HaveOccurred())
					continue
				}
				g.Expect(err).To(MatchError(ContainSubstring("bmcs.allowNetworks")))
				_, err = permit.Dial(t.Context(), time.Second, "udp", netip.AddrPortFrom(ip, 9).String())
				g.Expect(err).To(MatchError(ContainSubstring("bmcs.allowNetworks")), "the address that is connected to is checked")
			}
		})
	}
}
