package host

import (
	"fmt"
	"maps"
	"slices"
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

// TestStartLimiter: sixteen boots start at once, and the others in the order in which they asked. A host that asks again waits no longer. One boot alone, a power restore, and other steps
// never wait, and machines do not wait for inspections.
func TestStartLimiter(t *testing.T) {
	g := NewWithT(t)
	p, noon := newStartLimiter(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(after time.Duration) lifecycle.View { return lifecycle.View{Now: noon.Add(after)} }
	for i := range 480 {
		p.delay(hostNamed(1000+i), at(0), inspecting)
	}
	g.Expect(p.delay(hostNamed(1000+479), at(0), inspecting)).To(BeNumerically("~", 29*time.Second, time.Millisecond))
	for i := range 48 {
		want := time.Duration(max(0, i-15)) * time.Second / startRate
		g.Expect(p.delay(hostNamed(i), at(0), starting)).To(BeNumerically("~", want, time.Millisecond), "host %d", i)
	}
	g.Expect(p.delay(hostNamed(47), at(time.Second), starting)).To(BeNumerically("~", time.Second, time.Millisecond))
	g.Expect(p.delay(hostNamed(47), at(2*time.Second), starting)).To(BeZero())
	g.Expect(p.delay(hostNamed(47), at(3*time.Second), starting)).To(BeZero(), "its start conflicted")

	restore := lifecycle.Step{Action: lifecycle.RecordPowerRestore, PowerRestore: &v1alpha1.PowerRestore{}}
	void := lifecycle.Step{Action: lifecycle.RecordBoot, Boot: &v1alpha1.BareMetalBootSpec{Number: 1, VoidedTime: new(metav1.Now())}}
	for _, step := range []lifecycle.Step{restore, void, {Action: lifecycle.CountBoot}, {Action: lifecycle.PowerOn}} {
		for i := range 48 {
			g.Expect(p.delay(hostNamed(100+i), at(0), step)).To(BeZero(), "%s", step.Action)
		}
	}
	g.Expect(p.delay(hostNamed(200), at(10*time.Second), starting)).To(BeZero())
	p.delay(hostNamed(201), at(5*time.Minute), starting)
	g.Expect(p.starts).To(HaveLen(1), "the others have started")
}

// TestStartLimiterOfWorkers: workers that read the time and ask in another order get no more starts.
func TestStartLimiterOfWorkers(t *testing.T) {
	g := NewWithT(t)
	p, noon := newStartLimiter(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for i := range startBurst + 40 {
		now := noon.Add(time.Duration(i%2*50) * time.Millisecond)
		p.delay(hostNamed(i), lifecycle.View{Now: now}, starting)
	}
	g.Expect(p.starts[hostNamed(startBurst+39)].Sub(noon)).To(BeNumerically("~", 40*time.Second/startRate, time.Millisecond))
}

// TestPropertyLimitedStarts: each host starts its boot after the delay that it got, in any order of the others, and no second has more starts than the limit.
func TestPropertyLimitedStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, now := newStartLimiter(), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		due, starts := map[int]time.Time{}, []time.Time{}
		ask := func(host int) {
			if wait := p.delay(hostNamed(host), lifecycle.View{Now: now}, starting); wait > 0 {
				if at, asked := due[host]; asked && !now.Before(at) {
					t.Fatalf("host %d waits again", host)
				}
				due[host] = now.Add(wait)
				return
			}
			delete(due, host)
			starts = append(starts, now)
		}
		for host := range rapid.IntRange(1, 120).Draw(t, "hosts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "pause")) * time.Millisecond)
			ask(host)
			for _, waiting := range slices.Sorted(maps.Keys(due)) {
				if !now.Before(due[waiting]) || rapid.IntRange(0, 9).Draw(t, "an event") == 0 {
					ask(waiting)
				}
			}
		}
		for len(due) > 0 {
			waiting := slices.Min(slices.Collect(maps.Keys(due)))
			now = slices.MaxFunc([]time.Time{now, due[waiting]}, time.Time.Compare)
			ask(waiting)
		}
		for i, at := range starts {
			inSecond := 0
			for _, other := range starts[i:] {
				if other.Sub(at) < time.Second {
					inSecond++
				}
			}
			if inSecond > startBurst+startRate {
				t.Fatalf("%d starts in a second", inSecond)
			}
		}
	})
}
