package lifecycle

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// drawAgentView draws a host whose agent writes, erases or inspects. Everything else about it is likely: drawView would seldom draw such a host.
func drawAgentView(t *rapid.T) View {
	d := draw{t}
	off := func(v *View) { v.Host.Boot.PoweredOnTime = nil }
	v := pick(d, "agent", bootingView(bootsAgent), bootingView(bootsAgent, poweredOn), bootingView(bootsAgent, uncounted), erasingView(), erasingView(poweredOn), erasingView(uncounted),
		inspectingView(), inspectingView(poweredOn), inspectingView(claimedDuringInspection), bootingView(bootsAgent, off), erasingView(off), inspectingView(off),
		erasingFreeView(), erasingFreeView(poweredOn), erasingFreeView(off), erasingFreeView(claimedDuringErasure), erasingFreeView(poweredOn, claimedDuringErasure),
		restartView(poweredOn), restartView(poweredOn, claimedInRun))
	b := *v.Host.Boot
	b.Number, b.Attempt = b.Number+rapid.Int32Range(0, 3).Draw(t, "boots"), rapid.Int32Range(1, 3).Draw(t, "attempt")
	v.Host.Spec.ProviderState.Boots += b.Number - v.Host.Boot.Number
	b.DataServedTime, b.CommitAllowedTime, b.AgentDoneTime = d.moment("dataServed"), d.moment("commitAllowed"), pick(d, "done", nil, nil, d.moment("agentDone"))
	if b.Number > 1 {
		b.CommittedNumber = rapid.Int32Range(0, b.Number-1).Draw(t, "committed")
	}
	b.StartTime.Time = d.ago("started")
	b.VoidedTime = pick(d, "voided", nil, nil, nil, nil, &b.StartTime)
	b.Failure = pick(d, "failed", nil, nil, nil, nil, &v1alpha1.BootFailure{Reason: "r", Message: "m"})
	v.Host.Boot = &b
	writtenDisk(&v)
	v.BMC.PowerSince, v.BMC.LastPower, v.BMC.LastPowerAt = d.ago("powerSince"), CommandPowerOn, d.ago("commandAt")
	v.Observed.Furthest = v1alpha1.ObservedStage{Stage: pick(d, "stage", "", v1alpha1.StageScript, v1alpha1.StageAgent, v1alpha1.StageData, v1alpha1.StageCommitted), Time: b.StartTime}
	v.Observed.Problem = pick(d, "problem", nil, nil, &v1alpha1.BootFailure{Reason: wire.ReasonDiskFailed, Message: "m"}, &v1alpha1.BootFailure{Reason: wire.ReasonCommitUnknown, Message: "m"})
	v.Observed.AgentAt = pick(d, "progress", time.Time{}, d.ago("agentAt"))
	return v
}

// TestPropertyAPermissionIsNotForgotten: the boot with the last permission of a claim is named until an agent is done, and no step takes a record of the agent back or
// forgets a written disk.
func TestPropertyAPermissionIsNotForgotten(t *testing.T) {
	drawMore(t)
	named := 0
	rapid.Check(t, func(t *rapid.T) {
		v := pick(draw{t}, "view", drawView, drawAgentView)(t)
		step, before := Next(v, DefaultSettings()), v.Host.CurrentBoot()
		if step.Action != RecordBoot || before == nil {
			return
		}
		b := step.Boot
		if b.Number == before.Number {
			kept := []any{before.ClaimID, before.Purpose, before.Agent, before.DataServedTime, before.CommitAllowedTime, before.CommittedNumber, before.AgentDoneTime, before.AgentSecureBoot, before.DataAddress}
			if is := []any{b.ClaimID, b.Purpose, b.Agent, b.DataServedTime, b.CommitAllowedTime, b.CommittedNumber, b.AgentDoneTime, b.AgentSecureBoot, b.DataAddress}; !reflect.DeepEqual(kept, is) {
				t.Fatalf("the record %+v became %+v: %+v", before, b, v)
			}
		}
		wiped := b.Failure != nil && b.Failure.Reason == v1alpha1.ReasonDisksNotErased
		if !wiped && !reflect.DeepEqual(b.WrittenDisks, before.WrittenDisks) {
			t.Fatalf("the written disks %+v became %+v: %+v", before.WrittenDisks, b.WrittenDisks, v)
		}
		if b.Number == before.Number || b.Purpose != v1alpha1.PurposeProvision {
			return
		}
		want := before.CommittedNumber
		if before.CommitAllowedTime != nil {
			want = before.Number
		}
		if before.Purpose != v1alpha1.PurposeProvision || before.AgentDoneTime != nil || !before.Agent && before.DataServedTime != nil {
			t.Fatalf("an attempt follows one whose bootstrap data may have been used: %+v", v)
		}
		if b.CommittedNumber != want {
			t.Fatalf("the next attempt names boot %d, and the last permission is that of boot %d: %+v", b.CommittedNumber, want, v)
		}
		if want != 0 {
			named++
		}
	})
	if named == 0 {
		t.Error("no attempt followed a permission")
	}
}

// agentPurposes are the purposes for which the agent is booted in a state. They do not have an erasure on request, which has rules of its own.
var agentPurposes = map[State][]v1alpha1.BootPurpose{
	StateFree: {v1alpha1.PurposeInspect}, StateConfiguring: {v1alpha1.PurposeConfigure, v1alpha1.PurposeInspect}, StateClaimed: {v1alpha1.PurposeConfigure},
	StateCleaning: {v1alpha1.PurposeClean}, StateBooting: {v1alpha1.PurposeProvision},
}

// TestPropertyTheAgentIsBootedForItsPurpose: the agent is booted for a recorded and counted boot with a power-on, and never once it is done, or the boot is over.
func TestPropertyTheAgentIsBootedForItsPurpose(t *testing.T) {
	drawMore(t)
	purposes, once := map[v1alpha1.BootPurpose]bool{}, false
	rapid.Check(t, func(t *rapid.T) {
		v := pick(draw{t}, "view", drawView, drawAgentView)(t)
		boot := BootFor(v, DefaultSettings())
		if boot == BootNetwork && v.Host.Boot.Agent {
			t.Fatalf("the boot source is booted, and not the agent: %+v", v)
		}
		if boot != BootAgent {
			return
		}
		b, state := v.Host.Boot, StateOf(v)
		purposes[b.Purpose], once = true, once || IsRequestedErasure(b)
		switch {
		case !b.Agent || b.PoweredOnTime == nil || b.AgentDoneTime != nil || b.Failure != nil || b.VoidedTime != nil || b.Number != v.Host.Spec.ProviderState.Boots:
			t.Fatalf("the agent is booted, and its boot is over or not begun: %+v", v)
		case IsRequestedErasure(b):
			if state != StateFree && state != StateConfiguring && state != StateClaimed {
				t.Fatalf("the agent is booted on request in %s: %+v", state, v)
			}
		case !slices.Contains(agentPurposes[state], b.Purpose):
			t.Fatalf("the agent is booted for %s in %s: %+v", b.Purpose, state, v)
		case (state == StateCleaning || state == StateBooting) && b.ClaimID != v.Host.Spec.ConsumerRef.ClaimID:
			t.Fatalf("the agent is booted for another claim: %+v", v)
		}
	})
	if !once {
		t.Error("no agent was booted on request")
	}
	for _, p := range []v1alpha1.BootPurpose{v1alpha1.PurposeProvision, v1alpha1.PurposeInspect, v1alpha1.PurposeClean, v1alpha1.PurposeConfigure} {
		if !purposes[p] {
			t.Errorf("no agent was booted for the purpose %s", p)
		}
	}
}
