package boot

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// LeaseAnnotation holds the address that a host keeps, in the authoritative mode of DHCP.
const LeaseAnnotation = "infrastructure.cluster.x-k8s.io/lease"

// Leases are the addresses that the authoritative mode of DHCP gives, from First to Last. A host keeps its address for good: it
// stands in an annotation of the host.
type Leases struct {
	First, Last netip.Addr

	mu    sync.Mutex
	given map[netip.Addr]string // by this process, to the host with the MAC address; the cache may not show them yet
}

// contains is true for an address of the range.
func (l *Leases) contains(a netip.Addr) bool {
	return a.IsValid() && a.Compare(l.First) >= 0 && a.Compare(l.Last) <= 0
}

// Lease returns the address that the server keeps.
func (b *Booter) Lease(ctx context.Context, mac net.HardwareAddr) (netip.Addr, error) {
	if b.Leases == nil {
		return netip.Addr{}, errors.New("this boot server gives no addresses")
	}
	host, err := b.hostOf(ctx, mac)
	if err != nil || host == nil {
		return netip.Addr{}, fmt.Errorf("%s is not a server of the inventory: %w", mac, err)
	}
	if kept, err := netip.ParseAddr(host.Annotations[LeaseAnnotation]); err == nil && b.Leases.contains(kept) {
		return kept, nil
	}
	b.Leases.mu.Lock()
	defer b.Leases.mu.Unlock()
	address, err := b.freeAddress(ctx, mac)
	if err != nil {
		return netip.Addr{}, err
	}
	leased := host.DeepCopy()
	if leased.Annotations == nil {
		leased.Annotations = map[string]string{}
	}
	leased.Annotations[LeaseAnnotation] = address.String()
	if err := b.Client.Patch(ctx, leased, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{})); err != nil {
		return netip.Addr{}, err
	}
	if b.Leases.given == nil {
		b.Leases.given = map[netip.Addr]string{}
	}
	b.Leases.given[address] = mac.String()
	return address, nil
}

// freeAddress returns an address that no host has. It begins to look at a place that follows from the MAC address, so that two
// boot servers that look at once rarely find the same one.
func (b *Booter) freeAddress(ctx context.Context, mac net.HardwareAddr) (netip.Addr, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := b.Client.List(ctx, &hosts); err != nil {
		return netip.Addr{}, err
	}
	taken := map[netip.Addr]bool{}
	for i := range hosts.Items {
		if a, err := netip.ParseAddr(hosts.Items[i].Annotations[LeaseAnnotation]); err == nil {
			taken[a] = true
			delete(b.Leases.given, a) // the cache shows it from now on
		}
	}
	first, size := number(b.Leases.First), number(b.Leases.Last)-number(b.Leases.First)+1
	hash := fnv.New32a()
	_, _ = hash.Write(mac)
	for i := range size {
		a := address(first + (hash.Sum32()%size+i)%size)
		if owner, ok := b.Leases.given[a]; !taken[a] && (!ok || owner == mac.String()) {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all %d addresses from %s to %s are taken", size, b.Leases.First, b.Leases.Last)
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func address(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) //nolint:gosec // the bytes of n
}
