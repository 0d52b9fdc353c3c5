package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// toErase requests the erasure of a free host.
func toErase(v *View) {
	v.Erasure = Erasure{Request: requestFor("SN1"), SerialNumber: "SN1"}
	v.BMC.InspectedTime = noon.Add(-time.Minute)
}

// requestFor is a BareMetalErasureRequest that names a serial number.
func requestFor(serial string) *ErasureRequest {
	return &ErasureRequest{Name: "order-1", UID: "uid-1", SerialNumber: serial, Policy: wire.PolicyClear}
}

// asks changes the policy of the request.
func asks(policy wire.ErasePolicy) func(*View) {
	return func(v *View) { v.Erasure.Request.Policy = policy }
}

// erasingFreeView is a free host whose disks are being erased. Its server is off, the network is its next boot device, and it may be powered on.
func erasingFreeView(changes ...func(*View)) View {
	v := freeView(toErase, netbootSet, func(v *View) {
		v.Host.Spec.ProviderState.Boots, v.BMC.NetworkBootNumber = 7, 7
		v.Host.Boot = &v1alpha1.BareMetalBootSpec{
			Number: 7, Attempt: 1, Purpose: v1alpha1.PurposeClean, Agent: true, ClaimID: "uid-1", CleaningPolicy: wire.PolicyClear,
			ErasureRequest: &v1alpha1.BootErasureRequest{Name: "order-1", SerialNumber: "SN1"},
			StartTime:      metav1.NewTime(noon.Add(-time.Minute)), PoweredOffTime: at(time.Minute), PoweredOnTime: at(50 * time.Second),
		}
	})
	for _, change := range changes {
		change(&v)
	}
	return v
}

// claimedDuringErasure makes a machine claim a host whose disks are being erased, as a user can do by hand.
func claimedDuringErasure(v *View) { claimedDuringInspection(v) }

func eraseFailed(v *View) {
	v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonDisksNotErased, Message: "disk S1 failed"}
}
func machineHasServer(v *View)   { v.Erasure.Machine = otherHost("m") }
func otherSerial(v *View)        { v.Erasure.SerialNumber = "SN2" }
func unknownSerial(v *View)      { v.Erasure.SerialNumber = "" }
func requestRemoved(v *View)     { v.Erasure.Request = nil }
func secondAttempt(v *View)      { v.Host.Boot.Attempt = 2 }
func fromBackup(v *View)         { v.Host.Boot.StartTime = metav1.NewTime(noon.Add(-5 * time.Hour)) }
func unobserved(v *View)         { v.Observed.Furthest = v1alpha1.ObservedStage{} }
func powerCommanded(v *View)     { commanded(CommandPowerOn, 45*time.Second)(v) }
func oldInventory(v *View)       { v.BMC.InspectedTime = noon.Add(-erasureInventoryAge) }
func conflicting(v *View)        { v.Identity.MACTakenBy = otherHost("host-2") }
func machineInNamespace(v *View) { v.Claims.UnrecordedConsumer = "m" }

// nextRequestedErasure are hosts whose disks are erased on request.
var nextRequestedErasure = map[string]nextCase{
	"requested erasure: begins":                      {freeView(toErase), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasurePending},
	"requested erasure: the host has another policy": {freeView(toErase, hostPolicy(manual)), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasurePending},
	"requested erasure: inspected first":             {freeView(toErase, byAgent), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"requested erasure: the inspection failed":       {freeView(toErase, byAgent, inspectionFailed), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasurePending},
	"requested erasure: an inspection is open":       {inspectingView(toErase), StateFree, PowerOn, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"requested erasure: read as off once":            {freeView(toErase, justOff), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasurePending},
	"requested erasure: just powered off":            {freeView(toErase, justOff, commanded(CommandForceOff, 2*time.Second)), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasurePending},
	"requested erasure: the inventory is old":        {freeView(toErase, oldInventory), StateFree, Inspect, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasurePending},
	"requested erasure: queued":                      {freeView(toErase, queued), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonWaitingForBootSlot},
	"requested erasure: found running":               {freeView(toErase, poweredOn), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPoweredOn},
	"requested erasure: wanted on":                   {freeView(toErase, poweredOn, wantedOn), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasureRefused},
	"requested erasure: held off":                    {freeView(toErase, powerHeld), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasureRefused},
	"requested erasure: a Cluster is paused":         {freeView(toErase, clusterPaused), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasureRefused},
	"requested erasure: another serial number":       {freeView(toErase, otherSerial), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasureRefused},
	"requested erasure: no serial number":            {freeView(toErase, unknownSerial), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasureRefused},
	"requested erasure: a machine has it":            {freeView(toErase, machineHasServer), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasureRefused},
	"requested erasure: a machine runs there":        {freeView(toErase, machineInNamespace), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonConsumerMissing},
	"requested erasure: not purgeable":               {freeView(toErase, asks(purge), func(v *View) { v.Inspection.NotPurgeable.More = 1 }), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonErasureRefused},
	"requested erasure: a conflict":                  {freeView(toErase, conflicting), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"requested erasure: in quarantine":               {freeView(toErase, quarantined), StateQuarantined, Nothing, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"requested erasure: in maintenance":              {freeView(toErase, maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"requested erasure: external":                    {freeView(toErase, external), StateExternallyProvisioned, Nothing, v1alpha1.PhaseExternallyProvisioned, v1alpha1.ReasonExternallyProvisioned},
	"requested erasure: detached":                    {freeView(toErase, detached), StateDetached, Nothing, v1alpha1.PhaseDetached, v1alpha1.ReasonDetached},
	"requested erasure: paused":                      {freeView(toErase, func(v *View) { v.Host.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused},
	"requested erasure: the host is deleted":         {freeView(toErase, beingDeleted), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"requested erasure: counted":                     {erasingFreeView(uncounted), StateFree, CountBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: set network boot":            {erasingFreeView(notPoweredOn, func(v *View) { v.BMC.NetworkBootSetAt = time.Time{} }), StateFree, SetNetworkBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: record the power-on":         {erasingFreeView(notPoweredOn), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: power on":                    {erasingFreeView(), StateFree, PowerOn, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: runs":                        {erasingFreeView(poweredOn), StateFree, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: the record is deleted":       {erasingFreeView(poweredOn, bootDeleting), StateFree, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: done, on":                    {erasingFreeView(poweredOn, agentSeen, agentDone), StateFree, ForceOff, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: done, off":                   {erasingFreeView(agentSeen, agentDone, commanded(CommandForceOff, 30*time.Second)), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: failed, on":                  {erasingFreeView(poweredOn, agentSeen, eraseFailed), StateFree, ForceOff, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: failed, off":                 {erasingFreeView(agentSeen, eraseFailed, commanded(CommandForceOff, 30*time.Second)), StateFree, Isolate, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: failed, in quarantine":       {erasingFreeView(eraseFailed, quarantined), StateQuarantined, Isolate, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"requested erasure: failed, quarantined for it":  {erasingFreeView(eraseFailed, quarantined, func(v *View) { v.Host.Spec.Quarantine.Reason = v1alpha1.ReasonDisksNotErased }), StateQuarantined, RecordBoot, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"requested erasure: done, in quarantine":         {erasingFreeView(agentDone, quarantined), StateQuarantined, RecordBoot, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"requested erasure: late, an old inventory":      {erasingFreeView(poweredOn, powerCommanded, expired, oldInventory), StateFree, Inspect, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: late":                        {erasingFreeView(poweredOn, powerCommanded, expired), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: runs, a Cluster paused":      {erasingFreeView(poweredOn, clusterPaused), StateFree, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: runs, no longer wanted":      {erasingFreeView(poweredOn, requestRemoved), StateFree, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: no longer wanted, off":       {erasingFreeView(requestRemoved), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: held off before it is on":    {erasingFreeView(powerHeld), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"requested erasure: claimed before it is on":     {erasingFreeView(claimedDuringErasure), StateClaimed, RecordBoot, v1alpha1.PhaseClaimed, v1alpha1.ReasonErasing},
	"requested erasure: deleted, runs":               {erasingFreeView(poweredOn, agentSeen, beingDeleted), StateDeleting, ForceOff, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting},
	"requested erasure: deleted, from a backup":      {erasingFreeView(poweredOn, agentSeen, beingDeleted, fromBackup), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"requested erasure: claimed, runs":               {erasingFreeView(poweredOn, claimedDuringErasure), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonErasing},
	"requested erasure: claimed, not powered on":     {erasingFreeView(notPoweredOn, claimedDuringErasure), StateClaimed, RecordBoot, v1alpha1.PhaseClaimed, v1alpha1.ReasonErasing},
	"requested erasure: claimed, done":               {erasingFreeView(agentSeen, agentDone, claimedDuringErasure, commanded(CommandForceOff, 30*time.Second)), StateClaimed, RecordBoot, v1alpha1.PhaseClaimed, v1alpha1.ReasonErasing},
	"requested erasure: claimed, failed":             {erasingFreeView(eraseFailed, claimedDuringErasure), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonDisksNotErased},
	"requested erasure: provisioned":                 {erasingFreeView(poweredOn, claimedDuringErasure, provisioned), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
}

// TestRequestedErasureWithdrawn: until the server is on, what forbids the erasure ends it, also after the power-on was recorded. Then it is finished.
func TestRequestedErasureWithdrawn(t *testing.T) {
	planned := func(v *View) { v.Host.Boot.DataAddress = "192.0.2.1" }
	for name, c := range map[string]struct {
		view View
		void bool
	}{
		"the command waits for the BMC":   {erasingFreeView(requestRemoved), true},
		"it is read as off once":          {erasingFreeView(requestRemoved, justOff), true},
		"the command was sent":            {erasingFreeView(requestRemoved, powerCommanded), false},
		"a stage was observed":            {erasingFreeView(requestRemoved, stage(v1alpha1.StageDHCP)), false},
		"the agent has the plan":          {erasingFreeView(requestRemoved, planned, poweredOn), false},
		"the server is on":                {erasingFreeView(requestRemoved, poweredOn), false},
		"wanted, and the command waits":   {erasingFreeView(), false},
		"wanted, and it is read off once": {erasingFreeView(justOff), false},
	} {
		t.Run(name, func(t *testing.T) {
			step := Next(c.view, DefaultSettings())
			NewWithT(t).Expect(step.Boot != nil && step.Boot.VoidedTime != nil).To(Equal(c.void), "%s: %s", step.Action, step.Message)
		})
	}
}

// TestErasureRuns: an erasure is reported from its power-on to its deadline, whatever happens to the host.
func TestErasureRuns(t *testing.T) {
	for name, c := range map[string]struct {
		view View
		runs bool
	}{
		"of a release":               {erasingView(poweredOn), true},
		"of a free host":             {erasingFreeView(poweredOn), true},
		"in maintenance":             {erasingFreeView(poweredOn, maintenance), true},
		"of a host that was claimed": {erasingFreeView(poweredOn, claimedDuringErasure), true},
		"not powered on":             {erasingFreeView(notPoweredOn), false},
		"not counted":                {erasingFreeView(uncounted), false},
		"done":                       {erasingFreeView(poweredOn, agentDone), false},
		"late":                       {erasingFreeView(poweredOn, expired), false},
		"late, of a release":         {erasingView(poweredOn, expired), false},
	} {
		NewWithT(t).Expect(c.view.ErasureRuns(DefaultSettings())).To(Equal(c.runs), name)
	}
}

// TestRequestedErasureRecord: an erasure of a free host has the UID of its request and the stronger of two policies, keeps the disks that were not erased, and does not
// block a move.
func TestRequestedErasureRecord(t *testing.T) {
	g := NewWithT(t)
	v := freeView(toErase, writtenDisk)
	s := DefaultSettings()
	s.MinimumCleaningPolicy = wire.PolicyPurge
	b := Next(v, s).Boot
	g.Expect(b.Purpose).To(Equal(v1alpha1.PurposeClean))
	g.Expect(b.CleaningPolicy).To(Equal(wire.PolicyPurge))
	g.Expect(b.ClaimID).To(Equal("uid-1"))
	g.Expect(b.ErasureRequest).To(HaveValue(Equal(v1alpha1.BootErasureRequest{Name: "order-1", SerialNumber: "SN1"})))
	g.Expect(b.MachineName).To(BeEmpty())
	g.Expect(b.Agent).To(BeTrue())
	g.Expect(b.WrittenDisks).To(HaveLen(1))
	g.Expect(b.PoweredOffTime).NotTo(BeNil(), "it is off, and is not powered off again")
	g.Expect(IsRequestedErasure(b)).To(BeTrue())
	g.Expect(DataGiven(b)).To(BeFalse())
	v.Host.Boot = b
	g.Expect(Next(v, s).Action).To(Equal(CountBoot))
	g.Expect(v.BootsUntil(s)).To(BeTemporally(">", noon))
	g.Expect(WantsToBoot(freeView(toErase, queued), s)).To(BeTrue())
}

// TestRequestedErasureIsForOneServer: a request that names another server says both serial numbers. Spaces and the case of letters do not matter.
func TestRequestedErasureIsForOneServer(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Next(freeView(toErase, otherSerial), DefaultSettings()).Message).To(And(ContainSubstring(`"SN1"`), ContainSubstring(`"SN2"`)))
	g.Expect(Next(freeView(toErase, func(v *View) { v.Erasure.SerialNumber = " sn1 " }), DefaultSettings()).Action).To(Equal(RecordBoot))
}

// TestRequestedErasureNotBegun: what appears before the server was powered on ends an attempt. The first one has changed nothing. After a later one nobody knows what
// was erased.
func TestRequestedErasureNotBegun(t *testing.T) {
	for name, change := range map[string]func(*View){
		"a machine has it": machineHasServer, "another serial number": otherSerial, "a Cluster is paused": clusterPaused, "held off": powerHeld, "wanted on": wantedOn,
		"removed": requestRemoved, "powered on": poweredOn, "a conflict": conflicting,
		"a claim": claimedDuringInspection,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(erasingFreeView(notPoweredOn, change), DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordBoot))
			g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
			g.Expect(step.Boot.PoweredOnTime).To(BeNil())
			step = Next(erasingFreeView(notPoweredOn, secondAttempt, change), DefaultSettings())
			g.Expect(step.Boot).To(HaveField("Failure.Reason", v1alpha1.ReasonDisksNotErased))
			g.Expect(BootFor(erasingFreeView(notPoweredOn, change), DefaultSettings())).NotTo(Equal(BootAgent))
		})
	}
}

// TestRequestedErasureFails: after the last attempt, and if another one is not possible, the erasure has failed. The host goes into quarantine, and the boot
// is void after that.
func TestRequestedErasureFails(t *testing.T) {
	attempt3 := func(v *View) { v.Host.Boot.Attempt = 3 }
	for name, v := range map[string]View{
		"the last attempt":               erasingFreeView(poweredOn, agentSeen, attempt3, expired),
		"a machine has it":               erasingFreeView(poweredOn, agentSeen, expired, machineHasServer),
		"a Cluster is paused":            erasingFreeView(poweredOn, agentSeen, expired, clusterPaused),
		"the request was removed":        erasingFreeView(poweredOn, agentSeen, expired, requestRemoved),
		"a machine claimed it":           erasingFreeView(poweredOn, agentSeen, expired, claimedDuringErasure),
		"from a backup":                  erasingFreeView(poweredOn, agentSeen, fromBackup),
		"from a backup, and off":         erasingFreeView(fromBackup),
		"nothing shows that it is ours":  erasingFreeView(poweredOn, unobserved, expired),
		"the agent is on another server": erasingFreeView(poweredOn, agentSeen, gaveUp(wire.ReasonOtherServer)),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(v, DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordBoot), step.Message)
			g.Expect(step.Boot).To(HaveField("Failure.Reason", v1alpha1.ReasonDisksNotErased))
			g.Expect(step.Boot.Number).To(Equal(v.Host.Boot.Number))
		})
	}
	g := NewWithT(t)
	v := erasingFreeView(agentSeen, eraseFailed, commanded(CommandForceOff, 30*time.Second))
	step := Next(v, DefaultSettings())
	g.Expect(step.Quarantine).To(HaveField("Message", ContainSubstring("disk S1 failed")))
	g.Expect(step.Quarantine.Reason).To(Equal(v1alpha1.ReasonDisksNotErased))
	v.Host.Spec.Quarantine = step.Quarantine
	step = Next(v, DefaultSettings())
	g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
	v.Host.Boot, v.Host.Spec.Quarantine = step.Boot, nil
	v.Erasure.Request.Name, v.Erasure.Request.UID = "order-2", "uid-2"
	step = Next(v, DefaultSettings())
	g.Expect(step.Boot).NotTo(BeNil(), "a new request after a failure")
	g.Expect(step.Boot.Attempt).To(Equal(int32(1)))
}

// TestRequestedErasureFromABackup: an old record of an erasure never powers a server off, and neither does one of which nothing was observed.
func TestRequestedErasureFromABackup(t *testing.T) {
	for name, changes := range map[string][]func(*View){
		"old": {agentSeen, fromBackup}, "old, and this process powered it on": {fromBackup, powerCommanded}, "nothing was observed": {unobserved, expired},
	} {
		for _, end := range []func(*View){eraseFailed, agentDone, secondAttempt} {
			g := NewWithT(t)
			v := erasingFreeView(append(changes, poweredOn, end)...)
			if v.Host.Boot.AgentDoneTime != nil && name != "nothing was observed" {
				v.Host.Boot.AgentDoneTime = &v.Host.Boot.StartTime
			}
			g.Expect(Next(v, DefaultSettings()).Action).NotTo(Equal(ForceOff), name)
		}
	}
}

// TestRequestedErasureAttempts: a later attempt has the policy of the first one, and powers off the server that the first one has powered on.
func TestRequestedErasureAttempts(t *testing.T) {
	g := NewWithT(t)
	v := erasingFreeView(poweredOn, agentSeen, expired, hostPolicy(none))
	step := Next(v, DefaultSettings())
	g.Expect(step.Boot.Attempt).To(Equal(int32(2)))
	g.Expect(step.Boot.CleaningPolicy).To(Equal(wire.PolicyClear), "an erasure that has begun is finished with its policy")
	g.Expect(step.Boot.PoweredOffTime).To(BeNil())
	v.Host.Boot, v.Host.Spec.ProviderState.Boots, v.Observed.Furthest = step.Boot, step.Boot.Number, v1alpha1.ObservedStage{}
	g.Expect(Next(v, DefaultSettings()).Action).To(Equal(ForceOff))
}

// TestReleaseAfterAnErasure: a machine that claimed a host whose erasure was not completed releases it into quarantine.
func TestReleaseAfterAnErasure(t *testing.T) {
	g := NewWithT(t)
	v := erasingFreeView(eraseFailed, claimedDuringErasure, deleting, cleaningBegan, cleaned, voided)
	step := Next(v, DefaultSettings())
	g.Expect(step.Action).To(Equal(Release), step.Message)
	g.Expect(step.Quarantine).To(HaveField("Reason", v1alpha1.ReasonDisksNotErased))
}

// TestPropertyErasuresOfFreeHostsNeedARequest: no facts start an erasure of a free host but a request that names the server, while nothing shows
// that anything else uses the server. The agent is booted only after a recorded power-on.
func TestPropertyErasuresOfFreeHostsNeedARequest(t *testing.T) {
	begun := 0
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if rapid.Bool().Draw(t, "likely") {
			v = pick(draw{t}, "view", freeView(toErase), erasingFreeView(poweredOn, agentSeen, expired), erasingFreeView(notPoweredOn), erasingFreeView(powerCommanded, expired))
			pick(draw{t}, "change", func(*View) {}, otherSerial, unknownSerial, machineHasServer, machineInNamespace, clusterPaused, powerHeld, wantedOn, poweredOn, conflicting,
				requestRemoved, quarantined, maintenance, external, detached, beingDeleted, claimedDuringErasure, justOff, fromBackup)(&v)
		}
		step := Next(v, DefaultSettings())
		if !StartsBoot(v, step) || !IsRequestedErasure(step.Boot) {
			return
		}
		begun++
		if wrong := wrongWithRequestedErasure(v, v.Host.RequestedErasureBoot() != nil); wrong != "" {
			t.Fatalf("an erasure begins, and %s: %+v", wrong, v)
		}
	})
	if begun == 0 {
		t.Error("no erasure began")
	}
}
