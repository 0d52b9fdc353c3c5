package boot

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// createdLeases are the Lease objects that this process has just created: a server sends its REQUEST milliseconds after its DISCOVER, before the cache shows what it got. Objects
// that other boot servers wrote are not in it, nor objects that existed before. The zero value is ready.
type createdLeases struct {
	mu     sync.Mutex
	leases map[string]*coordinationv1.Lease // by name
	begun  map[leaseCreation]bool
}

// leaseCreation is the creation of a Lease object for a holder in a network, which has one at a time.
type leaseCreation struct {
	holder holder
	prefix netip.Prefix
}

// begin is true for a creation that may begin. Another one of the holder in the network may be under way: while the API server is slow, firmware repeats its request. If it is true,
// call end after the creation.
func (c *createdLeases) begin(l leaseCreation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun[l] {
		return false
	}
	if c.begun == nil {
		c.begun = map[leaseCreation]bool{}
	}
	c.begun[l] = true
	return true
}

func (c *createdLeases) end(l leaseCreation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.begun, l)
}

// add keeps an object for the time that the cache may take to show it. A probation takes at least as long, so no other interface gets the address in the meantime.
func (c *createdLeases) add(lease *coordinationv1.Lease, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leases == nil {
		c.leases = map[string]*coordinationv1.Lease{}
	}
	maps.DeleteFunc(c.leases, func(_ string, l *coordinationv1.Lease) bool { return outdatedCreation(l, now) })
	c.leases[lease.Name] = lease.DeepCopy()
}

// remove drops an object that this process has changed, or that the cache shows.
func (c *createdLeases) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leases, name)
}

// of returns copies of the objects that were created for a holder.
func (c *createdLeases) of(h holder, now time.Time) []*coordinationv1.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*coordinationv1.Lease
	for _, name := range slices.Sorted(maps.Keys(c.leases)) {
		if l := c.leases[name]; h.has(l) && !outdatedCreation(l, now) {
			found = append(found, l.DeepCopy())
		}
	}
	return found
}

func outdatedCreation(l *coordinationv1.Lease, now time.Time) bool {
	return now.Sub(ptr.Deref(l.Spec.AcquireTime, metav1.MicroTime{}).Time) >= cacheSyncDelay
}
