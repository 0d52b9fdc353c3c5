package host

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestHostDeletionNamesItsExit: the condition Ready of a deleted host says what removes it, whatever its state.
func TestHostDeletionNamesItsExit(t *testing.T) {
	view := lifecycle.View{Host: lifecycle.Host{Deleting: true}}
	for state, waits := range map[lifecycle.State]string{lifecycle.StatePaused: "no longer paused", lifecycle.StateDeleting: "is powered off"} {
		ready := metav1.Condition{Status: metav1.ConditionTrue}
		setDeletion(&ready, view, lifecycle.Step{State: state})
		NewWithT(t).Expect(ready).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonDeleting),
			HaveField("Message", And(ContainSubstring(waits), ContainSubstring(v1alpha1.DetachedAnnotation+`="who and why"`)))))
	}
	view.Host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
	for _, state := range []lifecycle.State{
		lifecycle.StatePaused, lifecycle.StateDetached, lifecycle.StateReleasing, lifecycle.StateOrphaned, lifecycle.StateMaintenance, lifecycle.StateExternallyProvisioned,
		lifecycle.StateCleaning, lifecycle.StateBootUnknown, lifecycle.StateLost, lifecycle.StatePowerHold, lifecycle.StateProvisioned, lifecycle.StateBootFailed,
		lifecycle.StateReportedIn, lifecycle.StateBooting, lifecycle.StateClaimed,
	} {
		ready := metav1.Condition{Status: metav1.ConditionTrue}
		setDeletion(&ready, view, lifecycle.Step{State: state, Message: "more"})
		NewWithT(t).Expect(ready).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonDeleting),
			HaveField("Message", And(ContainSubstring(`BareMetalMachine "m"`), ContainSubstring(v1alpha1.DetachedAnnotation+`="who and why"`), HaveSuffix("more")))), string(state))
	}
}

// TestPausedInFlight: the condition Paused of a host whose boot is completed during a pause says so.
func TestPausedInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		state   lifecycle.State
		paused  bool
		message string
	}{
		"boots":             {lifecycle.StateBooting, true, "The boot attempt in progress is completed first. The server is being powered on"},
		"boots, not paused": {lifecycle.StateBooting, false, ""},
		"is paused":         {lifecycle.StatePaused, true, "The server is being powered on"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host := &v1alpha1.BareMetalHost{}
			host.Spec.ConsumerRef, host.Spec.ProviderState.Boots = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "claim-1"}, 1
			boot := &v1alpha1.BareMetalBootSpec{Number: 1, Attempt: 1, ClaimID: "claim-1", MachineName: "m", PoweredOffTime: new(metav1.Now())}
			view := lifecycle.View{Host: lifecycle.Host{Spec: host.Spec, Boot: boot, Paused: test.paused}, Consumer: &lifecycle.Consumer{Found: true, ClusterFound: true}, Now: time.Now()}
			g.Expect(view.InFlight()).To(BeTrue())
			setConditions(host, view, lifecycle.Step{State: test.state, Message: "The server is being powered on"})
			g.Expect(conditions.IsTrue(host, clusterv1.PausedCondition)).To(Equal(test.paused))
			g.Expect(conditions.GetMessage(host, clusterv1.PausedCondition)).To(Equal(test.message))
		})
	}
}

// TestSignificantChange: a write of the status may be deferred only if the change is not significant.
func TestSignificantChange(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) func(*v1alpha1.BareMetalHostStatus) {
		return func(s *v1alpha1.BareMetalHostStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: reason})
		}
	}
	operation := func(name, outcome string) func(*v1alpha1.BareMetalHostStatus) {
		return func(s *v1alpha1.BareMetalHostStatus) {
			s.LastOperation = &v1alpha1.Operation{Name: name, Outcome: v1alpha1.OperationOutcome(outcome)}
		}
	}
	failedFor := func(message, outcome string) func(*v1alpha1.BareMetalHostStatus) {
		return func(s *v1alpha1.BareMetalHostStatus) {
			s.LastOperation = &v1alpha1.Operation{Name: "PowerOn", Outcome: v1alpha1.OperationOutcome(outcome), Message: message}
		}
	}
	status := func(changes ...func(*v1alpha1.BareMetalHostStatus)) v1alpha1.BareMetalHostStatus {
		s := v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseBooting, Power: v1alpha1.PowerOn}
		for _, change := range changes {
			change(&s)
		}
		return s
	}
	addresses := func(s *v1alpha1.BareMetalHostStatus) {
		s.Addresses = clusterv1.MachineAddresses{{Address: "192.0.2.1"}}
	}
	provisioned := func(s *v1alpha1.BareMetalHostStatus) { s.Phase = v1alpha1.PhaseProvisioned }
	inspected := func(at time.Time) func(*v1alpha1.BareMetalHostStatus) {
		return func(s *v1alpha1.BareMetalHostStatus) {
			s.BMC = &v1alpha1.BMCStatus{Protocol: "p", InspectedTime: &metav1.Time{Time: at}, BootOverride: &v1alpha1.BootOverrideStatus{Method: at.String()}}
		}
	}
	now := time.Now()
	for name, test := range map[string]struct {
		before, after v1alpha1.BareMetalHostStatus
		want          bool
	}{
		"nothing":                     {status(), status(), false},
		"the first":                   {v1alpha1.BareMetalHostStatus{}, status(), true},
		"other words":                 {status(condition("Booted", "False", "A")), status(condition("Booted", "False", "B")), false},
		"a condition":                 {status(condition("Booted", "False", "A")), status(condition("Booted", "True", "A")), true},
		"a new condition":             {status(), status(condition("Booted", "False", "A")), true},
		"the progress":                {status(condition("BootProgress", "False", "A")), status(condition("BootProgress", "True", "B")), false},
		"its phase":                   {status(), status(provisioned), true},
		"its power":                   {status(), status(func(s *v1alpha1.BareMetalHostStatus) { s.Power = v1alpha1.PowerOff }), true},
		"the generation":              {status(), status(func(s *v1alpha1.BareMetalHostStatus) { s.ObservedGeneration = 9 }), false},
		"an operation":                {status(operation("PowerOn", "Succeeded")), status(operation("SetNetworkBoot", "Succeeded")), false},
		"a failed operation":          {status(operation("PowerOn", "Succeeded")), status(operation("PowerOn", "Failed")), true},
		"an operation again":          {status(operation("PowerOn", "Failed")), status(operation("PowerOn", "Succeeded")), true},
		"an operation begins":         {status(operation("PowerOn", "Succeeded")), status(operation("SetNetworkBoot", "")), false},
		"a failed one is tried again": {status(failedFor("the BMC is away", "Failed")), status(failedFor("the BMC is away", "")), false},
		"it fails otherwise":          {status(failedFor("the BMC is away", "")), status(failedFor("no licence", "Failed")), true},
		"finer times":                 {status(inspected(now)), status(inspected(now.Add(time.Microsecond))), false},
		"addresses, too early":        {status(), status(addresses), false},
		"addresses":                   {status(provisioned), status(provisioned, addresses), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before, after := test.before.DeepCopy(), test.after.DeepCopy()
			g.Expect(isSignificantChange(test.before, test.after)).To(Equal(test.want))
			g.Expect(test.before).To(Equal(*before), "the function only reads")
			g.Expect(test.after).To(Equal(*after), "the function only reads")
		})
	}
}
