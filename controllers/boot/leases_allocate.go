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
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

const (
	// maxCandidates bounds the addresses that are checked in the cache in the search for an unused one. An IPv6 range has more, but
	// no inventory fills as many.
	maxCandidates = 1 << 16
	// maxCreateConflicts bounds the addresses that turn out to be leased already when the Lease is created.
	maxCreateConflicts = 64
)

// findAddress returns an address for a host without an address in the pool. had are the Lease objects that it had.
func (a *allocation) findAddress(ctx context.Context, had []*coordinationv1.Lease) (pxe.Lease, error) {
	refused := 0
	for _, l := range had {
		if onProbation(l) {
			refused++
		}
	}
	if refused >= maxOnProbation {
		return pxe.Lease{}, addressError(fmt.Sprintf("%s declined %d addresses of network %s one after the other: some device answers for all of them",
			a.holder.host, refused, a.pool.Network))
	}
	lease, err := a.findPrevious(ctx, had)
	if err == nil && !lease.Address.IsValid() {
		lease, err = a.findUnused(ctx)
	}
	if err == nil && !lease.Address.IsValid() {
		lease, err = a.findAbandoned(ctx)
	}
	reserved := controllers.ReservedAddresses(a.host)
	if err == nil && lease.New && slices.ContainsFunc(reserved, sameFamily(lease.Address)) && !slices.ContainsFunc(reserved, a.pool.Prefix.Contains) {
		a.events.recordWarningf(a.host, v1alpha1.ReasonReservationUnused, "Lease", "None of bootAddresses %v is in network %s, %s: the server gets %s from the ranges",
			reserved, a.pool.Network, a.pool.Prefix, lease.Address)
	}
	return lease, err
}

func sameFamily(a netip.Addr) func(netip.Addr) bool {
	return func(b netip.Addr) bool { return a.BitLen() == b.BitLen() }
}

// findPrevious returns an address that the host had, asks for, or was observed with. It is invalid if the host can have no such address.
func (a *allocation) findPrevious(ctx context.Context, had []*coordinationv1.Lease) (pxe.Lease, error) {
	var candidates []netip.Addr
	for _, l := range had {
		if !isReleased(l) {
			candidates = append(candidates, leaseAddress(l.Name))
		}
	}
	boot, err := a.records.bootOf(ctx, a.holder.host)
	if err != nil {
		return pxe.Lease{}, err
	}
	seen := controllers.UsedAddresses(a.host, boot)
	if boot != nil && boot.Spec.Number > 0 && boot.Spec.ReportedTime == nil {
		// A stranger may have asked for the script of a boot that did not report in. With the stranger's address, the server would look like the stranger.
		seen = nil
	}
	for _, candidate := range append([]netip.Addr{a.wanted}, seen...) {
		if inRanges(a.pool.Ranges, candidate) {
			candidates = append(candidates, candidate)
		}
	}
	for _, candidate := range candidates {
		users, err := a.otherUsers(ctx, candidate)
		if err != nil {
			return pxe.Lease{}, err
		}
		if len(users) > 0 || a.ofOtherInterface(candidate, boot) {
			continue
		}
		if lease, err := a.acquire(ctx, candidate, false); !isAddressError(err) {
			return lease, err
		}
	}
	return pxe.Lease{}, nil
}

// findUnused returns an address of the ranges that no host ever had. It is invalid if there is none.
func (a *allocation) findUnused(ctx context.Context) (pxe.Lease, error) {
	boot, err := a.records.bootOf(ctx, a.holder.host)
	if err != nil {
		return pxe.Lease{}, err
	}
	n := total(a.pool.Ranges)
	if n == 0 {
		return pxe.Lease{}, addressError(fmt.Sprintf("network %s has no ranges, and bootAddresses of %s names none of its addresses", a.pool.Network, a.holder.host))
	}
	start, races := firstIndex(a.mac, n), 0
	for i := range min(n, maxCandidates) {
		address := addressAt(a.pool.Ranges, indexAfter(start, i, n))
		var lease coordinationv1.Lease
		if err := a.client.Get(ctx, a.leaseKey(address), &lease); client.IgnoreNotFound(err) != nil {
			return pxe.Lease{}, err
		} else if err == nil && a.holder.has(&lease) {
			return pxe.Lease{Address: address}, nil // another boot server leased it to the same server first
		} else if err == nil {
			continue
		}
		if users, err := a.otherUsers(ctx, address); err != nil {
			return pxe.Lease{}, err
		} else if len(users) > 0 || a.ofOtherInterface(address, boot) {
			continue
		}
		given, err := a.acquire(ctx, address, false)
		if races++; !isAddressError(err) || races == maxCreateConflicts {
			return given, err
		}
	}
	return pxe.Lease{}, nil
}

// findAbandoned returns the address of the ranges whose holder has been gone longest.
func (a *allocation) findAbandoned(ctx context.Context) (pxe.Lease, error) {
	var all coordinationv1.LeaseList
	if err := a.client.List(ctx, &all, client.InNamespace(a.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return pxe.Lease{}, err
	}
	boot, err := a.records.bootOf(ctx, a.holder.host)
	if err != nil {
		return pxe.Lease{}, err
	}
	var left []*coordinationv1.Lease
	for i := range all.Items {
		l := &all.Items[i]
		if !inRanges(a.pool.Ranges, leaseAddress(l.Name)) {
			continue
		}
		gone := !onProbation(l)
		if !isReleased(l) {
			hosts, err := controllers.HostsWith(ctx, a.client, controllers.MACIndex, parseHolder(ptr.Deref(l.Spec.HolderIdentity, "")).mac)
			if err != nil {
				return pxe.Lease{}, err
			}
			gone = len(hosts) == 0
		}
		if users, err := a.otherUsers(ctx, leaseAddress(l.Name)); err != nil {
			return pxe.Lease{}, err
		} else if gone && len(users) == 0 && !a.ofOtherInterface(leaseAddress(l.Name), boot) {
			left = append(left, l)
		}
	}
	slices.SortFunc(left, byAcquireTime)
	for _, l := range left[:min(len(left), maxCreateConflicts)] {
		if lease, err := a.acquire(ctx, leaseAddress(l.Name), true); !isAddressError(err) {
			return lease, err
		}
	}
	return pxe.Lease{}, addressError(fmt.Sprintf("none of the %d addresses of network %s is free: add ranges to it, or delete hosts that are gone",
		total(a.pool.Ranges), a.pool.Network))
}

// ofOtherInterface is true for an address that another interface of the same server may use: one that is reserved for it, or one that the server was observed with,
// unless this interface asks for that one, as an operating system does that has it. boot is the last boot of the host, or nil. A host with one interface has no other.
func (a *allocation) ofOtherInterface(address netip.Addr, boot *v1alpha1.BareMetalBoot) bool {
	if len(a.host.Spec.BootMACAddresses) < 2 || address == a.reservation() {
		return false
	}
	return slices.Contains(controllers.ReservedAddresses(a.host), address) || address != a.wanted && slices.Contains(controllers.UsedAddresses(a.host, boot), address)
}

// addressUser is a host that uses an address, so that no other host gets it.
type addressUser struct {
	host *v1alpha1.BareMetalHost
	// observed is true for an address that its server was observed with. For others, the host's spec names the address.
	observed bool
}

// maxConfiguredPerHost is how many addresses of a network the spec of one host keeps from other hosts. Otherwise a user who may write a host could empty the network.
const maxConfiguredPerHost = 8

// otherUsers returns the users of an address except this host.
func (a *allocation) otherUsers(ctx context.Context, address netip.Addr) ([]addressUser, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := a.client.List(ctx, &hosts, client.MatchingFields{controllers.AddressIndex: address.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	var boots v1alpha1.BareMetalBootList
	if err := a.client.List(ctx, &boots, client.MatchingFields{controllers.AddressIndex: address.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	users := map[types.NamespacedName]addressUser{}
	for i := range hosts.Items {
		host := &hosts.Items[i]
		observed := slices.ContainsFunc(host.Status.Addresses, func(seen clusterv1.MachineAddress) bool { return seen.Address == address.String() })
		configured, err := a.configures(ctx, host, address)
		if err != nil {
			return nil, err
		}
		if observed || configured {
			users[client.ObjectKeyFromObject(host)] = addressUser{host, observed}
		}
	}
	for i := range boots.Items {
		boot, host := &boots.Items[i], &v1alpha1.BareMetalHost{}
		if boot.Spec.VoidedTime != nil {
			continue // its server is off, and its claim has ended
		}
		if err := a.client.Get(ctx, client.ObjectKeyFromObject(boot), host); client.IgnoreNotFound(err) != nil {
			return nil, err
		} else if err == nil {
			users[client.ObjectKeyFromObject(boot)] = addressUser{host, true}
		}
	}
	delete(users, a.holder.host)
	return slices.Collect(maps.Values(users)), nil
}

// configures is true if the spec of a host keeps an address of the pool's network from other hosts. That requires that the provider inventoried its server, and
// that the MAC address is the server's own. A host of another namespace must also have an address of the network: otherwise a user who may write hosts of one
// namespace could deny addresses to all others.
func (a *allocation) configures(ctx context.Context, host *v1alpha1.BareMetalHost, address netip.Addr) (bool, error) {
	identity := host.Status.Identity
	if identity == nil || !slices.Equal(identity.BootMACAddresses, host.Spec.BootMACAddresses) || host.Status.Hardware == nil {
		return false, nil
	}
	all := slices.DeleteFunc(append(controllers.ReservedAddresses(host), controllers.ConfiguredAddresses(host)...),
		func(c netip.Addr) bool { return !a.pool.Prefix.Contains(c) })
	if !slices.Contains(all[:min(len(all), maxConfiguredPerHost)], address) {
		return false, nil
	}
	if host.Namespace == a.host.Namespace {
		return true, nil
	}
	for _, mac := range host.Spec.BootMACAddresses {
		held, _, err := (&allocation{leases: a.leases, host: host, holder: holderOf(host, mac), pool: a.pool}).hostLeases(ctx)
		if err != nil || len(held) > 0 {
			return len(held) > 0, err
		}
	}
	return false, nil
}

// nameOf names another host in a message to readers of this one.
func (a *allocation) nameOf(other types.NamespacedName) string {
	return lifecycle.NameFor(a.host.Namespace, other)
}

// acquire makes the host the holder of an address. It creates the Lease object, which succeeds for one boot server only. If the object exists and has no
// holder, acquire updates it with the resourceVersion that was read. With takeFromGone it also takes the address from a holder that is gone. The error wraps pxe.ErrNotYet while an
// earlier request of the server is creating an object.
func (a *allocation) acquire(ctx context.Context, address netip.Addr, takeFromGone bool) (pxe.Lease, error) {
	key := a.leaseKey(address)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	setHolder(lease, a.holder, a.pool.Network)
	creation := leaseCreation{a.holder, a.pool.Prefix}
	if !a.created.begin(creation) {
		return pxe.Lease{}, fmt.Errorf("%w: an earlier request is getting an address", pxe.ErrNotYet)
	}
	defer a.created.end(creation)
	err := a.client.Create(ctx, lease)
	if apierrors.IsAlreadyExists(err) {
		return a.takeOver(ctx, address, takeFromGone)
	}
	if err != nil {
		return pxe.Lease{}, err
	}
	a.created.add(lease, time.Now())
	return pxe.Lease{Address: address, New: true}, nil
}

func (a *allocation) takeOver(ctx context.Context, address netip.Addr, takeFromGone bool) (pxe.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := a.apiReader.Get(ctx, a.leaseKey(address), lease); err != nil {
		return pxe.Lease{}, err
	}
	holds := parseHolder(ptr.Deref(lease.Spec.HolderIdentity, ""))
	switch {
	case onProbation(lease):
		return pxe.Lease{}, addressError(fmt.Sprintf("%s is leased to no host until %s: %s declined it because another device uses it, or gave it up",
			address, probationEnd(lease).UTC().Format(time.RFC3339), a.nameOf(holds.host)))
	case isReleased(lease):
	case a.holder.has(lease):
		return pxe.Lease{Address: address}, nil
	case holds.mac == a.holder.mac: // the same server, as another host
	case a.mayMove(ctx, holds, address): // reserved for this interface now
		release(lease, movedProbation)
		a.created.remove(lease.Name)
		if err := a.client.Update(ctx, lease); err != nil {
			return pxe.Lease{}, err
		}
		return pxe.Lease{}, addressError(fmt.Sprintf("%s moves from the interface %s to %s, for which bootAddresses reserves it now. That takes %s", address, holds.mac, a.holder.mac, movedProbation))
	default:
		free := takeFromGone
		if takeFromGone {
			var err error
			if free, err = a.holderGone(ctx, holds); err != nil {
				return pxe.Lease{}, err
			}
		}
		if !free {
			return pxe.Lease{}, addressError(fmt.Sprintf("%s cannot have %s: %s has it", a.holder.host, address, a.nameOf(holds.host)))
		}
	}
	setHolder(lease, a.holder, a.pool.Network)
	if err := a.client.Update(ctx, lease); err != nil {
		return pxe.Lease{}, err
	}
	return pxe.Lease{Address: address, New: true}, nil
}

// mayMove is true for an address that is reserved for this interface and that another interface of the same host has: the order of the MAC addresses or of the
// reservations was changed. It moves in a boot, when no operating system uses it, and with a probation: a boot server whose cache is old still gives it to the other interface.
func (a *allocation) mayMove(ctx context.Context, holds holder, address netip.Addr) bool {
	if holds.host != a.holder.host || holds.uid != a.holder.uid || address != a.reservation() {
		return false
	}
	boot, err := a.records.bootOf(ctx, a.holder.host)
	return err == nil && (boot == nil || boot.Spec.ReportedTime == nil)
}

// holderGone is true if the API server shows that the holder's host does not exist or has another MAC address, and the cache shows no other host with the holder's
// MAC address.
func (l *leases) holderGone(ctx context.Context, h holder) (bool, error) {
	if h == (holder{}) {
		return false, nil // the Lease is not of this provider, which leaves it alone
	}
	hosts, err := controllers.HostsWith(ctx, l.client, controllers.MACIndex, h.mac)
	if err != nil || len(hosts) > 0 {
		return false, err
	}
	var host v1alpha1.BareMetalHost
	if err := l.apiReader.Get(ctx, h.host, &host); err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return !slices.Contains(host.Spec.BootMACAddresses, h.mac), nil
}
