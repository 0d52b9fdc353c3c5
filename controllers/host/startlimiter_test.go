package host

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

var (
	starting   = lifecycle.Step{Action: lifecycle.RecordBoot, Boot: &v1alpha1.BareMetalBootSpec{Number: 1, ClaimID: "c", Purpose: v1alpha1.PurposeProvision}}
	inspecting = lifecycle.Step{Action: lifecycle.RecordBoot, Boot: &v1alpha1.BareMetalBootSpec{Number: 1, ClaimID: "i", Purpose: v1alpha1.PurposeInspect}}
)

func hostNamed(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "dc", Name: fmt.Sprint("h", i)}
}

// startWorld is a limiter, its hosts that were woken, and a clock.
type startWorld struct {
	*startLimiter
	now   time.Time
	wants bool // a host that starts no boot now
	woken []types.NamespacedName
}

func newStartWorld() *startWorld {
	w := &startWorld{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	w.startLimiter = newStartLimiter(func(lifecycle.View) bool { return w.wants }, func(host types.NamespacedName) { w.woken = append(w.woken, host) })
	return w
}

func (w *startWorld) asks(i int, step lifecycle.Step) time.Duration {
	return w.delay(hostNamed(i), lifecycle.View{Now: w.now}, step)
}

// goesOn is a reconcile of a host whose boot was recorded. on is true once its power-on is recorded.
func (w *startWorld) goesOn(i int, on bool) {
	boot := *starting.Boot
	if on {
		boot.PoweredOnTime = new(metav1.NewTime(w.now))
	}
	host := lifecycle.Host{Boot: &boot}
	host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{ClaimID: boot.ClaimID}
	if wait := w.delay(hostNamed(i), lifecycle.View{Now: w.now, Host: host}, lifecycle.Step{Action: lifecycle.Nothing}); wait != 0 {
		panic("a boot under way waits")
	}
}

// TestStartLimiter: sixteen boots start at the same time. The others start in the order in which they asked, each when the power-on of another is recorded. Machines do not wait for inspections.
func TestStartLimiter(t *testing.T) {
	g := NewWithT(t)
	w := newStartWorld()
	for i := range 40 {
		w.asks(1000+i, inspecting)
	}
	for i := range 18 {
		want := startTime
		if i < startLimit {
			want = 0
		}
		g.Expect(w.asks(i, starting)).To(Equal(want), "host %d", i)
	}
	g.Expect(w.asks(0, starting)).To(BeZero(), "its start conflicted")
	w.goesOn(0, false)
	g.Expect(w.woken).To(BeEmpty())
	w.goesOn(1, true)
	g.Expect(w.woken).To(Equal([]types.NamespacedName{hostNamed(16)}))
	g.Expect(w.asks(17, starting)).NotTo(BeZero(), "host 16 asked before it")
	g.Expect(w.asks(16, starting)).To(BeZero())
}

// TestStartsInOrder: a host whose power is read again keeps its place, and one that wants no boot any longer loses it.
func TestStartsInOrder(t *testing.T) {
	g := NewWithT(t)
	w := newStartWorld()
	for i := range startLimit + 2 {
		w.asks(i, starting)
	}
	first, second := startLimit, startLimit+1
	w.wants = true
	w.asks(first, lifecycle.Step{Action: lifecycle.ReadPower})
	w.wants = false
	w.goesOn(0, true)
	g.Expect(w.woken).To(Equal([]types.NamespacedName{hostNamed(first)}))
	w.asks(first, lifecycle.Step{Action: lifecycle.Nothing})
	g.Expect(w.woken).To(Equal([]types.NamespacedName{hostNamed(first), hostNamed(second)}))
}

// TestStartsOfHangingBMCs: woken hosts whose BMCs do not answer do not ask, and leave the queue after startTime.
func TestStartsOfHangingBMCs(t *testing.T) {
	g := NewWithT(t)
	w := newStartWorld()
	for i := range 2*startLimit + 1 {
		w.asks(i, starting)
	}
	for i := range startLimit {
		w.goesOn(i, true)
	}
	g.Expect(w.woken).To(HaveLen(startLimit))
	w.wants = true
	w.asks(startLimit, lifecycle.Step{Action: lifecycle.ReadPower})
	last := 2 * startLimit
	g.Expect(w.asks(last, starting)).NotTo(BeZero())
	w.now = w.now.Add(startTime)
	g.Expect(w.asks(last, starting)).To(BeZero())
}

// TestStartsOfSlowBMCs: a start counts for startTime, and a host that was not woken asks again after that.
func TestStartsOfSlowBMCs(t *testing.T) {
	g := NewWithT(t)
	w := newStartWorld()
	for i := range startLimit {
		w.asks(i, starting)
	}
	w.now = w.now.Add(startTime / 2)
	wait := w.asks(100, starting)
	g.Expect(wait).To(BeNumerically("<=", startTime))
	w.now = w.now.Add(wait)
	g.Expect(w.asks(100, starting)).To(BeZero())
}

// TestStartsWithoutWait: a power restore and steps that start no boot never wait.
func TestStartsWithoutWait(t *testing.T) {
	g := NewWithT(t)
	w := newStartWorld()
	for i := range 40 {
		w.asks(i, starting)
	}
	restore := lifecycle.Step{Action: lifecycle.RecordPowerRestore, PowerRestore: &v1alpha1.PowerRestore{}}
	void := lifecycle.Step{Action: lifecycle.RecordBoot, Boot: &v1alpha1.BareMetalBootSpec{Number: 1, VoidedTime: new(metav1.Now())}}
	for i, step := range []lifecycle.Step{restore, void, {Action: lifecycle.CountBoot}, {Action: lifecycle.PowerOn}} {
		g.Expect(w.asks(100+i, step)).To(BeZero(), "%s", step.Action)
	}
}

// TestPropertyLimitedStarts: no more boots start at the same time than the limit, and each host that asks again after its delay, or when it is woken, starts.
func TestPropertyLimitedStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newStartWorld()
		hosts := rapid.IntRange(1, 120).Draw(t, "hosts")
		due, started := map[int]time.Time{}, map[int]time.Time{} // when it asks again, and when it started; no longer in started once its server is on
		for i := range hosts {
			due[i] = w.now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "asks at")) * time.Millisecond)
		}
		slow := rapid.Bool().Draw(t, "slow BMCs")
		for step := 0; len(due) > 0; step++ {
			if step > 10_000 {
				t.Fatalf("%d hosts do not start", len(due))
			}
			w.now = w.now.Add(50 * time.Millisecond)
			for i := range hosts {
				if at, ok := started[i]; ok && !slow && w.now.Sub(at) > time.Second {
					delete(started, i)
					w.goesOn(i, true)
				}
			}
			for _, host := range w.woken {
				if i := hostNumber(host); !due[i].IsZero() { // it may have started meanwhile
					due[i] = w.now
				}
			}
			w.woken = nil
			for i := range hosts {
				at, ok := due[i]
				if !ok || w.now.Before(at) {
					continue
				}
				if wait := w.asks(i, starting); wait > 0 {
					due[i] = w.now.Add(wait)
					continue
				}
				delete(due, i)
				started[i] = w.now
				under := 0
				for _, at := range started {
					if w.now.Sub(at) < startTime {
						under++
					}
				}
				if under > startLimit {
					t.Fatalf("%d boots start", under)
				}
			}
		}
	})
}

func hostNumber(host types.NamespacedName) (i int) {
	if _, err := fmt.Sscanf(host.Name, "h%d", &i); err != nil {
		panic(err)
	}
	return i
}
