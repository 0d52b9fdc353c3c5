package machine

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// TestWriteDelay: while many servers boot, only progress messages of a machine are delayed.
func TestWriteDelay(t *testing.T) {
	booted := func(status metav1.ConditionStatus, reason string) func(*v1alpha1.BareMetalMachine) {
		return func(m *v1alpha1.BareMetalMachine) {
			conditions.Set(m, metav1.Condition{Type: v1alpha1.HostBootedCondition, Status: status, Reason: reason, Message: reason})
		}
	}
	waits := func(reason, message string) func(*v1alpha1.BareMetalMachine) {
		return func(m *v1alpha1.BareMetalMachine) {
			conditions.Set(m, metav1.Condition{Type: v1alpha1.HostClaimedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message})
		}
	}
	machine := func(changes ...func(*v1alpha1.BareMetalMachine)) *v1alpha1.BareMetalMachine {
		m := &v1alpha1.BareMetalMachine{}
		for _, change := range changes {
			change(m)
		}
		return m
	}
	operation := func(outcome v1alpha1.OperationOutcome) func(*v1alpha1.BareMetalMachine) {
		return func(m *v1alpha1.BareMetalMachine) {
			m.Status.LastOperation = &v1alpha1.Operation{Name: "PowerOn", Outcome: outcome}
		}
	}
	for name, test := range map[string]struct {
		before, after *v1alpha1.BareMetalMachine
		waits         bool
	}{
		"other words":         {machine(booted("False", "A")), machine(booted("False", "B")), true},
		"a condition":         {machine(booted("False", "A")), machine(booted("True", "A")), false},
		"what it waits for":   {machine(waits("A", "x")), machine(waits("B", "x")), false},
		"how many do not fit": {machine(waits("A", "x")), machine(waits("A", "y")), false},
		"its provider ID":     {machine(), machine(func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://dc/h/m" }), false},
		"its host":            {machine(), machine(func(m *v1alpha1.BareMetalMachine) { m.Status.HostRef = &v1alpha1.HostReference{Name: "h"} }), false},
		"a failure":           {machine(), machine(func(m *v1alpha1.BareMetalMachine) { m.Status.FailureReason = "BootTimedOut" }), false},
		"its phase":           {machine(), machine(func(m *v1alpha1.BareMetalMachine) { m.Status.Phase = "Booting" }), true},
		"an operation":        {machine(), machine(operation("")), true},
		"a failed operation":  {machine(), machine(operation(v1alpha1.OperationFailed)), false},
		"its finalizer":       {machine(), machine(func(m *v1alpha1.BareMetalMachine) { m.Finalizers = []string{v1alpha1.MachineFinalizer} }), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, now := &Reconciler{}, time.Now()
			g.Expect(r.writeDelay(test.before, test.after, now)).To(BeZero(), "nothing bounds it")
			r.throttle = controllers.NewThrottle()
			g.Expect(r.writeDelay(test.before, test.after, now)).To(BeZero(), "a few at once")
			for range 20 {
				r.throttle.Allow(now)
			}
			want := BeZero()
			if test.waits {
				want = BeNumerically(">", 0)
			}
			g.Expect(r.writeDelay(test.before, test.after, now)).To(want)
		})
	}
}

// TestProgressOfABoot: the progress of a boot stays unwritten for its delay, also while few servers boot. What is wrong is written at once.
func TestProgressOfABoot(t *testing.T) {
	g := NewWithT(t)
	r, now := &Reconciler{ProgressDelay: 5 * time.Minute, throttle: controllers.NewThrottle()}, time.Now()
	machine := func(reason string, phase v1alpha1.HostPhase) *v1alpha1.BareMetalMachine {
		m := &v1alpha1.BareMetalMachine{Status: v1alpha1.BareMetalMachineStatus{Phase: string(phase)}}
		conditions.Set(m, metav1.Condition{Type: v1alpha1.HostBootedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: reason})
		return m
	}
	claimed, booting := machine(v1alpha1.ReasonPreparing, v1alpha1.PhaseClaimed), machine(v1alpha1.ReasonWaitingForDHCP, v1alpha1.PhaseBooting)
	g.Expect(r.writeDelay(claimed, booting, now)).To(Equal(5 * time.Minute))
	g.Expect(r.writeDelay(claimed, booting, now.Add(5*time.Minute))).To(BeZero())
	g.Expect(r.writeDelay(claimed, machine(v1alpha1.ReasonArtifactUnavailable, v1alpha1.PhaseBooting), now)).To(BeZero())
	for _, reason := range []string{v1alpha1.ReasonPoweredOff, v1alpha1.ReasonPowerHold, v1alpha1.ReasonPowerDisputed} {
		g.Expect(r.writeDelay(machine(v1alpha1.ReasonBooted, v1alpha1.PhaseProvisioned), machine(reason, v1alpha1.PhaseProvisioned), now)).To(BeZero(), reason)
	}
}

// TestStatusOfARelease: a deleted machine shows what it waits for only if that takes longer than ten seconds. A failure that ends is written at once, and so is what changes later.
func TestStatusOfARelease(t *testing.T) {
	g := NewWithT(t)
	r, now := &Reconciler{ProgressDelay: 5 * time.Minute, throttle: controllers.NewThrottle()}, time.Now()
	before := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}}
	before.Status.Phase = string(v1alpha1.PhaseProvisioned)
	released := before.DeepCopy()
	setDeleting(released, "Waiting")
	setReady(released, nil)
	g.Expect(r.writeDelay(before, released, now)).To(Equal(10 * time.Second))
	g.Expect(r.writeDelay(before, released, now.Add(9*time.Second))).To(Equal(time.Second))
	g.Expect(r.writeDelay(before, released, now.Add(10*time.Second))).To(BeZero())
	failed := before.DeepCopy()
	failed.Status.FailureReason = "BootTimedOut"
	g.Expect(r.writeDelay(failed, released, now)).To(BeZero())
	held := released.DeepCopy()
	held.Status.HostRef = &v1alpha1.HostReference{Name: "h"}
	g.Expect(r.writeDelay(released, held, now)).To(BeZero())
}
