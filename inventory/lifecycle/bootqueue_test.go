package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

func queued(v *View) { v.QueuePosition = &QueuePosition{Number: 37, Booting: 250} }

// TestQueuedMessage: the message of a queued host has its position, the reason, and the flag that sets the limit.
func TestQueuedMessage(t *testing.T) {
	g := NewWithT(t)
	step := Next(claimedView(queued, func(v *View) { v.Host.Spec.FailureDomain = "rack-1" }), DefaultSettings())
	g.Expect(step.Message).To(Equal(`Number 37 in the boot queue: 250 hosts of failure domain "rack-1" boot (--boot-concurrency)`))
	g.Expect(step.RequeueAt).To(Equal(noon.Add(30 * time.Second)))
	step = Next(claimedView(queued), DefaultSettings())
	g.Expect(step.Message).To(ContainSubstring("250 hosts without a failure domain boot ("))

	late := bootingView(poweredOn, expired, queued)
	step = Next(late, DefaultSettings())
	g.Expect(step.Message).To(And(HavePrefix("30m0s after boot attempt 1 began: "), ContainSubstring(". The next attempt waits for a boot slot. Number 37 in")))
	progress := BootProgress(late, DefaultSettings(), step)
	g.Expect(progress.Reason).To(Equal(v1alpha1.ReasonWaitingForBootSlot))
	g.Expect(progress.Message).To(And(ContainSubstring("Number 37"), Not(ContainSubstring("Awaited until"))), "its deadline is over")
}

// TestWantsToBoot: which hosts belong in the boot queue.
func TestWantsToBoot(t *testing.T) {
	for name, c := range map[string]struct {
		view View
		want bool
	}{
		"it could begin":           {claimedView(), true},
		"it is queued":             {claimedView(queued), true},
		"its power was read once":  {claimedView(stale), true},
		"its BMC is asked":         {claimedView(stale, func(v *View) { v.BMC.Busy = true }), true},
		"a person has it asked":    {claimedView(func(v *View) { v.Requests.RetryBMC = true }), true},
		"its BMC was never asked":  {claimedView(func(v *View) { v.BMC = BMC{} }), false},
		"its BMC is away":          {claimedView(bmcDown), false},
		"it is asked again":        {claimedView(bmcDown, func(v *View) { v.Now = v.BMC.Problem.RetryAt }), false},
		"it was found running":     {claimedView(poweredOn), false},
		"there is no data":         {claimedView(func(v *View) { v.Consumer.BootstrapReady = false }), false},
		"it is paused":             {claimedView(func(v *View) { v.Host.Paused = true }), false},
		"it is in maintenance":     {claimedView(func(v *View) { v.Host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "r"} }), false},
		"it is detached":           {claimedView(func(v *View) { v.Requests.Detached = by("anna") }), false},
		"it goes":                  {claimedView(func(v *View) { v.Host.Deleting = true }), false},
		"its machine goes":         {claimedView(func(v *View) { v.Consumer.Deleting = true }), false},
		"its machine is not there": {claimedView(func(v *View) { v.Consumer = &Consumer{} }), false},
		"it has another's MAC":     {claimedView(func(v *View) { v.Identity.MACTakenBy = otherHost("host-2") }), false},
		"it boots":                 {bootingView(poweredOn), false},
		"its attempt is over":      {bootingView(poweredOn, expired), true},
		"that was the last":        {bootingView(poweredOn, expired, func(v *View) { v.Host.Boot.Attempt = 3 }), false},
		"over, and its BMC away":   {bootingView(bmcDown, expired), true},
		"nobody has it":            {freeView(), false},
	} {
		if got := WantsToBoot(c.view, DefaultSettings()); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestPropertyOnlyQueuedHostsStart: a host starts a boot only if it belongs in the queue, and one that does starts when it has a slot and its power was just read.
func TestPropertyOnlyQueuedHostsStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		before := v
		queued(&before)
		if step := Next(before, DefaultSettings()); StartsBoot(before, step) {
			t.Fatalf("it starts without a slot: %+v", before)
		}
		v.QueuePosition = nil
		wants := WantsToBoot(v, DefaultSettings())
		if StartsBoot(v, Next(v, DefaultSettings())) && !wants {
			t.Fatalf("it starts and did not belong in the queue: %+v", v)
		}
		if !wants {
			return
		}
		v.BMC.Busy, v.Requests.RetryBMC, v.BMC.PowerAt = false, false, latest(v.BMC.PowerAt, v.Now)
		if step := Next(v, DefaultSettings()); !StartsBoot(v, step) {
			t.Fatalf("it belongs in the queue, and does not start: %s of %+v", step.Action, v)
		}
		if v.QueuePosition = before.QueuePosition; Next(v, DefaultSettings()).Reason != v1alpha1.ReasonWaitingForBootSlot {
			t.Fatalf("it is queued, and does not say so: %+v", v)
		}
	})
}

// TestBootsUntil: a host counts as booting from the start of an attempt to its end, and not for ever.
func TestBootsUntil(t *testing.T) {
	g := NewWithT(t)
	s := DefaultSettings()
	until := func(changes ...func(*View)) time.Time {
		v := bootingView(changes...)
		return v.BootsUntil(s)
	}
	deadline := bootingView().Host.Boot.StartTime.Add(s.BootTimeout)
	for _, change := range []func(*View){func(*View) {}, seeded, expired, notPoweredOff, func(v *View) { v.Consumer.Deleting = true }, func(v *View) { v.Requests.Detached = by("anna") }} {
		want := bootingView(change).Host.Boot.StartTime.Add(s.BootTimeout + slotGrace)
		g.Expect(until(change)).To(Equal(want))
	}
	g.Expect(until()).To(BeTemporally(">", deadline), "the next attempt comes before that")
	g.Expect(until(expired, func(v *View) { v.Observed.WaitedAt = noon })).To(Equal(noon.Add(s.BootTimeout+slotGrace)), "its server is queued for a slot of its network")
	for _, change := range []func(*View){
		reported, func(v *View) { v.Host.Boot = nil }, func(v *View) { v.Host.Spec.ConsumerRef = nil },
		func(v *View) { v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: "r"} },
		func(v *View) { v.Host.Boot.ReportedTime = &metav1.Time{Time: noon} },
	} {
		g.Expect(until(change)).To(BeZero())
	}
}

// TestAwaitStart: a host whose first attempt waits is Claimed, as it is while its power is read. The phase of others stays.
func TestAwaitStart(t *testing.T) {
	for name, test := range map[string]struct {
		phase   v1alpha1.HostPhase
		attempt int32
		want    v1alpha1.HostPhase
	}{
		"first attempt": {v1alpha1.PhaseBooting, 1, v1alpha1.PhaseClaimed},
		"next attempt":  {v1alpha1.PhaseBooting, 2, v1alpha1.PhaseBooting},
		"erasure":       {v1alpha1.PhaseCleaning, 1, v1alpha1.PhaseCleaning},
	} {
		step := Step{Action: RecordBoot, Phase: test.phase, Boot: &v1alpha1.BareMetalBootSpec{Attempt: test.attempt}}
		if got := AwaitStart(step); got.Phase != test.want || got.Action != RecordBoot || got.Message == step.Message {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
