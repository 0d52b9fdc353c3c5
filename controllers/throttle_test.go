package controllers_test

import (
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

func object(i int) types.NamespacedName { return types.NamespacedName{Name: strconv.Itoa(i)} }

// TestThrottle: the statuses of a rack are written at once; in a fleet each status is written after half a minute at most.
func TestThrottle(t *testing.T) {
	g := NewWithT(t)
	throttle, now := controllers.NewThrottle(), time.Now()
	for i := range 20 {
		g.Expect(throttle.Delay(object(i), now)).To(BeZero())
	}
	g.Expect(throttle.Allow(now)).To(BeFalse())
	g.Expect(throttle.Delay(object(20), now)).To(Equal(30 * time.Second))
	g.Expect(throttle.Delay(object(20), now.Add(100*time.Millisecond))).To(Equal(29900 * time.Millisecond))
	throttle.Done(object(20))
	g.Expect(throttle.Delay(object(20), now.Add(150*time.Millisecond))).To(Equal(30*time.Second), "a new change waits the whole time")
	g.Expect(throttle.Delay(object(21), now.Add(500*time.Millisecond))).To(BeZero(), "two per second")

	for i := range 1000 { // other objects take all tokens
		throttle.Delay(object(100+i), now.Add(30*time.Second))
	}
	g.Expect(throttle.Delay(object(20), now.Add(30150*time.Millisecond))).To(BeZero(), "the maximum delay is over")

	var none *controllers.Throttle
	g.Expect(none.Delay(object(1), now)).To(BeZero())
	g.Expect(none.Allow(now)).To(BeTrue())
	none.Done(object(1))
}

// TestDelayProgress: progress of a boot waits for its own time, takes no token, and does not delay what is wrong.
func TestDelayProgress(t *testing.T) {
	g := NewWithT(t)
	throttle, now := controllers.NewThrottle(), time.Now()
	for i := range 100 {
		g.Expect(throttle.DelayProgress(object(i), now, 5*time.Minute)).To(Equal(5 * time.Minute))
	}
	g.Expect(throttle.DelayProgress(object(0), now.Add(time.Minute), 5*time.Minute)).To(Equal(4 * time.Minute))
	g.Expect(throttle.DelayProgress(object(0), now.Add(6*time.Minute), 5*time.Minute)).To(BeZero())
	throttle.Done(object(0))
	g.Expect(throttle.DelayProgress(object(0), now.Add(6*time.Minute), 5*time.Minute)).To(Equal(5*time.Minute), "the next progress")
	g.Expect(throttle.Delay(object(1), now)).To(BeZero(), "a problem has a token")
	g.Expect(throttle.DelayProgress(object(2), now, 0)).To(BeZero(), "without a delay it is throttled")
	var none *controllers.Throttle
	g.Expect(none.DelayProgress(object(1), now, time.Minute)).To(BeZero())
}

// TestIsBootProgress: from one stage to the next is progress. What is wrong, and its end, is not.
func TestIsBootProgress(t *testing.T) {
	condition := func(reason string) *metav1.Condition {
		return &metav1.Condition{Type: "Booted", Status: metav1.ConditionFalse, Reason: reason}
	}
	for name, c := range map[string]struct {
		before, after *metav1.Condition
		want          bool
	}{
		"the first":             {nil, condition("Preparing"), true},
		"a stage":               {condition("Preparing"), condition("WaitingForDHCP"), true},
		"a problem":             {condition("WaitingForLoader"), condition("ArtifactUnavailable"), false},
		"the end of a problem":  {condition("ArtifactUnavailable"), condition("WaitingForKernel"), false},
		"the server is off":     {condition("Booted"), condition("PoweredOff"), false},
		"a power hold":          {condition("PoweredOff"), condition("PowerHold"), false},
		"the machine is lost":   {condition("WaitingForReport"), condition("StateLost"), false},
		"a release":             {condition("Releasing"), condition("Cleaning"), true},
		"no condition any more": {condition("Cleaning"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(controllers.IsBootProgress(c.before, c.after)).To(Equal(c.want))
		})
	}
}

// TestPropertyThrottle: a status that waits as long as Delay says is written then, whatever other objects do, and within half a minute.
func TestPropertyThrottle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		throttle, now := controllers.NewThrottle(), time.Now()
		since := map[int]time.Time{}
		for range rapid.IntRange(1, 300).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(t, "ms")) * time.Millisecond)
			i := rapid.IntRange(0, 40).Draw(t, "object")
			first, waits := since[i]
			if !waits {
				first = now
			}
			switch wait := throttle.Delay(object(i), now); {
			case wait == 0:
				throttle.Done(object(i))
				delete(since, i)
			case now.Add(wait).After(first.Add(30 * time.Second)):
				t.Fatalf("unwritten since %s, and %s more", now.Sub(first), wait)
			default:
				since[i] = first
			}
		}
	})
}

func TestWithoutMessages(t *testing.T) {
	g := NewWithT(t)
	conditions := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Booting", Message: "a", ObservedGeneration: 3, LastTransitionTime: metav1.Now()}}
	g.Expect(controllers.WithoutMessages(conditions)).To(Equal([]metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse}}))
	g.Expect(conditions[0].Message).To(Equal("a"))
}
