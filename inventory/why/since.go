package why

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// A condition keeps its time while only its reason changes: Available of a host can be False for years, for one reason after another. So a wait began at that time or at the last
// event after it that ends each earlier wait, whichever is later.

// sinceOf returns since when a host waits for the reason of one of its conditions, which has had its status since a time.
func (o *Objects) sinceOf(kind string, since time.Time) time.Time {
	if kind != v1alpha1.AvailableCondition && kind != v1alpha1.BootedCondition {
		return since
	}
	state := &o.Host.Spec.ProviderState
	if last := state.LastConsumer; last != nil {
		since = later(since, &last.ReleaseTime)
	}
	since = later(since, state.CleaningStartTime)
	if o.Boot != nil && inProgress(&o.Boot.Spec) {
		since = later(since, &o.Boot.Spec.StartTime)
	}
	return since
}

// later returns the later of two times.
func later(a time.Time, b *metav1.Time) time.Time {
	if b != nil && b.After(a) {
		return b.Time
	}
	return a
}
