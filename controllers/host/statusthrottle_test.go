package host

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestUnavailableIsWrittenImmediately: while many hosts boot, a status write during requests to the BMC may wait. It does not wait if the host is
// available and no longer should be: a machine could claim it.
func TestUnavailableIsWrittenImmediately(t *testing.T) {
	for name, test := range map[string]struct {
		available metav1.ConditionStatus
		waits     time.Duration
		phase     v1alpha1.HostPhase
	}{
		"offered":     {metav1.ConditionTrue, 0, v1alpha1.PhaseRegistering},
		"not offered": {metav1.ConditionFalse, 30 * time.Second, v1alpha1.PhaseAvailable},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			scheme := runtime.NewScheme()
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", Generation: 2}}
			host.Status = v1alpha1.BareMetalHostStatus{ObservedGeneration: 1, Phase: v1alpha1.PhaseAvailable, Conditions: []metav1.Condition{
				{Type: v1alpha1.AvailableCondition, Status: test.available, Reason: "Before"},
			}}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(host).WithStatusSubresource(host).Build()
			r, now := &Reconciler{Client: api}, time.Now()
			r.connect(nil, nil)
			for range 20 {
				r.status.throttle.Allow(now)
			}
			step := lifecycle.Step{Action: lifecycle.Inspect, Phase: v1alpha1.PhaseRegistering, Reason: v1alpha1.ReasonInspecting}
			g.Expect(r.status.writeStatus(t.Context(), host, lifecycle.View{Now: now}, step)).To(Equal(test.waits))

			var written v1alpha1.BareMetalHost
			g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(host), &written)).To(Succeed())
			g.Expect(conditions.IsFalse(&written, v1alpha1.AvailableCondition)).To(BeTrue())
			g.Expect(written.Status.Phase).To(Equal(test.phase))
		})
	}
}

// TestBootProgressIsNotWritten: the status of a host that boots is written at a transition and for a problem, and for progress only after its delay. A problem that ends is
// written, too.
func TestBootProgressIsNotWritten(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", Generation: 1}}
	host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(host).WithStatusSubresource(host).Build()
	r, now := &Reconciler{Client: api, ProgressDelay: 5 * time.Minute}, time.Now()
	r.connect(nil, nil)
	view := lifecycle.View{Host: lifecycle.Host{Spec: host.Spec}, Now: now, BMC: lifecycle.BMC{Inspected: true, Power: v1alpha1.PowerOn, PowerAt: now}}
	write := func(reason string, after time.Duration) (wait time.Duration, written string) {
		t.Helper()
		var current v1alpha1.BareMetalHost
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(host), &current)).To(Succeed())
		view.Now = now.Add(after)
		wait, err := r.status.writeStatus(t.Context(), &current, view, lifecycle.Step{
			State: lifecycle.StateBooting, Phase: v1alpha1.PhaseBooting, Reason: reason, Message: reason,
		})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(host), &current)).To(Succeed())
		return wait, conditions.GetReason(&current, v1alpha1.BootedCondition)
	}
	for _, step := range []struct {
		reason  string
		after   time.Duration
		wait    time.Duration
		written string
	}{
		{v1alpha1.ReasonWaitingForDHCP, 0, 0, v1alpha1.ReasonWaitingForDHCP},
		{v1alpha1.ReasonWaitingForLoader, 0, 5 * time.Minute, v1alpha1.ReasonWaitingForDHCP},
		{v1alpha1.ReasonWaitingForKernel, time.Minute, 4 * time.Minute, v1alpha1.ReasonWaitingForDHCP},
		{v1alpha1.ReasonArtifactUnavailable, time.Minute, 0, v1alpha1.ReasonArtifactUnavailable},
		{v1alpha1.ReasonWaitingForKernel, time.Minute, 0, v1alpha1.ReasonWaitingForKernel},
		{v1alpha1.ReasonWaitingForData, 2 * time.Minute, 5 * time.Minute, v1alpha1.ReasonWaitingForKernel},
		{v1alpha1.ReasonWaitingForReport, 7 * time.Minute, 0, v1alpha1.ReasonWaitingForReport},
	} {
		wait, written := write(step.reason, step.after)
		g.Expect(wait).To(Equal(step.wait), step.reason)
		g.Expect(written).To(Equal(step.written), step.reason)
	}
}

// claimedHost returns a claimed host with a status, and a reconciler with an API server that has it.
func claimedHost(t *testing.T, status v1alpha1.BareMetalHostStatus) (*v1alpha1.BareMetalHost, *Reconciler) {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", Generation: 2}, Status: status}
	host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(host).WithStatusSubresource(host).Build(), ProgressDelay: 5 * time.Minute}
	r.connect(nil, nil)
	return host, r
}

// TestStatusOfAClaim: while a server is about to be powered on for a boot, its status is not written. The first write shows that it is on. A host that has to wait, or whose server
// does not come on, is shown as claimed.
func TestStatusOfAClaim(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		action  lifecycle.Action
		power   v1alpha1.PowerState
		after   time.Duration
		problem bool
		waits   time.Duration
	}{
		"its boot override is set": {action: lifecycle.SetNetworkBoot, power: v1alpha1.PowerOff, waits: 10 * time.Second},
		"it does not come on":      {action: lifecycle.PowerOn, power: v1alpha1.PowerOff, after: 10 * time.Second},
		"it is on":                 {action: lifecycle.Nothing, power: v1alpha1.PowerOn},
		"it waits":                 {action: lifecycle.Nothing, power: v1alpha1.PowerOff},
		"its BMC is away":          {action: lifecycle.SetNetworkBoot, power: v1alpha1.PowerOff, problem: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host, r := claimedHost(t, v1alpha1.BareMetalHostStatus{ObservedGeneration: 1, Phase: v1alpha1.PhaseAvailable})
			view := lifecycle.View{
				Host: lifecycle.Host{Spec: host.Spec}, Now: now, BMC: lifecycle.BMC{Inspected: true, Power: v1alpha1.PowerOff, PowerAt: now},
			}
			step := lifecycle.Step{State: lifecycle.StateClaimed, Phase: v1alpha1.PhaseClaimed, Reason: v1alpha1.ReasonPreparing, Action: lifecycle.SetNetworkBoot}
			g.Expect(r.status.writeStatus(t.Context(), host.DeepCopy(), view, step)).To(Equal(10 * time.Second))
			step.Action, view.BMC.Power, view.Now = c.action, c.power, now.Add(c.after)
			if c.problem {
				view.BMC.Problem = &lifecycle.BMCProblem{Reason: v1alpha1.ReasonBMCUnreachable, Message: "no answer"}
			}
			g.Expect(r.status.writeStatus(t.Context(), host.DeepCopy(), view, step)).To(Equal(c.waits))
			var written v1alpha1.BareMetalHost
			g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(host), &written)).To(Succeed())
			if c.waits == 0 {
				g.Expect(written.Status.Phase).To(Equal(v1alpha1.PhaseClaimed))
			} else {
				g.Expect(written.Status.Phase).NotTo(Equal(v1alpha1.PhaseClaimed))
			}
		})
	}
}

// TestStatusOfARelease: while a server is about to be powered off for a release, its status is not written. A server that does not obey, and one whose BMC is away, is shown.
func TestStatusOfARelease(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		state   lifecycle.State
		power   v1alpha1.PowerState
		after   time.Duration
		problem bool
		waits   time.Duration
	}{
		"it shuts down":     {state: lifecycle.StateReleasing, power: v1alpha1.PoweringOff, after: 9 * time.Second, waits: time.Second},
		"it does not obey":  {state: lifecycle.StateReleasing, power: v1alpha1.PowerOn, after: 10 * time.Second},
		"it is off":         {state: lifecycle.StateReleasing, power: v1alpha1.PowerOff},
		"it is cleaned":     {state: lifecycle.StateCleaning, power: v1alpha1.PowerOff},
		"its BMC is away":   {state: lifecycle.StateReleasing, power: v1alpha1.PowerOn, problem: true},
		"it is on, cleaned": {state: lifecycle.StateCleaning, power: v1alpha1.PowerOn},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host, r := claimedHost(t, v1alpha1.BareMetalHostStatus{ObservedGeneration: 2, Phase: v1alpha1.PhaseProvisioned, Power: v1alpha1.PowerOn})
			view := lifecycle.View{
				Host: lifecycle.Host{Spec: host.Spec}, Now: now, BMC: lifecycle.BMC{Inspected: true, Power: v1alpha1.PowerOn, PowerAt: now},
			}
			step := lifecycle.Step{State: lifecycle.StateReleasing, Phase: v1alpha1.PhaseReleasing, Reason: v1alpha1.ReasonReleasing, Action: lifecycle.ShutDown}
			g.Expect(r.status.writeStatus(t.Context(), host.DeepCopy(), view, step)).To(Equal(10 * time.Second))
			step.State, step.Phase, view.BMC.Power, view.Now = c.state, v1alpha1.HostPhase(c.state), c.power, now.Add(c.after)
			if c.problem {
				view.BMC.Problem = &lifecycle.BMCProblem{Reason: v1alpha1.ReasonBMCUnreachable, Message: "no answer"}
			}
			g.Expect(r.status.writeStatus(t.Context(), host.DeepCopy(), view, step)).To(Equal(c.waits))
			var written v1alpha1.BareMetalHost
			g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(host), &written)).To(Succeed())
			want := step.Phase
			if c.waits > 0 {
				want = v1alpha1.PhaseProvisioned
			}
			g.Expect(written.Status.Phase).To(Equal(want))
		})
	}
}

// TestEachAttemptIsShown: the status shows each attempt of a boot once, when its server is on. What follows in the attempt is progress.
func TestEachAttemptIsShown(t *testing.T) {
	g := NewWithT(t)
	now := metav1.Now()
	attempt := func(number int32) lifecycle.View {
		spec := v1alpha1.BareMetalHostSpec{ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}}
		spec.ProviderState.Boots = number
		boot := &v1alpha1.BareMetalBootSpec{Number: number, Attempt: number, ClaimID: "c", MachineName: "m", PoweredOnTime: &now}
		return lifecycle.View{Host: lifecycle.Host{Spec: spec, Boot: boot}, BMC: lifecycle.BMC{Power: v1alpha1.PowerOn}}
	}
	observed := hostObservation{}
	g.Expect(startsRunning(attempt(1), observed)).To(BeTrue())
	observed.shownBoot = 1
	g.Expect(startsRunning(attempt(1), observed)).To(BeFalse())
	g.Expect(startsRunning(attempt(2), observed)).To(BeTrue())
	off := attempt(2)
	off.BMC.Power = v1alpha1.PowerOff
	g.Expect(startsRunning(off, observed)).To(BeFalse())
	reported := attempt(2)
	reported.Host.Boot.ReportedTime = &now
	g.Expect(startsRunning(reported, observed)).To(BeFalse())
}
