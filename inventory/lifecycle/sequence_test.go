package lifecycle

import (
	"flag"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// A sequence has hundreds of steps, so more of them find more than longer ones. The flag -rapid.checks still counts.
func init() { //nolint:gochecknoinits // before the flags are parsed: see rapidtest
	if err := flag.Set("rapid.checks", "150"); err != nil {
		panic(err)
	}
}

// sequences runs random sequences of events, and judges every step by promises, or by all. At the end of each sequence it calls end.
func sequences(t *testing.T, seen *tally, promises []string, end func(t *rapid.T, w *world)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, seen)
		w.promises = promises
		w.reconcile()
		for _, lot := range rapid.SliceOfN(rapid.Uint64(), 100, 200).Draw(t, "events") {
			w.apply(lot)
		}
		if end != nil {
			end(t, w)
		}
	})
}

// TestPropertyAnyFactsEndInARestStateOrInAWaitWithADeadlineAndAReason: whatever the facts are, each step acts or waits properly, and the steps come to
// a wait after a bounded number. From there the host comes to rest once the BMC obeys.
func TestPropertyAnyFactsEndInARestStateOrInAWaitWithADeadlineAndAReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worldOf(t, drawView(t), newTally())
		w.mood = rapid.SampledFrom([]mood{obeys, pretends, refuses, away, rejects, garbles, silent}).Draw(t, "mood")
		w.promises = []string{promise.Explained}
		w.reconcile()
		w.pass(5 * time.Minute)
		w.promises = []string{promise.Ends}
		w.bmcRecovers()
		w.runToRest()
	})
}

// TestPropertyNoSequenceOfFactsTouchesAHostThatRunsUnlessItsReleaseWasStartedOrAPersonAsked: the same holds for a host that is externally provisioned,
// in maintenance or detached.
func TestPropertyNoSequenceOfFactsTouchesAHostThatRunsUnlessItsReleaseWasStartedOrAPersonAsked(t *testing.T) {
	sequences(t, newTally(), []string{promise.Command, promise.PowerCycle, promise.Data, promise.Numbers, promise.Void, promise.Commit, promise.System}, nil)
}

func TestPropertyAMissingConsumerClusterOrSecretNeverCausesAnAction(t *testing.T) {
	sequences(t, newTally(), []string{promise.Absence}, nil)
}

func TestPropertyAHostIsNeverOfferedUnlessPowerOffAndCleaningWereConfirmed(t *testing.T) {
	sequences(t, newTally(), []string{promise.Clean, promise.Erased, promise.Void}, nil)
}

func TestPropertyWhatIsRecordedOfAHoldIsTrue(t *testing.T) {
	sequences(t, newTally(), []string{promise.Records}, nil)
}

func TestPropertyNoBootBeginsWithoutASlot(t *testing.T) {
	sequences(t, newTally(), []string{promise.Slots}, nil)
}

// TestPropertyEverySequenceComesToRest: every host comes to rest once its BMC obeys, and stays at rest. A release that nothing blocks ends with a host
// that is offered or in quarantine.
func TestPropertyEverySequenceComesToRest(t *testing.T) {
	sequences(t, newTally(), []string{promise.Ends}, func(t *rapid.T, w *world) {
		w.bmcRecovers()
		w.autoBoot = rapid.Bool().Draw(t, "the boot advances")
		done := rapid.Bool().Draw(t, "all interventions end")
		if done {
			w.endInterventions()
		}
		w.runToRest()
		if w.gone {
			return
		}
		if c := w.machine(); done && c != nil && c.Deleting && !c.DeletedForMove {
			w.fatalf("the release does not end: %s in %s: %s", w.last.Action, w.last.State, w.last.Message)
		}
		if wrong := w.leftUndone(); wrong != "" {
			w.fatalf("at rest in %s: %s", w.last.State, wrong)
		}
		w.staysAtRest(20 * time.Minute)
	})
}

// leftUndone says what is still to be done for a host at rest; "" if nothing is.
func (w *world) leftUndone() string {
	v := w.view()
	outside := []State{StatePaused, StateOrphaned, StateDetached, StateMaintenance, StateExternallyProvisioned, StateQuarantined, StateFree}
	switch {
	case v.Host.MoveBlocked && !v.InFlight() && slices.Contains(outside, w.last.State):
		return "a move waits"
	case w.last.State == StateExternallyProvisioned && v.releasing():
		return "the release of an externally provisioned host does not end"
	case w.last.State == StateProvisioned && v.Host.Spec.ProviderState.PowerHoldStartTime != nil:
		return "the record of a hold is left"
	case len(v.Requests.Power.Once()) > 0 && slices.Contains([]State{StateExternallyProvisioned, StateQuarantined, StateFree, StateLost, StateBootUnknown, StateBootFailed, StateReportedIn, StateClaimed, StateProvisioned}, w.last.State):
		return "a power cycle that nobody remembers may come weeks later"
	}
	return ""
}

// TestPropertyWithStatusErasedTheSameRestStateIsReached: the status may be erased at rest or on the way there. A host at rest gets no command because
// of that.
func TestPropertyWithStatusErasedTheSameRestStateIsReached(t *testing.T) {
	sequences(t, newTally(), []string{promise.Ends}, func(t *rapid.T, w *world) {
		w.bmcRecovers()
		w.autoBoot = rapid.Bool().Draw(t, "the boot advances")
		w.reconcile()
		other := *w
		w.notef("- the BMC recovers permanently")
		w.runToRest()
		if other.forgivable() {
			other.forget()
			other.runToRest()
			if differs := w.restDifference(&other); differs != "" {
				other.fatalf("with the status erased on the way it comes to another rest: %s", differs)
			}
		}
		again := *w
		if w.gone || w.offerUnrecorded() || w.recordFails && w.v.Host.HostBoot() != nil { // an erasure that waits for its record is not at rest
			return
		}
		again.forget()
		again.commands = 0
		again.runToRest()
		switch differs := w.restDifference(&again); {
		case differs != "":
			again.fatalf("with the status erased at rest it comes to another rest: %s", differs)
		case again.commands > 0 && !w.recordFails: // a release that cannot be recorded is repeated from the clean-up on
			again.fatalf("%d commands to a host at rest, because its status was erased", again.commands)
		}
	})
}

// forgivable is true when all facts that matter can be read again: no deadline passes before that, and no request of firmware is still undecided. The observed stages
// of a host boot cannot be read again. Without them nothing shows that the host boot powered the server on, so the server is left as it is.
func (w *world) forgivable() bool {
	near := func(deadline time.Time) bool {
		return !deadline.Before(w.v.Now) && deadline.Sub(w.v.Now) < 10*time.Minute
	}
	s, c, v := w.v.Host.Spec, w.machine(), w.v
	switch {
	case w.view().Host.HostBoot() != nil || v.Host.settingsRunOpen():
		return false
	case w.offerUnrecorded():
		return false
	case v.booting() && v.Host.Boot.PoweredOnTime != nil && hasNextMethod(v, w.s, *v.Host.Boot): // without its stages the attempt may make room for the next method
		return false
	case v.booting() && (near(v.Host.Boot.StartTime.Add(w.s.BootTimeout)) || !w.v.Observed.WaitedAt.IsZero()) && w.autoBoot, s.ReleaseUnfencedAfterSeconds != nil && c != nil && c.Deleting:
		return false
	default:
		return w.v.Observed.RestartedAt.IsZero() && s.ProviderState.CleaningStartTime == nil
	}
}

// offerUnrecorded is true for a host that machines may claim although its profile would change it, while only its status shows that. The offer is recorded when the settings were read
// and no Cluster of the namespace is paused. Without its status the settings come first.
func (w *world) offerUnrecorded() bool {
	return w.v.BIOS.On && w.v.BIOS.Profile != nil && w.firmware.offered && !w.v.offerRecorded()
}

// forget erases the status and the provider's memory.
func (w *world) forget() {
	w.notef("- everything that can be found again is erased")
	w.eraseStatus()
	w.restart()
	w.v.BMC.OverrideSet = false
	w.visited = ""
}

// staysAtRest fails the test when anything except a read is done to a host at rest.
func (w *world) staysAtRest(d time.Duration) {
	before := w.v.Now
	state := w.last.State
	w.pass(d)
	if w.actedAt.After(before) || w.last.State != state {
		w.fatalf("it does not stay at rest: %s in %s after %s", w.last.Action, w.last.State, state)
	}
}
