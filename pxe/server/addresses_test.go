package server

import (
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

func TestMissingAddresses(t *testing.T) {
	var local []netip.Prefix
	for _, p := range []string{"127.0.0.1/8", "::1/128", "192.0.2.5/24", "2001:db8::5/64", "fe80::1/64"} {
		local = append(local, netip.MustParsePrefix(p))
	}
	for name, test := range map[string]struct{ addresses, missing []string }{
		"all are present":               {[]string{"192.0.2.5", "2001:db8::5", "::1"}, nil},
		"another address of the subnet": {[]string{"192.0.2.6", "2001:db8::6"}, []string{"192.0.2.6", "2001:db8::6"}},
		"loopback":                      {[]string{"127.0.0.1", "127.0.82.1", "127.255.255.254"}, nil},
		"IPv6 loopback has one address": {[]string{"::2"}, []string{"::2"}},
		"one of two is missing":         {[]string{"192.0.2.5", "198.51.100.5"}, []string{"198.51.100.5"}},
		"two networks with one address": {[]string{"198.51.100.5", "198.51.100.5"}, []string{"198.51.100.5"}},
		"link-local with a zone":        {[]string{"fe80::1%eth0"}, nil},
		"mapped":                        {[]string{"::ffff:192.0.2.5"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var networks []bootconfig.Network
			for _, a := range test.addresses {
				networks = append(networks, bootconfig.Network{Address: netip.MustParseAddr(a)})
			}
			var missing []string
			for _, a := range MissingAddresses(networks, local) {
				missing = append(missing, a.String())
			}
			NewWithT(t).Expect(missing).To(Equal(test.missing))
		})
	}
}

// TestLocalAddresses: the machine of the test has a loopback interface with the whole of 127.0.0.0/8.
func TestLocalAddresses(t *testing.T) {
	g := NewWithT(t)
	local, err := LocalAddresses()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(local).To(ContainElement(netip.MustParsePrefix("127.0.0.1/8")))
	networks := []bootconfig.Network{{Address: netip.MustParseAddr("127.0.80.1")}, {Address: netip.MustParseAddr("192.0.2.5")}}
	g.Expect(MissingAddresses(networks, local)).To(Equal([]netip.Addr{netip.MustParseAddr("192.0.2.5")}))
}
