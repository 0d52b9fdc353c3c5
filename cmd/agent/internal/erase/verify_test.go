package erase

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestLosesWrites: a disk that returns other data than was written is not erased, and nothing else is tried on it.
func TestLosesWrites(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.Block, func(d *drivetest.Drive) { d.Loses = true }), nil)
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyClear})
	g.Expect(failure).To(HaveField("Message", ContainSubstring("it returns other data than the zeros that were written")))
	g.Expect(results["sda"].Verification).To(HaveField("Passed", false))
	g.Expect(results["sda"].Outcome).To(Equal(agent.Failed))
	g.Expect(hasSecret(d, 0)).To(BeTrue())
}

// TestLiesWithoutSamples: a disk that cannot be opened before the erase fails, because nothing would show that its drive lies. One attempt may fail.
func TestLiesWithoutSamples(t *testing.T) {
	for failures, outcome := range map[int]wire.ErasureOutcome{1: wire.Erased, 2: agent.Failed} {
		g := NewWithT(t)
		r := &rack{}
		d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase, d.Lies = true, failures == 2 }), nil)
		opens := 0
		r.opens = func(disk.Disk) error {
			if opens++; opens <= failures {
				return errors.New("no such device or address")
			}
			return nil
		}
		results, _ := r.run(t, agent.CleanPlan{Policy: wire.PolicyPurge})
		g.Expect(results["sda"].Outcome).To(Equal(outcome))
		g.Expect(hasSecret(d, 0)).To(Equal(outcome == agent.Failed))
		if outcome == agent.Failed {
			g.Expect(results["sda"].Message).To(ContainSubstring("it cannot be opened before the erase"))
			g.Expect(d.Operations()).NotTo(ContainElement("sanitize"))
		}
	}
}

// TestUnreadableSamples: samples that cannot be read after the erase fail a drive that has no reason for that.
func TestUnreadableSamples(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase = true }), nil)
	d.Hook = func(operation string) error {
		if operation == "read" && d.State() == drivetest.Done {
			return errors.New("a medium error")
		}
		return nil
	}
	_, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyPurge})
	g.Expect(failure).To(HaveField("Message", ContainSubstring("cannot be read")))
}

// TestJudge: what samples prove.
func TestJudge(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase = true }), nil)
	d.Fill(0, 0)
	results, failure := r.run(t, agent.CleanPlan{Policy: wire.PolicyPurge})
	g.Expect(failure).To(BeNil())
	g.Expect(results["sda"].Verification.Kind).To(Equal(wire.DriveStatus), "zeros before prove nothing")
	_, err := judge(Changed, nil, nil, true)
	g.Expect(err).To(HaveOccurred(), "no samples prove nothing")
}
