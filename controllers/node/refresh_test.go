package node

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestReadiness: a Node that is always Ready is never written. One that was not Ready for a minute is, and one whose server is off.
func TestReadiness(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	const ready, notReady, silent = corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown
	const never v1alpha1.NodeReadiness = ""
	for name, test := range map[string]struct {
		before v1alpha1.NodeReadiness
		off    bool
		status corev1.ConditionStatus
		since  time.Duration // how long ago the condition changed
		want   v1alpha1.NodeReadiness
		again  time.Duration
	}{
		"on, Ready":                             {never, false, ready, time.Hour, never, 0},
		"on, without a condition":               {never, false, "", 0, never, 0},
		"on, not Ready for a moment":            {never, false, notReady, 20 * time.Second, never, 40 * time.Second},
		"on, changes in the future":             {never, false, notReady, -time.Hour, never, time.Minute},
		"on, not Ready for a minute":            {never, false, silent, time.Minute, v1alpha1.NodeNotReady, 0},
		"on, Ready again":                       {v1alpha1.NodeNotReady, false, ready, 0, v1alpha1.NodeReady, 0},
		"on, was Ready, not Ready for a moment": {v1alpha1.NodeReady, false, silent, time.Second, v1alpha1.NodeReady, 59 * time.Second},
		"on, read again, not Ready":             {v1alpha1.NodeUnreadable, false, silent, time.Second, v1alpha1.NodeNotReady, 0},
		"off, not Ready for a moment":           {never, true, silent, time.Second, v1alpha1.NodeNotReady, 0},
		"off, Ready":                            {never, true, ready, time.Hour, v1alpha1.NodeReady, rereadOffAfter},
		"off, without a condition":              {v1alpha1.NodeReady, true, "", 0, v1alpha1.NodeNotReady, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			node := &corev1.Node{}
			if test.status != "" {
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.status, LastTransitionTime: metav1.NewTime(noon.Add(-test.since))}}
			}
			earlier := new(metav1.NewTime(noon.Add(-2 * time.Hour)))
			before := &v1alpha1.ObservedNode{Name: "n", Readiness: test.before}
			if test.before != never {
				before.ReadinessTime = earlier
			}
			now := &v1alpha1.ObservedNode{Name: "n"}
			g.Expect(setReadiness(now, before, node, test.off, noon, time.Minute)).To(Equal(test.again))
			g.Expect(now.Readiness).To(Equal(test.want))
			switch test.want {
			case never:
				g.Expect(now.ReadinessTime).To(BeNil())
			case test.before:
				g.Expect(now.ReadinessTime).To(Equal(earlier), "the time is that of the change")
			default:
				g.Expect(now.ReadinessTime.Time.Equal(noon)).To(BeTrue())
			}
		})
	}
}
