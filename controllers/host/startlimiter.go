package host

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/slots"
)

// At most startLimit boots start at the same time. More of them make each other wait for the API server, so that the boots that are under way, and claims, wait too: a slow API server
// has fewer starts a second. A start ends with the record of the power-on. It counts for startTime at most, and so does a woken host that has not asked: with slow BMCs four boots start a second.
const (
	startLimit = 16
	startTime  = 4 * time.Second
)

// startQueueTTL is how long a host that does not ask again keeps its place. Reconciles come late while many hosts boot.
const startQueueTTL = time.Minute

// The groups of starts. Boots for machines do not wait for those of hosts, such as the inspections of a new rack.
const (
	machineStarts = "machines"
	hostStarts    = "hosts"
)

// startLimiter limits how many hosts start a boot at the same time, and queues the others in the order in which they ask.
type startLimiter struct {
	*slots.Slots[types.NamespacedName]

	wants func(lifecycle.View) bool // a boot, as soon as its power is read again
}

// newStartLimiter returns a limiter that calls wake for each host that may start now.
func newStartLimiter(wants func(lifecycle.View) bool, wake func(types.NamespacedName)) *startLimiter {
	limit := func(string) int { return startLimit }
	return &startLimiter{slots.New(slots.Options[types.NamespacedName]{Limit: limit, QueueTTL: startQueueTTL, WokenTTL: startTime, Wake: wake}), wants}
}

// delay returns after what time a host that must wait asks again; zero if it may perform the step. Only a step that starts a boot waits. A server that is powered on after a loss of power
// does not.
func (l *startLimiter) delay(host types.NamespacedName, view lifecycle.View, step lifecycle.Step) time.Duration {
	if step.Action != lifecycle.RecordBoot || !lifecycle.StartsBoot(view, step) {
		if !isStarting(view.Host) && !l.wants(view) { // a host whose power is read again keeps its place
			l.Release(host, view.Now)
		}
		return 0
	}
	group := hostStarts
	if step.Boot.Purpose == v1alpha1.PurposeProvision {
		group = machineStarts
	}
	if _, ok := l.Acquire(group, host, time.Time{}, view.Now.Add(startTime), view.Now); ok {
		return 0
	}
	return startTime
}

// isStarting is true from the record of a boot attempt until the record of its power-on.
func isStarting(host lifecycle.Host) bool {
	b := cmp.Or(host.CurrentBoot(), host.HostBoot())
	return b != nil && b.PoweredOnTime == nil && b.Failure == nil
}
