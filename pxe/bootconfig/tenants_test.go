package bootconfig

import (
	"testing"

	. "github.com/onsi/gomega"
)

const tenantsFile = `
networks: [{name: rack-1, mode: authoritative, address: 192.0.2.5, subnet: 192.0.2.0/24}, {name: rack-2, mode: proxy, address: 198.51.100.5, subnet: 198.51.100.0/24}]
tenants:
- namespaces: [team-a, team-b]
  bmcNetworks: [10.1.0.0/24, "2001:db8:1::/64"]
  dhcpNetworks: [rack-1]
  macPrefixes: ["52:54:00", "02:00:00:00:00:0a"]
- namespaces: [admin]
`

// TestTenants: the hosts of a namespace may use what its tenant permits, and those of a namespace without a tenant nothing.
func TestTenants(t *testing.T) {
	g := NewWithT(t)
	none, err := Parse([]byte("networks: [" + good + "]"))
	g.Expect(err).NotTo(HaveOccurred())
	some, err := Parse([]byte(tenantsFile))
	g.Expect(err).NotTo(HaveOccurred())
	open, err := Parse([]byte(tenantsFile + "- {namespaces: ['*'], dhcpNetworks: [rack-2]}\n"))
	g.Expect(err).NotTo(HaveOccurred())
	for name, c := range map[string]struct {
		tenants             Tenants
		namespace, mac, bmc string
		want                string
	}{
		"without tenants":               {none.Tenants, "any", "52:54:00:00:00:01", "bmc.example", ""},
		"its own":                       {some.Tenants, "team-b", "52:54:00:00:00:01", "10.1.0.9", ""},
		"its own, IPv6":                 {some.Tenants, "team-a", "02:00:00:00:00:0a", "2001:db8:1::9", ""},
		"its own, mapped":               {some.Tenants, "team-a", "02:00:00:00:00:0a", "::ffff:10.1.0.9", ""},
		"another MAC address":           {some.Tenants, "team-a", "02:00:00:00:00:0b", "10.1.0.9", "spec.bootMACAddresses has 02:00:00:00:00:0b: .* only addresses that begin with 52:54:00 or 02:00:00:00:00:0a"},
		"a BMC of another network":      {some.Tenants, "team-a", "52:54:00:00:00:01", "10.1.1.9", "spec.bmc.address has the IP address 10.1.1.9: .* only BMCs in .10.1.0.0/24"},
		"a BMC by its name":             {some.Tenants, "team-a", "52:54:00:00:00:01", "bmc.example", "spec.bmc.address has the host name bmc.example: .* so give the IP address"},
		"a tenant that may use all":     {some.Tenants, "admin", "ee:00:00:00:00:01", "bmc.example", ""},
		"a namespace without a tenant":  {some.Tenants, "team-c", "52:54:00:00:00:01", "10.1.0.9", "permit namespace team-c nothing"},
		"a namespace of the others":     {open.Tenants, "team-c", "52:54:00:00:00:01", "10.9.0.9", ""},
		"a namespace that is no other":  {open.Tenants, "team-a", "ee:00:00:00:00:01", "10.1.0.9", "spec.bootMACAddresses"},
		"a namespace that has a star":   {some.Tenants, "*", "52:54:00:00:00:01", "10.1.0.9", "nothing"},
		"a namespace like a tenant's":   {some.Tenants, "team", "52:54:00:00:00:01", "10.1.0.9", "nothing"},
		"an address that has no prefix": {some.Tenants, "team-a", "52:5", "10.1.0.9", "spec.bootMACAddresses"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.tenants.CheckHost(c.namespace, []string{c.mac}, c.bmc)
			if c.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(MatchRegexp(c.want)))
		})
	}
	for _, c := range []struct {
		tenants            Tenants
		namespace, network string
		may                bool
	}{
		{none.Tenants, "any", "rack-1", true}, {some.Tenants, "team-a", "rack-1", true}, {some.Tenants, "team-a", "rack-2", false}, {some.Tenants, "admin", "rack-2", true},
		{some.Tenants, "team-c", "rack-1", false}, {open.Tenants, "team-c", "rack-1", false}, {open.Tenants, "team-c", "rack-2", true},
	} {
		g.Expect(c.tenants.MayBootIn(c.namespace, c.network)).To(Equal(c.may), "%s in %s", c.namespace, c.network)
	}
}

// TestTenantErrors: an error in the tenants is reported with its location and the remedy.
func TestTenantErrors(t *testing.T) {
	for name, c := range map[string]struct{ tenants, want string }{
		"no namespace":       {"{macPrefixes: ['52:54:00']}", "tenants[0].namespaces: Required value"},
		"a namespace twice":  {"{namespaces: [a]}, {namespaces: [b, a]}", `tenants[1].namespaces[1]: Duplicate value: "a"`},
		"a namespace's name": {"{namespaces: [A_b]}", "tenants[0].namespaces[0]: Invalid value"},
		"an unknown network": {"{namespaces: [a], dhcpNetworks: [rack-9]}", `tenants[0].dhcpNetworks[0]: Invalid value: "rack-9": give the name of one of networks`},
		"a MAC prefix":       {"{namespaces: [a], macPrefixes: ['52:5']}", "tenants[0].macPrefixes[0]: Invalid value"},
		"a network of BMCs":  {"{namespaces: [a], bmcNetworks: [10.1.0.1]}", "tenants[0].bmcNetworks[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte("networks: [" + good + "]\ntenants: [" + c.tenants + "]"))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.want)))
		})
	}
}
