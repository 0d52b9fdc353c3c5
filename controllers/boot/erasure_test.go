package boot_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// newErasingWorld is a world whose agent erases the disks S1 and S2 with a policy. It returns the agent's request, after its plan.
func newErasingWorld(t *testing.T, policy wire.ErasePolicy, keep ...wire.KeptDisk) (*world, pxe.AgentRequest, agent.Plan) {
	t.Helper()
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	started := w.boot().Spec.StartTime
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
		b.Purpose, b.CleaningPolicy = v1alpha1.PurposeClean, policy
		b.WrittenDisks = []v1alpha1.WrittenDisk{{Disk: wire.DiskIdentity{SerialNumber: "S1"}, DataOffset: 99 << 30, DataLength: 32 << 20}}
	})).To(Succeed())
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
		h.Spec.ProviderState.CleaningStartTime = &started
		h.Spec.ConsumerRef.Disks = []wire.DiskIdentity{{SerialNumber: "S1", SizeBytes: 100 << 30}, {SerialNumber: "S2", WWN: "5000c500a1b2c3d4"}}
		if len(keep) > 0 {
			h.Spec.Storage = &v1alpha1.HostStorage{Keep: keep}
		}
	})
	g.Expect(deleted("m", &v1alpha1.BareMetalMachine{})(w)).To(Succeed())
	r := w.agentRequest(g)
	r.TLS = true
	plan, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	return w, r, plan
}

// erasedDisk is the report of a disk that was erased and verified.
func erasedDisk(serial string, class wire.ErasePolicy, changes ...func(*agent.ErasedDisk)) agent.ErasedDisk {
	d := agent.ErasedDisk{DiskErasure: wire.DiskErasure{
		Disk: wire.DiskIdentity{SerialNumber: serial, SizeBytes: 100 << 30}, Name: "nvme0n1", Model: "Model", Transport: "NVMe", Outcome: wire.Erased,
		Method: "NVMe sanitize, block erase", Class: class, Basis: "IEEE 2883-2022", Verification: &wire.ErasureVerification{Kind: wire.Samples, Passed: true, Samples: 1000, Blank: 1000},
	}, StartTime: time.Unix(1_700_000_000, 0), EndTime: time.Unix(1_700_000_060, 0)}
	for _, change := range changes {
		change(&d)
	}
	return d
}

func leftOut(serial string) agent.ErasedDisk {
	return agent.ErasedDisk{DiskErasure: wire.DiskErasure{
		Disk: wire.DiskIdentity{SerialNumber: serial, SizeBytes: 1}, Name: "sdb", Outcome: wire.LeftOut, Message: "spec.storage.keep names it",
	}}
}

// TestPlanOfAnErasure: the plan follows the record of the boot, whatever the host says now.
func TestPlanOfAnErasure(t *testing.T) {
	g := NewWithT(t)
	_, _, plan := newErasingWorld(t, wire.PolicyPurge, wire.KeptDisk{SerialNumber: "kept"})
	ranges := []agent.DiskRange{{Disk: wire.DiskIdentity{SerialNumber: "S1"}, Offset: 99 << 30, Length: 32 << 20}}
	g.Expect(plan.Clean).To(Equal(&agent.CleanPlan{
		Policy: wire.PolicyPurge, AllDisks: true, Keep: []wire.KeptDisk{{SerialNumber: "kept"}}, Ranges: ranges,
		Expected: []wire.DiskIdentity{{SerialNumber: "S1", SizeBytes: 100 << 30}, {SerialNumber: "S2", WWN: "5000c500a1b2c3d4"}},
	}))
	_, _, plan = newErasingWorld(t, "")
	g.Expect(plan.Clean).To(Equal(&agent.CleanPlan{Policy: wire.PolicyMetadata, Ranges: ranges}), "only what the provider wrote")

	w, r, _ := newErasingWorld(t, wire.PolicyClear)
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = wire.PolicyNone })
	again, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Clean.Policy).To(Equal(wire.PolicyClear))
}

// TestErasureIsRecorded: a result that proves the erasure ends the boot, and its record has every disk.
func TestErasureIsRecorded(t *testing.T) {
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyClear)
	answer, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{
		erasedDisk("S1", wire.PolicyPurge, func(d *agent.ErasedDisk) {
			d.Warnings = []string{"RPMB\x00", strings.Repeat("y", 500), "3", "4", "5"}
			d.Model, d.StartTime = "Evil\x1b[2J"+strings.Repeat("x", 500), time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC)
		}),
		erasedDisk("s2", wire.PolicyClear), leftOut("virtual media"), {DiskErasure: wire.DiskErasure{Outcome: wire.LeftOut}},
	}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Next).To(Equal(agent.PowerOff))
	boot := w.boot().Spec
	g.Expect(boot.AgentDoneTime).NotTo(BeNil())
	g.Expect(boot.WrittenDisks).To(BeEmpty())
	report := boot.Erasure
	g.Expect(report.Policy).To(Equal(wire.PolicyClear))
	g.Expect(report.EndTime).To(Equal(*boot.AgentDoneTime))
	g.Expect(report.TLS).To(BeTrue())
	g.Expect(report.Disks).To(HaveLen(3), "a device without an identity is not recorded")
	first := report.Disks[0]
	g.Expect(first.Model).To(And(HavePrefix("Evil[2Jxxx"), HaveLen(128)), "a text of an agent is cleaned and cut")
	g.Expect(first.Warnings).To(HaveExactElements("RPMB", HaveLen(192), "3", "4"))
	g.Expect(first.StartTime).To(BeNil(), "a time that no server has")
	g.Expect([]any{first.Disk.SerialNumber, first.Outcome, first.Class, first.Method}).To(Equal([]any{"S1", wire.Erased, wire.PolicyPurge, "NVMe sanitize, block erase"}))
	g.Expect(first.Verification).To(Equal(&wire.ErasureVerification{Kind: "Samples", Passed: true, Samples: 1000, Blank: 1000}))
	g.Expect(report.Disks[2].Outcome).To(Equal(wire.LeftOut))

	_, err = w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred(), "the first answer may be lost")
	g.Expect(w.boot().Spec.Erasure).To(Equal(report))
}

// TestWarningsOfDisks: the event of an erasure says how many disks have warnings, and has the first of them, which is cut. With one it is a Warning.
func TestWarningsOfDisks(t *testing.T) {
	warns := func(warnings ...string) func(*agent.ErasedDisk) {
		return func(d *agent.ErasedDisk) { d.Warnings = warnings }
	}
	for name, test := range map[string]struct {
		first, left []string
		want        string
	}{
		"none": {nil, nil, "Normal AgentDone Erased 2 disks (Clear), and left out 1"},
		"one":  {[]string{"RPMB", "a boot partition"}, nil, "Warning AgentDone Erased 2 disks (Clear), and left out 1. Disks with warnings: 1. The first one is S1: RPMB"},
		"a disk that was left out": {nil, []string{"it has LVM2_member"},
			"Warning AgentDone Erased 2 disks (Clear), and left out 1. Disks with warnings: 1. The first one is K1: it has LVM2_member"},
		"two, of a hostile agent": {[]string{"\x1b[2J" + strings.Repeat("x", 500)}, []string{"y"},
			"Warning AgentDone Erased 2 disks (Clear), and left out 1. Disks with warnings: 2. The first one is S1: [2J" + strings.Repeat("x", 186) + "..."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, r, _ := newErasingWorld(t, wire.PolicyClear)
			kept := leftOut("K1")
			kept.Warnings = test.left
			_, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{
				erasedDisk("S1", wire.PolicyClear, warns(test.first...)), erasedDisk("S2", wire.PolicyClear), kept,
			}})
			g.Expect(err).NotTo(HaveOccurred())
			var done []string
			for len(w.events) > 0 {
				if event := <-w.events; strings.Contains(event, " AgentDone Erased ") {
					done = append(done, event)
				}
			}
			g.Expect(done).To(ConsistOf(test.want))
		})
	}
}

// TestErasureEndsDuringPause: what an agent reports of an erasure that has begun is recorded although the host is paused or in maintenance, and no erasure begins then.
func TestErasureEndsDuringPause(t *testing.T) {
	for name, pause := range map[string]func(*v1alpha1.BareMetalHost){
		"paused":      func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{clusterv1.PausedAnnotation: ""} },
		"maintenance": func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "a fan"} },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, r, _ := newErasingWorld(t, wire.PolicyClear)
			w.updateHost(g, pause)
			_, err := w.Plan(ctx, r, hello)
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			g.Expect(w.Progress(ctx, r, agent.Progress{Step: wire.StepErasing, Done: 1, Total: 2})).To(Succeed())
			_, err = w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyClear), erasedDisk("S2", wire.PolicyClear)}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(w.boot().Spec.Erasure).NotTo(BeNil())
		})
		t.Run(name+", on request", func(t *testing.T) {
			g := NewWithT(t)
			w := newRequestedErasureWorld(t, wire.PolicyClear)
			r := w.agentRequest(g)
			_, err := w.Plan(ctx, r, hello)
			g.Expect(err).NotTo(HaveOccurred())
			w.updateHost(g, pause)
			_, err = w.Plan(ctx, r, hello)
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			g.Expect(w.Progress(ctx, r, agent.Progress{Step: wire.StepErasing, Done: 1, Total: 2})).To(Succeed())
			_, err = w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyClear)}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(w.boot().Spec.Erasure).NotTo(BeNil())
		})
	}
}

// staleHost is a client whose cache has an earlier state of the host.
type staleHost struct {
	client.Client

	host *v1alpha1.BareMetalHost
}

func (s staleHost) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if h, ok := o.(*v1alpha1.BareMetalHost); ok {
		s.host.DeepCopyInto(h)
		return nil
	}
	return s.Client.Get(ctx, key, o, opts...)
}

// TestErasurePlanIsLive: the plan of an erasure has what the host keeps now, and there is none for a host in maintenance, also if the cache does not know it.
func TestErasurePlanIsLive(t *testing.T) {
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyClear)
	w.cache.Client = staleHost{w.cache.Client, w.host()}
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Storage = &v1alpha1.HostStorage{Keep: []wire.KeptDisk{{SerialNumber: "S2"}}}
	})
	plan, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Clean.Keep).To(ConsistOf(wire.KeptDisk{SerialNumber: "S2"}))
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "a fan"} })
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}

// TestErasureHasItsBoot: the record of an erasure says which agent reported it, and how it was booted.
func TestErasureHasItsBoot(t *testing.T) {
	for _, method := range []v1alpha1.BootMethod{"", v1alpha1.MethodUefiHTTP} {
		t.Run(string(method), func(t *testing.T) { erasureHasItsBoot(t, method) })
	}
}

func erasureHasItsBoot(t *testing.T, method v1alpha1.BootMethod) {
	t.Helper()
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyClear)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = w.Start(stop) }()
	g.Eventually(func() []v1alpha1.ObservedStage { return w.boot().Status.Stages }).Should(ContainElement(HaveField("Stage", v1alpha1.StageAgent)))
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method, b.AgentKey = method, ownKey })).To(Succeed())
	r.TLS, r.Key = true, ownKey
	_, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyClear), erasedDisk("S2", wire.PolicyClear)}})
	g.Expect(err).NotTo(HaveOccurred())
	report := w.boot().Spec.Erasure
	g.Expect([]string{report.AgentRelease, string(report.FirmwareMode), string(report.SecureBoot)}).To(Equal([]string{"v1, rc", "UEFI", "Enabled"}))
	g.Expect(report.BootMethod).To(Equal(cmp.Or(method, v1alpha1.MethodPXE)))
}

// TestErasureIsNotProven: a result that does not prove the erasure is a failure, whose message names the disk. The boot goes on to its next attempt, and the record of the
// written disks stays.
func TestErasureIsNotProven(t *testing.T) {
	both := func(changes ...func(*agent.ErasedDisk)) []agent.ErasedDisk {
		return []agent.ErasedDisk{erasedDisk("S1", wire.PolicyPurge), erasedDisk("S2", wire.PolicyPurge, changes...)}
	}
	var many []agent.ErasedDisk
	for i := range agent.MaxErasedDisks + 1 {
		many = append(many, erasedDisk(fmt.Sprintf("S%d", i), wire.PolicyPurge))
	}
	for name, c := range map[string]struct {
		policy wire.ErasePolicy
		disks  []agent.ErasedDisk
		want   string
	}{
		"no disks":                          {wire.PolicyPurge, nil, "disk S1 is missing"},
		"no disks, Clear":                   {wire.PolicyClear, []agent.ErasedDisk{}, "disk S2 is missing"},
		"a disk is missing":                 {wire.PolicyPurge, both()[:1], "disk S2 is missing"},
		"a disk is missing, Metadata":       {wire.PolicyMetadata, both()[:1], "disk S2 is missing"},
		"the written disk is missing":       {"", both()[1:], "disk S1 is missing"},
		"another disk instead":              {wire.PolicyPurge, append(both()[:1], erasedDisk("S3", wire.PolicyPurge)), "disk S2 is missing"},
		"it failed":                         {wire.PolicyPurge, both(func(d *agent.ErasedDisk) { d.Outcome, d.Message = agent.Failed, "it is frozen" }), "disk S2 was not erased: it is frozen"},
		"not verified":                      {wire.PolicyPurge, both(func(d *agent.ErasedDisk) { d.Verification = nil }), "disk S2: it was not verified"},
		"the verification did not pass":     {wire.PolicyClear, both(func(d *agent.ErasedDisk) { d.Verification.Passed = false }), "disk S2: its verification did not pass"},
		"an unknown kind of verification":   {wire.PolicyClear, both(func(d *agent.ErasedDisk) { d.Verification.Kind = "Guess" }), `disk S2: its verification has the unknown kind "Guess"`},
		"a weaker class":                    {wire.PolicyPurge, both(func(d *agent.ErasedDisk) { d.Class = wire.PolicyClear }), `disk S2: its class is "Clear", which is below the policy Purge`},
		"Metadata for Clear":                {wire.PolicyClear, both(func(d *agent.ErasedDisk) { d.Class = wire.PolicyMetadata }), "which is below the policy Clear"},
		"no class":                          {wire.PolicyMetadata, both(func(d *agent.ErasedDisk) { d.Class = "" }), "which is below the policy Metadata"},
		"an unknown class":                  {wire.PolicyClear, both(func(d *agent.ErasedDisk) { d.Class = "Destroy" }), `its class is "Destroy"`},
		"None is no class":                  {"", both(func(d *agent.ErasedDisk) { d.Class = "None" }), `its class is "None"`},
		"no method":                         {wire.PolicyClear, both(func(d *agent.ErasedDisk) { d.Method = "\x00" }), "disk S2: the agent did not report the method"},
		"an unknown outcome":                {wire.PolicyClear, both(func(d *agent.ErasedDisk) { d.Outcome = "Maybe" }), `disk S2: its outcome is "Maybe"`},
		"left out, and no disk is kept":     {wire.PolicyPurge, append(both()[:1], leftOut("S2")), "disk S2 was left out, and spec.storage.keep does not name it"},
		"the written disk is left out":      {"", []agent.ErasedDisk{leftOut("S1")}, "disk S1 was left out"},
		"a disk without an identity":        {wire.PolicyPurge, append(both(), erasedDisk("", wire.PolicyPurge)), "disk nvme0n1: it cannot be identified"},
		"more disks than a record can have": {wire.PolicyPurge, many, "at most 64"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, r, _ := newErasingWorld(t, c.policy)
			answer, err := w.Result(ctx, r, agent.Result{Disks: c.disks})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Next).To(Equal(agent.Wait))
			boot := w.boot()
			g.Expect(boot.Spec.AgentDoneTime).To(BeNil())
			g.Expect(boot.Spec.Erasure).To(BeNil())
			g.Expect(boot.Spec.WrittenDisks).To(HaveLen(1))
			g.Expect(boot.Status.Problem.Reason).To(Equal(wire.ReasonEraseFailed))
			g.Expect(boot.Status.Problem.Message).To(ContainSubstring(c.want))
		})
	}
}

// TestErasureWithoutDisks: a server without disks is erased, if the BMC reports that it has no disks, and nothing knows of a disk. Without a policy no
// report of disks is needed.
func TestErasureWithoutDisks(t *testing.T) {
	diskless := func(b *v1alpha1.BareMetalBootSpec) { b.WrittenDisks = nil }
	noDisks := func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Disks = nil }
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyPurge)
	g.Expect(w.changeBoot(diskless)).To(Succeed())
	w.updateHost(g, noDisks)
	h := w.host()
	h.Status.Hardware = &v1alpha1.Hardware{Disks: []v1alpha1.Disk{{Name: "d"}}}
	g.Expect(w.Client.Status().Update(ctx, h)).To(Succeed())
	answer, err := w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Next).To(Equal(agent.Wait))
	g.Expect(w.boot().Status.Problem.Message).To(ContainSubstring("the BMC reports 1"))

	for state, accepted := range map[v1alpha1.FactState]bool{"": false, v1alpha1.FactUnknown: false, v1alpha1.FactAbsent: true, v1alpha1.FactKnown: true} {
		w, r, _ = newErasingWorld(t, wire.PolicyPurge)
		g.Expect(w.changeBoot(diskless)).To(Succeed())
		w.updateHost(g, noDisks)
		if h := w.host(); state != "" {
			h.Status.Hardware = &v1alpha1.Hardware{Facts: []v1alpha1.Fact{{Name: "disks", State: state}}}
			g.Expect(w.Client.Status().Update(ctx, h)).To(Succeed())
		}
		_, err = w.Result(ctx, r, agent.Result{})
		g.Expect(err).NotTo(HaveOccurred())
		if !accepted {
			g.Expect(w.boot().Spec.AgentDoneTime).To(BeNil(), state)
			g.Expect(w.boot().Status.Problem.Message).To(ContainSubstring("the BMC does not report whether the server has any"))
			continue
		}
		g.Expect(w.boot().Spec.AgentDoneTime).NotTo(BeNil(), state)
		g.Expect(w.boot().Spec.Erasure.Disks).To(BeEmpty())
	}

	w, r, _ = newErasingWorld(t, "")
	_, err = w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Spec.AgentDoneTime).To(BeNil(), "the provider wrote a disk")
	g.Expect(w.boot().Status.Problem.Message).To(ContainSubstring("disk S1 is missing"))
	g.Expect(w.boot().Spec.WrittenDisks).NotTo(BeEmpty())

	w, r, _ = newErasingWorld(t, "")
	g.Expect(w.changeBoot(diskless)).To(Succeed())
	_, err = w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Spec.AgentDoneTime).NotTo(BeNil())
	g.Expect(w.boot().Spec.Erasure).To(BeNil())
}

// TestErasureOfNothing: a report in which every disk was left out is no erasure if the BMC reports more disks.
func TestErasureOfNothing(t *testing.T) {
	for _, c := range []struct {
		count   int
		known   v1alpha1.FactState
		problem string // empty if the report is accepted
	}{
		{1, v1alpha1.FactKnown, ""},
		{2, v1alpha1.FactKnown, "no disk was erased, the agent reports 1 disks, and the BMC 2"},
		{0, v1alpha1.FactUnknown, "the BMC does not report how many there are"},
	} {
		count, accepted := c.count, c.problem == ""
		g := NewWithT(t)
		w, r, _ := newErasingWorld(t, wire.PolicyPurge, wire.KeptDisk{SerialNumber: "S2"})
		g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.WrittenDisks = nil })).To(Succeed())
		w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Disks = nil })
		h := w.host()
		h.Status.Hardware = &v1alpha1.Hardware{
			Disks: []v1alpha1.Disk{{Name: "d1"}, {Name: "d2"}}[:count], Facts: []v1alpha1.Fact{{Name: "disks", State: c.known}},
		}
		g.Expect(w.Client.Status().Update(ctx, h)).To(Succeed())
		_, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{leftOut("S2")}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(w.boot().Spec.AgentDoneTime != nil).To(Equal(accepted))
		if !accepted {
			g.Expect(w.boot().Status.Problem.Message).To(ContainSubstring(c.problem))
		}
	}
}

// TestErasureLeavesKeptDisksOut: a disk that may be kept is left out.
func TestErasureLeavesKeptDisksOut(t *testing.T) {
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyPurge, wire.KeptDisk{Label: "ceph-data"})
	_, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyPurge), leftOut("S2")}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Spec.Erasure.Disks[1].Outcome).To(Equal(wire.LeftOut))
}

// TestOtherDisksNameIsNoLabel: the name of a disk in spec.storage.keep leaves out no other disk: a tenant can write that name as a label.
func TestOtherDisksNameIsNoLabel(t *testing.T) {
	withWWN := leftOut("S2")
	withWWN.Disk.WWN = "5000c500a1b2c3d4"
	for _, c := range []struct {
		keep []wire.KeptDisk
		left agent.ErasedDisk
		want bool
	}{
		{[]wire.KeptDisk{{SerialNumber: "S1"}}, leftOut("S2"), false}, // that of another disk that is due
		{[]wire.KeptDisk{{SerialNumber: "s3 "}}, leftOut("S2"), false},
		{[]wire.KeptDisk{{SerialNumber: "gone"}}, leftOut("S2"), false},      // that of no disk is no label
		{[]wire.KeptDisk{{WWN: "0x5000C500A1B2C3D9"}}, leftOut("S2"), false}, // that of another reported disk
		{[]wire.KeptDisk{{SerialNumber: "5000c500a1b2c3d4"}}, withWWN, false},
		{[]wire.KeptDisk{{SerialNumber: "S1"}, {SerialNumber: "s2"}}, leftOut("S2"), true},
		{[]wire.KeptDisk{{WWN: "naa.5000C500A1B2C3D4"}}, leftOut("S2"), true},
		{[]wire.KeptDisk{{WWN: "naa.5000C500A1B2C3D4"}}, withWWN, true},
		{[]wire.KeptDisk{{SerialNumber: "S1"}, {Label: "data"}}, leftOut("S2"), true},
	} {
		g := NewWithT(t)
		w, r, _ := newErasingWorld(t, wire.PolicyPurge, c.keep...)
		other := erasedDisk("S3", wire.PolicyPurge)
		other.Disk.WWN = "5000c500a1b2c3d9"
		_, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyPurge), c.left, other}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(w.boot().Spec.AgentDoneTime != nil).To(Equal(c.want), "%v", c.keep)
		if !c.want {
			g.Expect(w.boot().Status.Problem.Message).To(ContainSubstring("disk S2 was left out, and spec.storage.keep does not name it"))
		}
	}
}

// TestErasureFails: the message of an agent that failed names the disks that it did not erase.
func TestErasureFails(t *testing.T) {
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyPurge)
	_, err := w.Result(ctx, r, agent.Result{
		Failure: &agent.Failure{Reason: wire.ReasonEraseFailed, Message: "1 of 2 disks"},
		Disks:   []agent.ErasedDisk{erasedDisk("S1", wire.PolicyPurge), {DiskErasure: wire.DiskErasure{Disk: wire.DiskIdentity{SerialNumber: "S2"}, Outcome: agent.Failed, Message: "it is frozen"}}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Status.Problem.Message).To(Equal("1 of 2 disks. Not erased: S2 (it is frozen)"))
	g.Expect(w.boot().Spec.AgentDoneTime).To(BeNil())
}

// TestErasureProgress: the status has each disk, cleaned and bounded.
func TestErasureProgress(t *testing.T) {
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyPurge)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = w.Start(stop) }()
	progress := agent.Progress{Step: wire.StepErasing, Disks: []wire.DiskProgress{
		{Name: "sda", SerialNumber: "S1", Method: "ATA sanitize", Percent: 41, SecondsLeft: 1490}, {Name: "sdb\x1b", SerialNumber: "S2", Percent: 900, SecondsLeft: -3},
		{Name: "sdc", Percent: -5, SecondsLeft: 1 << 62},
	}}
	for range agent.MaxProgressDisks {
		progress.Disks = append(progress.Disks, wire.DiskProgress{Name: "x", Percent: 100})
	}
	g.Expect(w.Progress(ctx, r, progress)).To(Succeed())
	g.Eventually(func() *v1alpha1.AgentProgress { return w.boot().Status.Agent }).ShouldNot(BeNil())
	disks := w.boot().Status.Agent.Disks
	g.Expect(disks).To(HaveLen(agent.MaxProgressDisks))
	g.Expect(disks[0]).To(Equal(wire.DiskProgress{Name: "sda", SerialNumber: "S1", Method: "ATA sanitize", Percent: 41, SecondsLeft: 1490}))
	g.Expect(disks[1]).To(Equal(wire.DiskProgress{Name: "sdb", SerialNumber: "S2", Percent: 100}))
	g.Expect(disks[2]).To(Equal(wire.DiskProgress{Name: "sdc", SecondsLeft: 30 * 24 * 60 * 60}))
	g.Expect(w.boot().Status.Progress).To(HavePrefix("Erasing 2 of 64 disks, the slowest at 0 %"))
}

// TestProgressOfFinishedAgent: the progress of a boot whose agent is done shows what is awaited, also if the last report of the agent is written together with its end.
func TestProgressOfFinishedAgent(t *testing.T) {
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyPurge)
	g.Expect(w.Progress(ctx, r, agent.Progress{Step: wire.StepErasing, Disks: []wire.DiskProgress{{Name: "sda", Percent: 99}}})).To(Succeed())
	_, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyPurge), erasedDisk("S2", wire.PolicyPurge)}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Start(over())).To(Succeed())
	g.Expect(w.boot().Status.Agent.Step).To(BeEquivalentTo(wire.StepErasing))
	g.Expect(w.boot().Status.Progress).To(Equal(lifecycle.AwaitedStage(&w.boot().Spec, v1alpha1.StageAgentDone)))
}

// TestErasureOfAStrangerIsRefused: neither another client nor the token of an earlier boot ends an erasure.
func TestErasureOfAStrangerIsRefused(t *testing.T) {
	g := NewWithT(t)
	w, r, _ := newErasingWorld(t, wire.PolicyPurge)
	good := agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyPurge), erasedDisk("S2", wire.PolicyPurge)}}
	_, err := w.Result(ctx, pxe.AgentRequest{Version: agent.Version, Host: r.Host, Token: strings.Repeat("A", len(r.Token)), From: honest}, good)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.AgentDoneTime).To(BeNil())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Number, b.Attempt = b.Number+1, 2 })).To(Succeed())
	g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots++ })).To(Succeed())
	_, err = w.Result(ctx, r, good)
	g.Expect(err).To(MatchError(pxe.ErrRefused), "the token of the attempt before")
	g.Expect(w.boot().Spec.AgentDoneTime).To(BeNil())
	now := metav1.Now()
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime = &now })).To(Succeed())
	_, err = w.Result(ctx, r, good)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}
