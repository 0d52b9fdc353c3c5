// Package quota bounds the concurrent activities of clients by their addresses. An IPv6 client may use any address of its /64, so each /64 has a bound too.
package quota

import "net/netip"

// prefixBits is the prefix length of links (RFC 4291, section 2.5.1). One client can use all addresses of such a prefix, and a whole rack may have its addresses
// in one.
const prefixBits = 64

// PrefixOf returns the /64 of an IPv6 address, and false for any other address.
func PrefixOf(address netip.Addr) (netip.Prefix, bool) {
	address = address.Unmap().WithZone("")
	if !address.Is6() {
		return netip.Prefix{}, false
	}
	prefix, err := address.Prefix(prefixBits)
	return prefix, err == nil
}

// Clients counts the concurrent activities of clients. It is not safe for concurrent use.
type Clients struct {
	// PerAddress and PerPrefix are the maximum numbers of concurrent activities of one address, and of one IPv6 /64. The latter must be enough for a rack of
	// servers that boot.
	PerAddress, PerPrefix int

	addresses map[netip.Addr]int
	prefixes  map[netip.Prefix]int
}

// Enter counts one activity. It returns false, and counts nothing, if the address or its /64 has reached its maximum.
func (c *Clients) Enter(address netip.Addr) bool {
	prefix, counted := PrefixOf(address)
	if c.addresses[address] >= c.PerAddress || counted && c.prefixes[prefix] >= c.PerPrefix {
		return false
	}
	if c.addresses == nil {
		c.addresses, c.prefixes = map[netip.Addr]int{}, map[netip.Prefix]int{}
	}
	c.addresses[address]++
	if counted {
		c.prefixes[prefix]++
	}
	return true
}

// Leave reverts one Enter that returned true.
func (c *Clients) Leave(address netip.Addr) {
	if c.addresses[address]--; c.addresses[address] == 0 {
		delete(c.addresses, address)
	}
	if prefix, counted := PrefixOf(address); counted {
		if c.prefixes[prefix]--; c.prefixes[prefix] == 0 {
			delete(c.prefixes, prefix)
		}
	}
}
