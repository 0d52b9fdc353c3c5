package runner

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
)

func cleanPlan(p agent.CleanPlan) *agent.Plan { return &agent.Plan{Purpose: agent.Clean, Clean: &p} }

func newFiles(t *testing.T, serials ...string) FileDisks {
	t.Helper()
	var out FileDisks
	for i, serial := range serials {
		name := filepath.Join(t.TempDir(), serial)
		content := disktest.Random(uint64(i), 8*mib)
		gpttest.PutGPT(content, 512, []gpttest.Part{{First: 2048, Last: 4095, Name: "part" + serial}})
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, name)
	}
	return out
}

func contentOf(t *testing.T, f FileDisks, i int) []byte {
	t.Helper()
	b, err := os.ReadFile(f[i])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCleanClear: all disks are overwritten and read back, a kept one is not, and the result says so.
func TestCleanClear(t *testing.T) {
	g := NewWithT(t)
	f := newFiles(t, "S1", "S2")
	kept := contentOf(t, f, 1)
	c := &Cleaner{Disks: f, Log: slog.New(slog.DiscardHandler)}
	var last agent.Progress
	plan := agent.CleanPlan{Policy: wire.PolicyClear, Keep: []wire.KeptDisk{{Label: "partS2"}}, Expected: []wire.DiskIdentity{{SerialNumber: "S1"}, {SerialNumber: "S2"}}}
	result := c.Run(t.Context(), cleanPlan(plan), func(p agent.Progress) {
		if len(p.Disks) > 0 {
			last = p
		}
	})
	g.Expect(result.Failure).To(BeNil())
	g.Expect(result.Disks).To(HaveLen(2))
	g.Expect(result.Disks[0]).To(And(HaveField("Outcome", wire.Erased), HaveField("Class", wire.PolicyClear), HaveField("Verification.Kind", wire.ReadBack), HaveField("Verification.Bytes", int64(8*mib))))
	g.Expect(result.Disks[1]).To(And(HaveField("Outcome", wire.LeftOut), HaveField("Disk.SerialNumber", "S2")))
	g.Expect(bytes.Trim(contentOf(t, f, 0), "\x00")).To(BeEmpty())
	g.Expect(contentOf(t, f, 1)).To(Equal(kept))
	g.Expect(last.Step).To(Equal(wire.StepErasing))
	g.Expect(last.Disks[0].SerialNumber).To(Equal("S1"))

	plan.Policy = wire.PolicyPurge
	result = c.Run(t.Context(), cleanPlan(plan), ignore)
	g.Expect(result.Failure).To(HaveField("Message", ContainSubstring("Purge cannot be met")))
	g.Expect(result.Disks).To(HaveLen(2), "the disks are in the result also with a failure")
}

// TestCleanPolicies: a plan without a policy, or with one that the agent does not know, is invalid.
func TestCleanPolicies(t *testing.T) {
	g := NewWithT(t)
	f := newFiles(t, "S1")
	before := contentOf(t, f, 0)
	c := &Cleaner{Disks: f, Log: slog.New(slog.DiscardHandler)}
	for _, policy := range []wire.ErasePolicy{"", "metadata", "Destroy"} {
		result := c.Run(t.Context(), cleanPlan(agent.CleanPlan{Policy: policy, AllDisks: true}), ignore)
		g.Expect(result.Failure).To(HaveField("Reason", wire.ReasonPlanInvalid))
	}
	g.Expect(contentOf(t, f, 0)).To(Equal(before))
}

// TestCleanMetadata: the result has all disks: erased ones, and those that the policy does not mean.
func TestCleanMetadata(t *testing.T) {
	g := NewWithT(t)
	f := newFiles(t, "S1", "S2")
	c := &Cleaner{Disks: f, Log: slog.New(slog.DiscardHandler)}
	ranges := []agent.DiskRange{{Disk: wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 8 * mib}, Offset: 4 * mib, Length: 4096}}
	result := c.Run(t.Context(), cleanPlan(agent.CleanPlan{Policy: wire.PolicyMetadata, Ranges: ranges}), ignore)
	g.Expect(result.Failure).To(BeNil())
	g.Expect(result.Disks[0]).To(And(HaveField("Outcome", wire.Erased), HaveField("Class", wire.PolicyMetadata), HaveField("Verification.Passed", true)))
	g.Expect(result.Disks[0].Verification.Bytes).To(BeNumerically(">", 2*mib))
	g.Expect(result.Disks[1]).To(And(HaveField("Outcome", wire.LeftOut), HaveField("Message", ContainSubstring("only the disks that the provider wrote"))))
}

// TestCleanExpected: a disk that is missing, or that nobody expects, fails each policy.
func TestCleanExpected(t *testing.T) {
	for _, policy := range []wire.ErasePolicy{wire.PolicyMetadata, wire.PolicyClear} {
		f := newFiles(t, "S1", "S2")
		before := contentOf(t, f, 1)
		synctest.Test(t, func(t *testing.T) {
			g := NewWithT(t)
			c := &Cleaner{Disks: f, Log: slog.New(slog.DiscardHandler)}
			plan := agent.CleanPlan{Policy: policy, AllDisks: true, Expected: []wire.DiskIdentity{{SerialNumber: "S1"}, {SerialNumber: "GONE"}}}
			started := time.Now()
			result := c.Run(t.Context(), cleanPlan(plan), ignore)
			g.Expect(time.Since(started)).To(BeNumerically(">=", disksFor), "it may appear late")
			g.Expect(result.Failure).To(HaveField("Message", And(ContainSubstring("GONE"), ContainSubstring("S2"))))
			outcomes := map[string]wire.ErasureOutcome{}
			for _, d := range result.Disks {
				outcomes[d.Disk.SerialNumber] = d.Outcome
			}
			g.Expect(outcomes).To(Equal(map[string]wire.ErasureOutcome{"S1": wire.Erased, "S2": agent.Failed, "GONE": agent.Failed}))
			g.Expect(contentOf(t, f, 1)).To(Equal(before))
		})
	}
}

// slow are disks that take their time to open.
type slow struct{ FileDisks }

func (s slow) Open(d disk.Disk) (disk.Device, error) {
	time.Sleep(5 * time.Second) // of the bubble's clock
	return s.FileDisks.Open(d)
}

// TestMetadataOfManyDisks: 8 slow disks take as long as one.
func TestMetadataOfManyDisks(t *testing.T) {
	var serials []string
	for i := range 8 {
		serials = append(serials, fmt.Sprintf("S%d", i))
	}
	f := newFiles(t, serials...)
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		c := &Cleaner{Disks: slow{f}, Log: slog.New(slog.DiscardHandler)}
		started := time.Now()
		result := c.Run(t.Context(), cleanPlan(agent.CleanPlan{Policy: wire.PolicyMetadata, AllDisks: true}), ignore)
		g.Expect(result.Failure).To(BeNil())
		g.Expect(result.Disks).To(HaveLen(8))
		g.Expect(result.Disks).To(HaveEach(HaveField("Outcome", wire.Erased)))
		g.Expect(time.Since(started)).To(BeNumerically("<", 10*time.Second))
	})
}

// TestBounded: a result has no more disks than a boot server accepts, and those that failed are among them.
func TestBounded(t *testing.T) {
	g := NewWithT(t)
	var r agent.Result
	for range agent.MaxErasedDisks {
		r.Disks = append(r.Disks, agent.ErasedDisk{DiskErasure: wire.DiskErasure{Outcome: wire.Erased}})
	}
	g.Expect(bounded(agent.CleanPlan{Policy: wire.PolicyClear}, r).Warnings).To(BeEmpty())
	r.Disks = append(r.Disks, agent.ErasedDisk{DiskErasure: wire.DiskErasure{Outcome: agent.Failed, Name: "last"}})
	out := bounded(agent.CleanPlan{Policy: wire.PolicyClear}, r)
	g.Expect(out.Failure).To(HaveField("Message", ContainSubstring("the server has 65 disks")), "a certificate would not have them all")
	g.Expect(bounded(agent.CleanPlan{Policy: wire.PolicyMetadata}, r).Failure).To(BeNil(), "the disks that the provider wrote are few")
	g.Expect(out.Disks).To(HaveLen(agent.MaxErasedDisks))
	g.Expect(out.Disks[0].Name).To(Equal("last"))
	g.Expect(out.Warnings).To(HaveLen(1))
}
