package host

import (
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SpendStarts lets as many boots start as may start until a time after now, as if other hosts had started them.
func (r *Reconciler) SpendStarts(now time.Time, until time.Duration) {
	for _, limiter := range []*rate.Limiter{r.starts.machines, r.starts.hosts} {
		limiter.ReserveN(now, startBurst)
		for range int(until / time.Second) {
			limiter.ReserveN(now, startRate)
		}
	}
}

// AskedToStart is true for a host that has asked when it may start a boot.
func (r *Reconciler) AskedToStart(host client.Object) bool {
	r.starts.mu.Lock()
	defer r.starts.mu.Unlock()
	_, asked := r.starts.starts[client.ObjectKeyFromObject(host)]
	return asked
}
