package lifecycle

import (
	"cmp"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// brokenf fails the test when the world is judged by that promise.
func (w *world) brokenf(p, format string, args ...any) {
	w.t.Helper()
	if len(w.promises) == 0 || slices.Contains(w.promises, p) {
		w.fatalf(p+": "+format, args...)
	}
}

// judgeStep fails the test when a step breaks a promise.
func (w *world) judgeStep(v View, step Step) {
	w.t.Helper()
	if wrong := wrongWithWait(v, step); wrong != "" {
		w.brokenf(promise.Explained, "%s in %s: %s", step.Action, step.State, wrong)
	}
	if wrong := wrongWithAbsence(v, step); wrong != "" {
		w.brokenf(promise.Absence, "%s in %s: %s", step.Action, step.State, wrong)
	}
	if step.Phase == v1alpha1.PhaseAvailable {
		w.judgeOffer(v, step)
	}
	if step.Action == RecordBoot {
		w.judgeBoot(v, step)
	}
	if step.Action == RecordBoot && step.Boot.VoidedTime != nil && IsRequestedErasure(step.Boot) && w.disk.begun && v.Host.Spec.Quarantine == nil && !v.Host.Deleting && !v.Host.Claimed() {
		w.brokenf(promise.Clean, "a requested erasure is over before the disks are erased, and the host is not in quarantine")
	}
	switch {
	case v.Claims.BootMachinePending && v.Host.Boot != nil && (step.Action == ForgetBoot || step.Action == RecordBoot && step.Boot.VoidedTime != nil):
		w.brokenf(promise.Command, "the record is removed that keeps a machine from getting its bootstrap data twice")
	case (step.Action == ForceOff || step.Action == ShutDown) && v.Provider.RunsHere && !v.Requests.PowerOffProvider.Set:
		w.brokenf(promise.Command, "the server is powered off that the provider runs on")
	case step.Action == Release:
		w.judgeRelease(v, step)
	case step.Action == Forget && (v.Host.Paused || v.Consumer != nil && v.Consumer.Paused) && !v.Host.DeletedForMove && !v.Requests.Detached.Set:
		w.brokenf(promise.Command, "the object is removed while it is paused")
	case step.Action == Forget && (!v.Host.Deleting || !v.Host.DeletedForMove && !v.Requests.Detached.Set && v.Host.Claimed() && !v.Host.NamespaceDeleting):
		w.brokenf(promise.Command, "the object is removed while a machine has the host")
	case step.Action == RecordPowerHold && step.PowerHold.OffTime != nil && v.Host.Spec.ProviderState.PowerHoldOffTime == nil && !w.uncertain && (w.on || !w.switchesAt.IsZero() && w.target):
		w.brokenf(promise.Records, "recorded as kept off, but it is on or about to be")
	}
}

// judgeBoot judges the record of a boot attempt.
func (w *world) judgeBoot(v View, step Step) {
	before, b := cmp.Or(v.Host.CurrentBoot(), v.Host.HostBoot()), step.Boot
	w.judgeAgentBoot(v, before, b)
	if before != nil && before.Number != b.Number && agentOver(v, w.s, *before) == "" && methodOver(v, w.s, *before) != "" {
		w.seen.early++
	}
	begins := b.ClaimID != "" && b.Failure == nil && b.VoidedTime == nil && (before == nil || before.Number != b.Number)
	switch {
	case begins && v.QueuePosition != nil:
		w.brokenf(promise.Slots, "its queue position is %d", v.QueuePosition.Number)
	case w.timesOut(v, before, b, begins) && v.Now.Sub(v.Observed.WaitedAt) < w.s.BootTimeout && b.Purpose != v1alpha1.PurposeClean:
		w.brokenf(promise.Slots, "it timed out although it waited for a slot lately")
	case begins && b.Purpose == v1alpha1.PurposeInspect && (v.Host.Claimed() || v.Host.PausedCluster != "" || before == nil && (v.BMC.Power != v1alpha1.PowerOff || len(v.powerHolds()) > 0)):
		w.brokenf(promise.Command, "a server is inspected that a machine has, that runs, that is kept off, or that may be moving")
	case begins && IsRequestedErasure(b) && wrongWithRequestedErasure(v, before != nil) != "":
		w.brokenf(promise.Command, "an erasure begins, and %s", wrongWithRequestedErasure(v, before != nil))
	case begins && w.seeded && b.Purpose != v1alpha1.PurposeClean:
		w.brokenf(promise.Data, "the machine is provisioned a second time")
	case v.Host.Boot != nil && b.Number < v.Host.Boot.Number:
		w.brokenf(promise.Numbers, "the number of the boot falls")
	case begins && (v.Host.Boot != nil && b.Number == v.Host.Boot.Number || b.Number <= v.Host.Spec.ProviderState.Boots):
		w.brokenf(promise.Numbers, "the number is that of another boot")
	case before != nil && before.Number == b.Number && before.DataServedTime != nil && b.DataServedTime == nil:
		w.brokenf(promise.Data, "it is forgotten that it was given out")
	case begins && b.Purpose != v1alpha1.PurposeClean && before == nil && v.BMC.Power == v1alpha1.PowerOn && v.Host.Spec.Power != v1alpha1.PowerOn:
		w.brokenf(promise.Command, "a server that was found running is booted")
	case begins && b.Purpose != v1alpha1.PurposeClean && before == nil && (v.Host.Deleting || v.Host.Claimed() && len(v.Claims.SharesConsumerWith) > 0):
		w.brokenf(promise.Command, "a host is booted that is being deleted, or shares its machine")
	case before != nil && before.Number == b.Number && before.Method != b.Method:
		w.brokenf(promise.Records, "the method of boot %d becomes %s", b.Number, b.Method)
	case begins && before != nil && before.Attempt < b.Attempt && v.Now.Before(v.Deadline(w.s)) && agentOver(v, w.s, *before) == "" && (before.DataServedTime != nil || before.CommitAllowedTime != nil || v.Observed.bootedMedium()):
		w.brokenf(promise.Command, "an attempt ends early although its server asked")
	case begins && b.Attempt > max(w.s.BootAttempts, 3):
		w.brokenf(promise.Ends, "attempt %d", b.Attempt)
	case b.PoweredOffTime != nil && (begins || before != nil && before.PoweredOffTime == nil) && b.Failure == nil && (v.BMC.Power != v1alpha1.PowerOff || !v.BMC.PowerAt.After(v.BMC.LastPowerAt)):
		w.brokenf(promise.Records, "recorded as off, but it does not read as off")
	}
}

// timesOut says whether an attempt ends for want of progress: no problem that the server reported ended it, and nothing that its agent did.
func (w *world) timesOut(v View, before, b *v1alpha1.BareMetalBootSpec, begins bool) bool {
	ends := begins || b.Failure != nil && b.Failure.Reason == v1alpha1.ReasonBootTimedOut
	return before != nil && ends && v.Observed.Problem == nil && agentOver(v, w.s, *before) == ""
}

// wrongWithWait says what is wrong with a step that waits; "" if nothing is. A step that waits has a reason and a RequeueAt in the future. The
// exceptions are states that wait for a change of a watched object, and the wait for the BMC's answer.
func wrongWithWait(v View, step Step) string {
	resting := map[State]bool{StatePaused: true, StateOrphaned: true, StateDetached: true, StateReportedIn: true, StateClaimed: true}
	well := step.State == StateFree && step.Phase == v1alpha1.PhaseAvailable || step.State == StateProvisioned
	switch {
	case step.Action != Nothing:
		return ""
	case step.State == StateBooting && step.RequeueAt.IsZero():
		return "a boot waits without a deadline"
	case v.BMC.Busy && step.RequeueAt.IsZero():
	case !step.RequeueAt.IsZero() && !step.RequeueAt.After(v.Now):
		return "its deadline is over: it would look again without end"
	case step.RequeueAt.IsZero() && !resting[step.State] && (v.BMC.Problem == nil || !v.BMC.Problem.RetryAt.IsZero()):
		return "it waits without a deadline"
	case step.RequeueAt.Sub(v.Now) > 24*time.Hour:
		return "its deadline is too far away"
	}
	if (step.Reason == "" || step.Message == "") && !well {
		return "it waits without a reason"
	}
	if step.Phase == "" && step.State != StatePaused {
		return "it waits without a phase"
	}
	return ""
}

// wrongWithAbsence says what is wrong with a step for a host that lacks an object on which it depends; "" if nothing is. Only a request of a user, or
// the end of the namespace, may lead to an action then.
func wrongWithAbsence(v View, step Step) string {
	noMachine := v.Host.Claimed() && (v.Consumer == nil || !v.Consumer.Found || !v.Consumer.ClusterFound)
	noSecret := v.BMC.Problem != nil && v.BMC.Problem.Reason == v1alpha1.ReasonCredentialsMissing && v.BMC.Problem.RetryAt.IsZero()
	asks := step.Action.Commands() || step.Action == Inspect || step.Action == ReadPower
	forgotten := v.Host.Deleting && (v.Host.NamespaceDeleting || v.Requests.Detached.Set || v.Host.DeletedForMove)
	switch {
	case noSecret && asks:
		return "the BMC's Secret is not there"
	case !noMachine:
		return ""
	case asks:
		return "the machine, or its Cluster, is not there"
	case step.Action == Nothing, step.Action == Forget && forgotten, step.Action == Release && v.Requests.ReleaseUnfenced.Set && step.Quarantine != nil,
		step.Action == AllowMove, step.Action == RecordBoot && step.Boot.VoidedTime != nil && v.Requests.ReleaseUnfenced.Set,
		v.Requests.ReleaseUnfenced.Set && (step.Action == RecordErasure || step.Action == Isolate): // the release is recorded first
		return "" // the move may be what creates the machine
	default:
		return "something follows from what is not there"
	}
}

// judgeOffer: a host is offered only when nothing of an earlier machine can be on it, and its power reads as it should.
func (w *world) judgeOffer(v View, step Step) {
	want := v.Host.Spec.Power
	if want == "" {
		want = v1alpha1.PowerOff
	}
	switch {
	case step.State != StateFree || v.Host.Claimed() || v.Host.Spec.Quarantine != nil || v.Host.Spec.Maintenance != nil || v.Host.Spec.ExternallyProvisioned || v.Requests.Detached.Set:
		w.brokenf(promise.Clean, "offered although it is in use, or out of service")
	case v.Host.StrayBoot() != nil || v.Host.Boot == nil || v.Host.BootDeleting:
		w.brokenf(promise.Void, "offered although its boot is not void, or the record is missing")
	case v.Host.RequestedErasureBoot() != nil || v.Erasure.Request != nil || w.disk.begun:
		w.brokenf(promise.Clean, "offered although its disks are to be erased, or are erased in part")
	case v.Host.InspectionBoot() != nil || v.Host.Spec.Inspection == v1alpha1.InspectionAgent && !v.Inspection.Reported:
		w.brokenf(promise.Clean, "offered although it is being inspected, or has to be")
	case v.Claims.UnrecordedConsumer != "":
		w.brokenf(promise.Clean, "offered although a machine says that it runs there")
	case w.dirty:
		w.brokenf(promise.Clean, "offered although a machine ran on it, and no power-off and cleaning was confirmed since")
	case !v.BMC.usable() || v.BMC.Power != want || !v.Verified():
		w.brokenf(promise.Clean, "offered although its readings do not allow that")
	}
}

// judgeRelease: a host is released only after the release was started, and without quarantine only after confirmed power-off and cleaning.
func (w *world) judgeRelease(v View, step Step) {
	c := v.Consumer
	started := c != nil && c.Found && c.Deleting && !c.DeletedForMove
	absent := c == nil || !c.Found || !c.ClusterFound || c.ProviderID != "" && c.ProviderID != v.Host.providerID()
	switch {
	case v.Host.Boot != nil && v.Host.Boot.ClaimID != "" && v.Host.Boot.VoidedTime == nil && !v.Claims.BootMachinePending:
		w.brokenf(promise.Void, "released before its boot is void")
	case v.Requests.Detached.Set || v.Host.Spec.Maintenance != nil && !v.Requests.ReleaseUnfenced.Set:
		w.brokenf(promise.Command, "released although it is detached or in maintenance")
	case !started && (!absent || !v.Requests.ReleaseUnfenced.Set):
		w.brokenf(promise.Command, "released without a release that was started")
	case absent && !v.Requests.ReleaseUnfenced.Set:
		w.brokenf(promise.Absence, "released because something is missing")
	case step.Quarantine != nil:
		w.judgeQuarantine(v, step.Quarantine.Reason)
	case v.Host.Spec.Quarantine != nil:
	case v.Host.Spec.ExternallyProvisioned:
		w.dirty = false // the host is not offered until a user says that nothing else runs it
	default:
		w.judgeClean(v)
	}
}

// judgeQuarantine: a release without confirmed power-off and cleaning needs a reason.
func (w *world) judgeQuarantine(v View, reason string) {
	after := v.Host.Spec.ReleaseUnfencedAfterSeconds
	switch {
	case reason == v1alpha1.ReasonReleasedUnfenced && !v.Requests.ReleaseUnfenced.Set && (after == nil || v.Now.Before(v.Consumer.DeletingSince.Add(seconds(*after)))):
		w.brokenf(promise.Clean, "released without a power-off before anybody requested that")
	case reason == v1alpha1.ReasonCleaningFailed && !v.BMC.CleanUpTriedAt.After(v.Host.Spec.ProviderState.CleaningStartTime.Time):
		w.brokenf(promise.Clean, "the cleaning failed without a try")
	}
}

// judgeClean: a host that is released as clean is off, and was cleaned.
func (w *world) judgeClean(v View) {
	switch {
	case v.Host.Spec.CleaningPolicy == wire.PolicyManual:
		w.brokenf(promise.Clean, "released as clean although its cleaning is manual")
	case w.disk.used && cleaning.AllDisks(v.Host.policy(w.s)) && (v.Host.erasure() == nil || v.Host.erasure().CleaningPolicy.Reaches(v.Host.policy(w.s))):
		w.brokenf(promise.Clean, "released as clean although a machine ran on it, and its policy %q erases all disks", v.Host.policy(w.s))
	case (w.disk.data || w.disk.bootable) && cleaning.Erases(v.Host.policy(w.s)):
		w.brokenf(promise.Erased, "released as clean although its disk has bootstrap data, or boots")
	case v.Host.Spec.ProviderState.CleaningStartTime == nil || v.BMC.Power != v1alpha1.PowerOff || !v.BMC.PowerAt.After(v.BMC.LastPowerAt) || v.BMC.Problem != nil:
		w.brokenf(promise.Clean, "released without a confirmed power-off")
	case !v.BMC.CleanedAt.After(v.BMC.LastPowerAt) || !v.BMC.CleanedAt.After(w.netAt):
		w.brokenf(promise.Clean, "released with a boot override, or an image in a virtual drive")
	case !w.uncertain && (w.on || !w.switchesAt.IsZero() && w.target):
		w.brokenf(promise.Clean, "released as off, and it is on or about to be")
	}
}

// judgeCommand: a server that runs a machine, is externally provisioned, or is in maintenance gets only commands that a user requested, or that belong
// to a started release.
func (w *world) judgeCommand(v View, a Action) {
	c := v.Consumer
	released := v.Host.Claimed() && c.Found && c.Deleting && !c.DeletedForMove
	off := a == ShutDown || a == ForceOff
	held := len(v.powerHolds()) > 0
	switch {
	case v.Requests.Detached.Set || v.Host.Spec.Maintenance != nil || v.Host.Spec.ExternallyProvisioned:
		w.brokenf(promise.Command, "%s to a host that must not be touched", a)
	case v.Host.DeletedForMove || v.Host.Claimed() && c.DeletedForMove:
		w.brokenf(promise.Command, "%s to a host that is moved", a)
	case (v.Host.Paused || v.Host.Claimed() && c.Paused) && (released || !v.InFlight()):
		w.brokenf(promise.Command, "%s to a host that is paused", a)
	case v.Host.Claimed() && (!c.Found || !c.ClusterFound || c.ProviderID != "" && c.ProviderID != v.Host.providerID()), w.noSecret:
		w.brokenf(promise.Absence, "%s although something is missing", a)
	case !v.Host.Claimed():
		w.judgeFree(v, a)
	case v.Host.HostBoot() != nil && !v.Provisioned() && !released:
		w.judgeInspection(v, a)
	case released:
		w.judgeReleased(v, a)
	case a == CleanUp:
		w.brokenf(promise.Command, "cleaned although it is not released")
	case v.Provisioned() || w.seeded && (v.Host.CurrentBoot() == nil || !v.Host.Boot.Agent || !mayRepeat(*v.Host.Boot) || v.Host.Boot.Purpose == v1alpha1.PurposeClean):
		w.judgeRunning(v, a, off, held)
	default:
		w.judgeBooting(v, a, off)
	}
}

// judgeRest: a server that was switched off for a power hold is on again after the hold.
func (w *world) judgeRest() {
	v := w.view()
	if !w.gone && w.last.State == StateProvisioned && w.offForHold && !w.on && !w.uncertain && v.Consumer.Persistence == v1alpha1.PersistenceInstalled {
		w.brokenf(promise.Records, "it was switched off for a power hold that is over, and stays off")
	}
}

func (w *world) judgeReleased(v View, a Action) {
	erases := v.Host.erasing() && v.Host.bootCounted() && v.Host.Spec.ProviderState.CleaningStartTime != nil
	if (a == PowerOn || a == SetNetworkBoot || a == ClearBootOverride || a == EjectMedia) && !erases {
		w.brokenf(promise.Command, "%s to a server that is released", a)
	}
	if a == CleanUp && v.BMC.Power != v1alpha1.PowerOff {
		w.brokenf(promise.Command, "cleaned while it is on")
	}
}

func (w *world) judgeBooting(v View, a Action, off bool) {
	switch {
	case v.Host.CurrentBoot() == nil || v.Host.Boot.Failure != nil || v.Host.Boot.Number != v.Host.Spec.ProviderState.Boots:
		w.brokenf(promise.Command, "%s without a boot that is recorded", a)
	case off && v.Host.Boot.PoweredOffTime != nil:
		w.brokenf(promise.PowerCycle, "%s to a server that is booting", a)
	case a == PowerOn && v.Host.Boot.PoweredOnTime == nil:
		w.brokenf(promise.Records, "%s that is not recorded", a)
	case (a == PowerOn || a == SetNetworkBoot) && v.Host.Boot.PoweredOffTime == nil:
		w.brokenf(promise.Command, "%s to a server that was not seen off", a)
	}
}

func (w *world) judgeFree(v View, a Action) {
	switch {
	case v.Host.Deleting && (v.Host.StrayBoot() != nil || v.mayRunAgent(w.s) || v.mayRunEraser(w.s)) && (a == ForceOff || a == EjectMedia && v.BMC.Power == v1alpha1.PowerOff):
	case v.Host.HostBoot() != nil && v.Host.Spec.Quarantine == nil:
		w.judgeInspection(v, a)
	case v.Host.Spec.Quarantine != nil:
		w.brokenf(promise.Command, "%s to a host in quarantine", a)
	case a == PowerOn && v.Host.Spec.Power == v1alpha1.PowerOn, (a == ShutDown || a == ForceOff) && v.Host.Spec.Power == v1alpha1.PowerOff:
	default:
		w.brokenf(promise.Command, "%s to an unclaimed host, and nobody requested it", a)
	}
}

// judgeInspection judges a command in an inspection, or in an erasure on request: it powers off only a server that it has powered on. A machine that claims
// the host ends an inspection, and waits for the end of an erasure.
func (w *world) judgeInspection(v View, a Action) {
	waits := v.Host.Claimed() && IsRequestedErasure(v.Host.Boot) && v.Host.Boot.PoweredOnTime != nil
	over := (v.Host.Claimed() || v.Host.Deleting) && !waits || v.Host.Boot.AgentDoneTime != nil || v.Host.Boot.Failure != nil
	switch {
	case a == ShutDown || a == CleanUp || over && a != ForceOff && a != ClearBootOverride && a != EjectMedia:
		w.brokenf(promise.Command, "%s in an inspection", a)
	case a == ForceOff && v.Host.Boot.PoweredOnTime == nil && v.Host.Boot.Attempt == 1:
		w.brokenf(promise.Command, "%s to a server that its inspection has not powered on", a)
	case a == PowerOn && v.Host.Boot.PoweredOnTime == nil, a != ForceOff && !v.Host.bootCounted():
		w.brokenf(promise.Records, "%s that is not recorded", a)
	}
}

// judgeRunning judges a command to a server that got its bootstrap data and may run its machine.
func (w *world) judgeRunning(v View, a Action, off, held bool) {
	owed := v.Host.Spec.ProviderState.PowerHoldStartTime != nil || len(v.Requests.Power.On) > 0
	booting := !v.Provisioned() && v.InFlight()
	switch {
	case off && (!held || v.Host.Spec.ProviderState.PowerHoldStartTime == nil):
		w.brokenf(promise.Command, "%s to a server that runs its machine, and nobody requested it, or it is not recorded", a)
	case off && v.Host.Spec.ProviderState.PowerHoldOffTime != nil:
		w.brokenf(promise.Command, "%s to a server that counts as off", a)
	case a == PowerOn && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral:
		w.brokenf(promise.Command, "switched on although the machine ran from memory, and is lost")
	case a == PowerOn && v.Host.Spec.ProviderState.PowerHoldOffTime != nil && v.Provisioned():
		w.brokenf(promise.Command, "switched on while it counts as off")
	case a == PowerOn && held && v.Provisioned():
		w.brokenf(promise.Command, "switched on during a power hold")
	case a == PowerOn && !owed && !booting:
		w.brokenf(promise.Command, "switched on, and nobody requested it")
	case a == SetNetworkBoot:
		w.brokenf(promise.Command, "the server of a machine that got its bootstrap data is to boot from the network again")
	case (a == ClearBootOverride || a == EjectMedia) && v.Provisioned():
		w.brokenf(promise.Command, "%s to a server that runs its machine", a)
	}
}
