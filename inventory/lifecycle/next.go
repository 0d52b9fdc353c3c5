package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// State is the state of a host in the lifecycle. It is never stored: it follows from the facts. Users see the host's phase, which has the same
// words, with some exceptions. A Free host has the phase Registering, Inspecting, Cleaning, Available or Unavailable. A host in ReportedIn still has the phase
// Booting. A Paused host keeps the phase that it had. A host in Configuring whose record of the run is lost is Unavailable.
type State string

const (
	StateDeleting              State = "Deleting"
	StatePaused                State = "Paused"
	StateOrphaned              State = "Orphaned"
	StateDetached              State = "Detached"
	StateMaintenance           State = "Maintenance"
	StateExternallyProvisioned State = "ExternallyProvisioned"
	StateReleasing             State = "Releasing"
	StateCleaning              State = "Cleaning"
	StateQuarantined           State = "Quarantined"
	StateConfiguring           State = "Configuring"
	StateFree                  State = "Free"
	StateLost                  State = "StateLost"
	StatePowerHold             State = "PowerHold"
	StateProvisioned           State = "Provisioned"
	StateBootFailed            State = "BootFailed"
	StateReportedIn            State = "ReportedIn"
	StateBooting               State = "Booting"
	StateClaimed               State = "Claimed"
	StateBootUnknown           State = "BootUnknown"
)

// transition is a row of the lifecycle: when the condition is true, the host is in this state, and do returns its next step.
type transition struct {
	state State
	when  func(View) bool
	do    func(View, Settings) Step
}

// table says which state a host is in. The first row whose condition is true decides, so the rows that protect a host precede those that act on it. The guards
// (guards.go) correct its steps. Nothing else decides.
var table = []transition{
	{StateDeleting, func(v View) bool { return v.Host.Deleting && v.Host.DeletedForMove }, forget},
	{StateDeleting, func(v View) bool { return v.Host.Deleting && v.Requests.Detached.Set }, forget},
	{StatePaused, isPaused, stayPaused},
	{StateDeleting, func(v View) bool { return v.Host.Deleting && !v.Host.Claimed() }, deleteUnclaimed},
	{StateDeleting, abandoned, forget},
	{StateDetached, func(v View) bool { return v.Requests.Detached.Set }, stayDetached},
	{StateReleasing, unfencedReleaseDue, releaseUnfenced},
	{StateOrphaned, isOrphaned, stayOrphaned},
	{StateMaintenance, func(v View) bool { return v.Host.Spec.Maintenance != nil }, stayInMaintenance},
	{StateExternallyProvisioned, func(v View) bool { return v.Host.Spec.ExternallyProvisioned && !v.releasing() }, stayExternallyProvisioned},
	{StateCleaning, func(v View) bool {
		return v.releasing() && !v.Host.Spec.ExternallyProvisioned && v.Host.Spec.ProviderState.CleaningStartTime != nil
	}, cleanHost},
	{StateReleasing, View.releasing, releaseHost},
	{StateQuarantined, func(v View) bool { return !v.Host.Claimed() && v.Host.Spec.Quarantine != nil }, stayQuarantined},
	{StateConfiguring, func(v View) bool { return !v.Host.Claimed() && v.Host.settingsRunOpen() }, configureHost},
	{StateFree, func(v View) bool { return !v.Host.Claimed() }, offerHost},
	{StateBootUnknown, bootUnknown, stayBootUnknown},
	{StateLost, func(v View) bool { return v.Provisioned() && stateLost(v) }, recordStateLoss},
	{StatePowerHold, powerHoldActive, applyPowerHold},
	{StateProvisioned, View.Provisioned, stayProvisioned},
	{StateBootFailed, func(v View) bool {
		return v.Host.CurrentBoot() != nil && (v.Host.Boot.Failure != nil || v.Host.Boot.Purpose == v1alpha1.PurposeClean)
	}, stayBootFailed},
	{StateReportedIn, func(v View) bool { return v.Host.CurrentBoot() != nil && v.Host.Boot.ReportedTime != nil }, awaitProviderID},
	{StateBooting, View.booting, bootHost},
	{StateClaimed, func(View) bool { return true }, prepareBoot},
}

// ReadOnly is true for a state in which the provider writes neither the host's spec nor its boot, and removes no annotation. It ends only the inspection of a host that is
// detached.
func (s State) ReadOnly() bool { return s == StateDeleting || s == StatePaused || s == StateDetached }

// StateOf returns the state of the host.
func StateOf(v View) State { return transitionFor(v).state }

// Next returns what to do next with the host: what the first row of the table says whose condition is true, corrected by the guards. Neither sees the facts that were
// read from a server that may be another one.
func Next(v View, s Settings) Step {
	v = withoutForeignServer(v)
	row := transitionFor(v)
	step := row.do(v, s)
	step.State = row.state
	step = correct(v, s, step)
	step.Action = cmp.Or(step.Action, Nothing)
	return step
}

func transitionFor(v View) transition {
	for _, row := range table {
		if row.when(v) {
			return row
		}
	}
	panic("lifecycle: the condition of the table's last row is always true")
}

// isPaused is true when a user, or `clusterctl move`, paused the host, its machine or their Cluster, and no boot is in flight. A machine that a move
// deletes continues in the other cluster, and so does its claim.
func isPaused(v View) bool {
	if c := v.Consumer; v.InFlight() && c != nil && c.Found && c.ClusterFound && !c.Deleting {
		return false
	}
	return v.PauseRequested()
}

// PauseRequested is true when a user, or `clusterctl move`, paused the host, its machine or their Cluster.
func (v View) PauseRequested() bool {
	return v.Host.Paused || v.Consumer != nil && (v.Consumer.Paused || v.Consumer.DeletedForMove)
}

// isOrphaned is true when the machine that has the host, or its Cluster, does not exist, or the machine has the provider ID of another claim.
func isOrphaned(v View) bool {
	if !v.Host.Claimed() {
		return false
	}
	c := v.Consumer
	return c == nil || !c.Found || !c.ClusterFound || c.ProviderID != "" && c.ProviderID != v.Host.providerID()
}

func (v View) releasing() bool {
	return v.Host.Claimed() && v.Consumer != nil && v.Consumer.Found && v.Consumer.Deleting
}

// abandoned is true when a host is deleted with its whole namespace, and an object that its release needs was deleted first: the machine, its
// Cluster, or the Secret of its BMC. No object is left that says what to do, and no machine that could claim the server.
func abandoned(v View) bool {
	return v.Host.Deleting && v.Host.NamespaceDeleting && (isOrphaned(v) || v.BMC.secretMissing())
}

func (b BMC) secretMissing() bool {
	return b.Problem != nil && slices.Contains(secretProblemReasons, b.Problem.Reason)
}

// secretProblemReasons are the reasons for which a BMC is not queried because of its Secret.
var secretProblemReasons = []string{v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsNotLabeled, v1alpha1.ReasonCredentialsNotForBMC}

func forget(View, Settings) Step { return Step{Action: Forget, Phase: v1alpha1.PhaseDeleting} }

// stayDetached does nothing with a detached host, except to record an inspection: what runs on the server when the host returns is not the agent.
func stayDetached(v View, _ Settings) Step {
	step := Step{
		Phase: v1alpha1.PhaseDetached, Reason: v1alpha1.ReasonDetached,
		Message: fmt.Sprintf("Detached: %s. The provider sends nothing to the server or its BMC until the annotation %s is removed",
			v.Requests.Detached.why(), v1alpha1.DetachedAnnotation),
	}
	if v.Host.Claimed() { // its boot begins with a server that is off, whatever runs on it
		return step
	}
	return leaveInspection(v, step)
}

// stayPaused does nothing with a paused host, and says how to resume it.
func stayPaused(v View, _ Settings) Step {
	step := Step{Reason: v1alpha1.ReasonPaused, Message: "The host is paused: nothing is done until its annotation cluster.x-k8s.io/paused is removed"}
	if v.Provisioned() { // a pause does not power the server on
		step.PoweredOffTime = v.PowerLoss.PoweredOffTime
	}
	switch {
	case v.Host.Paused:
	case v.Consumer.DeletedForMove:
		step.Message = fmt.Sprintf("BareMetalMachine %q is being moved to another cluster: nothing is done", v.Host.Spec.ConsumerRef.Name)
	default:
		step.Message = fmt.Sprintf("BareMetalMachine %q or its Cluster is paused: nothing is done until the machine's annotation cluster.x-k8s.io/paused "+
			"or the Cluster's spec.paused is removed", v.Host.Spec.ConsumerRef.Name)
	}
	return step
}

func stayOrphaned(v View, s Settings) Step {
	name := v.Host.Spec.ConsumerRef.Name
	step := Step{Phase: v1alpha1.PhaseOrphaned, Reason: v1alpha1.ReasonConsumerNotFound}
	switch c := v.Consumer; {
	case c == nil || !c.Found:
		step.Message = fmt.Sprintf("BareMetalMachine %q, which spec.consumerRef names, does not exist: nothing is done to the host", name)
	case !c.ClusterFound:
		step.Reason = v1alpha1.ReasonClusterNotFound
		step.Message = fmt.Sprintf("The Cluster of BareMetalMachine %q does not exist: nothing is done to the host", name)
	default:
		step.Message = fmt.Sprintf("BareMetalMachine %q has the providerID %q of another claim: nothing is done to the host", name, c.ProviderID)
	}
	if v.Host.Deleting {
		step.RequeueAt = v.Now.Add(s.PollInterval) // the namespace may be deleted too, and namespaces are not watched
	}
	step.Message += fmt.Sprintf(". If the machine will not come back, the annotation %s=\"who and why\" releases the host without a power-off, into quarantine",
		v1alpha1.ReleaseUnfencedAnnotation)
	return step
}

func stayInMaintenance(v View, s Settings) Step {
	step := leaveInspection(v, pollBMC(v, s))
	step.Phase, step.Reason = v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance
	step.Message = "In maintenance: " + v.Host.Spec.Maintenance.Reason
	return configureInMaintenance(v, s, step)
}

func stayExternallyProvisioned(v View, s Settings) Step {
	step := leaveInspection(v, pollBMC(v, s))
	step.Phase, step.Reason = v1alpha1.PhaseExternallyProvisioned, v1alpha1.ReasonExternallyProvisioned
	step.Message = "Something other than this provider runs the server: it gets no power or boot command"
	return step
}

func stayQuarantined(v View, s Settings) Step {
	step := leaveInspection(v, pollBMC(v, s))
	switch {
	case v.Host.requestedErasureIsOver():
		step = concludeRequestedErasure(v, Step{})
	case runIsOver(v):
		step = concludeRun(v, Step{}, *v.openRun())
	case v.forgetsStrayBoot() && unerasedStray(v, s) != nil && v.Host.Spec.Quarantine.Reason != v1alpha1.ReasonDisksNotErased:
		step = Step{Action: Isolate, Quarantine: unerasedStray(v, s)}
	case v.forgetsStrayBoot(): // otherwise it would be met again when the quarantine ends
		step = Step{Action: ForgetBoot}
	}
	step.Phase, step.Reason = v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined
	step.Message = strings.TrimSuffix(fmt.Sprintf("%s: %s", v.Host.Spec.Quarantine.Reason, v.Host.Spec.Quarantine.Message), ": ") +
		". Remove spec.quarantine when the server works again"
	return step
}

// pollBMC reads the power, the inventory and the health when they are due, and does nothing else.
func pollBMC(v View, s Settings) Step {
	step, wait := refreshBMC(v, s, s.PollInterval)
	switch {
	case wait:
	case v.inspectionDue(s):
		step = Step{Action: Inspect}
	default:
		step.RequeueAt = v.BMC.PowerAt.Add(s.PollInterval)
		step = withHealth(v, s, step)
	}
	return step
}

// onceBMCKnown returns known, the step that follows from the facts, if the facts are fresh. Otherwise it returns the step that queries the BMC, or
// waits for it. That step has the phase and the message of known while older readings are usable: the condition of a waiting host would otherwise
// change with every read of the power. Without usable readings it has those of unknown, with the message of the query.
func onceBMCKnown(v View, s Settings, maxAge time.Duration, unknown, known Step) Step {
	step, wait := refreshBMC(v, s, maxAge)
	switch {
	case !wait:
		return known
	case v.BMC.usable() && known.Action != RecordBoot:
		step.Phase, step.Reason, step.Message = known.Phase, known.Reason, known.Message
	default:
		step.Phase, step.Reason, step.Message = unknown.Phase, cmp.Or(step.Reason, unknown.Reason), unknown.Message+step.Message
	}
	return step
}

// refreshBMC returns the step that queries the BMC or waits for it, and whether such a step must come first.
func refreshBMC(v View, s Settings, maxAge time.Duration) (Step, bool) {
	switch {
	case v.BMC.Busy:
		return Step{Message: "Waiting for the BMC's answer"}, true
	case v.bmcBlocked():
		return Step{Reason: v1alpha1.ReasonWaitingForBMC, Message: waitingForBMC(v), RequeueAt: v.BMC.Problem.RetryAt}, true
	case v.Requests.RetryBMC:
		// A read of the inventory ends with a read of the power, so it shows whether any problem is over.
		return Step{Action: Inspect, Message: "Querying the BMC, as the annotation " + v1alpha1.RetryBMCAnnotation + " requests"}, true
	case !v.BMC.Inspected:
		return Step{Action: Inspect, Message: "Reading the inventory"}, true
	case !v.BMC.powerKnown(v.Now, maxAge):
		// Right after a command the power state is read at most this often, so that the BMC is not flooded.
		if due := v.BMC.PowerAt.Add(s.ActiveInterval / 5); v.BMC.Power != "" && v.Now.Before(due) {
			return Step{Message: "Reading the power state", RequeueAt: due}, true
		}
		return Step{Action: ReadPower, Message: "Reading the power state"}, true
	default:
		return Step{}, false
	}
}

func waitingForBMC(v View) string { return "Waiting for the BMC: " + v.BMC.Problem.Message }
