package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

const (
	// declineProbation is how long a declined address is leased to no host. Kea calls this the decline-probation-period.
	declineProbation = 10 * time.Minute
	// replacedProbation is how long an address is leased to no host after its server got a reservation instead. It is longer than a server
	// uses an address without asking again.
	replacedProbation = 24 * time.Hour
	// movedProbation is how long an address is leased to no interface when it moves to another one of its host. By then each boot server knows that.
	movedProbation = cacheSyncDelay
	// maxOnProbation is how many addresses may be on probation because of one host. Otherwise a host that declines every address would
	// empty the pool.
	maxOnProbation = 8
)

// leases lease addresses to servers, as DHCP gives them. The Lease objects have the state.
type leases struct {
	client    client.Client // reads from the cache
	apiReader client.Reader
	log       logr.Logger
	namespace string // of the Lease objects
	tenants   bootconfig.Tenants
	lookup    *lookup
	records   *bootRecords
	stages    *stageWriter
	events    *eventRecorder
}

// Lease returns the address that a server keeps. In the order of preference it is
//
//   - the one that it has, while its host exists with its MAC address. Nothing is renewed and nothing expires;
//   - one of the host's bootAddresses. It replaces an address that the host has, unless a running server asks for that one. If the
//     reserved address is not available, the host gets none: another one would be a surprise;
//   - one that it had: the one that it asks for, or one that it was observed with. `clusterctl move` moves hosts, but not Lease objects;
//   - an address that no host ever had. The search starts at an index that is derived from the MAC address;
//   - otherwise the address whose holder has been gone longest.
//
// The Lease object is created, or updated with the resourceVersion that was read: so only one of several boot servers leases an
// address. The cache shows the addresses of a server: its packets cause no read from the API server.
func (l *leases) Lease(ctx context.Context, request pxe.LeaseRequest) (pxe.Lease, error) {
	host, err := l.lookup.requireHost(ctx, request.MAC)
	if err != nil {
		return pxe.Lease{}, err
	}
	if !l.tenants.MayBootIn(host.Namespace, request.Pool.Network) {
		return pxe.Lease{}, addressError(fmt.Sprintf("the tenants of the configuration file do not permit namespace %s network %s", host.Namespace, request.Pool.Network))
	}
	a := allocation{leases: l, host: host, holder: holderOf(host, request.MAC.String()), pool: request.Pool, mac: request.MAC, wanted: normalized(request.Wanted)}
	lease, err := a.chooseAddress(ctx)
	if isAddressError(err) {
		boot, lookupErr := l.records.bootOf(ctx, client.ObjectKeyFromObject(host))
		if lookupErr != nil {
			return lease, errors.Join(err, lookupErr)
		}
		l.stages.recordProblem(boot, v1alpha1.ReasonNoAddress, err)
		l.events.recordWarningf(host, v1alpha1.ReasonNoAddress, "Lease", "%v", err)
	}
	return lease, err
}

// Decline takes an address from the server because another device uses it, and leases it to no host for ten minutes. A server with
// a reservation gets no other address in that time. A server without one gets another address.
func (l *leases) Decline(ctx context.Context, mac net.HardwareAddr, address netip.Addr) error {
	host, err := l.lookup.requireHost(ctx, mac)
	if err != nil {
		return err
	}
	address = normalized(address)
	var network string
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var lease coordinationv1.Lease
		if err := l.apiReader.Get(ctx, l.leaseKey(address), &lease); err != nil {
			return fmt.Errorf("decline %s: %w", address, err)
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") != holderOf(host, mac.String()).String() || isReleased(&lease) {
			return fmt.Errorf("decline %s: %s/%s does not have it", address, host.Namespace, host.Name)
		}
		network = lease.Labels[NetworkLabel]
		release(&lease, declineProbation)
		return l.client.Update(ctx, &lease)
	})
	if err != nil {
		return err
	}
	l.events.recordWarningf(host, v1alpha1.ReasonAddressConflict, "Decline",
		"Another device uses %s, which was leased to this server in network %s. It is leased to no host for %s: find the device, or remove the address from the network's ranges",
		address, network, declineProbation)
	return nil
}

func (l *leases) leaseKey(a netip.Addr) client.ObjectKey {
	return client.ObjectKey{Namespace: l.namespace, Name: leaseName(a)}
}

// normalized returns an address as the Lease objects have it: unmapped and without a zone.
func normalized(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// allocation finds an address for a host.
type allocation struct {
	*leases

	host   *v1alpha1.BareMetalHost
	holder holder
	pool   pxe.Pool
	mac    net.HardwareAddr
	wanted netip.Addr
}

// chooseAddress returns an address in the order of preference that Lease documents.
func (a *allocation) chooseAddress(ctx context.Context) (pxe.Lease, error) {
	held, had, err := a.hostLeases(ctx)
	if err != nil {
		return pxe.Lease{}, err
	}
	if i := slices.IndexFunc(held, func(l *coordinationv1.Lease) bool { return leaseAddress(l.Name) == a.wanted }); i > 0 {
		held[0], held[i] = held[i], held[0]
	}
	reserved := a.reservation()
	switch {
	case !reserved.IsValid() && len(held) == 0:
		return a.findAddress(ctx, had)
	case !reserved.IsValid(), len(held) > 0 && leaseAddress(held[0].Name) == a.wanted:
		return pxe.Lease{Address: leaseAddress(held[0].Name)}, nil
	}
	lease, err := a.reserve(ctx, reserved, held)
	if err == nil && lease.New {
		a.releaseReplaced(ctx, held)
	}
	return lease, err
}

// hostLeases returns the Lease objects of the host's MAC address in the pool, the oldest first. held are those that the host has. had are those
// that it declined, gave up, or had as another host.
func (a *allocation) hostLeases(ctx context.Context) (held, had []*coordinationv1.Lease, err error) {
	var leases coordinationv1.LeaseList
	if err := a.client.List(ctx, &leases, client.InNamespace(a.namespace), client.MatchingFields{leaseIndex: a.holder.mac}); err != nil {
		return nil, nil, err
	}
	for i := range leases.Items {
		l := &leases.Items[i]
		switch {
		case !a.pool.Prefix.Contains(leaseAddress(l.Name)):
		case a.holder.has(l):
			held = append(held, l)
		default:
			had = append(had, l)
		}
	}
	slices.SortFunc(held, byAcquireTime)
	return held, had, nil
}

// byAcquireTime compares two Lease objects by the time at which their holders acquired them.
func byAcquireTime(x, y *coordinationv1.Lease) int {
	return cmp.Or(ptr.Deref(x.Spec.AcquireTime, metav1.MicroTime{}).Compare(ptr.Deref(y.Spec.AcquireTime, metav1.MicroTime{}).Time), cmp.Compare(x.Name, y.Name))
}

// reservation returns the address in the pool's network that the host's spec names for the MAC address: the first one for the first, and so on, because two interfaces
// that are up at the same time must not share an address. It is invalid without one.
func (a *allocation) reservation() netip.Addr {
	left := slices.Index(a.host.Spec.BootMACAddresses, a.holder.mac)
	for _, reserved := range controllers.ReservedAddresses(a.host) {
		switch {
		case !a.pool.Prefix.Contains(reserved):
		case left == 0:
			return reserved
		default:
			left--
		}
	}
	return netip.Addr{}
}

// reserve returns the address that is reserved for the host, or an error with the reason why the host cannot have it.
func (a *allocation) reserve(ctx context.Context, reserved netip.Addr, held []*coordinationv1.Lease) (pxe.Lease, error) {
	for _, l := range held {
		if leaseAddress(l.Name) == reserved {
			return pxe.Lease{Address: reserved}, nil
		}
	}
	users, err := a.otherUsers(ctx, reserved)
	if err != nil {
		return pxe.Lease{}, err
	}
	for _, other := range users {
		key := client.ObjectKeyFromObject(other.host)
		older := cmp.Or(other.host.CreationTimestamp.Compare(a.host.CreationTimestamp.Time), cmp.Compare(key.String(), a.holder.host.String()))
		switch {
		case other.observed:
			return pxe.Lease{}, addressError(fmt.Sprintf("%s, which bootAddresses of %s names, is used by %s: reserve another one", reserved, a.holder.host, a.nameOf(key)))
		case older < 0:
			return pxe.Lease{}, addressError(fmt.Sprintf("%s, which bootAddresses of %s names, is reserved for %s too, which is older: reserve another one",
				reserved, a.holder.host, a.nameOf(key)))
		}
	}
	return a.acquire(ctx, reserved, true)
}

// releaseReplaced releases the addresses that the host had before it got its reservation. Other hosts may have them once no boot server remembers
// them as this host's. An address that cannot be released stays with the host, which harms no one.
func (a *allocation) releaseReplaced(ctx context.Context, held []*coordinationv1.Lease) {
	for _, l := range held {
		if len(a.host.Spec.BootMACAddresses) > 1 && slices.Contains(controllers.ReservedAddresses(a.host), leaseAddress(l.Name)) {
			continue // it is for another interface of this server now, which takes it
		}
		release(l, replacedProbation)
		if err := a.client.Update(ctx, l); err != nil {
			a.log.Error(err, "Failed to release an address that a reservation replaced", "host", a.holder.host, "lease", l.Name)
		}
	}
}
