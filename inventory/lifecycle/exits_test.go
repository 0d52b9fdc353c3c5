package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func deletedAgo(ago time.Duration) func(*View) {
	return func(v *View) { v.Consumer.Deleting, v.Consumer.DeletingSince = true, noon.Add(-ago) }
}

// TestReleaseNamesItsExit: the message of a release names the annotation that ends it when the BMC cannot be used, or when the release takes longer
// than usual.
func TestReleaseNamesItsExit(t *testing.T) {
	s := DefaultSettings()
	slow := s.ShutDownTimeout + 3*s.PowerSettle
	problem := func(v *View) {
		v.BMC.Problem = &BMCProblem{Reason: "X", Message: "gone", RetryAt: noon.Add(time.Minute)}
	}
	for name, test := range map[string]struct {
		view  View
		state State
		named bool
	}{
		"it just began":                       {claimedView(provisioned, poweredOn, deletedAgo(slow-time.Second)), StateReleasing, false},
		"it takes long":                       {claimedView(provisioned, poweredOn, deletedAgo(slow)), StateReleasing, true},
		"its BMC is gone":                     {claimedView(provisioned, poweredOn, deletedAgo(0), problem), StateReleasing, true},
		"the cleaning just began":             {claimedView(provisioned, cleaningBegan, deletedAgo(0)), StateCleaning, false},
		"the cleaning takes long":             {claimedView(provisioned, cleaningBegan, deletedAgo(slow)), StateCleaning, true},
		"the cleaning's BMC is off":           {claimedView(provisioned, cleaningBegan, deletedAgo(0), problem), StateCleaning, true},
		"maintenance":                         {claimedView(provisioned, deletedAgo(0), maintenance), StateMaintenance, true},
		"maintenance of a machine that stays": {claimedView(provisioned, maintenance), StateMaintenance, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(test.view, s)
			g.Expect(step.State).To(Equal(test.state))
			if test.named {
				g.Expect(step.Message).To(ContainSubstring(v1alpha1.ReleaseUnfencedAnnotation))
			} else {
				g.Expect(step.Message).NotTo(ContainSubstring(v1alpha1.ReleaseUnfencedAnnotation))
			}
		})
	}
}

// TestPropertyDetachedHostIsDeletedAtOnce: a deleted host that is detached is removed immediately, without a command, whatever its state. One that a machine has is removed for no
// other reason than a move, or the end of its namespace.
func TestPropertyDetachedHostIsDeletedAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		v.Host.Deleting = true
		requests := v.Requests
		v.Requests.Detached = by("anna: moves racks")
		if step := Next(v, DefaultSettings()); step.State != StateDeleting || step.Action != Forget {
			t.Fatalf("%s, %v: %s", step.State, step.Action, step.Message)
		}
		v.Requests = requests
		v.Requests.Detached.Set = false
		abandoned := v.Host.NamespaceDeleting && (isOrphaned(v) || v.BMC.secretMissing())
		if step := Next(v, DefaultSettings()); step.Action == Forget && v.Host.Claimed() && !v.Host.DeletedForMove && !abandoned {
			t.Fatalf("%s, %v: a machine has the host", step.State, step.Action)
		}
	})
}

// TestCleaningTimeOut: only a refusal after CleaningTimeout ends a cleaningBegan, however long the BMC was unreachable.
func TestCleaningTimeOut(t *testing.T) {
	g := NewWithT(t)
	s := DefaultSettings()
	old := func(v *View) {
		v.Host.Spec.ProviderState.CleaningStartTime = &metav1.Time{Time: noon.Add(-2 * s.CleaningTimeout)}
	}
	refused := func(ago time.Duration) func(*View) {
		return func(v *View) {
			v.BMC.CleanUpFailures, v.BMC.CleanUpTriedAt, v.BMC.CleanUpError = 1, noon.Add(-ago), "locked"
		}
	}
	g.Expect(Next(claimedView(provisioned, deletedAgo(0), old), s).Action).To(Equal(CleanUp))
	g.Expect(Next(claimedView(provisioned, deletedAgo(0), old, refused(2*s.CleaningTimeout-time.Second)), s).Action).To(Equal(CleanUp))
	step := Next(claimedView(provisioned, deletedAgo(0), old, refused(time.Minute)), s)
	g.Expect(step.Action).To(Equal(Release))
	g.Expect(step.Quarantine).To(HaveValue(HaveField("Reason", v1alpha1.ReasonCleaningFailed)))
	g.Expect(step.Quarantine.Message).To(ContainSubstring("locked"))
}

// TestMoveWaitsForBootDeadline: a boot that the provider does not drive blocks a move until its deadline, and no longer.
func TestMoveWaitsForBootDeadline(t *testing.T) {
	s := DefaultSettings()
	for name, stop := range map[string]func(*View){
		"maintenance": maintenance,
		"detached":    func(v *View) { v.Requests.Detached = by("anna") },
		"orphaned":    func(v *View) { v.Consumer = &Consumer{} },
		"paused while its machine is deleted": func(v *View) {
			v.Consumer.Paused, v.Consumer.Deleting = true, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := bootingView(stop)
			deadline := v.Host.Boot.StartTime.Add(s.BootTimeout)
			step := Next(v, s)
			g.Expect(step.Action).NotTo(Equal(AllowMove))
			g.Expect(step.RequeueAt).NotTo(BeZero())
			g.Expect(step.RequeueAt).NotTo(BeTemporally(">", deadline), "it looks again in time")
			v.Now = deadline
			g.Expect(Next(v, s).Action).To(Equal(AllowMove))
			v.Host.MoveBlocked = false
			g.Expect(Next(v, s).Action).NotTo(Equal(AllowMove))
		})
	}
}

// TestUnrecordedConsumer: a host whose provider ID a machine has, although it is unclaimed, gets no command and is not offered, whatever spec.power is.
func TestUnrecordedConsumer(t *testing.T) {
	for _, power := range []v1alpha1.PowerState{"", v1alpha1.PowerOn, v1alpha1.PowerOff} {
		for _, now := range []v1alpha1.PowerState{v1alpha1.PowerOn, v1alpha1.PowerOff} {
			g := NewWithT(t)
			step := Next(freeView(func(v *View) { v.Claims.UnrecordedConsumer, v.Host.Spec.Power, v.BMC.Power = "m", power, now }), DefaultSettings())
			g.Expect(step.Action.Commands()).To(BeFalse())
			g.Expect(step.Phase).To(Equal(v1alpha1.PhaseUnavailable))
			g.Expect(step.Reason).To(Equal(v1alpha1.ReasonConsumerMissing))
			g.Expect(step.Message).To(ContainSubstring("spec.consumerRef.name: m"))
		}
	}
}

// TestForcedReleaseDuringErasure: a release that takes long names the annotation that ends it, and what that costs while disks are to be erased.
func TestForcedReleaseDuringErasure(t *testing.T) {
	g := NewWithT(t)
	s := DefaultSettings()
	const forced, unerased = v1alpha1.ReleaseUnfencedAnnotation, "Its disks are then not erased"
	slow := func(v *View) { v.Consumer.DeletingSince = noon.Add(-time.Hour) }
	g.Expect(Next(erasingView(deletedAgo(0), slow), s).Message).To(And(ContainSubstring(forced), ContainSubstring(unerased)))
	g.Expect(Next(claimedView(provisioned, deletedAgo(0), slow), s).Message).To(And(ContainSubstring(forced), Not(ContainSubstring(unerased))))
}
