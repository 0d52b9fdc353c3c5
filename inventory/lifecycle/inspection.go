package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

// Inspection is what is known of the inspection of a server by the agent.
type Inspection struct {
	// Reported is true if the BareMetalInspection of the host exists.
	Reported bool
	// NotPurgeable are the disks that cannot be purged and that spec.storage.keep does not name.
	NotPurgeable cleaning.Unpurgeable
}

// InspectionBoot returns the open boot that inspects the server; nil without one. No machine had the host when it was recorded, and a machine may have claimed
// the host since.
func (h Host) InspectionBoot() *v1alpha1.BareMetalBootSpec {
	if b := h.Boot; IsOpen(b) && b.Purpose == v1alpha1.PurposeInspect && b.Number >= h.Spec.ProviderState.Boots {
		return b
	}
	return nil
}

// inspects is true while the agent may run on a free server and read its hardware.
func inspects(v View, s Settings) bool {
	b := v.Host.InspectionBoot()
	return b != nil && !v.inspectionOver(*b) && v.Host.bootCounted() && v.Now.Before(v.Deadline(s))
}

// inspectionOver is true when an inspection has succeeded or failed, or must not continue.
func (v View) inspectionOver(attempt v1alpha1.BareMetalBootSpec) bool {
	return attempt.AgentDoneTime != nil || attempt.Failure != nil || !v.Host.byAgent() || v.Identity.hasConflict() || len(v.powerHolds()) > 0 || v.Host.Spec.Power == v1alpha1.PowerOn
}

// mayRunAgent is true if an inspection, or the boot of a settings run, has powered the server on, so that the agent may run on it. The first attempt begins with a server that is off. A later one
// may begin with a server that the attempt before has powered on, and has no PoweredOffTime then.
func (v View) mayRunAgent(s Settings) bool {
	b := cmp.Or(v.Host.InspectionBoot(), v.Host.ConfigureBoot())
	return b != nil && (b.PoweredOnTime != nil || b.PoweredOffTime == nil) && !v.hostBootOutdated(s)
}

// byAgent is true for a host that the agent inspects.
func (h Host) byAgent() bool {
	return h.Spec.Inspection == v1alpha1.InspectionAgent || h.Spec.Inspection == v1alpha1.InspectionBoth
}

// lastInspection returns the last boot of the host if it inspected the server, also after it has ended; nil otherwise.
func (h Host) lastInspection() *v1alpha1.BareMetalBootSpec {
	if b := h.Boot; b != nil && b.Purpose == v1alpha1.PurposeInspect && b.Number >= h.Spec.ProviderState.Boots {
		return b
	}
	return nil
}

// InspectionFailure is why the last inspection failed; nil if it did not.
func (h Host) InspectionFailure() *v1alpha1.BootFailure {
	if b := h.lastInspection(); b != nil && h.byAgent() {
		return b.Failure
	}
	return nil
}

// reportDelay is how long after the end of an inspection its report may be missing in the cache.
const reportDelay = time.Minute

// agentInspectionDue is true when the agent has to inspect the server: a user requests it, or there is no report. An inspection that failed is repeated only at a
// user's request.
func (v View) agentInspectionDue() bool {
	switch last := v.Host.lastInspection(); {
	case !v.Host.byAgent():
		return false
	case v.Requests.Inspect:
		return true
	case v.Inspection.Reported || last != nil && last.Failure != nil:
		return false
	case last != nil && last.AgentDoneTime != nil:
		return !v.Now.Before(last.AgentDoneTime.Add(reportDelay)) // somebody deleted the report
	default:
		return true
	}
}

// offerInspected begins the inspection of a server that is off and that could be offered otherwise, or says why the host is not offered. Without a reason it
// returns the step unchanged.
func offerInspected(v View, s Settings, step Step) Step {
	pending := step
	pending.Phase, pending.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending
	switch failure := v.Host.InspectionFailure(); {
	case v.agentInspectionDue():
		return beginInspection(v, s, pending, 1)
	case !v.Host.byAgent() || v.Inspection.Reported:
		return step
	case failure == nil:
		pending.Message, pending.RequeueAt = "The agent has inspected the server. Its report is being read", v.Now.Add(s.ActiveInterval)
		return pending
	case v.Host.Spec.Inspection == v1alpha1.InspectionAgent:
		pending.Reason, pending.Message = failure.Reason, failure.Message
		return pending
	default:
		return step
	}
}

// offerPurgeable says why a host is not offered that is to be purged after each machine, and that has a disk that cannot be purged. Otherwise it returns the step
// unchanged. What the agent does not know blocks nothing.
func offerPurgeable(v View, s Settings, step Step) Step {
	disks := v.Inspection.NotPurgeable
	if step.Phase != v1alpha1.PhaseAvailable || !disks.Any() || v.Host.policy(s) != wire.PolicyPurge {
		return step
	}
	step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonCleaningPolicyNotPossible
	by := "spec.cleaningPolicy of the host"
	if v.Host.Spec.CleaningPolicy != wire.PolicyPurge {
		by = "--minimum-cleaning-policy of the provider"
	}
	step.Message = fmt.Sprintf("%s is Purge, and these disks offer no method for that: %s. Set the policy to Clear, name the disks in spec.storage.keep, or replace "+
		"them and inspect the server again (annotation %s)", by, listUnpurgeable(disks), v1alpha1.InspectAnnotation)
	return step
}

// listUnpurgeable lists disks for a message.
func listUnpurgeable(u cleaning.Unpurgeable) string {
	names := make([]string, 0, len(u.Disks)+1)
	for _, d := range u.Disks {
		names = append(names, cmp.Or(d.SerialNumber, d.WWN, d.Name, "a disk without a name"))
	}
	if u.More > 0 {
		names = append(names, fmt.Sprintf("and %d more", u.More))
	}
	return inventory.ListNames(names)
}

// beginInspection records a new inspection, unless something prevents it. The server must be off: a server that runs belongs to somebody.
func beginInspection(v View, s Settings, step Step, attempt int32) Step {
	switch holds := v.powerHolds(); {
	case v.Host.Spec.Power == v1alpha1.PowerOn:
		step.Message = "The agent inspects only a server that is off. Remove spec.power, or set it to Off"
	case len(holds) > 0:
		step.Message = "The agent has to inspect the server, but power holds keep it powered off: " + describeHolds(holds)
	case v.Host.PausedCluster != "":
		step.Message = fmt.Sprintf("The agent has to inspect the server. It starts when Cluster %q is no longer paused: the hosts of the namespace may be moving",
			v.Host.PausedCluster)
		step.RequeueAt = v.Now.Add(s.PollInterval)
	case v.BMC.Power != v1alpha1.PowerOff || !v.BMC.confirmedOff(v.Now, s):
		step.Message, step.RequeueAt = unconfirmedOff, v.Now.Add(s.ActiveInterval)
	case v.QueuePosition != nil:
		step.Message = "The agent will inspect the server. "
		return v.QueuePosition.wait(v, step)
	default:
		step.Action, step.Boot, step.Message = RecordBoot, newInspection(v, attempt), fmt.Sprintf("Attempt %d to inspect the server begins", attempt)
	}
	return step
}

// newInspection returns the record of an inspection that starts now. Its claimID differs from that of every claim and of every other inspection.
func newInspection(v View, attempt int32) *v1alpha1.BareMetalBootSpec {
	boot := newRecord(v, attempt, v1alpha1.PurposeInspect)
	boot.ClaimID, boot.Agent = fmt.Sprintf("inspection-%d", v.Now.UnixNano()), true
	return boot
}

// inspectHost drives an inspection of a free host, and ends it.
func inspectHost(v View, s Settings) Step {
	step := Step{Phase: v1alpha1.PhaseInspecting, Reason: v1alpha1.ReasonInspecting}
	attempt := *v.Host.InspectionBoot()
	switch {
	case v.inspectionOver(attempt):
		return endInspection(v, s, step)
	case !v.Host.bootCounted():
		step.Action, step.Boot, step.Message = CountBoot, &attempt, "The agent will inspect the server"
		step.Drop = []string{v1alpha1.InspectAnnotation}
		return step
	case attemptOver(v, s, attempt) != "":
		return endInspectionAttempt(v, s, step, attempt, attemptOver(v, s, attempt))
	case !v.Now.Before(v.Deadline(s)):
		return endInspectionAttempt(v, s, step, attempt, describeTimeout(v, s, attempt))
	}
	unknown := step
	unknown.Message = "The agent will inspect the server. "
	return onceBMCKnown(v, s, s.ActiveInterval, unknown, driveInspection(v, s, step, attempt))
}

// driveInspection returns the next step of an inspection that is not over. The power is known.
func driveInspection(v View, s Settings, step Step, attempt v1alpha1.BareMetalBootSpec) Step {
	if attempt.PoweredOffTime != nil && attempt.PoweredOnTime == nil && v.BMC.notOff() {
		return voidInspection(v, step, "Something other than the provider powered the server on, so it is not inspected")
	}
	return driveHostBoot(v, s, step, attempt, fmt.Sprintf("The agent inspects the server, attempt %d", attempt.Attempt))
}

// endInspectionAttempt ends an attempt to inspect the server. After the last one the inspection has failed.
func endInspectionAttempt(v View, s Settings, step Step, attempt v1alpha1.BareMetalBootSpec, after string) Step {
	switch {
	case v.hostBootOutdated(s):
		return voidInspection(v, step, fmt.Sprintf("%s. That was more than %s ago, so the server is left as it is: the record of the inspection may come from a backup",
			after, hostBootGrace))
	case attempt.Attempt < maxAttempts(v, s) && (v.Host.PausedCluster != "" || v.QueuePosition != nil):
		step.Message, step.RequeueAt = after+". The next attempt waits until no Cluster of the namespace is paused, and for a boot slot", v.Now.Add(s.ActiveInterval)
		return step
	case attempt.Attempt < maxAttempts(v, s):
		step.Action, step.Boot = RecordBoot, newInspection(v, attempt.Attempt+1)
		step.Message = fmt.Sprintf("Attempt %d to inspect the server begins. %s", attempt.Attempt+1, after)
		return step
	}
	failed := failBoot(attempt, v1alpha1.ReasonInspectionFailed, fmt.Sprintf("%s. This was the last attempt. To repeat the inspection: kubectl annotate baremetalhost %s "+
		"--namespace %s %s=\"who and why\"", after, v.Host.Name, v.Host.Namespace, v1alpha1.InspectAnnotation))
	step.Action, step.Boot, step.Message = failed.Action, failed.Boot, after
	return step
}

// leaveInspection ends an inspection, or the boot of a settings run, without a command when a person takes the server over: what runs on it later is not the agent.
// Without such a boot it returns the step unchanged.
func leaveInspection(v View, step Step) Step {
	if v.Host.InspectionBoot() != nil || v.Host.ConfigureBoot() != nil {
		return voidInspection(v, step, step.Message)
	}
	return step
}

// voidInspection ends an inspection, or the boot of a settings run, without a command. Its report is still missing, or the run is still open, so the next one begins when the
// server is off.
func voidInspection(v View, step Step, message string) Step {
	void := voidBoot(v)
	step.Action, step.Boot, step.Message = void.Action, void.Boot, message
	return step
}

// endInspection powers the server off if the agent may run on it, and voids the boot. It also ends the boot of a settings run that is over.
func endInspection(v View, s Settings, step Step) Step {
	what := "inspection"
	if v.Host.ConfigureBoot() != nil {
		what = "restart"
	}
	over := voidInspection(v, step, fmt.Sprintf("The %s is over", what))
	if !v.mayRunAgent(s) {
		return over
	}
	unknown := step
	unknown.Message = fmt.Sprintf("The server will be powered off after its %s. ", what)
	known := over
	switch {
	case v.BMC.Power != v1alpha1.PowerOff:
		change := issueCommand(v, s, ForceOff, CommandForceOff)
		known = step
		known.Action, known.RequeueAt, known.Message = change.Action, change.RequeueAt, "The server is being powered off after its "+what
	case !v.BMC.confirmedOff(v.Now, s):
		known = step
		known.RequeueAt, known.Message = v.Now.Add(s.ActiveInterval), unconfirmedOff
	case v.mediaLeft():
		known = step
		known.Action, known.Message = EjectMedia, fmt.Sprintf("The server is off after its %s: its boot medium is being ejected", what)
	}
	return onceBMCKnown(v, s, s.ActiveInterval, unknown, known)
}
