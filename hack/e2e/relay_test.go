package e2e_test

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// throughRelay makes a network for hosts, behind a router that relays their DHCP to the manager's.
func throughRelay(t *testing.T) service {
	t.Helper()
	front, back := newSegment(t, "10.79.0.0/24"), newBareSegment(t, "10.80.0.0/24")
	router, inner, outer := connect(t, front, back)
	// -a adds option 82.
	startInside(t, router, "dhcrelay", filepath.Join(controllerstest.Root(), ".cache/relay/usr/sbin/dhcrelay"), "-4", "-d", "--no-pid", "-a", "-id", "eth1", "-iu", "eth0", front.address.String())
	// dhcrelay writes the inner address into requests, and sends them from the outer one.
	return service{manager: front, hosts: back, mode: "authoritative", first: back.at(100), last: back.at(200), router: inner, relay: outer}
}

// connect makes a router between a network of this namespace and another one. It returns the router with its addresses there: inner is that in the other network.
func connect(t *testing.T, front, back *segment) (router *namespace, inner, outer netip.Addr) {
	t.Helper()
	inner, outer = back.at(1), front.at(2)
	router = newNamespace(t, leg{front, netip.PrefixFrom(outer, front.prefix.Bits())}, leg{back, netip.PrefixFrom(inner, back.prefix.Bits())})
	command := router.enter("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
	run(t, command[0], command[1:]...)
	ipf(t, "route add %s via %s", back.prefix, outer)
	return router, inner, outer
}
