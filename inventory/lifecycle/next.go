package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// State is where a host stands. It is never stored: it follows from the facts. Users see it as the host's phase, and it has the same words: a host that
// nobody has is Registering, Available or Unavailable, one that reported in is Booting still, and a paused one keeps the phase that it had.
type State string

// The states of a host.
const (
	StateLeaving     State = "Deleting"
	StatePaused      State = "Paused"
	StateOrphaned    State = "Orphaned"
	StateDetached    State = "Detached"
	StateMaintenance State = "Maintenance"
	StateExternal    State = "ExternallyProvisioned"
	StateReleasing   State = "Releasing"
	StateCleaning    State = "Cleaning"
	StateQuarantined State = "Quarantined"
	StateFree        State = "Free"
	StateLost        State = "StateLost"
	StatePowerHold   State = "PowerHold"
	StateProvisioned State = "Provisioned"
	StateBootFailed  State = "BootFailed"
	StateReported    State = "Reported"
	StateBooting     State = "Booting"
	StateWaiting     State = "Claimed"
	StateBootUnknown State = "BootUnknown"
)

// transition is a line of the lifecycle: in this state, when that holds, do this.
type transition struct {
	state State
	when  func(View) bool
	do    func(View, Settings) Step
}

// table is the whole lifecycle. The first line that holds decides, so the lines that protect a host stand above those that
// do something with it.
var table = []transition{
	{StateLeaving, func(v View) bool { return v.Deleting && v.DeletedForMove }, forget},
	{StateLeaving, func(v View) bool { return v.Deleting && v.Detached != "" }, forget},
	{StatePaused, paused, rest},
	{StateLeaving, func(v View) bool { return v.Deleting && !v.Claimed() }, leave},
	{StateLeaving, View.abandoned, forget},
	{StateDetached, func(v View) bool { return v.Detached != "" }, detach},
	{StateReleasing, View.letGo, releaseUnfenced},
	{StateOrphaned, orphaned, orphan},
	{StateMaintenance, func(v View) bool { return v.Spec.Maintenance != nil }, maintain},
	{StateExternal, func(v View) bool { return v.Spec.ExternallyProvisioned && !v.releasing() }, watch},
	{StateCleaning, func(v View) bool {
		return v.releasing() && !v.Spec.ExternallyProvisioned && v.Spec.CleaningStartedAt != nil
	}, clean},
	{StateReleasing, View.releasing, release},
	{StateQuarantined, func(v View) bool { return !v.Claimed() && v.Spec.Quarantine != nil }, quarantine},
	{StateFree, func(v View) bool { return !v.Claimed() }, offer},
	{StateBootUnknown, View.bootUnknown, leaveUnknown},
	{StateLost, func(v View) bool { return v.Provisioned() && v.lost() }, lose},
	{StatePowerHold, View.held, hold},
	{StateProvisioned, View.Provisioned, run},
	{StateBootFailed, func(v View) bool { return v.CurrentBoot() != nil && v.Boot.Failure != nil }, stayFailed},
	{StateReported, func(v View) bool { return v.CurrentBoot() != nil && v.Boot.ReportedAt != nil }, awaitMachine},
	{StateBooting, View.booting, boot},
	{StateWaiting, func(View) bool { return true }, prepare},
}

// unblocked are the states in which a host that does not boot lets a move go on before anything else. The states of a claimed host choose the
// moment by themselves. Paused is among them: a move that waits has paused the Cluster, so it would wait for ever.
var unblocked = []State{StatePaused, StateOrphaned, StateDetached, StateMaintenance, StateExternal, StateQuarantined, StateFree}

// powerless are the states in which nobody can ask for a power cycle, nor for the power. Such a wish is dropped there: it must not take effect
// weeks later, when nobody remembers that it was meant.
var powerless = []State{
	StateExternal, StateReleasing, StateCleaning, StateQuarantined, StateFree, StateLost, StateBootUnknown, StateBootFailed, StateReported, StateBooting, StateWaiting,
}

// Untouched is true for a state in which nothing is written to the host's spec or to its boot, and not even an annotation is taken away.
func (s State) Untouched() bool { return s == StateLeaving || s == StatePaused || s == StateDetached }

// StateOf returns where the host stands.
func StateOf(v View) State { return transitionFor(v).state }

// Next returns what to do next with the host.
func Next(v View, s Settings) Step {
	v = v.withoutForeign()
	line := transitionFor(v)
	step := line.do(v, s)
	step.State = line.state
	step.Message += v.deletionWaits(line.state)
	switch once := v.PowerRequests.Once(); {
	case v.MoveBlocked && slices.Contains(unblocked, line.state):
		step = v.allowMove(step, s)
	case v.unfencedEarly() && !line.state.Untouched():
		step.Action, step.Drop = DropRequests, []string{v1alpha1.ReleaseUnfencedAnnotation}
	case line.state == StateLost && step.Action == RecordBoot: // what was read off may be forgotten
	case len(once) > 0 && step.Action != Release && slices.Contains(powerless, line.state):
		step.Action, step.Drop = DropRequests, once
	}
	step = v.inspectFirst(step)
	if (v.BMCTakenBy != "" || v.NotPermitted != "") && step.Again.IsZero() {
		step.Again = v.Now.Add(s.PollInterval) // what becomes of the other host is not always an event of this one
	}
	if step.Action == Release {
		step = v.voidFirst(step)
	}
	step = v.spareOwnServer(step, s)
	step.Action = cmp.Or(step.Action, Nothing)
	return step
}

// inspectFirst lets a step command the BMC only after the inventory was read: the BMC's address may have been changed to that of another server.
func (v View) inspectFirst(step Step) Step {
	switch {
	case !step.Action.Commands() || v.BMC.Inspected:
	case v.bmcBlocked():
		step.Action, step.Reason, step.Message, step.Again = Nothing, v1alpha1.ReasonWaitingForBMC, waitingForBMC(v), v.BMC.Problem.RetryAt
	default:
		step.Action = Inspect
	}
	return step
}

// allowMove lets a move go on. A boot in flight that nobody drives now, as in maintenance, may still end well: it keeps the move waiting until its
// deadline, and no longer.
func (v View) allowMove(step Step, s Settings) Step {
	if v.InFlight() {
		if deadline := v.Deadline(s); v.Now.Before(deadline) {
			if step.Again.IsZero() || deadline.Before(step.Again) {
				step.Again = deadline
			}
			return step
		}
	}
	step.Action = AllowMove
	return step
}

func transitionFor(v View) transition {
	for _, line := range table {
		if line.when(v) {
			return line
		}
	}
	panic("lifecycle: the table's last line holds always")
}

// paused is true when a person, or `clusterctl move`, wants the host left alone. A machine that a move deletes lives on
// elsewhere, and so does its claim.
func paused(v View) bool {
	if c := v.Consumer; v.InFlight() && c != nil && c.Found && c.ClusterFound && !c.Deleting {
		return false
	}
	return v.Paused || v.Consumer != nil && (v.Consumer.Paused || v.Consumer.DeletedForMove)
}

// orphaned is true when it is not known what the machine that has the host wants of it.
func orphaned(v View) bool {
	if !v.Claimed() {
		return false
	}
	c := v.Consumer
	return c == nil || !c.Found || !c.ClusterFound || c.ProviderID != "" && c.ProviderID != v.providerID()
}

func (v View) releasing() bool {
	return v.Claimed() && v.Consumer != nil && v.Consumer.Found && v.Consumer.Deleting
}

// abandoned is true when a host goes with its whole namespace, and what its release needs went first: the machine, its Cluster, or the Secret of
// its BMC. Nobody is left who could be asked, and nobody who could claim the server.
func (v View) abandoned() bool {
	return v.Deleting && v.NamespaceDeleting && (orphaned(v) || v.secretGone())
}

func (v View) secretGone() bool {
	return v.BMC.Problem != nil && slices.Contains(secretProblems, v.BMC.Problem.Reason)
}

// secretProblems are why a BMC is not asked because of its Secret.
var secretProblems = []string{v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsNotLabeled, v1alpha1.ReasonCredentialsNotForBMC}

func forget(View, Settings) Step { return Step{Action: Forget, Phase: v1alpha1.PhaseDeleting} }

func detach(v View, _ Settings) Step {
	return Step{
		Phase: v1alpha1.PhaseDetached, Reason: v1alpha1.ReasonDetached,
		Message: fmt.Sprintf("Detached: %s. Nothing is done to the server, and its BMC is not asked, until the annotation %s is removed", v.Detached, v1alpha1.DetachedAnnotation),
	}
}

// rest leaves a host alone that is paused, and says what ends that.
func rest(v View, _ Settings) Step {
	step := Step{Reason: v1alpha1.ReasonPaused, Message: "The host is paused: nothing is done until its annotation cluster.x-k8s.io/paused is removed"}
	switch {
	case v.Paused:
	case v.Consumer.DeletedForMove:
		step.Message = fmt.Sprintf("BareMetalMachine %q is being moved to another cluster: nothing is done", v.Spec.ConsumerRef.Name)
	default:
		step.Message = fmt.Sprintf("BareMetalMachine %q or its Cluster is paused: nothing is done until the machine's annotation cluster.x-k8s.io/paused "+
			"or the Cluster's spec.paused is removed", v.Spec.ConsumerRef.Name)
	}
	return step
}

func orphan(v View, s Settings) Step {
	name := v.Spec.ConsumerRef.Name
	step := Step{Phase: v1alpha1.PhaseOrphaned, Reason: v1alpha1.ReasonConsumerNotFound}
	switch c := v.Consumer; {
	case c == nil || !c.Found:
		step.Message = fmt.Sprintf("BareMetalMachine %q, which spec.consumerRef names, is not there: nothing is done to the host", name)
	case !c.ClusterFound:
		step.Reason = v1alpha1.ReasonClusterNotFound
		step.Message = fmt.Sprintf("The Cluster of BareMetalMachine %q is not there: nothing is done to the host", name)
	default:
		step.Message = fmt.Sprintf("BareMetalMachine %q has the providerID %q of another claim: nothing is done to the host", name, c.ProviderID)
	}
	if v.Deleting {
		step.Again = v.Now.Add(s.PollInterval) // its namespace may be deleted too, which is not watched
	}
	step.Message += fmt.Sprintf(". If the machine will not come back, the annotation %s=\"who and why\" lets the host go as it is, into quarantine",
		v1alpha1.ReleaseUnfencedAnnotation)
	return step
}

func maintain(v View, s Settings) Step {
	step := look(v, s)
	step.Phase, step.Reason = v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance
	step.Message = "In maintenance: " + v.Spec.Maintenance.Reason
	return step
}

func watch(v View, s Settings) Step {
	step := look(v, s)
	step.Phase, step.Reason = v1alpha1.PhaseExternallyProvisioned, v1alpha1.ReasonExternallyProvisioned
	step.Message = "Something else runs the server: it gets no power or boot command"
	return step
}

func quarantine(v View, s Settings) Step {
	step := look(v, s)
	step.Phase, step.Reason = v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined
	step.Message = strings.TrimSuffix(fmt.Sprintf("%s: %s", v.Spec.Quarantine.Reason, v.Spec.Quarantine.Message), ": ") +
		". Remove spec.quarantine when the server is well again"
	return step
}

// look reads what the BMC tells, and does nothing else.
func look(v View, s Settings) Step {
	step, wait := ask(v, s, s.PollInterval)
	switch {
	case wait:
	case v.inspectionDue(s):
		step = Step{Action: Inspect}
	default:
		step.Again = v.BMC.PowerAt.Add(s.PollInterval)
	}
	return step
}

// first returns the step that asks the BMC, or waits for it, where that must come first, and otherwise the one that follows from what is
// known. That the BMC is asked is news only while nothing is known that would do: else a host that waits would tell of every
// look at its power. unknown is what people are told then, with what ask says.
func first(v View, s Settings, maxAge time.Duration, unknown, known Step) Step {
	step, wait := ask(v, s, maxAge)
	switch {
	case !wait:
		return known
	case v.usable() && known.Action != RecordBoot:
		step.Phase, step.Reason, step.Message = known.Phase, known.Reason, known.Message
	default:
		step.Phase, step.Reason, step.Message = unknown.Phase, cmp.Or(step.Reason, unknown.Reason), unknown.Message+step.Message
	}
	return step
}

// ask returns the step that must come first because the BMC has to be asked or waited for, and whether there is one.
func ask(v View, s Settings, maxAge time.Duration) (Step, bool) {
	switch {
	case v.BMC.Busy:
		return Step{Message: "Waiting for the BMC's answer"}, true
	case v.bmcBlocked():
		return Step{Reason: v1alpha1.ReasonWaitingForBMC, Message: waitingForBMC(v), Again: v.BMC.Problem.RetryAt}, true
	case v.RetryNow:
		// Whatever is wrong, the inventory, which ends with a look at the power, tells whether it is over.
		return Step{Action: Inspect, Message: "Asking the BMC, as the annotation wants it"}, true
	case !v.BMC.Inspected:
		return Step{Action: Inspect, Message: "Reading the inventory"}, true
	case !v.powerKnown(maxAge):
		// Right after a command the power state is read slowly enough not to flood the BMC.
		if due := v.BMC.PowerAt.Add(s.ActiveInterval / 5); v.BMC.Power != "" && v.Now.Before(due) {
			return Step{Message: "Reading the power state", Again: due}, true
		}
		return Step{Action: ReadPower, Message: "Reading the power state"}, true
	default:
		return Step{}, false
	}
}

func waitingForBMC(v View) string { return "Waiting for the BMC: " + v.BMC.Problem.Message }
