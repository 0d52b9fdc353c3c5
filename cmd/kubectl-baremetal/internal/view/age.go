package view

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Age returns how long ago a time was, as kubectl shows ages: 5m, 3h20m, 4d. It is empty for the zero time.
func Age(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return duration.HumanDuration(max(now.Sub(at), 0))
}

// Clock returns a time with its date and its time zone; empty for the zero time. The zone is that of now, which is the local one.
func Clock(at, now time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.In(now.Location()).Format("2006-01-02 15:04:05 MST")
}
