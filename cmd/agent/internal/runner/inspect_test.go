package runner

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/hardware"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestInspect: the disks are in the inventory that is sent, and an inventory that the boot server refuses is a failure.
func TestInspect(t *testing.T) {
	g := NewWithT(t)
	_, f := newProvisioner(t, newBoots())
	var sent []agent.Inventory
	var refused error
	inspector := &Inspector{
		Disks: f, Hardware: hardware.Source{Root: t.TempDir(), Architecture: "amd64"}, Release: "v1", Log: slog.New(slog.DiscardHandler),
		Send: func(_ context.Context, inventory agent.Inventory) error {
			sent = append(sent, inventory)
			return refused
		},
	}
	var steps []agent.Step
	run := func(plan *agent.InspectPlan) agent.Result {
		return inspector.Run(t.Context(), &agent.Plan{Purpose: agent.Inspect, Inspect: plan}, func(p agent.Progress) { steps = append(steps, p.Step) })
	}
	g.Expect(run(nil).Failure.Reason).To(Equal(agent.ReasonPlanInvalid))
	g.Expect(sent).To(BeEmpty())
	g.Expect(run(&agent.InspectPlan{}).Failure).To(BeNil())
	g.Expect(steps).To(Equal([]agent.Step{agent.StepReading}))
	g.Expect(sent).To(HaveLen(1))
	g.Expect(sent[0].Release).To(Equal("v1"))
	g.Expect(sent[0].Disks).To(HaveLen(1))
	g.Expect(sent[0].Disks[0].Serial).To(Equal("S1"))
	refused = retry.Final(errors.New("refused"))
	g.Expect(run(&agent.InspectPlan{}).Failure).NotTo(BeNil())
	g.Expect(sent).To(HaveLen(2), "a final refusal is not repeated")
}
