package invariant

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// The data partition of boot 1 is at the place 99, and that of boot 2 at the same place.
var firstDisk, secondDisk = written(1, "S1", 99), written(2, "S1", 99)

func written(number int32, serial string, offset int64) v1alpha1.WrittenDisk {
	return v1alpha1.WrittenDisk{Disk: wire.DiskIdentity{SerialNumber: serial}, Number: number, DataOffset: offset, DataLength: 32}
}

func wrote(disks ...v1alpha1.WrittenDisk) bootChange {
	return func(b *v1alpha1.BareMetalBootSpec) { b.WrittenDisks = disks }
}

func byAgent(b *v1alpha1.BareMetalBootSpec)   { b.Agent = true; poweredOn(b) }
func committed(b *v1alpha1.BareMetalBootSpec) { b.CommitAllowedTime = &noon }
func agentDone(b *v1alpha1.BareMetalBootSpec) { b.AgentDoneTime = &noon }
func failed(b *v1alpha1.BareMetalBootSpec) {
	b.Failure = &v1alpha1.BootFailure{Reason: "Test", Message: "a test"}
}
func checksFirst(b *v1alpha1.BareMetalBootSpec) { b.CommittedNumber = 1 }
func erases(b *v1alpha1.BareMetalBootSpec)      { b.Purpose, b.Agent = v1alpha1.PurposeClean, true }
func inspects(b *v1alpha1.BareMetalBootSpec) {
	b.Purpose, b.Agent, b.ClaimID, b.MachineName = v1alpha1.PurposeInspect, true, "inspection-1", ""
}

func keepsData(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = wire.PolicyNone }
func powerOn(h *v1alpha1.BareMetalHost)   { h.Spec.Power = v1alpha1.PowerOn }

// TestAgentBoots: which versions of the boots of a claim violate which rule. Attempts of an agent are repeated until it is done. An attempt after a permission names
// the boot that had it.
func TestAgentBoots(t *testing.T) {
	for name, test := range map[string]struct {
		boots  []*v1alpha1.BareMetalBoot
		broken []string
	}{
		"data served, and its place recorded": {[]*v1alpha1.BareMetalBoot{newBoot(byAgent), newBoot(byAgent, served, wrote(firstDisk))}, []string{}},
		"data served, and no place recorded":  {[]*v1alpha1.BareMetalBoot{newBoot(byAgent), newBoot(byAgent, served)}, []string{promise.Commit}},
		"data served, and the place of an earlier boot recorded": {
			[]*v1alpha1.BareMetalBoot{newBoot(second, byAgent, wrote(firstDisk)), newBoot(second, byAgent, served, wrote(firstDisk))}, []string{promise.Commit},
		},
		"committed":                      {[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, committed, wrote(firstDisk))}, []string{}},
		"committed without a place":      {[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, committed)}, []string{promise.Commit}},
		"committed without data":         {[]*v1alpha1.BareMetalBoot{newBoot(byAgent, committed, wrote(firstDisk))}, []string{promise.Commit}},
		"done without a permission":      {[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, agentDone, wrote(firstDisk))}, []string{promise.Commit}},
		"repeated after data was served": {[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, wrote(firstDisk)), newBoot(second, byAgent, wrote(firstDisk))}, []string{}},
		"repeated after the permission": {
			[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, committed, wrote(firstDisk)), newBoot(second, byAgent, checksFirst, wrote(firstDisk))}, []string{},
		},
		"repeated, and the permission is forgotten": {
			[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, committed, wrote(firstDisk)), newBoot(second, byAgent, wrote(firstDisk))}, []string{promise.Commit},
		},
		"the disk of the earlier boot is complete": {
			[]*v1alpha1.BareMetalBoot{
				newBoot(byAgent, served, committed, wrote(firstDisk)), newBoot(second, byAgent, checksFirst, wrote(firstDisk)),
				newBoot(second, byAgent, checksFirst, served, agentDone, wrote(firstDisk)),
			}, []string{},
		},
		"repeated after the agent was done": {
			[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, committed, agentDone, wrote(firstDisk)), newBoot(second, byAgent, checksFirst, wrote(firstDisk))}, []string{promise.Data},
		},
		"repeated after the report": {
			[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, committed, reported, wrote(firstDisk)), newBoot(second, byAgent, checksFirst, wrote(firstDisk))}, []string{promise.Data},
		},
		"erased after the agent was done": {
			[]*v1alpha1.BareMetalBoot{
				newBoot(byAgent, served, committed, agentDone, wrote(firstDisk)), newBoot(second, erases, wrote(firstDisk)), newBoot(second, byAgent, erases, agentDone),
			}, []string{},
		},
		"the permission taken back": {
			[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, committed, wrote(firstDisk)), newBoot(byAgent, served, wrote(firstDisk))}, []string{promise.Records},
		},
		"another permission looked for": {
			[]*v1alpha1.BareMetalBoot{newBoot(second, byAgent, wrote(firstDisk)), newBoot(second, byAgent, checksFirst, wrote(firstDisk))}, []string{promise.Records},
		},
		"a disk forgotten":                 {[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, wrote(firstDisk)), newBoot(second, byAgent)}, []string{promise.Erased}},
		"a disk forgotten by an erasure":   {[]*v1alpha1.BareMetalBoot{newBoot(voided, wrote(firstDisk)), newBoot(second, erases)}, []string{promise.Erased}},
		"an erasure that failed":           {[]*v1alpha1.BareMetalBoot{newBoot(erases, wrote(firstDisk)), newBoot(erases, failed)}, []string{}},
		"the same place written again":     {[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, wrote(firstDisk)), newBoot(second, byAgent, served, wrote(secondDisk))}, []string{}},
		"another disk, the first one kept": {[]*v1alpha1.BareMetalBoot{newBoot(byAgent, served, wrote(firstDisk)), newBoot(second, byAgent, served, wrote(firstDisk, written(2, "S2", 99)))}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			c.ObserveHost(hostName, newHost(claimed, counts))
			for _, b := range test.boots {
				c.ObserveBoot(hostName, b)
			}
			judgeNow(c)
			NewWithT(t).Expect(rules(c)).To(Equal(test.broken))
		})
	}
}

// TestAgentCommands: which command is in order while an agent writes, erases or inspects.
func TestAgentCommands(t *testing.T) {
	writes, gone := newBoot(byAgent, served, wrote(firstDisk)), newMachine(provisioned, deleting)
	erased := newBoot(poweredOn, erases)
	for name, test := range map[string]struct {
		host      *v1alpha1.BareMetalHost
		boot      *v1alpha1.BareMetalBoot
		machine   *v1alpha1.BareMetalMachine
		command   string
		forbidden bool
	}{
		"writing, boot device":                {newHost(claimed, counts), writes, newMachine(), "Boot=PXE", false},
		"writing, off":                        {newHost(claimed, counts), writes, newMachine(), "ForceOff", true},
		"written, boot device":                {newHost(claimed, counts), newBoot(byAgent, served, committed, agentDone, wrote(firstDisk)), newMachine(), "Boot=PXE", true},
		"written, on":                         {newHost(claimed, counts), newBoot(byAgent, served, committed, agentDone, wrote(firstDisk)), newMachine(), "On", false},
		"erasing, boot device":                {newHost(claimed, counted, cleaning), erased, gone, "Boot=PXE", false},
		"erasing, on":                         {newHost(claimed, counted, cleaning), erased, gone, "On", false},
		"erasing, on before it was recorded":  {newHost(claimed, counted, cleaning), newBoot(poweredOff, erases), gone, "On", true},
		"erasing, before the cleaning":        {newHost(claimed, counted), erased, gone, "On", true},
		"erasing, another claim's":            {newHost(claimedByOther, counted, cleaning), erased, gone, "On", true},
		"erasing, not counted":                {newHost(claimed, cleaning), erased, gone, "On", true},
		"erased, on":                          {newHost(claimed, counted, cleaning), newBoot(poweredOn, erases, agentDone), gone, "On", true},
		"erased, off":                         {newHost(claimed, counted, cleaning), newBoot(poweredOn, erases, agentDone), gone, "ForceOff", false},
		"not erased, on":                      {newHost(claimed, counted, cleaning), newBoot(poweredOn, erases, failed), gone, "On", true},
		"erasing, and the machine stays":      {newHost(claimed, counts, cleaning), erased, newMachine(), "On", true},
		"inspecting, boot device":             {newHost(counted), newBoot(poweredOn, inspects), nil, "Boot=PXE", false},
		"inspecting, on":                      {newHost(counted), newBoot(poweredOn, inspects), nil, "On", false},
		"inspecting, on before it was off":    {newHost(counted), newBoot(inspects), nil, "On", true},
		"inspecting, off":                     {newHost(counted), newBoot(poweredOn, inspects), nil, "ForceOff", false},
		"inspecting, not counted":             {newHost(), newBoot(poweredOn, inspects), nil, "On", true},
		"inspecting, in quarantine":           {newHost(counted, quarantined), newBoot(poweredOn, inspects), nil, "On", true},
		"inspected, void":                     {newHost(counted), newBoot(poweredOn, inspects, voided), nil, "ForceOff", true},
		"inspection failed, on":               {newHost(counted), newBoot(poweredOn, inspects, failed), nil, "On", true},
		"inspecting and claimed, off":         {newHost(claimed, counted), newBoot(poweredOn, inspects), newMachine(), "ForceOff", false},
		"inspecting and claimed, on":          {newHost(claimed, counted), newBoot(poweredOn, inspects), newMachine(), "On", true},
		"inspecting and deleted, off":         {newHost(leaving, counted), newBoot(poweredOn, inspects), nil, "ForceOff", false},
		"free and wanted on, not by an agent": {newHost(powerOn), nil, nil, "On", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newChecker()
			c.ObserveHost(hostName, test.host)
			c.ObserveBoot(hostName, test.boot)
			if test.machine != nil {
				c.ObserveMachine(machineName, test.machine)
			}
			at := time.Now().Add(time.Second)
			c.Command(hostName, test.command, at)
			c.Judge(at.Add(time.Second))
			want := []string{}
			if test.forbidden {
				want = []string{promise.Command}
			}
			g.Expect(rules(c)).To(Equal(want))
		})
	}
}

// TestUnblockedBoots: only a boot for a machine blocks a move.
func TestUnblockedBoots(t *testing.T) {
	for name, test := range map[string]struct {
		boot   *v1alpha1.BareMetalBoot
		broken []string
	}{
		"provisions": {newBoot(byAgent), []string{promise.Records}},
		"erases":     {newBoot(erases), []string{}},
		"inspects":   {newBoot(inspects), []string{}},
		"unknown":    {nil, []string{promise.Records}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			c.ObserveBoot(hostName, test.boot)
			c.ObserveHost(hostName, newHost(claimed))
			c.ObserveHost(hostName, newHost(claimed, counted))
			judgeNow(c)
			NewWithT(t).Expect(rules(c)).To(Equal(test.broken))
		})
	}
}

// TestErased: a host that is released, or at rest, has no disk that boots and no bootstrap data of the claim that ended.
func TestErased(t *testing.T) {
	for name, test := range map[string]struct {
		disk          Disk
		after         *v1alpha1.BareMetalHost
		keeps, broken bool
	}{
		"erased":                         {Disk{Serial: "S1"}, newHost(), false, false},
		"has its bootstrap data":         {Disk{Serial: "S1", Instance: "claim-1-3"}, newHost(), false, true},
		"boots":                          {Disk{Serial: "S1", Bootable: true}, newHost(), false, true},
		"has the data of the next claim": {Disk{Serial: "S1", Instance: "claim-10-4"}, newHost(), false, false},
		"not erased, in quarantine":      {Disk{Serial: "S1", Bootable: true, Instance: "claim-1-3"}, newHost(quarantined), false, false},
		"its policy erases nothing":      {Disk{Serial: "S1", Bootable: true, Instance: "claim-1-3"}, newHost(keepsData), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			c.Know(hostName, server{disk: test.disk})
			before := newHost(claimed, cleaning)
			if test.keeps {
				keepsData(before)
			}
			c.ObserveHost(hostName, before)
			c.ObserveHost(hostName, test.after)
			judgeNow(c)
			want := []string{}
			if test.broken {
				want = []string{promise.Erased}
			}
			NewWithT(t).Expect(rules(c)).To(Equal(want))
		})
	}
	g := NewWithT(t)
	c := newChecker()
	c.Know(hostName, server{disk: Disk{Serial: "S1", Instance: "claim-0-1"}})
	c.ObserveHost(hostName, newHost())
	c.Rest()
	g.Expect(rules(c)).To(Equal([]string{promise.Erased}))
}

// TestProven: a host that is released after all its disks were erased has the record of the erasure.
func TestProven(t *testing.T) {
	clears := func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = wire.PolicyClear }
	for name, test := range map[string]struct {
		before, after *v1alpha1.BareMetalHost
		boot          *v1alpha1.BareMetalBoot
		claim         string // of the record
		broken        bool
	}{
		"recorded":                 {newHost(claimed, cleaning, clears), newHost(clears), newBoot(erases, agentDone), "claim-1", false},
		"not recorded":             {newHost(claimed, cleaning, clears), newHost(clears), newBoot(erases, agentDone), "", true},
		"recorded for another":     {newHost(claimed, cleaning, clears), newHost(clears), newBoot(erases, agentDone), "claim-2", true},
		"never booted":             {newHost(claimed, cleaning, clears), newHost(clears), newBoot(voided), "", false},
		"in quarantine":            {newHost(claimed, cleaning, clears), newHost(clears, quarantined), newBoot(erases, failed), "", false},
		"only what an agent wrote": {newHost(claimed, cleaning), newHost(), newBoot(erases, agentDone), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			c.Know(hostName, server{})
			c.ObserveHost(hostName, test.before)
			c.ObserveBoot(hostName, test.boot)
			if test.claim != "" {
				c.ObserveErasure(hostName, &v1alpha1.BareMetalErasure{Spec: v1alpha1.BareMetalErasureSpec{ClaimID: test.claim}})
			}
			c.ObserveHost(hostName, test.after)
			judgeNow(c)
			NewWithT(t).Expect(slices.Contains(rules(c), promise.Proven)).To(Equal(test.broken), "%v", c.Violations())
		})
	}
}

// TestSystems: an operating system runs on the host of its claim, from a disk that was to be made bootable, and a claim has one.
func TestSystems(t *testing.T) {
	complete := newBoot(byAgent, served, committed, agentDone, wrote(firstDisk))
	again := newBoot(second, byAgent, checksFirst, served, agentDone, wrote(firstDisk))
	for name, test := range map[string]struct {
		host   *v1alpha1.BareMetalHost
		boot   *v1alpha1.BareMetalBoot
		ran    []string // instance IDs
		broken []string
	}{
		"its own":                       {newHost(claimed, counted), complete, []string{"claim-1-1", "claim-1-1"}, []string{}},
		"of the boot that had it":       {newHost(claimed, counted), again, []string{"claim-1-1"}, []string{}},
		"of another claim":              {newHost(claimed, counted), complete, []string{"claim-0-1"}, []string{promise.System}},
		"of another claim, free":        {newHost(counted), newBoot(voided), []string{"claim-1-1"}, []string{promise.System}},
		"in quarantine":                 {newHost(quarantined, counted), newBoot(voided), []string{"claim-1-1"}, []string{}},
		"without a permission":          {newHost(claimed, counted), newBoot(byAgent, served, wrote(firstDisk)), []string{"claim-1-1"}, []string{promise.Commit}},
		"while it is erased":            {newHost(claimed, counted, cleaning), newBoot(second, erases, wrote(firstDisk)), []string{"claim-1-1"}, []string{}},
		"two of one claim, one of each": {newHost(claimed, counted), again, []string{"claim-1-1", "claim-1-2"}, []string{promise.System, promise.Commit}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			c.ObserveHost(hostName, test.host)
			c.ObserveBoot(hostName, test.boot)
			for _, instance := range test.ran {
				c.Ran(hostName, "m-1", instance, "S1")
			}
			judgeNow(c)
			NewWithT(t).Expect(rules(c)).To(Equal(test.broken))
		})
	}

	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed, counted))
	c.ObserveBoot(hostName, complete)
	c.Ran(hostName, "m-1", "claim-1-1", "S1")
	c.Ran(hostName, "m-1", "claim-1-1", "S2")
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{promise.System}), "two disks of one claim")
}

// TestAgentSeeds: an agent may get its bootstrap data again, at its address and on its server.
func TestAgentSeeds(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed, counts))
	c.ObserveBoot(hostName, newBoot(byAgent, served, wrote(firstDisk)))
	c.Seeded(hostName, "m-1", "claim-1-1", "192.0.2.1", 0)
	c.Seeded(hostName, "m-1", "claim-1-1", "192.0.2.1", 0)
	judgeNow(c)
	g.Expect(rules(c)).To(BeEmpty())
	c.Seeded(hostName, "m-1", "claim-1-1", "192.0.2.2", 0)
	g.Expect(rules(c)).To(Equal([]string{promise.Data}), "at another address")
	c.Seeded("ns/host-2", "m-1", "claim-1-1", "192.0.2.2", 0)
	g.Expect(rules(c)).To(Equal([]string{promise.Data, promise.Data}), "on a second server")
	judgeNow(c)
	g.Expect(rules(c)).To(Equal([]string{promise.Data, promise.Data, promise.Data}), "whose claim it is not")
	c.Seeded(hostName, "m-1", "claim-0-1", "192.0.2.1", 0)
	judgeNow(c)
	g.Expect(rules(c)).To(HaveLen(4), "of an earlier claim of the same machine")
}

// TestAgentHangs: an inspection and an erasure boot the server, which takes longer than a read of the BMC.
func TestAgentHangs(t *testing.T) {
	g := NewWithT(t)
	c := newChecker()
	c.ObserveHost(hostName, newHost(claimed, cleaning, func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseCleaning }))
	c.ObserveBoot(hostName, newBoot(erases))
	now := time.Now().Add(time.Hour)
	judge := func(times int) {
		for range times {
			now = now.Add(time.Second)
			c.Judge(now)
		}
	}
	judge(5)
	g.Expect(rules(c)).To(BeEmpty())
	judge(1)
	g.Expect(rules(c)).To(Equal([]string{promise.Ends}))
}
