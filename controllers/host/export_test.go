package host

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// SpendStarts lets as many boots start as may start at the same time, as if other hosts had started them.
func (r *Reconciler) SpendStarts(now time.Time) {
	for _, group := range []string{machineStarts, hostStarts} {
		for i := range startLimit {
			r.starts.Acquire(group, types.NamespacedName{Namespace: group, Name: fmt.Sprint("other", i)}, time.Time{}, now.Add(startTime), now)
		}
	}
}

// WaitingStarts returns how many machines' hosts wait for the starts of others.
func (r *Reconciler) WaitingStarts(now time.Time) int {
	_, waiting := r.starts.Members(machineStarts, now)
	return waiting
}
