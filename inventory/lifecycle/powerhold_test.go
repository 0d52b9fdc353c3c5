package lifecycle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestPropertyHolds: with a power hold a server is never switched on, without one it is never switched off, and the record of the hold is true.
func TestPropertyHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		step := Next(v, DefaultSettings())
		if wrong := wrongWithHold(v, step); step.State == StatePowerHold && wrong != "" {
			t.Fatalf("%s: %s: %+v", step.Action, wrong, v)
		}
	})
}

// wrongWithHold says what is wrong with a step for a host that has, or had, a power hold; "" if nothing is.
func wrongWithHold(v View, step Step) string {
	held, off := len(v.Host.Spec.PowerHolds) > 0, v.BMC.Power == v1alpha1.PowerOff && v.BMC.PowerAt.After(v.BMC.LastPowerAt)
	switch action := step.Action; {
	case action == ShutDown || action == ForceOff:
		if !held || v.Host.Spec.ProviderState.PowerHoldStartTime == nil || v.Host.Spec.ProviderState.PowerHoldOffTime != nil {
			return "without a hold, or before it is recorded"
		}
	case action == PowerOn:
		if held || v.Host.Spec.ProviderState.PowerHoldOffTime != nil {
			return "while it is held, or counts as off"
		}
	case action == RecordPowerHold && step.PowerHold.OffTime != nil && step.PowerHold.OffTime != v.Host.Spec.ProviderState.PowerHoldOffTime && (!held || !off):
		return "recorded as off without having been seen so"
	case action == RecordPowerHold && step.PowerHold.Since == nil && (held || v.BMC.Power != v1alpha1.PowerOn):
		return "the record of what is owed to the server is lost"
	case action.Commands():
		return "a command that no hold wants"
	}
	return ""
}

// rig is a provisioned server whose host only Next drives, with its own clock.
type rig struct {
	v          View
	s          Settings
	on         bool      // whether the server is really on
	switchesAt time.Time // when on becomes target
	target     bool
	latency    time.Duration

	pressed bool // a person powered it on, and no reading shows that yet

	offCommands, ons, offs int
}

// tick advances the clock by a second and performs the step of Next.
func (r *rig) tick(t rapid.TB) {
	r.v.Now = r.v.Now.Add(time.Second)
	if !r.switchesAt.IsZero() && !r.v.Now.Before(r.switchesAt) {
		if r.on != r.target {
			if r.on {
				r.offs++
			} else {
				r.ons++
			}
		}
		r.on, r.switchesAt = r.target, time.Time{}
	}
	if r.v.Host.Spec.ProviderState.PowerHoldOffTime != nil && r.on && !r.pressed {
		t.Fatal("it counts as off and is on")
	}
	step := Next(r.v, r.s)
	switch step.Action {
	case Inspect:
		r.v.BMC.Inspected, r.v.BMC.InspectedTime = true, r.v.Now
		r.readPower()
	case ReadPower:
		r.readPower()
	case RecordPowerHold:
		r.v.Host.Spec.ProviderState.PowerHoldStartTime, r.v.Host.Spec.ProviderState.PowerHoldOffTime = step.PowerHold.Since, step.PowerHold.OffTime
	case ForceOff, ShutDown:
		r.offCommands++
		r.command(map[Action]Command{ForceOff: CommandForceOff, ShutDown: CommandShutDown}[step.Action], false)
		if step.Action == ShutDown && r.v.BMC.FirstShutDownAt.IsZero() {
			r.v.BMC.FirstShutDownAt = r.v.Now
		}
	case PowerOn:
		r.command(CommandPowerOn, true)
		r.v.BMC.FirstShutDownAt = time.Time{}
	case Nothing:
	default:
		t.Fatalf("unexpected %s in %s", step.Action, step.State)
	}
}

func (r *rig) command(c Command, on bool) {
	r.v.BMC.LastPower, r.v.BMC.LastPowerAt = c, r.v.Now
	r.target, r.switchesAt = on, r.v.Now.Add(r.latency)
}

func (r *rig) readPower() {
	power := v1alpha1.PowerOff
	if r.on {
		power = v1alpha1.PowerOn
	} else {
		r.v.BMC.FirstShutDownAt = time.Time{}
	}
	if r.v.BMC.Power != power {
		r.v.BMC.Power, r.v.BMC.PowerSince = power, r.v.Now
	}
	r.v.BMC.PowerAt = r.v.Now
}

// TestPropertyHoldIsOnePowerCycle: whenever the hold is removed, and whenever the provider restarts and loses its readings, the server goes off and on
// at most once. In the end it is on, and no record is left.
func TestPropertyHoldIsOnePowerCycle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &rig{v: claimedView(provisioned, poweredOn), s: DefaultSettings(), on: true, latency: time.Duration(rapid.IntRange(0, 15).Draw(t, "latency")) * time.Second}
		force := rapid.Bool().Draw(t, "force")
		r.v.Host.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "x", Reason: "r", Force: force}}
		taken := rapid.IntRange(0, 200).Draw(t, "taken back after")
		restarts := rapid.SliceOfN(rapid.IntRange(0, 400), 0, 4).Draw(t, "restarts")
		for second := range 900 {
			if second == taken {
				r.v.Host.Spec.PowerHolds = nil
			}
			for _, at := range restarts {
				if second == at {
					r.v.BMC = BMC{}
				}
			}
			r.tick(t)
		}
		if r.offs > 1 || r.ons != r.offs || !r.on {
			t.Fatalf("it went off %d times and on %d times, and ended on: %v", r.offs, r.ons, r.on)
		}
		if r.v.Host.Spec.ProviderState.PowerHoldStartTime != nil || r.v.Host.Spec.ProviderState.PowerHoldOffTime != nil {
			t.Fatalf("the record is left: %v %v", r.v.Host.Spec.ProviderState.PowerHoldStartTime, r.v.Host.Spec.ProviderState.PowerHoldOffTime)
		}
	})
}

// TestPowerHoldKeepsServerOff: if a server with a power hold is powered on by hand, the record no longer says that it is off once that is read, and it is
// switched off again.
func TestPowerHoldKeepsServerOff(t *testing.T) {
	r := &rig{v: claimedView(provisioned, poweredOn, forceHeld), s: DefaultSettings(), on: true}
	until := func(what string, done func() bool) {
		for range 600 {
			if done() {
				return
			}
			r.tick(t)
		}
		t.Fatalf("never %s: %+v", what, r.v)
	}
	off := func() bool { return !r.on && r.v.Host.Spec.ProviderState.PowerHoldOffTime != nil }
	until("off", off)
	for range 300 {
		r.tick(t) // nothing happens
	}
	r.on, r.pressed = true, true
	pressed := r.v.Now
	until("seen on", func() bool { return r.v.Host.Spec.ProviderState.PowerHoldOffTime == nil })
	if took := r.v.Now.Sub(pressed); took > 2*r.s.ActiveInterval {
		t.Fatalf("that it is on was seen after %s", took)
	}
	r.pressed = false
	until("off again", off)
	if r.offCommands != 2 || r.ons != 0 {
		t.Fatalf("%d commands to switch it off, %d times on", r.offCommands, r.ons)
	}
}

// TestSlowShutDown: a server whose operating system takes long to shut down is switched on again, although its power hold was removed meanwhile.
func TestSlowShutDown(t *testing.T) {
	s := DefaultSettings()
	r := &rig{v: claimedView(provisioned, poweredOn), s: s, on: true, latency: s.ShutDownTimeout + 10*time.Minute}
	r.v.Host.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "x", Reason: "r"}}
	for second := range 3600 {
		if second == 60 {
			r.v.Host.Spec.PowerHolds, r.latency = nil, 5*time.Second
		}
		r.tick(t)
	}
	if r.offs != 1 || r.ons != 1 || !r.on || r.v.Host.Spec.ProviderState.PowerHoldStartTime != nil {
		t.Fatalf("it went off %d times and on %d times, and is on: %v; owed: %v", r.offs, r.ons, r.on, r.v.Host.Spec.ProviderState.PowerHoldStartTime)
	}
}

// TestShutDownIgnored: the record of a power hold goes in the end although the operating system ignored the request to shut down.
func TestShutDownIgnored(t *testing.T) {
	r := &rig{v: claimedView(provisioned, poweredOn), s: DefaultSettings(), on: true, latency: 24 * time.Hour}
	r.v.Host.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "x", Reason: "r"}}
	for second := range 3600 {
		if second == 60 {
			r.v.Host.Spec.PowerHolds = nil
		}
		r.tick(t)
	}
	if r.offCommands != 1 || r.v.Host.Spec.ProviderState.PowerHoldStartTime != nil {
		t.Fatalf("%d commands to switch it off; owed: %v", r.offCommands, r.v.Host.Spec.ProviderState.PowerHoldStartTime)
	}
}

// TestShutDownAfterPowerOn: a power-on does not prove that the server stays on once a later request to shut down was sent.
func TestShutDownAfterPowerOn(t *testing.T) {
	v := claimedView(provisioned, poweredOn)
	since := metav1.NewTime(v.Now.Add(-time.Hour))
	v.Host.Spec.ProviderState.PowerHoldStartTime = &since
	v.BMC.LastPower, v.BMC.LastPowerAt = CommandPowerOn, v.Now.Add(-10*time.Minute)
	v.BMC.FirstShutDownAt = v.Now.Add(-time.Minute) // its answer was an error
	v.BMC.PowerAt = v.Now
	if step := Next(v, DefaultSettings()); step.State != StatePowerHold || step.Action == RecordPowerHold {
		t.Fatalf("%s in %s: %s", step.Action, step.State, step.Message)
	}
}
