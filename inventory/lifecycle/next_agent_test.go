package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

func at(ago time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(-ago)} }

func commitAllowed(v *View) { v.Host.Boot.CommitAllowedTime = at(20 * time.Second) }
func agentDone(v *View)     { v.Host.Boot.AgentDoneTime = at(10 * time.Second) }
func agentRefused(v *View)  { v.Host.Boot.AgentRefusedTime = at(5 * time.Second) }
func attempt3(v *View)      { v.Host.Boot.Attempt = 3 }
func agentSeen(v *View)     { v.Observed.Furthest.Stage = v1alpha1.StageAgent }
func gaveUp(reason string) func(*View) {
	return func(v *View) { v.Observed.Problem = &v1alpha1.BootFailure{Reason: reason, Message: "x"} }
}

// erasingView is a host that is being released, and whose agent erases the disks.
func erasingView(changes ...func(*View)) View {
	return bootingView(append([]func(*View){bootsAgent, provisioned, deleting, cleaningBegan, writtenDisk, func(v *View) {
		v.Host.Boot.Purpose, v.Host.MoveBlocked = v1alpha1.PurposeClean, false
	}}, changes...)...)
}

// nextAgent are hosts whose machine has an image.
var nextAgent = map[string]nextCase{
	"the image is not ready": {
		claimedView(bootsAgent, func(v *View) { v.Observed.Image = Image{} }), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonWaitingForImage,
	},
	"the image is bad": {
		claimedView(bootsAgent, func(v *View) { v.Observed.Image = Image{Reason: v1alpha1.ReasonChecksumMismatch, Message: "x"} }),
		StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonChecksumMismatch,
	},
	"the image is ready": {claimedView(bootsAgent), StateClaimed, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"power lost after the bootstrap data": {
		bootingView(bootsAgent, seeded, commitAllowed), StateBooting, SetNetworkBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"power lost while the agent writes": {
		bootingView(bootsAgent, seeded, agentSeen, commanded(CommandPowerOn, 50*time.Second)), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"power lost for the last time": {
		bootingView(bootsAgent, seeded, agentSeen, attempt3, commanded(CommandPowerOn, 50*time.Second)), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootTimedOut,
	},
	"read as off once while the agent writes": {
		bootingView(bootsAgent, seeded, agentSeen, justOff, commanded(CommandPowerOn, 50*time.Second)), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"the bootstrap data, and too late": {bootingView(bootsAgent, poweredOn, seeded, expired), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"the permission, and too late":     {bootingView(bootsAgent, poweredOn, seeded, commitAllowed, expired), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"done, and too late": {
		bootingView(bootsAgent, poweredOn, seeded, commitAllowed, expired, func(v *View) { v.Host.Boot.AgentDoneTime = at(30 * time.Minute) }),
		StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootTimedOut,
	},
	"done, and the system boots": {
		bootingView(bootsAgent, poweredOn, seeded, commitAllowed, expired, agentDone), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForReport,
	},
	"done, and too late, although the agent goes on": {
		bootingView(bootsAgent, poweredOn, seeded, commitAllowed, expired, func(v *View) {
			v.Host.Boot.AgentDoneTime, v.Observed.AgentAt = at(30*time.Minute), noon.Add(-time.Second)
		}),
		StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootTimedOut,
	},
	"done after all of the agent's time, and the system boots": {
		bootingView(bootsAgent, poweredOn, seeded, commitAllowed, runsFor(5*time.Hour), agentDone), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForReport,
	},
	"the agent makes progress": {
		bootingView(bootsAgent, poweredOn, expired, func(v *View) { v.Observed.AgentAt = noon.Add(-time.Minute) }), StateBooting, Nothing, v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForDHCP,
	},
	"the agent makes progress for too long": {
		bootingView(bootsAgent, poweredOn, func(v *View) {
			v.Host.Boot.StartTime, v.Observed.AgentAt = metav1.NewTime(noon.Add(-5*time.Hour)), noon.Add(-time.Minute)
		}),
		StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"the disk failed":       {bootingView(bootsAgent, poweredOn, gaveUp(wire.ReasonDiskFailed)), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing},
	"the disk failed again": {bootingView(bootsAgent, poweredOn, attempt3, gaveUp(wire.ReasonDiskFailed)), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonBootTimedOut},
	"a second address": {
		bootingView(bootsAgent, poweredOn, agentSeen, agentRefused), StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"a second address in the last attempt": {
		bootingView(bootsAgent, poweredOn, agentSeen, agentRefused, attempt3), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, v1alpha1.ReasonSecondRequester,
	},
	"another server": {bootingView(bootsAgent, poweredOn, gaveUp(wire.ReasonOtherServer)), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, wire.ReasonOtherServer},
	"release: erase, another server": {
		erasingView(poweredOn, gaveUp(wire.ReasonOtherServer)), StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning, // fails
	},
	"no disk matches": {bootingView(bootsAgent, poweredOn, gaveUp(wire.ReasonNoDiskMatches)), StateBooting, RecordBoot, v1alpha1.PhaseBootFailed, wire.ReasonNoDiskMatches},

	"release: the disks were not written": {
		bootingView(bootsAgent, deleting, cleaningBegan, cleaned), StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning, // void
	},
	"release: no erasure wanted": {
		bootingView(bootsAgent, provisioned, writtenDisk, deleting, cleaningBegan, cleaned, func(v *View) { v.Host.Spec.CleaningPolicy = wire.PolicyNone }),
		StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning, // void
	},
	"release: erase":          {bootingView(bootsAgent, provisioned, writtenDisk, deleting, cleaningBegan, cleaned), StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: erase, paused":  {erasingView(func(v *View) { v.Consumer.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused},
	"release: erase, counted": {erasingView(uncounted), StateCleaning, CountBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: erase, boot":    {erasingView(), StateCleaning, SetNetworkBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: erase, on":      {erasingView(netbootSet), StateCleaning, PowerOn, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: erase, runs":    {erasingView(poweredOn), StateCleaning, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning},
	"release: erase, power lost": {
		erasingView(agentSeen, commanded(CommandPowerOn, 50*time.Second)), StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
	},
	"release: erase, a second address": {
		erasingView(poweredOn, agentSeen, agentRefused), StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
	},
	"release: erase, too late": {
		erasingView(poweredOn, expired), StateCleaning, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
	},
	"release: erased, and on": {
		erasingView(poweredOn, agentDone, func(v *View) { v.Host.Boot.WrittenDisks = nil }), StateCleaning, RecordCleaning, v1alpha1.PhaseCleaning, v1alpha1.ReasonCleaning,
	},
	"off, and the stage of the agent was lost": {
		bootingView(bootsAgent, seeded, func(v *View) { v.Host.Boot.DataAddress = "192.0.2.7" }, commanded(CommandPowerOn, time.Minute), func(v *View) { v.Observed.Furthest = v1alpha1.ObservedStage{} }),
		StateBooting, RecordBoot, v1alpha1.PhaseBooting, v1alpha1.ReasonPreparing,
	},
	"release: erased, and on: off": { // an agent handles no request to shut down
		erasingView(poweredOn, agentDone, func(v *View) { v.Host.Boot.WrittenDisks, v.Host.Spec.ProviderState.CleaningStartTime = nil, nil }), StateReleasing, ForceOff, v1alpha1.PhaseReleasing, v1alpha1.ReasonReleasing,
	},
	"a move forgot the deletion": {
		erasingView(func(v *View) { v.Consumer.Deleting, v.Consumer.ProviderID = false, "" }), StateBootFailed, Nothing, v1alpha1.PhaseBootFailed, v1alpha1.ReasonCleaning,
	},
}

// TestNextAttemptOfAnAgent: the next attempt knows of the permission of an earlier one, and of the disks that have bootstrap data.
func TestNextAttemptOfAnAgent(t *testing.T) {
	for name, c := range map[string]struct {
		changes []func(*View)
		want    int32
	}{
		"no permission":  {[]func(*View){seeded}, 0},
		"the permission": {[]func(*View){seeded, commitAllowed}, 1},
		"an earlier permission": {[]func(*View){func(v *View) {
			v.Host.Boot.Number, v.Host.Spec.ProviderState.Boots, v.Host.Boot.CommittedNumber = 7, 7, 5
		}}, 5},
		"a second address": {[]func(*View){agentRefused}, 0},
		"another, later, permission": {[]func(*View){func(v *View) {
			v.Host.Boot.Number, v.Host.Spec.ProviderState.Boots, v.Host.Boot.CommittedNumber = 7, 7, 5
			commitAllowed(v)
		}}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(bootingView(append([]func(*View){bootsAgent, poweredOn, expired, writtenDisk}, c.changes...)...), DefaultSettings())
			g.Expect(step.Boot.Attempt).To(Equal(int32(2)))
			g.Expect(step.Boot.Agent).To(BeTrue())
			g.Expect(step.Boot.CommittedNumber).To(Equal(c.want))
			g.Expect(step.Boot.WrittenDisks).To(HaveLen(1))
			g.Expect([]*metav1.Time{step.Boot.DataServedTime, step.Boot.CommitAllowedTime, step.Boot.AgentDoneTime, step.Boot.AgentRefusedTime}).To(HaveEach(BeNil()))
		})
	}
}

// TestTimeoutOfSystem: the operating system has a whole BootTimeout, also after an agent that used all of its time, and the message counts from there.
func TestTimeoutOfSystem(t *testing.T) {
	g := NewWithT(t)
	step := Next(bootingView(bootsAgent, poweredOn, seeded, commitAllowed, runsFor(5*time.Hour), func(v *View) { v.Host.Boot.AgentDoneTime = at(30 * time.Minute) }), DefaultSettings())
	g.Expect(step.Boot.Failure).To(HaveValue(HaveField("Message", HavePrefix("30m0s after the agent completed its plan in boot attempt 1: "))))
}

// TestRemedyOfPermanentFailure: the failure says what a user corrects, which is not always the template.
func TestRemedyOfPermanentFailure(t *testing.T) {
	for reason, want := range map[string]string{
		wire.ReasonSeveralDisksMatch: "spec.image.rootDevice of the template, spec.storage of the host", wire.ReasonNoBootLoader: "Correct the image",
		wire.ReasonCommitUnknown: "x. Another attempt would fail the same way. Delete the Machine", wire.ReasonPlanInvalid: "Report this",
		v1alpha1.ReasonBootSourceInvalid: "Correct the template",
	} {
		g := NewWithT(t)
		step := Next(bootingView(bootsAgent, poweredOn, gaveUp(reason)), DefaultSettings())
		g.Expect(step.Boot.Failure).To(HaveValue(And(HaveField("Reason", reason), HaveField("Message", ContainSubstring(want)))))
		g.Expect(step.Boot.Failure.Message).To(ContainSubstring("elete the Machine to have it replaced"))
	}
}

// TestReaderOfMediumFailsNoBoot: who has read a boot medium can report a permanent failure. It ends the attempt, and the boot only if it is the last one.
func TestReaderOfMediumFailsNoBoot(t *testing.T) {
	g := NewWithT(t)
	viaMedium := func(v *View) { v.Host.Boot.Method = viaMedia }
	reported := []func(*View){hasMedia, bootsAgent, viaMedium, poweredOn, gaveUp(wire.ReasonNoDiskMatches)}
	step := Next(bootingView(reported...), DefaultSettings())
	g.Expect(step.Action).To(Equal(RecordBoot))
	g.Expect([]any{step.Boot.Failure, step.Boot.Attempt}).To(Equal([]any{(*v1alpha1.BootFailure)(nil), int32(2)}), step.Message)
	step = Next(bootingView(append(reported, attempt3)...), DefaultSettings())
	g.Expect(step.Boot.Failure).To(HaveValue(HaveField("Reason", wire.ReasonNoDiskMatches)))
	step = Next(bootingView(append(reported, gaveUp(v1alpha1.ReasonBootstrapDataInvalid))...), DefaultSettings())
	g.Expect(step.Boot.Failure).To(HaveValue(HaveField("Reason", v1alpha1.ReasonBootstrapDataInvalid)), "the boot server finds that out itself")
}

// TestErasureFails: after the last attempt the host goes into quarantine, also after its boot is void.
func TestErasureFails(t *testing.T) {
	g := NewWithT(t)
	v := erasingView(poweredOn, attempt3, gaveUp(wire.ReasonEraseFailed))
	step := Next(v, DefaultSettings())
	g.Expect(step.Boot.Failure.Reason).To(Equal(v1alpha1.ReasonDisksNotErased))
	v = erasingView(cleaned, func(v *View) { v.Host.Boot = step.Boot })
	step = Next(v, DefaultSettings())
	g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
	v.Host.Boot = step.Boot
	step = Next(v, DefaultSettings())
	g.Expect(step.Action).To(Equal(Release))
	g.Expect(step.Quarantine.Reason).To(Equal(v1alpha1.ReasonDisksNotErased))
}

// TestVoidedErasure: a record that was voided in mid-erasure, for a release that was requested without a power-off and then not, does not make the host free.
func TestVoidedErasure(t *testing.T) {
	g := NewWithT(t)
	step := Next(erasingView(cleaned, func(v *View) { v.Host.Boot.VoidedTime = at(time.Second) }), DefaultSettings())
	g.Expect(step.Action).To(Equal(Release))
	g.Expect(step.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonDisksNotErased), HaveField("Message", ContainSubstring("their erasure was interrupted")))))
}

// TestErasureWithoutRecord: without the record of the boots it is unknown which disks were written, so the host goes into quarantine.
func TestErasureWithoutRecord(t *testing.T) {
	g := NewWithT(t)
	for _, lost := range []func(*View){noRecord, recordOfOtherClaim} {
		v := bootingView(bootsAgent, provisioned, deleting, cleaningBegan, cleaned, lost)
		step := Next(v, DefaultSettings())
		for step.Action == RecordBoot {
			v.Host.Boot = step.Boot
			step = Next(v, DefaultSettings())
		}
		g.Expect(step.Action).To(Equal(Release))
		g.Expect(step.Quarantine).NotTo(BeNil())
		g.Expect(step.Quarantine.Reason).To(Equal(v1alpha1.ReasonDisksNotErased))
	}
}
