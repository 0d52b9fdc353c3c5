package boot

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

const (
	// maxTries bounds the addresses that are looked at in the cache for one that nobody ever had. A range of IPv6 has more, but
	// no inventory fills so many.
	maxTries = 1 << 16
	// maxRaces bounds the addresses that are found given already when the API server is asked for them.
	maxRaces = 64
)

// find returns an address for a host that has none in the pool. had are the Lease objects that it had.
func (a *allocation) find(ctx context.Context, had []*coordinationv1.Lease) (pxe.Lease, error) {
	refused := 0
	for _, l := range had {
		if withheldNow(l) {
			refused++
		}
	}
	if refused >= maxWithheld {
		return pxe.Lease{}, addressError(fmt.Sprintf("%s declined %d addresses of network %s one after the other: somebody answers for all of them",
			a.me.host, refused, a.pool.Network))
	}
	lease, err := a.again(ctx, had)
	if err == nil && !lease.Address.IsValid() {
		lease, err = a.unused(ctx)
	}
	if err == nil && !lease.Address.IsValid() {
		lease, err = a.abandoned(ctx)
	}
	if reserved := controllers.ReservedAddresses(a.host); err == nil && lease.New && slices.ContainsFunc(reserved, sameFamily(lease.Address)) {
		a.warnf(a.host, v1alpha1.ReasonReservationUnused, "Lease", "None of bootAddresses %v is in network %s, %s, where the server gets %s of the ranges",
			reserved, a.pool.Network, a.pool.Prefix, lease.Address)
	}
	return lease, err
}

func sameFamily(a netip.Addr) func(netip.Addr) bool {
	return func(b netip.Addr) bool { return a.BitLen() == b.BitLen() }
}

// again returns an address that the host had, or asks for, or was seen with, an invalid one if it cannot have any of them.
func (a *allocation) again(ctx context.Context, had []*coordinationv1.Lease) (pxe.Lease, error) {
	var candidates []netip.Addr
	for _, l := range had {
		if !withheld(l) {
			candidates = append(candidates, leaseAddress(l.Name))
		}
	}
	boot, err := a.bootOf(ctx, a.me.host)
	if err != nil {
		return pxe.Lease{}, err
	}
	seen := controllers.UsedAddresses(a.host, boot)
	if boot != nil && boot.Spec.Number > 0 && boot.Spec.ReportedAt == nil {
		// Who asked for the script of a boot that did not report in may be a stranger. Given his address, the server would look like him.
		seen = nil
	}
	for _, candidate := range append([]netip.Addr{a.wanted}, seen...) {
		if inRanges(a.pool.Ranges, candidate) {
			candidates = append(candidates, candidate)
		}
	}
	for _, candidate := range candidates {
		others, err := a.others(ctx, candidate)
		if err != nil {
			return pxe.Lease{}, err
		}
		if len(others) > 0 {
			continue
		}
		if lease, err := a.acquire(ctx, candidate, false); !isAddressError(err) {
			return lease, err
		}
	}
	return pxe.Lease{}, nil
}

// unused returns an address of the ranges that nobody ever had, an invalid one if there is none.
func (a *allocation) unused(ctx context.Context) (pxe.Lease, error) {
	n := total(a.pool.Ranges)
	if n == 0 {
		return pxe.Lease{}, addressError(fmt.Sprintf("network %s has no ranges, and bootAddresses of %s names none of its addresses", a.pool.Network, a.me.host))
	}
	start, races := place(a.mac, n), 0
	for i := range min(n, maxTries) {
		address := at(a.pool.Ranges, after(start, i, n))
		var lease coordinationv1.Lease
		if err := a.Client.Get(ctx, a.leaseKey(address), &lease); client.IgnoreNotFound(err) != nil {
			return pxe.Lease{}, err
		} else if err == nil && a.has(&lease) {
			return pxe.Lease{Address: address}, nil // another boot server was faster, for the same server
		} else if err == nil {
			continue
		}
		if others, err := a.others(ctx, address); err != nil {
			return pxe.Lease{}, err
		} else if len(others) > 0 {
			continue
		}
		given, err := a.acquire(ctx, address, false)
		if races++; !isAddressError(err) || races == maxRaces {
			return given, err
		}
	}
	return pxe.Lease{}, nil
}

// abandoned returns the address of the ranges that its holder left longest ago.
func (a *allocation) abandoned(ctx context.Context) (pxe.Lease, error) {
	var all coordinationv1.LeaseList
	if err := a.Client.List(ctx, &all, client.InNamespace(a.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return pxe.Lease{}, err
	}
	var left []*coordinationv1.Lease
	for i := range all.Items {
		l := &all.Items[i]
		if !inRanges(a.pool.Ranges, leaseAddress(l.Name)) {
			continue
		}
		gone := !withheldNow(l)
		if !withheld(l) {
			hosts, err := controllers.HostsWith(ctx, a.Client, controllers.MACIndex, parseHolder(ptr.Deref(l.Spec.HolderIdentity, "")).mac)
			if err != nil {
				return pxe.Lease{}, err
			}
			gone = len(hosts) == 0
		}
		if others, err := a.others(ctx, leaseAddress(l.Name)); err != nil {
			return pxe.Lease{}, err
		} else if gone && len(others) == 0 {
			left = append(left, l)
		}
	}
	slices.SortFunc(left, older)
	for _, l := range left[:min(len(left), maxRaces)] {
		if lease, err := a.acquire(ctx, leaseAddress(l.Name), true); !isAddressError(err) {
			return lease, err
		}
	}
	return pxe.Lease{}, addressError(fmt.Sprintf("none of the %d addresses of network %s is free: give it more ranges, or delete hosts that are gone",
		total(a.pool.Ranges), a.pool.Network))
}

// has is true for the object of an address that the host has.
func (a *allocation) has(l *coordinationv1.Lease) bool {
	return !withheld(l) && ptr.Deref(l.Spec.HolderIdentity, "") == a.me.String()
}

// user is a host that keeps others from an address.
type user struct {
	host *v1alpha1.BareMetalHost
	// observed is true for an address that its server was observed with. Otherwise its spec names the address.
	observed bool
}

// maxConfigured is how many addresses of a network the spec of one host keeps from others. Who may write a host could empty the network otherwise.
const maxConfigured = 8

// others returns the users of an address besides this host.
func (a *allocation) others(ctx context.Context, address netip.Addr) ([]user, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := a.Client.List(ctx, &hosts, client.MatchingFields{controllers.AddressIndex: address.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var boots v1alpha1.BareMetalBootList
	if err := a.Client.List(ctx, &boots, client.MatchingFields{controllers.AddressIndex: address.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	users := map[types.NamespacedName]user{}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		observed := slices.ContainsFunc(host.Status.Addresses, func(seen clusterv1.MachineAddress) bool { return seen.Address == address.String() })
		configured, err := a.configures(ctx, host, address)
		if err != nil {
			return nil, err
		}
		if observed || configured {
			users[client.ObjectKeyFromObject(host)] = user{host, observed}
		}
	}
	for i := range boots.Items {
		boot, host := &boots.Items[i], &v1alpha1.BareMetalHost{}
		if boot.Spec.VoidedAt != nil {
			continue // its server is off, and its claim has ended
		}
		if err := a.Client.Get(ctx, client.ObjectKeyFromObject(boot), host); client.IgnoreNotFound(err) != nil {
			return nil, err
		} else if err == nil {
			users[client.ObjectKeyFromObject(boot)] = user{host, true}
		}
	}
	delete(users, a.me.host)
	return slices.Collect(maps.Values(users)), nil
}

// configures is true for an address of the pool's network that the spec of a host names and that counts: the provider inventoried its server, and its MAC address is
// its own. For a host of another namespace it counts only where that host has an address of the network: who may write hosts of one namespace could
// deny addresses to all others.
func (a *allocation) configures(ctx context.Context, host *v1alpha1.BareMetalHost, address netip.Addr) (bool, error) {
	identity := host.Status.Identity
	if identity == nil || identity.BootMACAddress != host.Spec.BootMACAddress || host.Status.Hardware == nil {
		return false, nil
	}
	all := slices.DeleteFunc(append(controllers.ReservedAddresses(host), controllers.ConfiguredAddresses(host)...),
		func(c netip.Addr) bool { return !a.pool.Prefix.Contains(c) })
	if !slices.Contains(all[:min(len(all), maxConfigured)], address) {
		return false, nil
	}
	if host.Namespace == a.host.Namespace {
		return true, nil
	}
	held, _, err := (&allocation{Booter: a.Booter, host: host, me: holderOf(host), pool: a.pool}).mine(ctx)
	return len(held) > 0, err
}

// nameOf names another host to those who can read this one.
func (a *allocation) nameOf(other types.NamespacedName) string {
	return controllers.NameFor(a.host.Namespace, other)
}

// acquire makes the host the holder of an address. Its object is created, which succeeds for one boot server only; or it is
// updated as it was read, if nobody has it. With bereave it is taken from a holder that is gone, too.
func (a *allocation) acquire(ctx context.Context, address netip.Addr, bereave bool) (pxe.Lease, error) {
	key := a.leaseKey(address)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	give(lease, a.me, a.pool.Network)
	err := a.Client.Create(ctx, lease)
	if apierrors.IsAlreadyExists(err) {
		return a.takeOver(ctx, address, bereave)
	}
	if err != nil {
		return pxe.Lease{}, err
	}
	return pxe.Lease{Address: address, New: true}, nil
}

func (a *allocation) takeOver(ctx context.Context, address netip.Addr, bereave bool) (pxe.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := a.APIReader.Get(ctx, a.leaseKey(address), lease); err != nil {
		return pxe.Lease{}, err
	}
	holds := parseHolder(ptr.Deref(lease.Spec.HolderIdentity, ""))
	switch {
	case withheldNow(lease):
		return pxe.Lease{}, addressError(fmt.Sprintf("%s is withheld until %s: %s declined it, since somebody else uses it, or gave it up",
			address, withheldUntil(lease).UTC().Format(time.RFC3339), a.nameOf(holds.host)))
	case withheld(lease):
	case a.has(lease):
		return pxe.Lease{Address: address}, nil
	case holds.mac == a.me.mac: // the same server, as another host
	default:
		free := bereave
		if bereave {
			var err error
			if free, err = a.gone(ctx, holds); err != nil {
				return pxe.Lease{}, err
			}
		}
		if !free {
			return pxe.Lease{}, addressError(fmt.Sprintf("%s cannot have %s: %s has it", a.me.host, address, a.nameOf(holds.host)))
		}
	}
	give(lease, a.me, a.pool.Network)
	if err := a.Client.Update(ctx, lease); err != nil {
		return pxe.Lease{}, err
	}
	return pxe.Lease{Address: address, New: true}, nil
}

// gone is true when the API server says that a holder's host is not there, or has another MAC address, and the cache that no
// other host has the holder's MAC address.
func (b *Booter) gone(ctx context.Context, h holder) (bool, error) {
	if h == (holder{}) {
		return false, nil // somebody else's object: it is left alone
	}
	hosts, err := controllers.HostsWith(ctx, b.Client, controllers.MACIndex, h.mac)
	if err != nil || len(hosts) > 0 {
		return false, err
	}
	var host v1alpha1.BareMetalHost
	if err := b.APIReader.Get(ctx, h.host, &host); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return host.Spec.BootMACAddress != h.mac, nil
}
