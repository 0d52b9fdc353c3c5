package why

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// hostFinding returns why the host is not as wanted. Its condition Ready has the reason; the condition that Ready copies has the time and the details.
func (o *Objects) hostFinding() *finding {
	host, ok := o.get(KindHost)
	if !ok {
		return nil
	}
	if q := o.Host.Spec.Quarantine; q != nil && o.Host.Spec.ConsumerRef == nil {
		return quarantineFinding(&host, q)
	}
	ready := host.condition(v1alpha1.ReadyCondition)
	if ready == nil {
		return unreported(&host)
	}
	found := conditionFinding(&host, ready)
	if found == nil { // a server that is reported as off, and counts as running, has Booted True
		return conditionFinding(&host, host.condition(v1alpha1.BootedCondition))
	}
	for _, kind := range []string{v1alpha1.BMCReadyCondition, v1alpha1.VerifiedCondition, v1alpha1.AvailableCondition, v1alpha1.BootedCondition, v1alpha1.BootProgressCondition} {
		if c := host.condition(kind); c != nil && c.Reason == ready.Reason {
			found.since = o.sinceOf(kind, c.LastTransitionTime.Time)
			if c.Message != "" && !strings.Contains(ready.Message, c.Message) { // Ready says what else helps, such as a release without a power-off
				found.message = c.Message
			}
		}
	}
	o.addStage(found)
	return found
}

// hostChecks are the conditions of a host that Ready does not depend on. The most important is first.
var hostChecks = []string{v1alpha1.HardwareHealthyCondition, v1alpha1.InspectionConsistentCondition}

// hostNotes are the conditions that are only notes: a server works although they are not as wanted, and in many racks most servers have them.
var hostNotes = []string{v1alpha1.PreflightPassedCondition, v1alpha1.SettingsConformCondition}

// checkFinding returns a finder for these conditions of the host. The first that is not as wanted counts. It is asked last: a host waits for nothing because of them.
func checkFinding(kinds ...string) finder {
	return func(o *Objects) *finding {
		host, ok := o.get(KindHost)
		if !ok {
			return nil
		}
		for _, kind := range kinds {
			if found := conditionFinding(&host, host.condition(kind)); found != nil {
				if kind == v1alpha1.HardwareHealthyCondition {
					found.since = time.Time{} // that of the first part that failed, and this may be another one
				}
				return found
			}
		}
		return nil
	}
}

// quarantineFinding returns why a free host is in quarantine. The reason may be that of a failed boot, and the quarantine ends after its cause was fixed.
func quarantineFinding(host *object, q *v1alpha1.Quarantine) *finding {
	row, _ := Lookup(KindHost, v1alpha1.ReasonQuarantined)
	if own, ok := Lookup(KindHost, q.Reason); ok {
		own.State = Fault
		if slices.ContainsFunc(quarantineReasons, func(r Row) bool { return r.Reason == q.Reason }) {
			own.Do += thenEndQuarantine
		} else {
			own.Next, own.Do, own.Usual = row.Next, row.Do, 0
		}
		own.Cause = cmp.Or(own.Cause, row.Cause)
		row = own
	}
	found := &finding{at: host.Ref, row: row, message: q.Message}
	if q.StartTime != nil {
		found.since = q.StartTime.Time
	}
	return found
}

// bootFinding returns what the boot waits for, or why it failed. It counts if the host was not read, since the conditions of the host know more.
func (o *Objects) bootFinding() *finding {
	boot, ok := o.get(KindBoot)
	if !ok || o.Host != nil {
		return nil
	}
	spec := &o.Boot.Spec
	if f := spec.Failure; f != nil {
		row, ok := Lookup(KindBoot, f.Reason)
		if !ok {
			row, _ = Lookup(KindBoot, v1alpha1.ReasonBootTimedOut)
			row.Reason = f.Reason
		}
		row.State, row.Usual = Fault, 0
		return &finding{at: boot.Ref, row: row, message: f.Message, since: o.lastStageTime()}
	}
	if !inProgress(spec) {
		return nil
	}
	awaited, ok := lifecycle.AwaitedAfter(spec, o.Boot.Status.Stage)
	if !ok {
		return nil
	}
	row, ok := Lookup(KindBoot, awaited.Reason)
	if !ok {
		return nil
	}
	found := &finding{at: boot.Ref, row: row, message: awaited.Observed}
	o.addStage(found)
	return found
}

// inProgress is true for a boot that has not ended.
func inProgress(b *v1alpha1.BareMetalBootSpec) bool {
	done := b.ReportedTime != nil || b.AgentDoneTime != nil && b.Purpose != v1alpha1.PurposeProvision
	return b.Number > 0 && b.VoidedTime == nil && b.Failure == nil && !done
}

// addStage completes the finding of a boot in progress with what the tables of package lifecycle say of its stage. The provider writes the progress of a boot to the host and to the
// machine minutes after the boot shows it, so the boot decides which stage that is.
func (o *Objects) addStage(found *finding) {
	var spec *v1alpha1.BareMetalBootSpec
	if o.Boot != nil {
		spec = &o.Boot.Spec
	}
	awaited, ok := lifecycle.AwaitedFor(spec, found.row.Reason)
	if !ok {
		return
	}
	if now, isLater := o.awaitedNow(); isLater && now.Reason != awaited.Reason {
		if row, known := Lookup(found.at.Kind, now.Reason); known {
			found.row, found.message, awaited = row, now.Observed, now
		}
	}
	found.awaited, found.cause = awaited.Text, awaited.Cause
	if at := o.lastStageTime(); !at.IsZero() {
		found.since = at
	}
}

// awaitedNow returns what the boot waits for after its furthest stage. It returns false before the first stage, and for stages of which the conditions know more: what the BMC does, and
// which requests for a boot medium count.
func (o *Objects) awaitedNow() (lifecycle.Awaited, bool) {
	if o.Boot == nil {
		return lifecycle.Awaited{}, false
	}
	spec, stage := &o.Boot.Spec, o.Boot.Status.Stage
	observed := slices.ContainsFunc(o.Boot.Status.Stages, func(s v1alpha1.ObservedStage) bool { return s.Stage == stage && s.Number == spec.Number })
	early := stage == v1alpha1.StageStarted || stage == v1alpha1.StageMedia || stage == v1alpha1.StageDHCP && lifecycle.MethodOf(spec) != v1alpha1.MethodPXE
	if !observed || early {
		return lifecycle.Awaited{}, false
	}
	return lifecycle.AwaitedAfter(spec, stage)
}

// lastStageTime is when the last stage of the boot was observed, or otherwise when the boot began; zero if that is unknown.
func (o *Objects) lastStageTime() time.Time {
	if o.Boot == nil {
		return time.Time{}
	}
	last := o.Boot.Spec.StartTime.Time
	if stage := o.lastStage(); stage != nil {
		last = stage.Time.Time
	}
	return last
}

// lastStage returns the last observed stage of the current boot; nil before the first.
func (o *Objects) lastStage() *v1alpha1.ObservedStage {
	var last *v1alpha1.ObservedStage
	stages := o.Boot.Status.Stages
	for i := range stages {
		if stages[i].Number == o.Boot.Spec.Number && (last == nil || stages[i].Time.After(last.Time.Time)) {
			last = &stages[i]
		}
	}
	return last
}
