package host

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SpendStarts lets as many boots of machines start as may start until a time after now, as if other hosts had started them.
func (r *Reconciler) SpendStarts(now time.Time, until time.Duration) {
	r.pace.machines.ReserveN(now, startBurst)
	for range int(until / time.Second) {
		r.pace.machines.ReserveN(now, startRate)
	}
}

// Paced is true for a host that has asked when it may start a boot.
func (r *Reconciler) Paced(host client.Object) bool {
	r.pace.mu.Lock()
	defer r.pace.mu.Unlock()
	_, asked := r.pace.starts[client.ObjectKeyFromObject(host)]
	return asked
}
