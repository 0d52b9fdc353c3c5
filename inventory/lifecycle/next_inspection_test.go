package lifecycle

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

func byAgent(v *View)          { v.Host.Spec.Inspection = v1alpha1.InspectionAgent }
func byBoth(v *View)           { v.Host.Spec.Inspection = v1alpha1.InspectionBoth }
func inspectedByAgent(v *View) { v.Inspection.Reported = true }
func inspectionRequested(v *View) {
	v.Requests.Inspect = true
}
func wantedOn(v *View) { v.Host.Spec.Power = v1alpha1.PowerOn }

// inspectionFailed is the record of an inspection that failed and is over.
func inspectionFailed(v *View) {
	v.Host.Spec.ProviderState.Boots = 7
	v.Host.Boot = &v1alpha1.BareMetalBootSpec{
		Number: 7, Attempt: 3, Purpose: v1alpha1.PurposeInspect, ClaimID: "inspection-1", VoidedTime: at(0),
		Failure: &v1alpha1.BootFailure{Reason: v1alpha1.ReasonInspectionFailed, Message: "x"},
	}
}

// inspectingView is a free host whose inspection is under way. Its server is off, the network is its next boot device, and it may be powered on.
func inspectingView(changes ...func(*View)) View {
	return hostBootView(freeView(byAgent), v1alpha1.PurposeInspect, "inspection-1", changes...)
}

// hostBootView is a free host whose boot for a purpose is under way.
func hostBootView(v View, purpose v1alpha1.BootPurpose, claimID string, changes ...func(*View)) View {
	v.Host.Spec.ProviderState.Boots = 7
	v.Host.Boot = &v1alpha1.BareMetalBootSpec{
		Number: 7, Attempt: 1, Purpose: purpose, Agent: true, ClaimID: claimID, StartTime: metav1.NewTime(noon.Add(-time.Minute)),
		PoweredOffTime: at(time.Minute), PoweredOnTime: at(50 * time.Second),
	}
	netbootSet(&v)
	for _, change := range changes {
		change(&v)
	}
	return v
}

// claimedDuringInspection makes a machine claim a host that is being inspected.
func claimedDuringInspection(v *View) {
	claimed := claimedView()
	v.Consumer, v.Host.Spec.ConsumerRef = claimed.Consumer, claimed.Host.Spec.ConsumerRef
	v.Host.Spec.ConsumerRef.BootsBefore = v.Host.Spec.ProviderState.Boots
}

// nextInspection are hosts that the agent inspects.
var nextInspection = map[string]nextCase{
	"inspect: begins":                                 {freeView(byAgent), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"inspect: begins for both":                        {freeView(byBoth), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"inspect: only the BMC":                           {freeView(func(v *View) { v.Host.Spec.Inspection = v1alpha1.InspectionBMC }), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"inspect: reported":                               {freeView(byAgent, inspectedByAgent), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"inspect: requested":                              {freeView(byAgent, inspectedByAgent, inspectionRequested), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"inspect: requested, BMC only":                    {freeView(inspectionRequested), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"inspect: failed":                                 {freeView(byAgent, inspectionFailed), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionFailed},
	"inspect: failed, and the BMC's facts are enough": {freeView(byBoth, inspectionFailed), StateFree, Nothing, v1alpha1.PhaseAvailable, ""},
	"inspect: failed, and requested":                  {freeView(byAgent, inspectionFailed, inspectionRequested), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"inspect: the report is not visible yet": {
		freeView(byAgent, inspectionFailed, func(v *View) { v.Host.Boot.Failure, v.Host.Boot.AgentDoneTime = nil, at(30*time.Second) }),
		StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending,
	},
	"inspect: the report was deleted": {
		freeView(byAgent, inspectionFailed, func(v *View) { v.Host.Boot.Failure, v.Host.Boot.AgentDoneTime = nil, at(time.Hour) }),
		StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending,
	},
	"inspect: found running":       {freeView(byAgent, poweredOn), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPoweredOn},
	"inspect: wanted on":           {freeView(byAgent, poweredOn, wantedOn), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"inspect: held off":            {freeView(byAgent, powerHeld), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"inspect: a Cluster is paused": {freeView(byAgent, clusterPaused), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"inspect: read as off once":    {freeView(byAgent, justOff), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"inspect: queued":              {freeView(byAgent, queued), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonWaitingForBootSlot},
	"inspect: in maintenance":      {inspectingView(maintenance), StateMaintenance, RecordBoot, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"inspect: another machine's":   {freeView(byAgent, func(v *View) { v.Claims.UnrecordedConsumer = "m" }), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonConsumerMissing},
	"inspect: conflict":            {freeView(byAgent, func(v *View) { v.Identity.MACTakenBy = otherHost("host-2") }), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"inspect: counted":             {inspectingView(uncounted), StateFree, CountBoot, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: set network boot":    {inspectingView(func(v *View) { v.BMC.NetworkBootSetAt = time.Time{} }), StateFree, SetNetworkBoot, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: record the power-on": {inspectingView(notPoweredOn), StateFree, RecordBoot, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: power on":            {inspectingView(), StateFree, PowerOn, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: runs":                {inspectingView(poweredOn), StateFree, Nothing, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: done, on":            {inspectingView(agentRuns, agentDone), StateFree, ForceOff, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: done, off":           {inspectingView(agentDone, commanded(CommandForceOff, 30*time.Second)), StateFree, RecordBoot, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: late":                {inspectingView(agentRuns, expired), StateFree, RecordBoot, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: late, a Cluster is paused": {
		inspectingView(agentRuns, expired, clusterPaused), StateFree, Nothing, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting,
	},
	"inspect: power lost":           {inspectingView(agentSeen, commanded(CommandPowerOn, 45*time.Second)), StateFree, RecordBoot, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: gave up":              {inspectingView(agentRuns, gaveUp(wire.ReasonBootServerUnreachable)), StateFree, RecordBoot, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: no longer wanted":     {inspectingView(agentRuns, func(v *View) { v.Host.Spec.Inspection = "" }), StateFree, ForceOff, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"inspect: the host is deleted":  {inspectingView(agentRuns, beingDeleted), StateDeleting, ForceOff, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting},
	"inspect: deleted, not on":      {inspectingView(notPoweredOn, poweredOn, beingDeleted), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"inspect: claimed, runs":        {inspectingView(agentRuns, claimedDuringInspection), StateClaimed, ForceOff, v1alpha1.PhaseClaimed, v1alpha1.ReasonPreparing},
	"inspect: claimed, not counted": {inspectingView(uncounted, notPoweredOn, claimedDuringInspection), StateClaimed, RecordBoot, v1alpha1.PhaseClaimed, v1alpha1.ReasonPreparing},
	"inspect: provisioned":          {inspectingView(poweredOn, claimedDuringInspection, provisioned), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
	"inspect: someone switched it on": {
		inspectingView(notPoweredOn, poweredOn), StateFree, RecordBoot, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting,
	},
}

func clusterPaused(v *View) { v.Host.PausedCluster = "c" }

// TestInspectionFails: after the last attempt the inspection has failed, the server is powered off, and the record keeps the failure.
func TestInspectionFails(t *testing.T) {
	g := NewWithT(t)
	v := inspectingView(agentRuns, attempt3, expired)
	step := Next(v, DefaultSettings())
	g.Expect(step.Boot.Failure.Reason).To(Equal(v1alpha1.ReasonInspectionFailed))
	g.Expect(step.Boot.Failure.Message).To(ContainSubstring(v1alpha1.InspectAnnotation))
	v.Host.Boot = step.Boot
	g.Expect(Next(v, DefaultSettings()).Action).To(Equal(ForceOff))
	v = inspectingView(agentSeen, commanded(CommandForceOff, 30*time.Second), func(v *View) { v.Host.Boot = step.Boot })
	step = Next(v, DefaultSettings())
	g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
	v.Host.Boot = step.Boot
	g.Expect(v.Host.InspectionFailure()).NotTo(BeNil())
	g.Expect(Next(v, DefaultSettings()).Reason).To(Equal(v1alpha1.ReasonInspectionFailed))
}

// agentRuns is the fact that the agent of a boot was seen, and the server is on.
func agentRuns(v *View) {
	poweredOn(v)
	agentSeen(v)
}

// TestInspectionLeavesServerAlone: a person has taken the server over meanwhile, or the record of the inspection is so old that it may come from a backup. The inspection
// ends without a command, and the next one waits until the server is off.
func TestInspectionLeavesServerAlone(t *testing.T) {
	old := func(v *View) { v.Host.Boot.StartTime = metav1.NewTime(noon.Add(-24 * time.Hour)) }
	ended := func(v *View) {
		v.Host.Spec.Maintenance, v.Host.Spec.ExternallyProvisioned, v.Host.Spec.Quarantine, v.Requests.Detached = nil, false, nil, Annotation{}
	}
	for name, v := range map[string]View{
		"maintenance":                     inspectingView(agentRuns, maintenance),
		"externally provisioned":          inspectingView(agentRuns, func(v *View) { v.Host.Spec.ExternallyProvisioned = true }),
		"detached":                        inspectingView(agentRuns, detached),
		"quarantine":                      inspectingView(agentRuns, func(v *View) { v.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Noise"} }),
		"from a backup":                   inspectingView(agentRuns, old),
		"from a backup, the last attempt": inspectingView(agentRuns, old, attempt3),
		"from a backup, a later attempt":  inspectingView(agentRuns, old, func(v *View) { v.Host.Boot.PoweredOffTime, v.Host.Boot.Attempt = nil, 2 }),
		"from a backup, done":             inspectingView(agentRuns, old, agentDone),
		"from a backup, no longer wanted": inspectingView(agentRuns, old, func(v *View) { v.Host.Spec.Inspection = "" }),
		"from a backup, claimed":          inspectingView(agentRuns, old, claimedDuringInspection),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if deleted := v; strings.HasPrefix(name, "from a backup") {
				beingDeleted(&deleted)
				g.Expect(Next(deleted, DefaultSettings()).Action).NotTo(Equal(ForceOff), "its deletion")
			}
			step := Next(v, DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordBoot), step.Message)
			g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
			v.Host.Boot = step.Boot
			ended(&v)
			g.Expect(Next(v, DefaultSettings()).Action).To(Equal(Nothing))
		})
	}
}

// TestInspectionOfServerThatRuns: a server that something else powered on is left alone.
func TestInspectionOfServerThatRuns(t *testing.T) {
	g := NewWithT(t)
	v := inspectingView(notPoweredOn, poweredOn)
	step := Next(v, DefaultSettings())
	g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
	g.Expect(step.Boot.PoweredOnTime).To(BeNil())
	v.Host.Boot = step.Boot
	step = Next(v, DefaultSettings())
	g.Expect(step.Action).To(Equal(Nothing))
	g.Expect(step.Reason).To(Equal(v1alpha1.ReasonPoweredOn))
}

// TestInspectionRecord: an inspection has an ID of its own, keeps the disks that were not erased, and consumes the request.
func TestInspectionRecord(t *testing.T) {
	g := NewWithT(t)
	v := freeView(byAgent, inspectionRequested, inspectionFailed, func(v *View) { writtenDisk(v) })
	step := Next(v, DefaultSettings())
	b := step.Boot
	g.Expect(b.Number).To(Equal(int32(8)))
	g.Expect(b.Attempt).To(Equal(int32(1)))
	g.Expect(b.ClaimID).To(And(HavePrefix("inspection-"), Not(Equal("inspection-1"))))
	g.Expect(b.MachineName).To(BeEmpty())
	g.Expect(b.Agent).To(BeTrue())
	g.Expect(b.WrittenDisks).To(HaveLen(1))
	g.Expect(b.PoweredOffTime).NotTo(BeNil(), "it is off, and is not powered off again")
	v.Host.Boot = b
	step = Next(v, DefaultSettings())
	g.Expect(step.Action).To(Equal(CountBoot))
	g.Expect(step.Drop).To(ConsistOf(v1alpha1.InspectAnnotation))
}

// TestSecondAttemptOfInspection: the second attempt begins with the server that the first one powered on, and powers it off.
func TestSecondAttemptOfInspection(t *testing.T) {
	g := NewWithT(t)
	v := inspectingView(poweredOn, expired)
	step := Next(v, DefaultSettings())
	g.Expect(step.Boot.Attempt).To(Equal(int32(2)))
	g.Expect(step.Boot.PoweredOffTime).To(BeNil())
	v.Host.Boot, v.Host.Spec.ProviderState.Boots = step.Boot, step.Boot.Number
	g.Expect(Next(v, DefaultSettings()).Action).To(Equal(ForceOff))
	claimedDuringInspection(&v)
	g.Expect(Next(v, DefaultSettings()).Action).To(Equal(ForceOff), "the agent may still run")
}

// TestInspectionHasBootSlot: an inspection counts as a boot of its failure domain.
func TestInspectionHasBootSlot(t *testing.T) {
	g := NewWithT(t)
	g.Expect(inspectingView().BootsUntil(DefaultSettings())).To(BeTemporally(">", noon))
	g.Expect(WantsToBoot(freeView(byAgent, queued), DefaultSettings())).To(BeTrue())
	g.Expect(WantsToBoot(freeView(queued), DefaultSettings())).To(BeFalse())
}
