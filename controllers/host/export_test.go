package host

import "time"

// SpendStarts lets as many boots start as may start until a time after now, as if other hosts had started them.
func (r *Reconciler) SpendStarts(now time.Time, until time.Duration) {
	r.pace.limiter.ReserveN(now, startBurst)
	for range int(until / time.Second) {
		r.pace.limiter.ReserveN(now, startRate)
	}
}
