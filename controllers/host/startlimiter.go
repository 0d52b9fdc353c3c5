package host

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// startBurst boots start at once, then startRate a second. More of them make each other wait for the API server, so that the boots that are under way, and claims, wait too. Servers
// that boot for minutes do not notice.
const (
	startRate  = 16
	startBurst = 16
)

// startTTL is how long the time at which a host may start a boot is kept: a start that failed, as with a conflict, needs no second one.
const startTTL = time.Minute

// startLimiter says when hosts may start a boot, in the order in which they ask. Boots for machines do not wait for those of hosts, such as the inspections of a new rack.
type startLimiter struct {
	mu              sync.Mutex
	machines, hosts *rate.Limiter
	last            time.Time                          // the latest time at which a host asked: workers do not ask in the order of their times
	starts          map[types.NamespacedName]time.Time // when the hosts may start
}

func newStartLimiter() *startLimiter {
	return &startLimiter{machines: rate.NewLimiter(startRate, startBurst), hosts: rate.NewLimiter(startRate, startBurst), starts: map[types.NamespacedName]time.Time{}}
}

// delay returns how long a host must wait before a step, zero for none: only a step that starts a boot waits. A server that is powered on after a loss of power does not.
func (p *startLimiter) delay(host types.NamespacedName, view lifecycle.View, step lifecycle.Step) time.Duration {
	if step.Action != lifecycle.RecordBoot || !lifecycle.StartsBoot(view, step) {
		return 0
	}
	limiter := p.hosts
	if step.Boot.Purpose == v1alpha1.PurposeProvision {
		limiter = p.machines
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := view.Now
	if now.Before(p.last) { // the limiter would grant the time between them twice
		now = p.last
	}
	p.last = now
	maps.DeleteFunc(p.starts, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) >= startTTL })
	at, ok := p.starts[host]
	if !ok {
		at = now.Add(limiter.ReserveN(now, 1).DelayFrom(now))
		p.starts[host] = at
	}
	return max(at.Sub(now), 0)
}
