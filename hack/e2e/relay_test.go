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
	front, back := newWire(t, "10.79.0.0/24"), newBareWire(t, "10.80.0.0/24")
	inner, outer := netip.PrefixFrom(back.at(1), 24), netip.PrefixFrom(front.at(2), 24)
	router := newNamespace(t, leg{front, outer}, leg{back, inner})
	command := router.enter("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
	run(t, command[0], command[1:]...)
	ipf(t, "route add %s via %s", back.prefix, outer.Addr())
	// -a adds option 82.
	startInside(t, router, "dhcrelay", filepath.Join(controllerstest.Root(), ".cache/relay/usr/sbin/dhcrelay"), "-4", "-d", "--no-pid", "-a", "-id", "eth1", "-iu", "eth0", front.address.String())
	// dhcrelay writes the inner address into requests, and sends them from the outer one.
	return service{manager: front, hosts: back, mode: "authoritative", first: back.at(100), last: back.at(200), router: inner.Addr(), relay: outer.Addr()}
}
