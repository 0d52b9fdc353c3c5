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

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

const (
	// declineTime is how long an address is given to nobody after it was declined.
	declineTime = 10 * time.Minute
	// giveUpTime is how long one is given to nobody that its server left for a reservation. It is longer than a server uses an
	// address without asking again.
	giveUpTime = 24 * time.Hour
	// maxWithheld is how many addresses are withheld on account of one host at a time. One that declines them all would empty
	// the pool otherwise.
	maxWithheld = 8
)

// Lease returns the address that a server keeps. In the order of preference it is
//
//   - the one that it has, as long as its host exists with its MAC address. Nothing is renewed and nothing expires;
//   - one of the host's bootAddresses, also before one that it has, unless a running server asks for that. It gets this address
//     or none: another one would be a surprise;
//   - one that it had: that it asks for, or was seen with. `clusterctl move` takes hosts along, and leaves Lease objects behind;
//   - one that nobody ever had, beginning at a place that follows from the MAC address;
//   - when there is none, the one whose holder is gone longest.
//
// The object of an address is created, or updated as it was read: so of any number of boot servers one gives it. What a server
// has is known from the cache: no packet of a server with an address asks the API server.
func (b *Booter) Lease(ctx context.Context, request pxe.LeaseRequest) (pxe.Lease, error) {
	host, err := b.known(ctx, request.MAC)
	if err != nil {
		return pxe.Lease{}, err
	}
	if !b.Tenants.MayBootIn(host.Namespace, request.Pool.Network) {
		return pxe.Lease{}, addressError(fmt.Sprintf("the tenants of the configuration file do not permit namespace %s network %s", host.Namespace, request.Pool.Network))
	}
	a := allocation{Booter: b, host: host, me: holderOf(host), pool: request.Pool, mac: request.MAC, wanted: plain(request.Wanted)}
	lease, err := a.choose(ctx)
	if isAddressError(err) {
		boot, lookupErr := b.bootOf(ctx, client.ObjectKeyFromObject(host))
		if lookupErr != nil {
			return lease, errors.Join(err, lookupErr)
		}
		b.failed(boot, v1alpha1.ReasonNoAddress, err)
		b.warnf(host, v1alpha1.ReasonNoAddress, "Lease", "%v", err)
	}
	return lease, err
}

// Decline takes an address from the server, since somebody else uses it, and gives it to nobody for ten minutes. A server with
// a reservation gets nothing else meanwhile, one without gets another address.
func (b *Booter) Decline(ctx context.Context, mac net.HardwareAddr, address netip.Addr) error {
	host, err := b.known(ctx, mac)
	if err != nil {
		return err
	}
	address = plain(address)
	var network string
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var lease coordinationv1.Lease
		if err := b.APIReader.Get(ctx, b.leaseKey(address), &lease); err != nil {
			return fmt.Errorf("decline %s: %w", address, err)
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") != holderOf(host).String() || withheld(&lease) {
			return fmt.Errorf("decline %s: %s/%s does not have it", address, host.Namespace, host.Name)
		}
		network = lease.Labels[NetworkLabel]
		withhold(&lease, declineTime)
		return b.Client.Update(ctx, &lease)
	})
	if err != nil {
		return err
	}
	b.warnf(host, v1alpha1.ReasonAddressConflict, "Decline",
		"Somebody else uses %s, which this server got in network %s. Nobody gets it for %s: find who uses it, or take it out of the network's ranges",
		address, network, declineTime)
	return nil
}

// known is hostOf for a MAC address that somebody must have.
func (b *Booter) known(ctx context.Context, mac net.HardwareAddr) (*v1alpha1.BareMetalHost, error) {
	host, err := b.hostOf(ctx, mac)
	if err == nil && host == nil {
		err = fmt.Errorf("%s is not a server of the inventory", mac)
	}
	return host, err
}

func (b *Booter) leaseKey(a netip.Addr) client.ObjectKey {
	return client.ObjectKey{Namespace: b.Namespace, Name: leaseName(a)}
}

// warnf puts an event on a host.
func (b *Booter) warnf(host *v1alpha1.BareMetalHost, reason, action, format string, args ...any) {
	if b.Recorder != nil {
		b.Recorder.Eventf(host, nil, corev1.EventTypeWarning, reason, action, format, args...)
	}
}

func plain(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// allocation finds an address for a host.
type allocation struct {
	*Booter

	host   *v1alpha1.BareMetalHost
	me     holder
	pool   pxe.Pool
	mac    net.HardwareAddr
	wanted netip.Addr
}

// choose keeps to the order that Lease tells.
func (a *allocation) choose(ctx context.Context) (pxe.Lease, error) {
	held, had, err := a.mine(ctx)
	if err != nil {
		return pxe.Lease{}, err
	}
	if i := slices.IndexFunc(held, func(l *coordinationv1.Lease) bool { return leaseAddress(l.Name) == a.wanted }); i > 0 {
		held[0], held[i] = held[i], held[0]
	}
	reserved := a.reservation()
	switch {
	case !reserved.IsValid() && len(held) == 0:
		return a.find(ctx, had)
	case !reserved.IsValid(), len(held) > 0 && leaseAddress(held[0].Name) == a.wanted:
		return pxe.Lease{Address: leaseAddress(held[0].Name)}, nil
	}
	lease, err := a.reserve(ctx, reserved, held)
	if err == nil && lease.New {
		a.giveUp(ctx, held)
	}
	return lease, err
}

// mine returns the Lease objects of the host in the pool, the oldest first: those that it has, and others of its MAC address,
// which it declined, gave up, or had as another host.
func (a *allocation) mine(ctx context.Context) (held, had []*coordinationv1.Lease, err error) {
	var leases coordinationv1.LeaseList
	if err := a.Client.List(ctx, &leases, client.InNamespace(a.Namespace), client.MatchingFields{leaseIndex: a.me.mac}); err != nil {
		return nil, nil, err
	}
	for i := range leases.Items {
		l := &leases.Items[i]
		switch {
		case !a.pool.Prefix.Contains(leaseAddress(l.Name)):
		case a.has(l):
			held = append(held, l)
		default:
			had = append(had, l)
		}
	}
	slices.SortFunc(held, older)
	return held, had, nil
}

func older(x, y *coordinationv1.Lease) int {
	return cmp.Or(ptr.Deref(x.Spec.AcquireTime, metav1.MicroTime{}).Compare(ptr.Deref(y.Spec.AcquireTime, metav1.MicroTime{}).Time), cmp.Compare(x.Name, y.Name))
}

// reservation returns the address in the pool's network that the host's spec names. It is invalid if there is none.
func (a *allocation) reservation() netip.Addr {
	for _, reserved := range controllers.ReservedAddresses(a.host) {
		if a.pool.Prefix.Contains(reserved) {
			return reserved
		}
	}
	return netip.Addr{}
}

// reserve returns the address that is reserved for the host, or an error that says why it cannot have it.
func (a *allocation) reserve(ctx context.Context, reserved netip.Addr, held []*coordinationv1.Lease) (pxe.Lease, error) {
	for _, l := range held {
		if leaseAddress(l.Name) == reserved {
			return pxe.Lease{Address: reserved}, nil
		}
	}
	others, err := a.others(ctx, reserved)
	if err != nil {
		return pxe.Lease{}, err
	}
	for _, other := range others {
		key := client.ObjectKeyFromObject(other.host)
		older := cmp.Or(other.host.CreationTimestamp.Compare(a.host.CreationTimestamp.Time), cmp.Compare(key.String(), a.me.host.String()))
		switch {
		case other.observed:
			return pxe.Lease{}, addressError(fmt.Sprintf("%s, which bootAddresses of %s names, is used by %s: reserve another one", reserved, a.me.host, a.nameOf(key)))
		case older < 0:
			return pxe.Lease{}, addressError(fmt.Sprintf("%s, which bootAddresses of %s names, is reserved for %s too, which is older: reserve another one",
				reserved, a.me.host, a.nameOf(key)))
		}
	}
	return a.acquire(ctx, reserved, true)
}

// giveUp withholds the addresses that the host had before it got the one that is reserved for it: others may have them once
// no boot server remembers that they were this host's. One that cannot be given up stays with the host, which harms nobody.
func (a *allocation) giveUp(ctx context.Context, held []*coordinationv1.Lease) {
	for _, l := range held {
		withhold(l, giveUpTime)
		if err := a.Client.Update(ctx, l); err != nil {
			a.Log.Error(err, "Give an address up for a reservation", "host", a.me.host, "lease", l.Name)
		}
	}
}
