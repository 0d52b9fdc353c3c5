package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// toErase requests the erasure of a free host.
func toErase(v *View) {
	v.Spec.EraseOnce, v.Spec.CleaningPolicy, v.EraseOnce.SerialNumber = "SN1", v1alpha1.CleaningClear, "SN1"
	v.BMC.InspectedAt = noon.Add(-time.Minute)
}

// erasingOnceView is a free host whose disks are being erased. Its server is off, the network is its next boot device, and it may be powered on.
func erasingOnceView(changes ...func(*View)) View {
	v := freeView(toErase, netbootSet, func(v *View) {
		v.Spec.Boots, v.BMC.NetworkBootNumber = 7, 7
		v.Boot = &v1alpha1.BareMetalBootSpec{
			Number: 7, Attempt: 1, Purpose: v1alpha1.PurposeClean, Agent: true, ClaimID: "erasure-1", CleaningPolicy: v1alpha1.CleaningClear,
			StartedAt: metav1.NewTime(noon.Add(-time.Minute)), PoweredOffAt: at(time.Minute), PoweredOnAt: at(50 * time.Second),
		}
	})
	for _, change := range changes {
		change(&v)
	}
	return v
}

// claimedDuringErasure makes a machine claim a host whose disks are being erased. The request is gone: the API server refuses the claim otherwise.
func claimedDuringErasure(v *View) {
	claimedDuringInspection(v)
	v.Spec.EraseOnce = ""
}

func eraseFailed(v *View) {
	v.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonDisksNotErased, Message: "disk S1 failed"}
}
func machineOnServer(v *View)    { v.EraseOnce.Machine = "BareMetalMachine \"m\"" }
func otherSerial(v *View)        { v.EraseOnce.SerialNumber = "SN2" }
func unknownSerial(v *View)      { v.EraseOnce.SerialNumber = "" }
func eraseOnceRemoved(v *View)   { v.Spec.EraseOnce = "" }
func secondAttempt(v *View)      { v.Boot.Attempt = 2 }
func fromBackup(v *View)         { v.Boot.StartedAt = metav1.NewTime(noon.Add(-5 * time.Hour)) }
func unobserved(v *View)         { v.Furthest = v1alpha1.ObservedStage{} }
func powerCommanded(v *View)     { commanded(CommandPowerOn, 45*time.Second)(v) }
func oldInventory(v *View)       { v.BMC.InspectedAt = noon.Add(-eraseOnceInventoryAge) }
func conflicting(v *View)        { v.MACTakenBy = "host-2" }
func machineInNamespace(v *View) { v.UnrecordedConsumer = "m" }

// nextEraseOnce are hosts whose disks are erased because of spec.eraseOnce.
var nextEraseOnce = map[string]nextCase{
	"erase once: begins":                   {freeView(toErase), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOncePending},
	"erase once: the minimum is enough":    {freeView(toErase, hostPolicy(purge)), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOncePending},
	"erase once: inspected first":          {freeView(toErase, byAgent), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonInspectionPending},
	"erase once: the inspection failed":    {freeView(toErase, byAgent, inspectionFailed), StateFree, RecordBoot, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOncePending},
	"erase once: an inspection is open":    {inspectingView(toErase), StateFree, PowerOn, v1alpha1.PhaseInspecting, v1alpha1.ReasonInspecting},
	"erase once: read as off once":         {freeView(toErase, justOff), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOncePending},
	"erase once: just powered off":         {freeView(toErase, justOff, commanded(CommandForceOff, 2*time.Second)), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOncePending},
	"erase once: the inventory is old":     {freeView(toErase, oldInventory), StateFree, Inspect, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOncePending},
	"erase once: queued":                   {freeView(toErase, queued), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonWaitingForBootSlot},
	"erase once: found running":            {freeView(toErase, poweredOn), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonPoweredOn},
	"erase once: wanted on":                {freeView(toErase, poweredOn, wantedOn), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: held off":                 {freeView(toErase, powerHeld), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: a Cluster is paused":      {freeView(toErase, clusterPaused), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: another serial number":    {freeView(toErase, otherSerial), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: no serial number":         {freeView(toErase, unknownSerial), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: a machine has it":         {freeView(toErase, machineOnServer), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: a machine runs there":     {freeView(toErase, machineInNamespace), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonConsumerMissing},
	"erase once: no policy":                {freeView(toErase, hostPolicy("")), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: None":                     {freeView(toErase, hostPolicy(none)), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: Manual":                   {freeView(toErase, hostPolicy(manual)), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonEraseOnceRefused},
	"erase once: not purgeable":            {freeView(toErase, hostPolicy(purge), func(v *View) { v.Inspection.NotPurgeable = []string{"S1"} }), StateFree, Nothing, v1alpha1.PhaseUnavailable, v1alpha1.ReasonCleaningPolicyNotPossible},
	"erase once: a conflict":               {freeView(toErase, conflicting), StateFree, Nothing, v1alpha1.PhaseRegistering, v1alpha1.ReasonNotVerified},
	"erase once: in quarantine":            {freeView(toErase, quarantined), StateQuarantined, Nothing, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"erase once: in maintenance":           {freeView(toErase, maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"erase once: external":                 {freeView(toErase, external), StateExternallyProvisioned, Nothing, v1alpha1.PhaseExternallyProvisioned, v1alpha1.ReasonExternallyProvisioned},
	"erase once: detached":                 {freeView(toErase, detached), StateDetached, Nothing, v1alpha1.PhaseDetached, v1alpha1.ReasonDetached},
	"erase once: paused":                   {freeView(toErase, func(v *View) { v.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused},
	"erase once: the host is deleted":      {freeView(toErase, beingDeleted), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"erase once: counted":                  {erasingOnceView(uncounted), StateFree, CountBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: set network boot":         {erasingOnceView(notPoweredOn, func(v *View) { v.BMC.NetworkBootSetAt = time.Time{} }), StateFree, SetNetworkBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: record the power-on":      {erasingOnceView(notPoweredOn), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: power on":                 {erasingOnceView(), StateFree, PowerOn, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: runs":                     {erasingOnceView(poweredOn), StateFree, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: the record is deleted":    {erasingOnceView(poweredOn, bootDeleting), StateFree, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: done, on":                 {erasingOnceView(poweredOn, agentSeen, agentDone), StateFree, ForceOff, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: done, off":                {erasingOnceView(agentSeen, agentDone, commanded(CommandForceOff, 30*time.Second)), StateFree, EndEraseOnce, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: done, consumed":           {erasingOnceView(agentSeen, agentDone, eraseOnceRemoved, commanded(CommandForceOff, 30*time.Second)), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: failed, on":               {erasingOnceView(poweredOn, agentSeen, eraseFailed), StateFree, ForceOff, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: failed, off":              {erasingOnceView(agentSeen, eraseFailed, commanded(CommandForceOff, 30*time.Second)), StateFree, EndEraseOnce, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: failed, in quarantine":    {erasingOnceView(eraseFailed, eraseOnceRemoved, quarantined), StateQuarantined, RecordBoot, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"erase once: done, in quarantine":      {erasingOnceView(agentDone, quarantined), StateQuarantined, EndEraseOnce, v1alpha1.PhaseQuarantined, v1alpha1.ReasonQuarantined},
	"erase once: late, an old inventory":   {erasingOnceView(poweredOn, powerCommanded, expired, oldInventory), StateFree, Inspect, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: late":                     {erasingOnceView(poweredOn, powerCommanded, expired), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: runs, a Cluster paused":   {erasingOnceView(poweredOn, clusterPaused), StateFree, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: runs, no longer wanted":   {erasingOnceView(poweredOn, eraseOnceRemoved), StateFree, Nothing, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: no longer wanted, off":    {erasingOnceView(eraseOnceRemoved), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: held off before it is on": {erasingOnceView(powerHeld), StateFree, RecordBoot, v1alpha1.PhaseCleaning, v1alpha1.ReasonErasing},
	"erase once: claimed before it is on":  {erasingOnceView(claimedDuringErasure), StateClaimed, RecordBoot, v1alpha1.PhaseClaimed, v1alpha1.ReasonErasing},
	"erase once: deleted, runs":            {erasingOnceView(poweredOn, agentSeen, beingDeleted), StateDeleting, ForceOff, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting},
	"erase once: deleted, from a backup":   {erasingOnceView(poweredOn, agentSeen, beingDeleted, fromBackup), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"erase once: claimed, runs":            {erasingOnceView(poweredOn, claimedDuringErasure), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonErasing},
	"erase once: claimed, not powered on":  {erasingOnceView(notPoweredOn, claimedDuringErasure), StateClaimed, RecordBoot, v1alpha1.PhaseClaimed, v1alpha1.ReasonErasing},
	"erase once: claimed, done":            {erasingOnceView(agentSeen, agentDone, claimedDuringErasure, commanded(CommandForceOff, 30*time.Second)), StateClaimed, RecordBoot, v1alpha1.PhaseClaimed, v1alpha1.ReasonErasing},
	"erase once: claimed, failed":          {erasingOnceView(eraseFailed, claimedDuringErasure), StateClaimed, Nothing, v1alpha1.PhaseClaimed, v1alpha1.ReasonDisksNotErased},
	"erase once: provisioned":              {erasingOnceView(poweredOn, claimedDuringErasure, provisioned), StateProvisioned, Nothing, v1alpha1.PhaseProvisioned, ""},
}

// TestEraseOnceWithdrawn: until the server is on, what forbids the erasure ends it, also after the power-on was recorded. Then it is finished.
func TestEraseOnceWithdrawn(t *testing.T) {
	planned := func(v *View) { v.Boot.DataAddress = "192.0.2.1" }
	for name, c := range map[string]struct {
		view View
		void bool
	}{
		"the command waits for the BMC":   {erasingOnceView(eraseOnceRemoved), true},
		"it is read as off once":          {erasingOnceView(eraseOnceRemoved, justOff), true},
		"the command was sent":            {erasingOnceView(eraseOnceRemoved, powerCommanded), false},
		"a stage was observed":            {erasingOnceView(eraseOnceRemoved, stage(v1alpha1.StageDHCP)), false},
		"the agent has the plan":          {erasingOnceView(eraseOnceRemoved, planned, poweredOn), false},
		"the server is on":                {erasingOnceView(eraseOnceRemoved, poweredOn), false},
		"wanted, and the command waits":   {erasingOnceView(), false},
		"wanted, and it is read off once": {erasingOnceView(justOff), false},
	} {
		t.Run(name, func(t *testing.T) {
			step := Next(c.view, DefaultSettings())
			NewWithT(t).Expect(step.Boot != nil && step.Boot.VoidedAt != nil).To(Equal(c.void), "%s: %s", step.Action, step.Message)
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
		"of a free host":             {erasingOnceView(poweredOn), true},
		"in maintenance":             {erasingOnceView(poweredOn, maintenance), true},
		"of a host that was claimed": {erasingOnceView(poweredOn, claimedDuringErasure), true},
		"not powered on":             {erasingOnceView(notPoweredOn), false},
		"not counted":                {erasingOnceView(uncounted), false},
		"done":                       {erasingOnceView(poweredOn, agentDone), false},
		"late":                       {erasingOnceView(poweredOn, expired), false},
		"late, of a release":         {erasingView(poweredOn, expired), false},
	} {
		NewWithT(t).Expect(c.view.ErasureRuns(DefaultSettings())).To(Equal(c.runs), name)
	}
}

// TestEraseOnceRecord: an erasure of a free host has an ID of its own and the policy of the host, keeps the disks that were not erased, and does not block a
// move.
func TestEraseOnceRecord(t *testing.T) {
	g := NewWithT(t)
	v := freeView(toErase, hostPolicy(""), writtenDisk)
	s := DefaultSettings()
	s.MinimumCleaningPolicy = v1alpha1.CleaningPurge
	b := Next(v, s).Boot
	g.Expect(b.Purpose).To(Equal(v1alpha1.PurposeClean))
	g.Expect(b.CleaningPolicy).To(Equal(v1alpha1.CleaningPurge))
	g.Expect(b.ClaimID).To(HavePrefix("erasure-"))
	g.Expect(b.MachineName).To(BeEmpty())
	g.Expect(b.Agent).To(BeTrue())
	g.Expect(b.WrittenDisks).To(HaveLen(1))
	g.Expect(b.PoweredOffAt).NotTo(BeNil(), "it is off, and is not powered off again")
	g.Expect(IsEraseOnce(b)).To(BeTrue())
	g.Expect(DataGiven(b)).To(BeFalse())
	v.Boot = b
	g.Expect(Next(v, s).Action).To(Equal(CountBoot))
	g.Expect(v.BootsUntil(s)).To(BeTemporally(">", noon))
	g.Expect(WantsToBoot(freeView(toErase, queued), s)).To(BeTrue())
}

// TestEraseOnceIsForOneServer: a request that names another server says both serial numbers. Spaces and the case of letters do not matter.
func TestEraseOnceIsForOneServer(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Next(freeView(toErase, otherSerial), DefaultSettings()).Message).To(And(ContainSubstring(`"SN1"`), ContainSubstring(`"SN2"`)))
	g.Expect(Next(freeView(toErase, func(v *View) { v.EraseOnce.SerialNumber = " sn1 " }), DefaultSettings()).Action).To(Equal(RecordBoot))
}

// TestEraseOnceNotBegun: what appears before the server was powered on ends an attempt. The first one has changed nothing. After a later one nobody knows what
// was erased.
func TestEraseOnceNotBegun(t *testing.T) {
	for name, change := range map[string]func(*View){
		"a machine has it": machineOnServer, "another serial number": otherSerial, "a Cluster is paused": clusterPaused, "held off": powerHeld, "wanted on": wantedOn,
		"removed": eraseOnceRemoved, "powered on": poweredOn, "a conflict": conflicting,
		"a claim": claimedDuringInspection,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(erasingOnceView(notPoweredOn, change), DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordBoot))
			g.Expect(step.Boot.VoidedAt).NotTo(BeNil())
			g.Expect(step.Boot.PoweredOnAt).To(BeNil())
			step = Next(erasingOnceView(notPoweredOn, secondAttempt, change), DefaultSettings())
			g.Expect(step.Boot).To(HaveField("Failure.Reason", v1alpha1.ReasonDisksNotErased))
			g.Expect(BootFor(erasingOnceView(notPoweredOn, change), DefaultSettings())).NotTo(Equal(BootAgent))
		})
	}
}

// TestEraseOnceFails: after the last attempt, and if another one is not possible, the erasure has failed. The host goes into quarantine, the request is
// consumed, and the boot is void after that.
func TestEraseOnceFails(t *testing.T) {
	attempt3 := func(v *View) { v.Boot.Attempt = 3 }
	for name, v := range map[string]View{
		"the last attempt":               erasingOnceView(poweredOn, agentSeen, attempt3, expired),
		"a machine has it":               erasingOnceView(poweredOn, agentSeen, expired, machineOnServer),
		"a Cluster is paused":            erasingOnceView(poweredOn, agentSeen, expired, clusterPaused),
		"the request was removed":        erasingOnceView(poweredOn, agentSeen, expired, eraseOnceRemoved),
		"a machine claimed it":           erasingOnceView(poweredOn, agentSeen, expired, claimedDuringErasure),
		"from a backup":                  erasingOnceView(poweredOn, agentSeen, fromBackup),
		"from a backup, and off":         erasingOnceView(fromBackup),
		"nothing shows that it is ours":  erasingOnceView(poweredOn, unobserved, expired),
		"the agent is on another server": erasingOnceView(poweredOn, agentSeen, gaveUp(v1alpha1.ReasonOtherServer)),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(v, DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordBoot), step.Message)
			g.Expect(step.Boot).To(HaveField("Failure.Reason", v1alpha1.ReasonDisksNotErased))
			g.Expect(step.Boot.Number).To(Equal(v.Boot.Number))
		})
	}
	g := NewWithT(t)
	v := erasingOnceView(agentSeen, eraseFailed, commanded(CommandForceOff, 30*time.Second))
	step := Next(v, DefaultSettings())
	g.Expect(step.Quarantine).To(HaveField("Message", ContainSubstring("disk S1 failed")))
	g.Expect(step.Quarantine.Reason).To(Equal(v1alpha1.ReasonDisksNotErased))
	v.Spec.Quarantine, v.Spec.EraseOnce = step.Quarantine, ""
	step = Next(v, DefaultSettings())
	g.Expect(step.Boot.VoidedAt).NotTo(BeNil())
	v.Boot, v.Spec.Quarantine, v.Spec.EraseOnce = step.Boot, nil, "SN1"
	step = Next(v, DefaultSettings())
	g.Expect(step.Boot).NotTo(BeNil(), "a new request after a failure")
	g.Expect(step.Boot.Attempt).To(Equal(int32(1)))
}

// TestEraseOnceFromABackup: an old record of an erasure never powers a server off, and neither does one of which nothing was observed.
func TestEraseOnceFromABackup(t *testing.T) {
	for name, changes := range map[string][]func(*View){
		"old": {agentSeen, fromBackup}, "old, and this process powered it on": {fromBackup, powerCommanded}, "nothing was observed": {unobserved, expired},
	} {
		for _, end := range []func(*View){eraseFailed, agentDone, secondAttempt} {
			g := NewWithT(t)
			v := erasingOnceView(append(changes, poweredOn, end)...)
			if v.Boot.AgentDoneAt != nil && name != "nothing was observed" {
				v.Boot.AgentDoneAt = &v.Boot.StartedAt
			}
			g.Expect(Next(v, DefaultSettings()).Action).NotTo(Equal(ForceOff), name)
		}
	}
}

// TestEraseOnceAttempts: a later attempt has the policy of the first one, and powers off the server that the first one has powered on.
func TestEraseOnceAttempts(t *testing.T) {
	g := NewWithT(t)
	v := erasingOnceView(poweredOn, agentSeen, expired, hostPolicy(none))
	step := Next(v, DefaultSettings())
	g.Expect(step.Boot.Attempt).To(Equal(int32(2)))
	g.Expect(step.Boot.CleaningPolicy).To(Equal(v1alpha1.CleaningClear), "an erasure that has begun is finished with its policy")
	g.Expect(step.Boot.PoweredOffAt).To(BeNil())
	v.Boot, v.Spec.Boots, v.Furthest = step.Boot, step.Boot.Number, v1alpha1.ObservedStage{}
	g.Expect(Next(v, DefaultSettings()).Action).To(Equal(ForceOff))
}

// TestReleaseAfterAnErasure: a machine that claimed a host whose erasure was not completed releases it into quarantine, unless the erasure is repeated.
func TestReleaseAfterAnErasure(t *testing.T) {
	g := NewWithT(t)
	v := erasingOnceView(eraseFailed, claimedDuringErasure, deleting, cleaningBegan, cleaned, voided)
	step := Next(v, DefaultSettings())
	g.Expect(step.Action).To(Equal(Release), step.Message)
	g.Expect(step.Quarantine).To(HaveField("Reason", v1alpha1.ReasonDisksNotErased))
	v.Spec.EraseOnce = "SN1"
	g.Expect(Next(v, DefaultSettings()).Quarantine).To(BeNil())
}

// TestPropertyErasuresOfFreeHostsNeedARequest: no facts start an erasure of a free host but a request that names the server, while nothing shows
// that anything else uses the server. The agent is booted only after a recorded power-on.
func TestPropertyErasuresOfFreeHostsNeedARequest(t *testing.T) {
	begun := 0
	rapid.Check(t, func(t *rapid.T) {
		v := drawView(t)
		if rapid.Bool().Draw(t, "likely") {
			v = pick(draw{t}, "view", freeView(toErase), erasingOnceView(poweredOn, agentSeen, expired), erasingOnceView(notPoweredOn), erasingOnceView(powerCommanded, expired))
			pick(draw{t}, "change", func(*View) {}, otherSerial, unknownSerial, machineOnServer, machineInNamespace, clusterPaused, powerHeld, wantedOn, poweredOn, conflicting,
				eraseOnceRemoved, quarantined, maintenance, external, detached, beingDeleted, claimedDuringErasure, justOff, fromBackup)(&v)
		}
		step := Next(v, DefaultSettings())
		if !StartsBoot(v, step) || !IsEraseOnce(step.Boot) {
			return
		}
		begun++
		if wrong := wrongWithEraseOnce(v, v.EraseOnceBoot() != nil); wrong != "" {
			t.Fatalf("an erasure begins, and %s: %+v", wrong, v)
		}
	})
	if begun == 0 {
		t.Error("no erasure began")
	}
}
