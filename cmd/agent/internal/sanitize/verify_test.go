package sanitize_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/method"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/sanitize"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestLosesWrites: a disk that returns other data than was written is not erased, and nothing else is tried on it.
func TestLosesWrites(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.Block, func(d *drivetest.Drive) { d.Loses = true }), nil)
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanClear})
	g.Expect(failure).To(HaveField("Message", ContainSubstring("it returns other data than the zeros that were written")))
	g.Expect(results["sda"].Verification).To(HaveField("Passed", false))
	g.Expect(results["sda"].Outcome).To(Equal(agent.Failed))
	g.Expect(hasSecret(d, 0)).To(BeTrue())
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
	_, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanPurge})
	g.Expect(failure).To(HaveField("Message", ContainSubstring("cannot be read")))
}

// TestJudge: what samples prove.
func TestJudge(t *testing.T) {
	g := NewWithT(t)
	r := &rack{}
	d := r.add("sda", only(drive.SCSI, func(d *drivetest.Drive) { d.BlockErase = true }), nil)
	d.Fill(0, 0)
	results, failure := r.run(t, agent.CleanPlan{Policy: agent.CleanPurge})
	g.Expect(failure).To(BeNil())
	g.Expect(results["sda"].Verification.Kind).To(Equal(agent.DriveStatus), "zeros before prove nothing")
	_, err := sanitize.Judge(method.Changed, nil, nil, true)
	g.Expect(err).To(HaveOccurred(), "no samples prove nothing")
}
