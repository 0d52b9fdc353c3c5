package boot

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// admission decides whether a client may be the server of a boot: by its address, the networks of the boot server, the leases, and the DHCP requests that this
// boot server received.
type admission struct {
	client    client.Client // reads from the cache
	clock     clock.PassiveClock
	namespace string // of the Lease objects
	networks  []bootconfig.Network
	tenants   bootconfig.Tenants

	started      atomic.Pointer[metav1.Time] // when this boot server started; nil before
	dhcpRequests *lru.Cache                  // attemptKeys, with the last dhcpRequest of the boot
}

// start records when this boot server started.
func (adm *admission) start(now time.Time) { adm.started.Store(&metav1.Time{Time: now}) }

// admit decides whether a client is served in a boot, from what DHCP showed of the server. It returns the time of the server's DHCP request, nil where
// none is needed. Any client that reaches the boot server over IP can ask for any MAC address, but only clients on the server's network can send DHCP for it.
//
//   - Where this provider's DHCP answers, nothing is served before the DHCP request of this boot. An earlier client has to ask again: it may be the
//     server, and another boot server received its request.
//   - In an authoritative network only the addresses that the server leased are served; for the bootstrap data, also those that spec.network configures.
//     Any other client is refused, which does not end the boot.
//   - Where the mode is off, the first address is served. For the script it must be in the network's subnet, if one is configured.
//
// The operating system of a boot from a boot medium needs no DHCP request: it has the token of the boot from the medium, whose URL was given to the BMC, and may be in
// any network. In the subnet of an authoritative network it still needs an address that the server leased or that spec.network configures. The script, which
// any client can ask for with a MAC address, is not served in such a boot, because it has the same token. Firmware that did not find its medium is asked to wait for
// the next attempt.
//
// A client of an address family that no network has is judged by all networks. A server that leased an address in this boot asks from that address: its
// script goes to no client of a network, of either family, in which another DHCP server gives addresses.
//
// mac is the MAC address of the interface that asks for its script: only the leases of this interface count. It is empty for a client with a token, for which the leases
// of all interfaces of its server count.
func (adm *admission) admit(ctx context.Context, a attempt, mac string, from netip.Addr, operatingSystem bool) (*metav1.Time, error) {
	if err := adm.tenantMayBoot(a.host.Namespace, from); err != nil {
		return nil, err
	}
	fromMedium := lifecycle.UsesMedium(&a.boot.Spec)
	if fromMedium && !operatingSystem {
		return nil, tooEarly("%s boots from a medium in this attempt, and its token is given to nobody else", firstMAC(a.host))
	}
	if fromMedium && !authoritativeIn(adm.networks, from) {
		return nil, nil //nolint:nilnil // the token came from the medium
	}
	networks := adm.networksFor(from)
	if len(networks) == 0 {
		return nil, nil //nolint:nilnil // nothing is known of any network
	}
	dhcpTime, offered := adm.dhcpRequest(a.boot, mac)
	leased, err := adm.leasedOrOffered(ctx, a.host, mac, networks, offered)
	if err != nil {
		return nil, err
	}
	authoritative := len(leased) > 0 || !slices.ContainsFunc(networks, func(n bootconfig.Network) bool { return n.Mode != bootconfig.Authoritative }) ||
		authoritativeIn(networks, from)
	// Its loader came from a network where this provider answers no DHCP.
	unseen := operatingSystem && a.boot.Spec.ScriptAddress != "" && a.boot.Spec.DHCPTime == nil
	if dhcpTime == nil && authoritative && adm.startedAfter(a.boot.Spec.PoweredOnTime) {
		dhcpTime = adm.started.Load() // only a leased address is served, so it needs no request that this boot server received
	}
	switch {
	case !authoritative && !operatingSystem && authoritativeIn(adm.networks, offered) && external(networks, from, operatingSystem):
		return nil, refused("the request came from %s, and the server leased %s of another network in this boot", from, offered)
	case !authoritative && (unseen || external(networks, from, operatingSystem)):
		return nil, nil //nolint:nilnil // another DHCP server has that network, and this boot server does not see its requests
	case !slices.ContainsFunc(networks, func(n bootconfig.Network) bool { return n.Mode != bootconfig.Off }):
		return nil, refused("the request came from %s, which is in the subnet of no network", from)
	case dhcpTime == nil && !fromMedium:
		return nil, tooEarly("no DHCP request of %s came in this boot", strings.Join(a.host.Spec.BootMACAddresses, " or "))
	case !authoritative || slices.Contains(leased, from) || operatingSystem && slices.Contains(configuredAddresses(a.host), from):
		return dhcpTime, nil
	case len(leased) == 0:
		return nil, tooEarly("the server leased no address yet")
	default:
		return nil, refused("the request came from %s, and the server leased %v. If the server moved to another network, delete its Lease", from, leased)
	}
}

// leasedOrOffered returns the addresses that a host has in networks where DHCP is authoritative, or the one that was offered to it there: the cache may not show its
// lease yet.
func (adm *admission) leasedOrOffered(
	ctx context.Context, host *v1alpha1.BareMetalHost, mac string, networks []bootconfig.Network, offered netip.Addr,
) ([]netip.Addr, error) {
	leased, err := adm.leasedAddresses(ctx, host, mac, networks)
	if err == nil && len(leased) == 0 && authoritativeIn(networks, offered) {
		leased = []netip.Addr{offered}
	}
	return leased, err
}

// tenantMayBoot returns nil if the tenants of the configuration file permit hosts of a namespace to boot from an address.
func (adm *admission) tenantMayBoot(namespace string, from netip.Addr) error {
	for _, n := range adm.networks {
		if n.Subnet.Contains(from) && !adm.tenants.MayBootIn(namespace, n.Name) {
			return refused("the request came from %s, of network %s, which the tenants of the configuration file do not permit namespace %s", from, n.Name, namespace)
		}
	}
	return nil
}

// networksFor returns the networks of the address family of a client, or all networks if there is none of that family.
func (adm *admission) networksFor(from netip.Addr) []bootconfig.Network {
	same := slices.DeleteFunc(slices.Clone(adm.networks), func(n bootconfig.Network) bool { return n.Address.BitLen() != from.BitLen() })
	if len(same) == 0 {
		return adm.networks
	}
	return same
}

// authoritativeIn is true for an address of one of the authoritative networks.
func authoritativeIn(networks []bootconfig.Network, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n bootconfig.Network) bool { return n.Mode == bootconfig.Authoritative && n.Subnet.Contains(a) })
}

// external is true where another DHCP server may have given a client its address. An operating system may have an address of any network.
func external(networks []bootconfig.Network, from netip.Addr, operatingSystem bool) bool {
	served := func(n bootconfig.Network) bool {
		return n.Mode != bootconfig.Off && n.Subnet.IsValid() && n.Subnet.Contains(from)
	}
	unserved := func(n bootconfig.Network) bool {
		return n.Mode == bootconfig.Off && (operatingSystem || !n.Subnet.IsValid() || n.Subnet.Contains(from))
	}
	return !slices.ContainsFunc(networks, served) && slices.ContainsFunc(networks, unserved)
}

// leasedAddresses returns the addresses that an interface of a host has in the given networks where DHCP is authoritative, or those of all interfaces if mac is empty.
func (adm *admission) leasedAddresses(ctx context.Context, host *v1alpha1.BareMetalHost, mac string, networks []bootconfig.Network) ([]netip.Addr, error) {
	var all []netip.Addr
	macs := host.Spec.BootMACAddresses
	if mac != "" {
		macs = []string{mac}
	}
	for _, mac := range macs {
		var leases coordinationv1.LeaseList
		if err := adm.client.List(ctx, &leases, client.InNamespace(adm.namespace), client.MatchingFields{leaseIndex: mac}); err != nil {
			return nil, err
		}
		own := holderOf(host, mac)
		for i := range leases.Items {
			l := &leases.Items[i]
			inNetwork := func(n bootconfig.Network) bool {
				return n.Mode == bootconfig.Authoritative && n.Name == l.Labels[NetworkLabel]
			}
			if own.has(l) && slices.ContainsFunc(networks, inNetwork) {
				all = append(all, leaseAddress(l.Name))
			}
		}
	}
	return all, nil
}

// isOwnAddress is true for an address that this provider leased to the server, or that spec.network gives to it.
func (adm *admission) isOwnAddress(ctx context.Context, a attempt, from netip.Addr) (bool, error) {
	if slices.Contains(configuredAddresses(a.host), from) {
		return true, nil
	}
	leased, err := adm.leasedAddresses(ctx, a.host, "", adm.networksFor(from))
	return slices.Contains(leased, from), err
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

// expectsLoader is true if a request for a boot loader can come from the server. Its attempt must not use a medium. Its DHCP request must have been observed, unless this
// boot server does not observe its DHCP requests.
func (adm *admission) expectsLoader(boot *v1alpha1.BareMetalBoot) bool {
	dhcpTime, _ := adm.dhcpRequest(boot, "")
	unseen := len(adm.networks) == 0 || adm.startedAfter(boot.Spec.PoweredOnTime) ||
		slices.ContainsFunc(adm.networks, func(n bootconfig.Network) bool { return n.Mode == bootconfig.Off })
	return !lifecycle.UsesMedium(&boot.Spec) && (dhcpTime != nil || unseen)
}

// dhcpRequest is the last DHCP request of a boot: when it came, from which interface, and the address in the answer. The address is invalid where another DHCP
// server gives addresses.
type dhcpRequest struct {
	at      metav1.Time
	mac     string
	address netip.Addr
}

// recordDHCPRequest records in memory that the DHCP request of a boot came now, from one of its server's interfaces.
func (adm *admission) recordDHCPRequest(boot *v1alpha1.BareMetalBoot, mac net.HardwareAddr, address netip.Addr) {
	adm.dhcpRequests.Add(keyOf(boot), dhcpRequest{metav1.NewTime(adm.clock.Now()), mac.String(), normalized(address)})
}

// startedAfter is true if this boot server started after a server was powered on. The previous process may have answered the DHCP request, and a loader
// that has its address does not ask again.
func (adm *admission) startedAfter(poweredOn *metav1.Time) bool {
	started := adm.started.Load()
	// The API server records poweredOn in whole seconds, so a start in the same second counts.
	return started != nil && poweredOn != nil && !started.Before(poweredOn)
}

// dhcpRequest returns when the DHCP request of a boot came, nil if there was none, and the address in the answer. It takes them from the boot's spec, from
// the memory of this boot server, or from the boot's status, where another boot server recorded them. With a MAC address, the address in the answer is that of this
// interface: it is invalid if the last request in memory came from another interface.
func (adm *admission) dhcpRequest(boot *v1alpha1.BareMetalBoot, mac string) (*metav1.Time, netip.Addr) {
	var at *metav1.Time
	var address netip.Addr
	if s := controllers.ObservedStage(boot, v1alpha1.StageDHCP); s != nil {
		at = &s.Time
		address, _ = netip.ParseAddr(s.Address) // empty where another DHCP server gave it
	}
	if noted, ok := adm.dhcpRequests.Get(keyOf(boot)); ok {
		request := noted.(dhcpRequest) //nolint:forcetypeassert // recordDHCPRequest adds nothing else
		at, address = &request.at, request.address
		if mac != "" && mac != request.mac {
			address = netip.Addr{}
		}
	}
	if boot.Spec.DHCPTime != nil {
		at = boot.Spec.DHCPTime
	}
	return at, address
}
