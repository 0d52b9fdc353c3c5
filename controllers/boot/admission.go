package boot

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// admit decides whether a client is served in a boot, by what DHCP showed of the server, and returns when its DHCP request came, nil where none is
// needed. Any client that reaches the boot server over IP can ask for any MAC address. Only the server, or a client on its network, asks DHCP.
//
//   - Where DHCP is ours, nothing is served before the DHCP request of this boot. A client that comes earlier has to ask again: it may be the
//     server, whose request another boot server took.
//   - In an authoritative network only the addresses that the server leased are served, and for the bootstrap data those that spec.network gives it.
//     Another client is refused, which does not end the boot.
//   - Where the mode is off the first address is served; for the script, of the network's subnet where that is configured.
//
// A client of an address family that no network has is judged by all networks. The script of a server that leased an address in this boot goes to no client of
// a network in which another DHCP server gives addresses, also of the other family: its loader has the leased address.
func (b *Booter) admit(ctx context.Context, a attempt, from netip.Addr, operatingSystem bool) (*metav1.Time, error) {
	for _, n := range b.Networks {
		if n.Subnet.Contains(from) && !b.Tenants.MayBootIn(a.host.Namespace, n.Name) {
			return nil, refused("the request came from %s, of network %s, which the tenants of the configuration file do not permit namespace %s", from, n.Name, a.host.Namespace)
		}
	}
	networks := b.networksFor(from)
	if len(networks) == 0 {
		return nil, nil //nolint:nilnil // nothing is known of any network
	}
	dhcpAt, offered := b.dhcpRequest(a.boot)
	leased, err := b.leasedAddresses(ctx, a.host, networks)
	if err != nil {
		return nil, err
	}
	if len(leased) == 0 && authoritativeIn(networks, offered) {
		leased = []netip.Addr{offered} // the cache does not show the lease yet
	}
	authoritative := len(leased) > 0 || !slices.ContainsFunc(networks, func(n bootconfig.Network) bool { return n.Mode != bootconfig.Authoritative }) ||
		authoritativeIn(networks, from)
	unseen := operatingSystem && a.boot.Spec.ScriptAddress != "" && a.boot.Spec.DHCPAt == nil // its loader came from a network where DHCP is not ours
	if dhcpAt == nil && authoritative && b.startedAfter(a.boot.Spec.PoweredOnAt) {
		dhcpAt = b.started.Load() // only a leased address is served, so it needs no request that this boot server saw
	}
	switch {
	case !authoritative && !operatingSystem && authoritativeIn(b.Networks, offered) && external(networks, from, operatingSystem):
		return nil, refused("the request came from %s, and the server leased %s of another network in this boot", from, offered)
	case !authoritative && (unseen || external(networks, from, operatingSystem)):
		return nil, nil //nolint:nilnil // another DHCP server has that network, and what it is asked is not seen here
	case !slices.ContainsFunc(networks, func(n bootconfig.Network) bool { return n.Mode != bootconfig.Off }):
		return nil, refused("the request came from %s, which is in the subnet of no network", from)
	case dhcpAt == nil:
		return nil, tooEarly("no DHCP request of %s came in this boot", a.host.Spec.BootMACAddress)
	case !authoritative || slices.Contains(leased, from) || operatingSystem && slices.Contains(configuredAddresses(a.host), from):
		return dhcpAt, nil
	case len(leased) == 0:
		return nil, tooEarly("the server leased no address yet")
	default:
		return nil, refused("the request came from %s, and the server leased %v. If the server moved to another network, delete its Lease", from, leased)
	}
}

// networksFor returns the networks of the address family of a client, all if none is.
func (b *Booter) networksFor(from netip.Addr) []bootconfig.Network {
	same := slices.DeleteFunc(slices.Clone(b.Networks), func(n bootconfig.Network) bool { return n.Address.BitLen() != from.BitLen() })
	if len(same) == 0 {
		return b.Networks
	}
	return same
}

// authoritativeIn is true for an address of one of the authoritative networks.
func authoritativeIn(networks []bootconfig.Network, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n bootconfig.Network) bool { return n.Mode == bootconfig.Authoritative && n.Subnet.Contains(a) })
}

// external is true where another DHCP server may have given a client its address. An operating system may have an address of any network.
func external(networks []bootconfig.Network, from netip.Addr, operatingSystem bool) bool {
	ours := func(n bootconfig.Network) bool {
		return n.Mode != bootconfig.Off && n.Subnet.IsValid() && n.Subnet.Contains(from)
	}
	theirs := func(n bootconfig.Network) bool {
		return n.Mode == bootconfig.Off && (operatingSystem || !n.Subnet.IsValid() || n.Subnet.Contains(from))
	}
	return !slices.ContainsFunc(networks, ours) && slices.ContainsFunc(networks, theirs)
}

// leasedAddresses returns the addresses that a host has in those networks where DHCP is authoritative.
func (b *Booter) leasedAddresses(ctx context.Context, host *v1alpha1.BareMetalHost, networks []bootconfig.Network) ([]netip.Addr, error) {
	var leases coordinationv1.LeaseList
	if err := b.Client.List(ctx, &leases, client.InNamespace(b.Namespace), client.MatchingFields{leaseIndex: host.Spec.BootMACAddress}); err != nil {
		return nil, err
	}
	me := allocation{Booter: b, host: host, me: holderOf(host)}
	var all []netip.Addr
	for i := range leases.Items {
		l := &leases.Items[i]
		ours := func(n bootconfig.Network) bool {
			return n.Mode == bootconfig.Authoritative && n.Name == l.Labels[NetworkLabel]
		}
		if me.has(l) && slices.ContainsFunc(networks, ours) {
			all = append(all, leaseAddress(l.Name))
		}
	}
	return all, nil
}

// configuredAddresses returns the addresses that a host's operating system is configured with.
func configuredAddresses(host *v1alpha1.BareMetalHost) []netip.Addr {
	var all []netip.Addr
	for _, text := range controllers.NetworkAddresses(host) {
		address, _, _ := strings.Cut(text, "/")
		if a, err := netip.ParseAddr(address); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// dhcpRequest is a DHCP request of a boot: when it came, and the address that it was answered with; invalid where another DHCP server gives addresses.
type dhcpRequest struct {
	at      metav1.Time
	address netip.Addr
}

// noteDHCP notes that the DHCP request of a boot comes now.
func (b *Booter) noteDHCP(boot *v1alpha1.BareMetalBoot, address netip.Addr) {
	b.asked.Add(keyOf(boot), dhcpRequest{metav1.NewTime(b.Clock.Now()), plain(address)})
}

// startedAfter is true for a boot server that started after a server was powered on: the one before it may have answered the DHCP request, and a loader
// that has its address does not ask again.
func (b *Booter) startedAfter(poweredOn *metav1.Time) bool {
	started := b.started.Load()
	return started != nil && poweredOn != nil && !started.Before(poweredOn) // which is recorded in whole seconds: one that started in the same second counts
}

// dhcpRequest returns when the DHCP request of a boot came, nil if none did, and the address that it was answered with: as it is recorded, as this boot
// server noted it, or as another one did.
func (b *Booter) dhcpRequest(boot *v1alpha1.BareMetalBoot) (*metav1.Time, netip.Addr) {
	var at *metav1.Time
	var address netip.Addr
	if s := controllers.ObservedStage(boot, v1alpha1.StageDHCP); s != nil {
		at = &s.Time
		address, _ = netip.ParseAddr(s.Address) // empty where another DHCP server gave it
	}
	if noted, ok := b.asked.Get(keyOf(boot)); ok {
		request := noted.(dhcpRequest) //nolint:forcetypeassert // noteDHCP adds nothing else
		at, address = &request.at, request.address
	}
	if boot.Spec.DHCPAt != nil {
		at = boot.Spec.DHCPAt
	}
	return at, address
}
