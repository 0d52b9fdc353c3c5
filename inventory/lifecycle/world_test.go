package lifecycle

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// mood is how the BMC behaves.
type mood string

const (
	obeys    mood = "obeys"
	pretends mood = "pretends" // says that it obeyed, and has no effect
	refuses  mood = "refuses"  // answers every command with an error
	away     mood = "away"     // does not answer
	rejects  mood = "rejects"  // refuses the login
	garbles  mood = "garbles"  // obeys, and every other reading of the power is wrong
	silent   mood = "silent"   // obeys, but its answer is lost
)

// world is a host that Next drives as the host controller does, with its own server, BMC, machine, users and clock. Beyond the view it knows the truth
// and the past, by which the steps are judged. Values behind its pointers are replaced, never changed, so a copy of the struct is another world with
// the same past.
type world struct {
	t rapid.TB
	s Settings
	// promises are those by which the world is judged; none for all.
	promises []string
	// v are the facts. They contain the host object, its machine and the BMC's readings. The method view makes a View of them.
	v View
	// absent is the machine while it does not exist, as in a move. It may come back.
	absent   *Consumer
	noSecret bool
	// lostBoot is the record of the boot while it is lost, and lostRun that of the settings run.
	lostBoot *v1alpha1.BareMetalBootSpec
	lostRun  *v1alpha1.BareMetalSettingsSpec
	// firmware is the truth about the settings.
	firmware firmware
	// halt is after how many writes the provider restarts; 0 for never.
	halt int

	// The server.
	on              bool
	switchesAt      time.Time // when on becomes target; zero if it stays
	switchedAt      time.Time // when it was last switched
	target          bool
	overridden      bool                // the next boot is from the network, or from the medium
	method          v1alpha1.BootMethod // of the override
	fromNetwork     bool                // this boot was from the network
	runs            bool                // the machine's operating system runs
	installed       bool                // the machine is on the disk
	disk            agentDisk
	deaf            []v1alpha1.BootMethod // the methods by which it does not boot
	fetches         bool                  // the BMC fetches the medium that is inserted
	media           bool                  // a boot medium is in its drive
	latency         time.Duration
	ignoresShutDown bool // the operating system ignores a request to shut down
	autoBoot        bool // the boot advances with time

	// The BMC.
	mood             mood
	reads            int
	noShutDown       bool
	stuckMedia       bool
	showsTransitions bool // readings say "powering on" or "powering off" during a transition
	failures         int
	recordFails      bool  // a BareMetalErasure cannot be written
	recordUnproven   bool  // the reports of agents prove no erasure
	requests         int   // how many BareMetalErasureRequests were created
	bootsBefore      int32 // what the last one says of spec.providerState.boots
	job              *job
	requeueAt        time.Time

	// What happened.
	machines     int
	seeded       bool      // the machine got its bootstrap data
	dirty        bool      // a machine was booted since the host was last clean, or since a user checked it
	offForHold   bool      // a command for a power hold switched the server off, or will
	uncertain    bool      // a reading was wrong, or a person pressed the button, so the readings may be wrong
	trueReadings int       // how many readings in a row were true
	netAt        time.Time // when the network was last set as the boot device, by any process
	last         Step      // the last step
	gone         bool      // the object was removed
	visited      State     // the state of the last step
	steps        int
	commands     int
	actedAt      time.Time // when the last action happened that is not a read
	seen         *tally
	log          *[]string // the events so far, for a failure's message
	phase        v1alpha1.HostPhase
}

type job struct {
	action       Action
	decided, end time.Time
}

// tally counts visits of states and transitions.
type tally struct {
	pool   map[kind][]world // some worlds of each kind, to continue from
	states map[State]int
	moves  map[[2]State]int
	worlds int
	steps  int
	// given counts the commands, and methods those that set a boot method.
	given   map[Action]int
	methods map[v1alpha1.BootMethod]int
	early   int // attempts that ended because their request did not come
}

func newTally() *tally {
	return &tally{pool: map[kind][]world{}, states: map[State]int{}, moves: map[[2]State]int{}, given: map[Action]int{}, methods: map[v1alpha1.BootMethod]int{}}
}

// worldSettings are the default settings, with shorter times.
func worldSettings() Settings {
	s := DefaultSettings()
	s.BootTimeout, s.MethodTimeout, s.InspectInterval = 10*time.Minute, 4*time.Minute, 2*time.Hour
	return s
}

// starts change a claimed host into the start of a world, for situations that take long to reach.
var starts = []func(*View){
	func(*View) {}, // claimed, and not booted yet
	booting,
	func(v *View) { booting(v); expired(v); v.Host.MoveBlocked = false }, // not driven until its deadline, which allowed a move
	func(v *View) {
		booting(v)
		v.Host.Boot.PoweredOffTime, v.Host.Boot.PoweredOnTime, v.BMC.Power = nil, nil, v1alpha1.PowerOn
	},
	func(v *View) { booting(v); uncounted(v); v.Host.MoveBlocked = false },
	func(v *View) { booting(v); v.BMC.Power = v1alpha1.PowerOn; seeded(v) },
	func(v *View) {
		booting(v)
		v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonBootTimedOut, Message: "x"}
	},
	func(v *View) { booting(v); bootsAgent(v); v.BMC.Power = v1alpha1.PowerOn },
	func(v *View) { booting(v); bootsAgent(v); v.BMC.Power = v1alpha1.PowerOn; seeded(v); writtenDisk(v) },
	func(v *View) {
		ran(v)
		bootsAgent(v)
		writtenDisk(v)
		v.Host.Boot.CommitAllowedTime, v.Host.Boot.AgentDoneTime = v.Host.Boot.DataServedTime, v.Host.Boot.DataServedTime
		provisioned(v)
	},
	ran,
	func(v *View) { ran(v); provisioned(v) },
	func(v *View) { ran(v); provisioned(v); forceHeld(v); powerHoldSince(v) },
	func(v *View) { ran(v); provisioned(v); powerHeld(v); powerHeldOff(v); v.BMC.Power = v1alpha1.PowerOff },
	func(v *View) {
		ran(v)
		provisioned(v)
		v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonStateLost, Message: "x"}
	},
}

// hasMedia makes a view one of a provider with boot media, and of a BMC that offers all methods.
func hasMedia(v *View) { v.Provider.MediaURL, v.BMC.Methods = "http://192.0.2.1", defaultMethods }

func booting(v *View) {
	bootingView(func(b *View) {
		v.Host.Boot, v.Host.Spec.ProviderState.Boots, v.Host.MoveBlocked = b.Host.Boot, b.Host.Spec.ProviderState.Boots, true
	})
}

func ran(v *View) {
	booting(v)
	seeded(v)
	reported(v)
	v.BMC.Power = v1alpha1.PowerOn
}

// newWorld draws the start of a world. The host was just registered and its server is off, or a machine has it. A claimed host may be released, and its
// server may be being cleaned.
func newWorld(t *rapid.T, seen *tally) *world {
	if rapid.SampledFrom([]string{"claimed", "claimed", "claimed", "registered"}).Draw(t, "start") == "registered" {
		v := View{Now: noon, Host: Host{Namespace: "dc", Name: "host-1", Spec: v1alpha1.BareMetalHostSpec{BootMACAddresses: []string{"52:54:00:00:00:01"}}, Boot: &v1alpha1.BareMetalBootSpec{}}}
		v.Host.Spec.Inspection = rapid.SampledFrom([]v1alpha1.InspectionPolicy{"", v1alpha1.InspectionBMC, v1alpha1.InspectionAgent, v1alpha1.InspectionBoth}).Draw(t, "inspection")
		if rapid.Bool().Draw(t, "boot media") {
			hasMedia(&v)
		}
		if rapid.IntRange(0, 3).Draw(t, "requested") == 0 {
			v.Erasure.Request = requestFor("SN1")
		}
		if rapid.IntRange(0, 2).Draw(t, "quarantined") == 0 {
			v.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"}
		}
		w := worldOf(t, v, seen)
		w.uncertain = false
		return w
	}
	v := claimedView(rapid.SampledFrom(starts).Draw(t, "claimed"))
	if rapid.Bool().Draw(t, "boot media") {
		hasMedia(&v)
	}
	v.Consumer.Persistence = rapid.SampledFrom([]v1alpha1.BootPersistence{v1alpha1.PersistenceInstalled, v1alpha1.PersistenceEphemeral}).Draw(t, "persistence")
	if v.Consumer.Image {
		v.Consumer.Persistence = v1alpha1.PersistenceInstalled
	}
	if v.Provisioned() && v.Host.Boot.Failure != nil {
		v.Consumer.Persistence = v1alpha1.PersistenceEphemeral // only such a machine can be lost
	}
	const running, releasing, cleaning, moved = "running", "releasing", "cleaning", "cleaning, and a move forgot the machine's deletion"
	release := rapid.SampledFrom([]string{running, running, running, running, releasing, cleaning, cleaning, moved}).Draw(t, "release")
	if release == cleaning || release == moved {
		v.BMC.Power, v.Host.Spec.ProviderState.CleaningStartTime = v1alpha1.PowerOff, &metav1.Time{Time: noon}
	}
	if release == cleaning || release == releasing {
		v.Consumer.Deleting, v.Consumer.DeletingSince = true, noon.Add(-time.Minute)
	}
	w := worldOf(t, v, seen)
	if rapid.IntRange(0, 2).Draw(t, "protected") == 0 {
		protections[rapid.IntRange(0, len(protections)-1).Draw(t, "protection")].do(w, 0)
	}
	return w
}

// worldOf is a world that starts with any facts. Everything that does not follow from them is as harmless as possible.
func worldOf(t rapid.TB, v View, seen *tally) *world {
	v.Erasure.SerialNumber = cmp.Or(v.Erasure.SerialNumber, "SN1")
	w := &world{t: t, s: worldSettings(), v: v, mood: obeys, latency: 5 * time.Second, seen: seen, machines: 1, log: &[]string{}, actedAt: v.Now, bootsBefore: v.Host.Spec.ProviderState.Boots}
	if p := v.BMC.Problem; p != nil && p.RetryAt.IsZero() {
		w.noSecret, w.v.BMC.Problem = true, nil // a problem that waits for a change of an object waits for the Secret in this world
	}
	w.media = v.BMC.MediaInserted
	w.on = v.BMC.notOff()
	w.overridden = !w.on && !v.BMC.NetworkBootSetAt.IsZero()
	if b := v.Host.CurrentBoot(); v.Host.Claimed() && (v.Provisioned() || b != nil && (b.DataServedTime != nil && !mayRepeat(*b) || b.ReportedTime != nil)) {
		w.seeded, w.runs = true, w.on
		if w.disk.bootable = b != nil && b.Agent; w.disk.bootable {
			w.disk.by = cmp.Or(committedNumber(b), b.Number)
		}
		w.installed = v.Consumer.Persistence == v1alpha1.PersistenceInstalled
	}
	w.disk.data = v.Host.Boot != nil && len(v.Host.Boot.WrittenDisks) > 0
	w.fromNetwork = w.on && v.Host.CurrentBoot() != nil && v.Host.Boot.Agent && mayRepeat(*v.Host.Boot)
	w.disk.used = v.Host.Claimed() && v.mayHaveBooted()
	w.dirty, w.uncertain, w.netAt = v.Host.CurrentBoot() != nil, true, v.BMC.NetworkBootSetAt
	if v.BMC.Busy {
		w.job = &job{ReadPower, v.Now, v.Now.Add(time.Second)}
	}
	seen.worlds++
	return w
}

// fatalf fails the test with the facts and the events.
func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	story := *w.log
	w.t.Fatalf("%s\nfacts: %+v\nspec: %+v\nconsumer: %+v\nboot: %+v\nthe server is on: %v, its BMC %s\nwhat happened last:\n  %s", fmt.Sprintf(format, args...),
		w.v, w.v.Host.Spec, w.v.Consumer, w.v.Host.Boot, w.on, w.mood, strings.Join(story[max(0, len(story)-40):], "\n  "))
}

func (w *world) notef(format string, args ...any) {
	*w.log = append(*w.log, w.v.Now.Format("15:04:05 ")+fmt.Sprintf(format, args...))
}

// view makes the View that the host controller would make.
func (w *world) view() View {
	v := w.v
	if w.noSecret {
		v.BMC.Problem = &BMCProblem{Reason: v1alpha1.ReasonCredentialsMissing, Message: "there is no Secret"}
	}
	v.Erasure.Request, v.Erasure.Record.Outcome = w.requestOf(v), RecordDue
	v.BIOS.Offered = w.firmware.offered
	return v
}

// machine is the machine that has the host, even if it is absent; nil without one.
func (w *world) machine() *Consumer {
	if w.absent != nil {
		return w.absent
	}
	if w.v.Consumer != nil && w.v.Consumer.Found {
		return w.v.Consumer
	}
	return nil
}

// change changes the machine.
func (w *world) change(do func(*Consumer)) {
	to := &w.v.Consumer
	if w.absent != nil {
		to = &w.absent
	}
	c := **to
	do(&c)
	*to = &c
}

// reconcile performs steps until the host waits. In a cluster each write of the controller enqueues the host.
func (w *world) reconcile() {
	for range 30 {
		if w.gone {
			return
		}
		w.rememberMethod()
		v := w.view()
		step := Next(v, w.s)
		if step.Action == RecordErasure { // as the host controller does
			v.Erasure.Record = w.recordErasure()
			step = Next(v, w.s)
		}
		w.steps++
		w.seen.steps++
		w.seen.visit(w.visited, step.State)
		if w.visited != step.State || w.last.Action != step.Action {
			w.notef("%s: %s (%s) %s", step.State, step.Action, step.Phase, step.Message)
		}
		w.visited, w.last = step.State, step
		if step.Phase != "" {
			w.phase, w.firmware.offered = step.Phase, step.Phase == v1alpha1.PhaseAvailable
		}
		w.judgeStep(v, step)
		w.v.BMC.PowerNew = false // this step decided with the reading
		if w.perform(v, step) {
			return
		}
		if w.halt--; w.halt == 0 {
			w.restart()
		}
		w.halt = max(w.halt, 0)
	}
	w.brokenf(promise.Ends, "it comes to no end: the last of 30 steps in a moment is %s in %s", w.last.Action, w.last.State)
}

func (t *tally) visit(from, to State) {
	t.states[to]++
	if from != "" && from != to {
		t.moves[[2]State{from, to}]++
	}
}

// perform performs a step as the host controller does. It returns true when nothing more is to be done now.
func (w *world) perform(v View, step Step) bool {
	w.requeueAt = step.RequeueAt
	for _, key := range step.Drop {
		w.drop(key)
	}
	switch step.Action {
	case Nothing:
		if v.Requests.RetryBMC && !v.BMC.Busy {
			w.v.Requests.RetryBMC = false
			return false
		}
		return true
	case RecordErasure:
		w.requeueAt = v.Now.Add(time.Minute) // the host controller repeats it
		return true
	case RecordBoot:
		w.v.Host.Boot = step.Boot
		w.resetStages(v.Host.Boot)
		w.disk.data = w.disk.data && step.Boot.ClaimID != "" // a record that is created for a free host knows of no disk
	case CountBoot:
		w.v.Host.Spec.ProviderState.Boots, w.v.Host.MoveBlocked = step.Boot.Number, w.v.Host.MoveBlocked || step.Boot.Purpose == v1alpha1.PurposeProvision
		w.dirty = w.dirty || !isHostBoot(step.Boot)
		w.disk.used = w.disk.used || step.Boot.Purpose == v1alpha1.PurposeProvision
	case ForgetBoot:
		w.v.Host.Boot, w.v.Host.BootDeleting = nil, false
	case RecordPowerHold:
		w.v.Host.Spec.ProviderState.PowerHoldStartTime, w.v.Host.Spec.ProviderState.PowerHoldOffTime = step.PowerHold.Since, step.PowerHold.OffTime
		if step.PowerHold.Since == nil {
			w.v.BMC.FirstShutDownAt, w.v.BMC.OffUnansweredAt = time.Time{}, time.Time{}
		}
	case RecordCleaning:
		w.v.BMC.CleanedAt, w.v.BMC.CleanUpFailures, w.v.BMC.CleanUpError = time.Time{}, 0, ""
		w.v.Host.Spec.ProviderState.CleaningStartTime = step.CleaningStartTime
	case DropRequests:
	case RecordSettings, CountSettings, EndSettings:
		w.performSettings(step)
	case AllowMove:
		w.v.Host.MoveBlocked = false
	case Release:
		w.release(step)
	case Isolate:
		w.v.Host.Spec.Quarantine = step.Quarantine
	case Forget:
		w.gone = true
	default:
		w.submit(v, step.Action)
		return true
	}
	w.actedAt = w.v.Now
	return false
}

// rememberMethod remembers the method of a boot that was observed, as the host controller does.
func (w *world) rememberMethod() {
	if v := w.view(); v.MethodWorked() {
		w.v.BMC.MethodWorked = MethodOf(v.Host.Boot)
	}
}

// resetStages clears the observed stages when another attempt begins.
func (w *world) resetStages(before *v1alpha1.BareMetalBootSpec) {
	if before == nil || before.Number != w.v.Host.Boot.Number {
		w.v.Observed.Furthest, w.v.Observed.WaitedAt, w.v.Observed.RestartedAt, w.v.Observed.NodeLostAt, w.v.Observed.Problem = v1alpha1.ObservedStage{}, time.Time{}, time.Time{}, time.Time{}, nil
		w.v.Observed.AgentAt, w.v.Observed.Media = time.Time{}, v1alpha1.ObservedStage{}
	}
}

// drop removes an annotation.
func (w *world) drop(key string) {
	not := func(k string) bool { return k == key }
	r := &w.v.Requests.Power
	r.Cycles, r.On = slices.DeleteFunc(slices.Clone(r.Cycles), not), slices.DeleteFunc(slices.Clone(r.On), not)
	r.All = slices.DeleteFunc(slices.Clone(r.All), not)
	r.Holds = slices.DeleteFunc(slices.Clone(r.Holds), func(h v1alpha1.PowerHold) bool { return "hold/"+h.Holder == key })
	switch key {
	case v1alpha1.ReleaseUnfencedAnnotation:
		w.v.Requests.ReleaseUnfenced = Annotation{}
	case v1alpha1.InspectAnnotation:
		w.v.Requests.Inspect = false
	case v1alpha1.SettingsEndedAnnotation:
		w.v.Requests.SettingsEnded = Annotation{}
	}
}

func (w *world) release(step Step) {
	spec := &w.v.Host.Spec
	spec.ConsumerRef, spec.PowerHolds, spec.ProviderState.PowerHoldStartTime, spec.ProviderState.PowerHoldOffTime, spec.ProviderState.CleaningStartTime = nil, nil, nil, nil, nil
	if spec.Quarantine == nil {
		spec.Quarantine = step.Quarantine
	}
	w.v.Host.MoveBlocked, w.v.Consumer, w.absent = false, nil, nil
	w.v.Observed.Furthest, w.v.Observed.WaitedAt, w.v.Observed.RestartedAt, w.v.Observed.NodeLostAt, w.v.Observed.Problem = v1alpha1.ObservedStage{}, time.Time{}, time.Time{}, time.Time{}, nil
	w.dirty = w.dirty && step.Quarantine != nil
	w.seeded, w.runs, w.installed, w.disk.bootable, w.disk.ran, w.v.Observed.Image, w.v.Observed.AgentAt = false, false, false, false, 0, Image{}, time.Time{}
	w.v.Observed.Media = v1alpha1.ObservedStage{}
	w.disk.used = false
}

func (w *world) submit(v View, action Action) {
	if w.job != nil {
		w.brokenf(promise.Command, "%s while the BMC is busy with %s", action, w.job.action)
	}
	w.v.Requests.RetryBMC = false
	took := time.Second
	if w.mood == away {
		took = 5 * time.Second
	}
	w.job = &job{action, v.Now, v.Now.Add(took)}
	w.v.BMC.Busy = true
}

// pass advances the clock, and runs what becomes due.
func (w *world) pass(d time.Duration) {
	hot := 0
	for end := w.v.Now.Add(d); !w.gone; {
		next := w.due(end)
		if !next.After(w.v.Now) {
			if hot++; hot > 100 {
				w.fatalf("it looks again without end: %s in %s", w.last.Action, w.last.State)
			}
			next = w.v.Now.Add(10 * time.Millisecond)
		}
		w.v.Now = next
		w.runDue()
		if !next.Before(end) {
			return
		}
	}
}

// due is when the next thing becomes due, at the latest end.
func (w *world) due(end time.Time) time.Time {
	next := end
	for _, due := range []time.Time{w.switchesAt, w.requeueAt} {
		if !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	if w.job != nil && w.job.end.Before(next) {
		next = w.job.end
	}
	return next
}

// runDue runs what is due.
func (w *world) runDue() {
	now := w.v.Now
	if !w.switchesAt.IsZero() && !w.switchesAt.After(now) {
		w.switchNow()
	}
	if w.autoBoot {
		w.advanceBoot()
	}
	switch {
	case w.job != nil && !w.job.end.After(now):
		w.finish()
		w.reconcile()
	case !w.requeueAt.IsZero() && !w.requeueAt.After(now):
		w.reconcile()
	}
}

// advanceBoot advances the boot by one stage, or gives the machine its provider ID. It returns false if nothing advanced.
func (w *world) advanceBoot() bool {
	v, c := w.view(), w.machine()
	b := v.Host.CurrentBoot()
	switch {
	case v.Host.InspectionBoot() != nil || v.Host.ConfigureBoot() != nil:
		if !w.advanceHostBoot(v, *v.Host.HostBoot()) {
			return false
		}
	case v.Host.RequestedErasureBoot() != nil:
		if !w.advanceRequestedErasure(v, *v.Host.RequestedErasureBoot()) {
			return false
		}
	case c == nil || w.absent != nil || b == nil:
		return false
	case b.ReportedTime != nil:
		if c.ProviderID != "" || c.Deleting || c.Paused || !c.ClusterFound {
			return false
		}
		w.change(func(c *Consumer) {
			c.ProviderID = inventory.ProviderID(v.Host.Namespace, v.Host.Name, v.Host.Spec.ConsumerRef.Name)
		})
	case b.Agent && mayRepeat(*b):
		if !w.advanceAgent(v, *b) {
			return false
		}
	case !w.on || w.runs && b.DataServedTime == nil:
		return false
	case b.DataServedTime != nil:
		if !w.runs || b.Failure != nil {
			return false
		}
		next := *b
		next.ReportedTime = &metav1.Time{Time: v.Now}
		w.v.Host.Boot, w.v.Observed.Furthest = &next, v1alpha1.ObservedStage{Stage: v1alpha1.StageReportedIn, Time: metav1.NewTime(v.Now)}
	case BootFor(v, w.s) != BootNetwork || !w.fromNetwork:
		return false
	default:
		w.nextStage(v, *b)
	}
	w.reconcile()
	return true
}

func (w *world) nextStage(v View, b v1alpha1.BareMetalBootSpec) {
	at := w.observe([]v1alpha1.BootStage{"", v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageData})
	if at != v1alpha1.StageData {
		return
	}
	if w.seeded {
		w.brokenf(promise.Data, "the machine got it twice")
	}
	w.notef("the bootstrap data is given out")
	b.DataServedTime = &metav1.Time{Time: v.Now}
	w.v.Host.Boot, w.seeded, w.runs = &b, true, true
	w.installed = v.Consumer.Persistence == v1alpha1.PersistenceInstalled
}

// waitsForSlot is true for a server whose boot loader may request the script and get one that waits. Earlier stages need not be observed.
func (w *world) waitsForSlot() bool {
	v := w.view()
	return hasMachine(w) && w.absent == nil && w.on && !w.runs && w.fromNetwork && (BootFor(v, w.s) == BootNetwork || BootFor(v, w.s) == BootAgent) &&
		slices.Contains([]v1alpha1.BootStage{"", v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageWaiting}, v.Observed.Furthest.Stage)
}

// restart restarts the provider. Everything in its memory is lost, but the effect of its job on the BMC stays.
func (w *world) restart() {
	w.v.BMC = BMC{
		Missing: w.v.BMC.Missing, OverrideSet: !w.netAt.IsZero(), MediaInserted: w.media && !w.netAt.IsZero(), Methods: w.v.BMC.Methods, MethodWorked: w.v.BMC.MethodWorked,
	}
	w.job, w.failures, w.v.BIOS.Reading, w.v.BIOS.Staging = nil, 0, nil, nil
}

// eraseStatus clears the facts from the status.
func (w *world) eraseStatus() {
	w.v.Observed.Furthest, w.v.Observed.WaitedAt, w.v.Observed.RestartedAt, w.v.Observed.NodeLostAt, w.v.Observed.Problem, w.v.BMC.OverrideSet = v1alpha1.ObservedStage{}, time.Time{}, time.Time{}, time.Time{}, nil, false
	w.v.Observed.Media, w.v.BMC.MethodWorked, w.v.BMC.MediaInserted = v1alpha1.ObservedStage{}, "", false
	w.v.BIOS.Compared, w.firmware.offered = false, false
	w.v.Observed.AgentAt = time.Time{} // the boot server writes the state of the image again
}

// runToRest advances the clock until the host is at rest.
func (w *world) runToRest() {
	w.reconcile()
	for range 4 * 3600 / 20 {
		if w.gone || w.atRest() {
			w.judgeRest()
			return
		}
		w.pass(20 * time.Second)
	}
	w.brokenf(promise.Ends, "it did not come to rest in four hours: %s in %s: %s", w.last.Action, w.last.State, w.last.Message)
}

// atRest is true when the host waits for nothing that this world does without an event.
func (w *world) atRest() bool {
	if w.last.Action == RecordErasure {
		return true
	}
	if w.last.Action != Nothing || w.job != nil || !w.switchesAt.IsZero() {
		return false
	}
	v := w.view()
	kept := w.on && v.Provider.RunsHere && !v.Requests.PowerOffProvider.Set                                                                         // its server is not powered off
	foreign := v.Identity.NotPermitted != nil || v.Identity.BMCTakenBy != nil || v.Identity.HardwareTakenBy != nil || v.Identity.Replacement != nil // the readings of its BMC are ignored
	queued := w.last.State == StateBooting && w.last.Reason == v1alpha1.ReasonWaitingForBootSlot                                                    // until another host ends its boot
	unasked := foreign || queued || w.last.State == StateOrphaned || w.last.State == StateBooting && w.last.Reason == v1alpha1.ReasonPaused
	if !w.last.RequeueAt.IsZero() && !unasked && (v.BMC.Problem != nil || !v.BMC.PowerAt.After(w.switchedAt) || v.BMC.notOff() != w.on || v.BMC.powerChanging()) {
		return false // it will read the power again, and the reading is new
	}
	released := slices.Contains([]State{StateDeleting, StateReleasing, StateCleaning}, w.last.State) // whose end allows the move
	if v.Host.MoveBlocked && v.InFlight() && !released && !queued && !w.last.RequeueAt.IsZero() {
		return false // it will allow the move then
	}
	// A host boot ends at its deadline. If the BMC is not used, it ends hostBootGrace later, when the host is reconciled next.
	hostBoot := v.Host.HostBoot() != nil && v.Now.Before(v.Deadline(w.s).Add(hostBootGrace+incapableInspectInterval))
	switch w.last.State {
	case StateDeleting, StateReleasing, StateCleaning:
		if hostBoot || v.releasing() && v.Host.Spec.ReleaseUnfencedAfterSeconds != nil && !v.releaseOverdue() {
			return false // the release ends when it is overdue
		}
		return foreign || kept && !v.Host.erasing() || w.last.Reason == v1alpha1.ReasonWaitingForBootSlot // an erasure that waits for its server ends at the deadlines of its attempts
	case StateBooting:
		return unasked
	case StatePowerHold:
		return foreign || len(v.powerHolds()) > 0 && (kept || v.Host.Spec.ProviderState.PowerHoldOffTime != nil && v.Consumer.Persistence != v1alpha1.PersistenceEphemeral)
	case StateReportedIn:
		return !w.autoBoot || v.Consumer.Deleting || v.Consumer.Paused || v.Consumer.ProviderID != ""
	case StateProvisioned:
		return foreign || !v.awaitsPowerReading()
	case StateConfiguring:
		return settingsRest(v)
	case StateFree:
		if v.Host.HostBoot() != nil || w.awaitsRun(v) || w.last.Reason == v1alpha1.ReasonSettingsPending && v.Host.PausedCluster == "" && len(v.powerHolds()) == 0 && v.Host.Spec.Power != v1alpha1.PowerOn && !foreign {
			return false
		}
		if w.last.Reason == v1alpha1.ReasonInspectionPending && !v.agentInspectionDue() && v.Host.InspectionFailure() == nil {
			return false // the report of its last inspection is missing: after reportDelay it is inspected again
		}
		return w.last.Message != unconfirmedOff && w.last.Reason != v1alpha1.ReasonPowerChanging && (w.last.Phase != v1alpha1.PhaseRegistering || foreign || v.BMC.Inspected && (len(v.BMC.Missing) > 0 || v.Identity.hasConflict() || methodObstacles(v) != ""))
	case StateClaimed:
		return w.last.Reason != v1alpha1.ReasonPreparing && w.last.Reason != v1alpha1.ReasonErasing && (w.last.Reason != v1alpha1.ReasonConfiguring || !v.BIOS.On) && !hostBoot
	default:
		return true
	}
}

// restDifference says how the rest of two worlds differs; "" if it does not.
func (w *world) restDifference(other *world) string {
	switch {
	case w.gone != other.gone:
		return fmt.Sprintf("gone %v and %v", w.gone, other.gone)
	case w.gone:
		return ""
	case w.v.BIOS.On && (w.firmware.read == "foreign") != (w.firmware.pending == "foreign"):
		return "" // somebody staged settings or removed them, and has not asked for another reading
	case w.last.State != other.last.State || w.phase != other.phase || w.last.Reason != other.last.Reason:
		return fmt.Sprintf("%s %s %s and %s %s %s", w.last.State, w.phase, w.last.Reason, other.last.State, other.phase, other.last.Reason)
	case !reflect.DeepEqual(w.v.Host.Spec.ConsumerRef, other.v.Host.Spec.ConsumerRef) || (w.v.Host.Spec.Quarantine == nil) != (other.v.Host.Spec.Quarantine == nil):
		return "another claim, or another quarantine"
	}
	return ""
}
