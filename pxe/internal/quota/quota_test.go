package quota

import (
	"net/netip"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

func TestPrefixOf(t *testing.T) {
	g := NewWithT(t)
	for address, want := range map[string]string{"2001:db8:0:1:2:3:4:5": "2001:db8:0:1::/64", "fe80::1%eth0": "fe80::/64", "::1": "::/64"} {
		prefix, ok := PrefixOf(netip.MustParseAddr(address))
		g.Expect(ok).To(BeTrue())
		g.Expect(prefix.String()).To(Equal(want))
	}
	for _, address := range []netip.Addr{{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("::ffff:192.0.2.1")} {
		_, ok := PrefixOf(address)
		g.Expect(ok).To(BeFalse(), address.String())
	}
}

// TestPropertyClients: neither bound is ever exceeded, no client is refused below both, and clients that left are forgotten.
func TestPropertyClients(t *testing.T) {
	addresses := []netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"),
		netip.MustParseAddr("2001:db8::3"), netip.MustParseAddr("2001:db8:0:1::1"), {},
	}
	rapid.Check(t, func(t *rapid.T) {
		c := &Clients{PerAddress: 2, PerPrefix: 3}
		var inside []netip.Addr
		count := func(same func(netip.Addr) bool) (n int) {
			for _, a := range inside {
				if same(a) {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(inside) > 0 && rapid.Bool().Draw(t, "leave") {
				i := rapid.IntRange(0, len(inside)-1).Draw(t, "which")
				c.Leave(inside[i])
				inside = slices.Delete(inside, i, i+1)
				continue
			}
			a := rapid.SampledFrom(addresses).Draw(t, "address")
			prefix, v6 := PrefixOf(a)
			room := count(func(b netip.Addr) bool { return a == b }) < 2 && (!v6 || count(prefix.Contains) < 3)
			if c.Enter(a) != room {
				t.Fatalf("%s, and inside are %v: room is %v", a, inside, room)
			}
			if room {
				inside = append(inside, a)
			}
		}
		for _, a := range inside {
			c.Leave(a)
		}
		if len(c.addresses)+len(c.prefixes) != 0 {
			t.Fatalf("%v and %v are left", c.addresses, c.prefixes)
		}
	})
}
