package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

// A BareMetalErasureRequest requests one erasure of a host that no machine has. It is a boot of the agent with the purpose Clean, and the UID of the request is its
// claimID. A request begins only while the host and its count of boots are those that the request names, so it is carried out once: the boot raises that count.
// The record of the boot says how far it came. Nothing begins or repeats an erasure because a fact is missing.

// Erasure is what is known of a host for the erasure that a BareMetalErasureRequest requests.
type Erasure struct {
	// Request is the request that the open boot of the host carries out, or the first one that fits the host. It is nil without one.
	Request *ErasureRequest
	// SerialNumber is the serial number of the server that the BMC reports. If the BMC reports no serial number, it is the one that the agent found. It is empty if both are
	// unknown.
	SerialNumber string
	// Machine is a BareMetalMachine of any namespace whose provider ID names the host; nil without one. It may be one that is being deleted.
	Machine *types.NamespacedName
	// Record is what became of the record of the erasure in the host's boot, on request or for a release.
	Record ErasureRecord
}

// ErasureRequest is a BareMetalErasureRequest that names the host as it is now: its UID and its count of boots, and that has not expired.
type ErasureRequest struct {
	Name, UID string
	// SerialNumber is the one that the request names.
	SerialNumber string
	// Policy is Metadata, Clear or Purge.
	Policy wire.ErasePolicy
}

// IsRequestedErasure is true for the record of a boot that erases the disks of a host for a BareMetalErasureRequest.
func IsRequestedErasure(b *v1alpha1.BareMetalBootSpec) bool {
	return b != nil && b.ErasureRequest != nil
}

// isHostBoot is true for the record of a host boot: an inspection, a settings run, or an erasure on request. It began while no machine had the host.
func isHostBoot(b *v1alpha1.BareMetalBootSpec) bool {
	return b != nil && (b.Purpose == v1alpha1.PurposeInspect || b.Purpose == v1alpha1.PurposeConfigure || IsRequestedErasure(b))
}

// OutlivesClaim is true for the record of a host boot that a machine waits for if it claims the host meanwhile: an erasure on request, or the restart of a settings run.
func OutlivesClaim(b *v1alpha1.BareMetalBootSpec) bool {
	return IsRequestedErasure(b) || b != nil && b.Purpose == v1alpha1.PurposeConfigure
}

// RequestedErasureBoot returns the open boot that erases the disks on request; nil without one. A machine may have claimed the host since it was
// recorded.
func (h Host) RequestedErasureBoot() *v1alpha1.BareMetalBootSpec {
	if b := h.Boot; IsOpen(b) && IsRequestedErasure(b) && b.Number >= h.Spec.ProviderState.Boots {
		return b
	}
	return nil
}

// HostBoot returns the open host boot; nil without one.
func (h Host) HostBoot() *v1alpha1.BareMetalBootSpec {
	return cmp.Or(h.InspectionBoot(), h.ConfigureBoot(), h.RequestedErasureBoot())
}

// erasesOnRequest is true while the agent may run on a server and erase its disks on request. What forbids the erasure is checked before the server
// is powered on, and before each attempt: an erasure that runs is not interrupted.
func (v View) erasesOnRequest(s Settings) bool {
	b := v.Host.RequestedErasureBoot()
	return b != nil && b.AgentDoneTime == nil && b.Failure == nil && v.Host.bootCounted() && v.Now.Before(v.Deadline(s))
}

// hostBootGrace is how long after the deadline of an attempt the record of a host boot still leads to an action on the server. An older record may come from a
// backup: the server may have been given to a machine since.
const hostBootGrace = time.Hour

// hostBootOutdated is true for the record of a host boot whose attempt is too old to act on the server.
func (v View) hostBootOutdated(s Settings) bool {
	return !v.Now.Before(v.Deadline(s).Add(hostBootGrace))
}

// mayRunEraser is true if the erasure has powered the server on, so that the agent may run on it. A record of that is not enough, because it may come from a
// backup: something of the boot was observed, or this process has powered the server on. A later attempt may begin with the server that the attempt before has
// powered on, and has no PoweredOffTime then.
func (v View) mayRunEraser(s Settings) bool {
	switch b := v.Host.RequestedErasureBoot(); {
	case b == nil || v.hostBootOutdated(s):
		return false
	case b.PoweredOffTime == nil:
		return true
	default:
		return b.PoweredOnTime != nil && (v.Observed.Furthest.Stage != "" && !v.Observed.onlyBMCSeen(*b) || v.BMC.LastPower == CommandPowerOn)
	}
}

// erasureRefusal says why the disks must not be erased now with a policy, and what to do; empty if nothing forbids it.
func erasureRefusal(v View, policy wire.ErasePolicy) string {
	request, known, holds := v.Erasure.Request, strings.TrimSpace(v.Erasure.SerialNumber), v.powerHolds()
	_, conflict := Conflict(v)
	switch {
	case conflict != "":
		return conflict
	case v.Identity.Replacement != nil:
		return ReplacementMessage(v)
	case v.Erasure.Machine != nil:
		return machineOnServer(v.Host.Namespace, *v.Erasure.Machine) + " has the providerID of this host, so the server may run it. Give the host back to it, or delete that machine"
	case request == nil:
		return "The BareMetalErasureRequest was deleted"
	case known == "":
		return fmt.Sprintf("It names the serial number %q, and that of the server is unknown: neither the BMC nor an inspection by the agent reports one. "+
			"If the BMC reported one earlier, the annotation %s reads it again; if that does not help, delete the host and create it again. "+
			"Otherwise set spec.inspection to Both", request.SerialNumber, v1alpha1.RetryBMCAnnotation)
	case !strings.EqualFold(strings.TrimSpace(request.SerialNumber), known):
		return fmt.Sprintf("It names the serial number %q, and that of the server is %q. Delete it; if this is the server whose disks are to be erased, create another one",
			request.SerialNumber, known)
	case policy == wire.PolicyPurge && v.Inspection.NotPurgeable.Any():
		return fmt.Sprintf("These disks offer no method for Purge: %s. Request Clear, or name the disks in spec.storage.keep", listUnpurgeable(v.Inspection.NotPurgeable))
	case v.Host.Spec.Power == v1alpha1.PowerOn:
		return "The disks of a server are erased only if it is off. Remove spec.power, or set it to Off"
	case len(holds) > 0:
		return "Power holds keep the server powered off: " + describeHolds(holds)
	case v.Host.PausedCluster != "":
		return fmt.Sprintf("Cluster %q is paused, so the hosts of the namespace may be moving. The erasure starts when no Cluster of the namespace is paused",
			v.Host.PausedCluster)
	default:
		return ""
	}
}

// machineOnServer describes a machine as the start of a sentence. One of another namespace is not named, because the namespace may be that of another tenant.
func machineOnServer(namespace string, machine types.NamespacedName) string {
	if machine.Namespace != namespace {
		return "A BareMetalMachine of another namespace"
	}
	return fmt.Sprintf("BareMetalMachine %q", machine.Name)
}

// requestedPolicy returns how thoroughly a request erases the disks: as it says, and not less than the provider's minimum.
func (e Erasure) requestedPolicy(s Settings) wire.ErasePolicy {
	return cleaning.Effective(e.Request.Policy, "", s.MinimumCleaningPolicy)
}

// erasureInventoryAge is the maximum age of the inventory with the serial number when an attempt to erase a free host begins: a boot medium boots whatever server is
// behind the BMC, and the server may have been replaced since the inventory was read.
const erasureInventoryAge = 10 * time.Minute

// rereadForErasure makes a step read the inventory again if it is too old for an erasure. It returns false if it is not.
func rereadForErasure(v View, step *Step) bool {
	if age := v.Now.Sub(v.BMC.InspectedTime); age >= 0 && age < erasureInventoryAge {
		return false
	}
	step.Action, step.Message = Inspect, "The serial number of the server is being read again before its disks are erased"
	return true
}

// offerErased begins the erasure that is requested on a server that is off and that could be offered otherwise, or says why it does not begin.
func offerErased(v View, s Settings, step Step) Step {
	if step.Phase != v1alpha1.PhaseAvailable {
		return step
	}
	policy := v.Erasure.requestedPolicy(s)
	step.Phase, step.Reason = v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasurePending
	switch refusal := erasureRefusal(v, policy); {
	case refusal != "":
		step.Reason, step.RequeueAt = v1alpha1.ReasonErasureRefused, v.Now.Add(s.PollInterval)
		step.Message = fmt.Sprintf("BareMetalErasureRequest %q: %s", v.Erasure.Request.Name, refusal)
	case !v.BMC.confirmedOffTwice(v.Now, s):
		step.Message, step.RequeueAt = unconfirmedOff, v.Now.Add(s.ActiveInterval)
	case rereadForErasure(v, &step):
	case v.QueuePosition != nil:
		step.Message = "The disks will be erased. "
		return v.QueuePosition.wait(v, step)
	default:
		request := v.Erasure.Request
		step.Action = RecordBoot
		step.Boot = newRequestedErasure(v, 1, request.UID, v1alpha1.BootErasureRequest{Name: request.Name, SerialNumber: request.SerialNumber}, policy)
		step.Message = fmt.Sprintf("Attempt 1 to erase the disks begins (%s, BareMetalErasureRequest %s)", policy, request.Name)
	}
	return step
}

// confirmedOffTwice is confirmedOff by two readings, also after a command of the provider.
func (b BMC) confirmedOffTwice(now time.Time, s Settings) bool {
	return b.Power == v1alpha1.PowerOff && b.confirmedOff(now, s) && b.powerUnchangedFor(b.LastPowerAt) >= s.ActiveInterval
}

// withErasureNote adds to what a host waits for that an erasure waits too.
func withErasureNote(v View, step Step) Step {
	own := []string{v1alpha1.ReasonErasurePending, v1alpha1.ReasonErasureRefused, v1alpha1.ReasonInspectionPending}
	if r := v.Erasure.Request; r != nil && step.Action != RecordBoot && !slices.Contains(own, step.Reason) {
		step.Message += fmt.Sprintf(". BareMetalErasureRequest %q waits for that", r.Name)
	}
	return step
}

// newRequestedErasure returns the record of an attempt that starts now. A later attempt carries out the request of the first one.
func newRequestedErasure(v View, attempt int32, uid string, request v1alpha1.BootErasureRequest, policy wire.ErasePolicy) *v1alpha1.BareMetalBootSpec {
	boot := newRecord(v, attempt, v1alpha1.PurposeClean)
	boot.ClaimID, boot.Agent, boot.CleaningPolicy, boot.ErasureRequest = uid, true, policy, &request
	return boot
}

// eraseOnRequest drives an erasure that is requested, and ends it. The step has the phase and the reason of the host meanwhile. A machine that has claimed
// the host waits for the end of the attempt.
func eraseOnRequest(v View, s Settings, step Step) Step {
	attempt := *v.Host.RequestedErasureBoot()
	over, unknown := attemptOver(v, s, attempt), step
	unknown.Message = "The disks will be erased. "
	switch {
	case attempt.AgentDoneTime != nil || attempt.Failure != nil:
		return endRequestedErasure(v, s, step)
	case givesUpErasing(v, s, attempt):
		return giveUpErasing(v, step, attempt)
	case !v.Host.bootCounted():
		step.Action, step.Boot, step.Message = CountBoot, &attempt, "The disks will be erased"
		return step
	case over == "" && !v.Now.Before(v.Deadline(s)):
		over = describeTimeout(v, s, attempt)
	}
	if over != "" {
		return endRequestedAttempt(v, s, step, unknown, attempt, over)
	}
	return onceBMCKnown(v, s, s.ActiveInterval, unknown, driveRequestedErasure(v, s, step, attempt))
}

// givesUpErasing is true for an attempt that has not powered the server on and must not do so: something forbids the erasure, a machine has claimed the host,
// or something else has powered the server on. The power-on is recorded before its command, which may wait for the BMC: until an agent has got its plan, a server that
// is off has not been erased.
func givesUpErasing(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) bool {
	begun := attempt.DataAddress != "" || v.mayRunEraser(s) || v.BMC.Power != v1alpha1.PowerOff
	if attempt.PoweredOnTime != nil && v.Host.bootCounted() && begun {
		return false
	}
	return v.Host.Claimed() || v.bmcRead() && (erasureRefusal(v, attempt.CleaningPolicy) != "" || attempt.PoweredOffTime != nil && v.BMC.notOff())
}

// bmcRead is true once the BMC was read, or cannot be read: after a restart the serial number may not be known yet.
func (v View) bmcRead() bool { return v.BMC.Inspected || v.bmcBlocked() }

// giveUpErasing ends an attempt that has not powered the server on. The first one has changed nothing. Before a later one an agent has run, and nobody knows
// what it has erased.
func giveUpErasing(v View, step Step, attempt v1alpha1.BareMetalBootSpec) Step {
	message := "The erasure does not begin: " + cmp.Or(erasureRefusal(v, attempt.CleaningPolicy),
		"something other than the provider powered the server on, or a machine claimed the host")
	if attempt.Attempt > 1 {
		return failErasing(step, attempt, message)
	}
	void := voidBoot(v)
	step.Action, step.Boot, step.Message = void.Action, void.Boot, message
	return step
}

// failErasing records that an erasure has failed.
func failErasing(step Step, attempt v1alpha1.BareMetalBootSpec, message string) Step {
	failed := failBoot(attempt, v1alpha1.ReasonDisksNotErased,
		message+". Wipe the disks, then remove spec.quarantine, or create another BareMetalErasureRequest before that to try again")
	failed.Boot.WrittenDisks = nil // as after a release: a person wipes them
	step.Action, step.Boot, step.Message = failed.Action, failed.Boot, message
	return step
}

// driveRequestedErasure returns the next step of an attempt that is not over. The power is known.
func driveRequestedErasure(v View, s Settings, step Step, attempt v1alpha1.BareMetalBootSpec) Step {
	return driveHostBoot(v, s, step, attempt,
		fmt.Sprintf("The disks are being erased, attempt %d (%s, BareMetalErasureRequest %s)", attempt.Attempt, attempt.CleaningPolicy, attempt.ErasureRequest.Name))
}

// endRequestedAttempt ends an attempt. After the last one, and if something forbids another one, the erasure has failed.
func endRequestedAttempt(v View, s Settings, step, unknown Step, attempt v1alpha1.BareMetalBootSpec, after string) Step {
	refusal := erasureRefusal(v, attempt.CleaningPolicy)
	switch {
	case attempt.Attempt >= maxAttempts(v, s):
		return failErasing(step, attempt, after+". This was the last attempt")
	case v.Observed.metOtherServer(attempt):
		return failErasing(step, attempt, after+". Another attempt would meet the same server")
	case v.Host.Claimed():
		return failErasing(step, attempt, after+". A machine has claimed the host, so there is no other attempt")
	case refusal != "" && v.bmcRead():
		return failErasing(step, attempt, after+". Another attempt is not possible: "+refusal)
	case v.hostBootOutdated(s):
		return failErasing(step, attempt, fmt.Sprintf(
			"%s. That was more than %s ago, so the server is left as it is: the record of the erasure may come from a backup", after, hostBootGrace))
	}
	next := step
	switch {
	case v.BMC.notOff() && !v.mayRunEraser(s):
		next = failErasing(step, attempt, after+". The server is on, and nothing shows that this erasure has powered it on, so it is left as it is")
	case v.QueuePosition != nil:
		next.Message, next.RequeueAt = after+". The next attempt waits for a boot slot", v.Now.Add(s.ActiveInterval)
	case rereadForErasure(v, &next):
	default:
		next.Action, next.Boot = RecordBoot, newRequestedErasure(v, attempt.Attempt+1, attempt.ClaimID, *attempt.ErasureRequest, attempt.CleaningPolicy)
		next.Message = fmt.Sprintf("Attempt %d to erase the disks begins (%s, BareMetalErasureRequest %s). %s", attempt.Attempt+1, attempt.CleaningPolicy, attempt.ErasureRequest.Name, after)
	}
	return onceBMCKnown(v, s, s.ActiveInterval, unknown, next)
}

// endRequestedErasure powers the server off if the agent may run on it, and concludes the erasure.
func endRequestedErasure(v View, s Settings, step Step) Step {
	conclusion := concludeRequestedErasure(v, step)
	if !v.mayRunEraser(s) {
		return conclusion
	}
	unknown := step
	unknown.Message = "The server will be powered off after the erasure of its disks. "
	known := step
	switch {
	case v.BMC.Power != v1alpha1.PowerOff:
		change := issueCommand(v, s, ForceOff, CommandForceOff)
		known.Action, known.RequeueAt, known.Message = change.Action, change.RequeueAt, "The server is being powered off after the erasure of its disks"
	case !v.BMC.confirmedOff(v.Now, s):
		known.RequeueAt, known.Message = v.Now.Add(s.ActiveInterval), unconfirmedOff
	case v.mediaLeft():
		known.Action, known.Message = EjectMedia, "The server is off after the erasure of its disks: its boot medium is being ejected"
	default:
		known = conclusion
	}
	return onceBMCKnown(v, s, s.ActiveInterval, unknown, known)
}

// concludeRequestedErasure voids the boot. After a failure it puts the host into quarantine first. The order makes the outcome certain after a restart: an open boot whose
// erasure is over is one whose outcome is not written yet. A machine that has claimed a host whose erasure failed waits: its deletion releases the host.
func concludeRequestedErasure(v View, step Step) Step {
	failure := v.Host.Boot.Failure
	switch {
	case failure != nil && v.Host.Claimed():
		step.Reason, step.Message = failure.Reason, failure.Message+". Delete the Machine to have it replaced"
	case failure != nil && (v.Host.Spec.Quarantine == nil || v.Host.Spec.Quarantine.Reason != v1alpha1.ReasonDisksNotErased): // a quarantine for another reason says nothing of the disks
		step.Action, step.Message = Isolate, "The disks were not erased"
		step.Quarantine = newQuarantine(v, v1alpha1.ReasonDisksNotErased,
			fmt.Sprintf("The disks were not erased, as BareMetalErasureRequest %q requested. %s", v.Host.Boot.ErasureRequest.Name, failure.Message))
	default:
		void := voidBoot(v)
		step.Action, step.Boot, step.Message = void.Action, void.Boot, "The erasure of the disks is over"
	}
	return step
}

// requestedErasureIsOver is true while the outcome of an erasure on request is known and not written yet.
func (h Host) requestedErasureIsOver() bool {
	b := h.RequestedErasureBoot()
	return b != nil && (b.AgentDoneTime != nil || b.Failure != nil)
}
