package lifecycle

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// protected are the states that a claimed host can enter from any state, by an action of users or of Cluster API.
var protected = []State{StateDeleting, StatePaused, StateDetached, StateMaintenance, StateExternallyProvisioned, StateOrphaned, StateReleasing}

// aside are those states of an unclaimed host.
var aside = []State{StateDeleting, StatePaused, StateDetached, StateMaintenance, StateExternallyProvisioned}

// possible lists every transition between two reconciles that one event can cause. In a cluster several events may happen between two reconciles, so a
// host may seem to skip a state.
var possible = map[State][]State{
	StateDeleting: {StatePaused}, // a host whose server is powered off before the deletion, because a boot is in flight
	// Once the protection ends, the host may be in any state below it in the table.
	StatePaused:                others(StatePaused),
	StateDetached:              others(StateDetached),
	StateMaintenance:           others(StateMaintenance),
	StateExternallyProvisioned: others(StateExternallyProvisioned, StateCleaning),
	StateOrphaned:              others(StateOrphaned, StateQuarantined, StateConfiguring, StateFree),
	// A move forgets that the machine was being deleted. So a host that is being released returns to a state of a running one.
	StateReleasing: others(StateReleasing, StateConfiguring, StateFree),
	StateCleaning:  others(StateCleaning, StateExternallyProvisioned),

	StateQuarantined: slices.Concat(aside, []State{StateConfiguring, StateFree}),
	StateConfiguring: slices.Concat(aside, []State{StateQuarantined, StateFree, StateClaimed}),
	StateFree:        slices.Concat(aside, []State{StateQuarantined, StateConfiguring, StateClaimed}),

	// A host whose cleaning began before such a move enters Cleaning directly.
	StateClaimed:     slices.Concat(protected, []State{StateCleaning, StateBooting, StateBootUnknown}),
	StateBooting:     slices.Concat(protected, []State{StateCleaning, StateReportedIn, StateBootFailed, StateBootUnknown, StateFree, StateQuarantined}),
	StateReportedIn:  slices.Concat(protected, []State{StateCleaning, StateProvisioned, StatePowerHold, StateLost, StateBootUnknown}),
	StateProvisioned: slices.Concat(protected, []State{StateCleaning, StatePowerHold, StateLost, StateBootUnknown}),
	StatePowerHold:   slices.Concat(protected, []State{StateCleaning, StateProvisioned, StateLost, StateBootUnknown}),
	StateBootFailed:  slices.Concat(protected, []State{StateCleaning, StateBootUnknown}),
	StateLost:        slices.Concat(protected, []State{StateCleaning, StateBootUnknown}),
	// A lost record is restored unchanged.
	StateBootUnknown: slices.Concat(protected, []State{StateCleaning}, running(StateBootUnknown)),
}

// impossible says why the other transitions cannot happen. Each pair of states is possible or explained here.
var impossible = []struct {
	from, to []State
	why      string
}{
	{[]State{StateDeleting}, others(StatePaused), "the object is gone, and a new registration is another object"},
	{[]State{StateQuarantined, StateConfiguring, StateFree}, append(running(StateClaimed), StateOrphaned, StateReleasing, StateCleaning), "nobody has the host, and a claim begins with waiting for the bootstrap data, or for a look at the power"},
	{[]State{StateQuarantined}, []State{StateClaimed}, "nobody claims a host in quarantine"},
	{[]State{StateBooting}, []State{StateConfiguring}, "no boot of a machine begins while a run is open"},
	{running(StateBooting), []State{StateQuarantined, StateConfiguring, StateFree}, "a machine gives its host up through a release"},
	{[]State{StateOrphaned}, []State{StateQuarantined, StateConfiguring, StateFree}, "only a user's request releases such a host, which is Releasing"},
	{[]State{StateReleasing}, []State{StateConfiguring, StateFree}, "what is released without a cleaning goes into quarantine, or stays externally provisioned"},
	{[]State{StateCleaning}, []State{StateExternallyProvisioned}, "an externally provisioned host is not cleaned, so this is two changes at once"},
	{[]State{StateExternallyProvisioned}, []State{StateCleaning}, "the release of an externally provisioned host is Releasing, so this is two changes at once"},
	{[]State{StateClaimed}, running(StateClaimed, StateBooting, StateBootUnknown), "what comes next is a boot attempt"},
	{[]State{StateBooting}, running(StateBooting, StateReportedIn, StateBootFailed, StateBootUnknown), "the machine takes its provider ID after the report; an attempt follows an attempt in the same state"},
	{[]State{StateReportedIn}, []State{StateClaimed, StateBooting, StateBootFailed}, "a machine that reported in is never booted again"},
	{[]State{StateProvisioned, StatePowerHold}, []State{StateClaimed, StateBooting, StateBootFailed, StateReportedIn}, "a machine keeps its provider ID, and is never booted again"},
	{[]State{StateBootFailed}, running(StateBootFailed, StateBootUnknown), "a failure is final"},
	{[]State{StateLost}, running(StateLost, StateBootUnknown), "a loss is final"},
}

// states returns all states, in the order of the table.
func states() []State {
	var all []State
	for _, line := range table {
		if !slices.Contains(all, line.state) {
			all = append(all, line.state)
		}
	}
	return all
}

func others(but ...State) []State {
	return slices.DeleteFunc(states(), func(s State) bool { return slices.Contains(but, s) })
}

// running returns the states of a claimed host that is not being released, except some.
func running(but ...State) []State {
	all := []State{StateClaimed, StateBooting, StateReportedIn, StateProvisioned, StatePowerHold, StateBootFailed, StateLost, StateBootUnknown}
	switch {
	case len(but) > 0:
		return slices.DeleteFunc(all, func(s State) bool { return slices.Contains(but, s) })
	default:
		return all
	}
}

// TestTransitionsAreExplained: each pair of states is possible, or impossible with a reason.
func TestTransitionsAreExplained(t *testing.T) {
	for _, from := range states() {
		for _, to := range others(from) {
			var why []string
			for _, line := range impossible {
				if slices.Contains(line.from, from) && slices.Contains(line.to, to) {
					why = append(why, line.why)
				}
			}
			switch listed := slices.Contains(possible[from], to); {
			case listed && len(why) > 0:
				t.Errorf("%s -> %s is both possible and impossible: %s", from, to, why[0])
			case !listed && len(why) == 0:
				t.Errorf("%s -> %s is not possible, and nobody says why", from, to)
			}
		}
	}
}

// TestPropertyEveryStateAndEveryTransitionIsVisited: the sequences reach every state and every possible transition, so the other properties cover them.
// It prints how often each was visited, and judges every step by all promises. Its seed is fixed, because whether a rare transition is visited depends on it.
func TestPropertyEveryStateAndEveryTransitionIsVisited(t *testing.T) {
	seen := newTally()
	setFlag(t, "rapid.seed", "1")
	setFlag(t, "rapid.checks", strconv.Itoa(2*number(t, "rapid.checks")))
	sequences(t, seen, nil, nil)
	goOn(t, seen)
	for _, from := range states() {
		if seen.states[from] == 0 {
			t.Errorf("the state %s is not visited", from)
		}
		for _, to := range others(from) {
			n, listed := seen.moves[[2]State{from, to}], slices.Contains(possible[from], to)
			switch {
			case listed && n == 0:
				t.Errorf("%s -> %s is not visited", from, to)
			case !listed && n > 0:
				t.Errorf("%s -> %s was visited %d times and is not possible", from, to, n)
			}
		}
	}
	for _, action := range []Action{SetNetworkBoot, EjectMedia, ClearBootOverride, CleanUp, PowerOn, ShutDown, ForceOff, StageSettings, ClearSettings} {
		if seen.given[action] == 0 {
			t.Errorf("%s is never given", action)
		}
	}
	for _, method := range defaultMethods {
		if seen.methods[method] == 0 {
			t.Errorf("no boot is by %s", method)
		}
	}
	if seen.early == 0 {
		t.Error("no attempt ends because its request did not come")
	}
	t.Logf("commands: %v, boot methods: %v, attempts that ended early: %d", seen.given, seen.methods, seen.early)
	t.Log("\n" + seen.report())
}

// goOn tries every event with some worlds of each kind, and continues from the kinds that are new.
func goOn(t *testing.T, seen *tally) {
	t.Helper()
	done, lot := map[kind]int{}, uint64(0)
	for range 3 {
		pools := maps.Clone(seen.pool)
		for _, k := range slices.SortedFunc(maps.Keys(pools), func(a, b kind) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }) {
			for _, from := range pools[k][done[k]:] {
				for _, h := range slices.Concat(events, agentEvents, requestEvents, settingsEvents, protections) {
					lot++
					from.branch(t, k, h, mix(lot))
				}
			}
			done[k] = len(pools[k])
		}
	}
}

// branch applies an event to a copy of a world.
func (w *world) branch(t *testing.T, k kind, h event, p uint64) {
	t.Helper()
	other, past, story := *w, *w.log, []string{}
	other.t, other.log = t, &story
	other.notef("it is %v, by: %s", k, strings.Join(past[max(0, len(past)-20):], "; "))
	if h.when(&other) {
		other.applyEvent(h, p)
	}
}

// drawMore draws 40 times as much until the end of the test, which demands something that is drawn rarely.
func drawMore(t *testing.T) {
	t.Helper()
	setFlag(t, "rapid.checks", strconv.Itoa(40*number(t, "rapid.checks")))
}

// number returns the value of a flag.
func number(t *testing.T, name string) int {
	t.Helper()
	n, err := strconv.Atoi(flag.Lookup(name).Value.String())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// setFlag sets a flag until the end of the test.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	before := f.Value.String()
	t.Cleanup(func() { _ = f.Value.Set(before) }) // it was valid
	if err := f.Value.Set(value); err != nil {
		t.Fatal(err)
	}
}

// report returns how often each state and transition was visited.
func (t *tally) report() string {
	var b strings.Builder
	rarest, moves := -1, 0
	for _, n := range t.moves {
		moves += n
		if rarest < 0 || n < rarest {
			rarest = n
		}
	}
	fmt.Fprintf(&b, "%d worlds, %d steps, %d changes of the state; %d states and %d transitions visited, the rarest %d times\n\n",
		t.worlds, t.steps, moves, len(t.states), len(t.moves), rarest)
	for _, from := range states() {
		fmt.Fprintf(&b, "%-12s %8d steps", from, t.states[from])
		var to []State
		for move := range maps.Keys(t.moves) {
			if move[0] == from {
				to = append(to, move[1])
			}
		}
		slices.Sort(to)
		for i, s := range to {
			if i%6 == 0 {
				b.WriteString("\n   ->")
			}
			fmt.Fprintf(&b, " %s %d", s, t.moves[[2]State{from, s}])
		}
		b.WriteString("\n")
	}
	return b.String()
}
