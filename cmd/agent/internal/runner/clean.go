package runner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/erase"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Cleaner erases what a release must not leave.
type Cleaner struct {
	Disks Disks
	// Port returns where commands of a disk go to. A Cleaner without it erases disks only by writing to them.
	Port func(d disk.Disk) drive.Port
	Log  *slog.Logger
}

// Run carries a plan out. A disk of the plan that is missing may appear later: the controllers find their disks one after the other.
func (c *Cleaner) Run(ctx context.Context, plan *agent.Plan, report func(agent.Progress)) agent.Result {
	if plan.Clean == nil {
		return resultOf(failure.New(wire.ReasonPlanInvalid, "the plan has the purpose %s, and nothing to erase", plan.Purpose))
	}
	report(agent.Progress{Step: wire.StepErasing})
	clean := *plan.Clean
	settled := settledFor
	if erase.IsQuick(clean) {
		settled = settledForKnown
	}
	// An erasure cannot be started a second time, so the agent first waits for the disks that the plan names. If the plan is for all disks, it also waits for disks that the
	// plan does not name.
	all, err := awaitDisks(ctx, c.Disks, c.Log, func(all []disk.Disk) error {
		if erase.Absent(clean, all) {
			return failure.New(wire.ReasonEraseFailed, "a disk of the plan is not there")
		}
		return nil
	}, settled)
	if err != nil && !failure.HasReason(err, wire.ReasonEraseFailed) {
		return resultOf(err)
	}
	release, err := pinDisks(ctx, c.Disks, all, c.Log)
	defer release()
	if err != nil {
		return resultOf(err)
	}
	var out agent.Result
	out.Disks, out.Failure = erase.Run(ctx, clean, all, erase.Options{
		Open: func(d disk.Disk) (disk.Device, error) { return openDisk(c.Disks, d) },
		Port: c.port,
		Contents: func(ctx context.Context, d disk.Disk) disk.Disk {
			one := []disk.Disk{d}
			readContents(ctx, c.Disks, one, c.Log)
			return one[0]
		},
		Report: func(disks []wire.DiskProgress) { report(agent.Progress{Step: wire.StepErasing, Disks: disks}) },
		Log:    c.Log,
	})
	return bounded(clean, out)
}

func (c *Cleaner) port(d disk.Disk) drive.Port {
	if c.Port == nil {
		return nil
	}
	return c.Port(d)
}

// bounded cuts the disks of a result to what a boot server accepts. Those that failed come first then. A result of all disks must list them all, so it has failed then.
func bounded(plan agent.CleanPlan, out agent.Result) agent.Result {
	if len(out.Disks) <= agent.MaxErasedDisks {
		return out
	}
	out.Warnings = append(out.Warnings, fmt.Sprintf("the server has %d disks, and the result lists %d of them", len(out.Disks), agent.MaxErasedDisks))
	rank := func(d agent.ErasedDisk) int {
		return slices.Index([]wire.ErasureOutcome{agent.Failed, wire.Erased, wire.LeftOut}, d.Outcome)
	}
	slices.SortStableFunc(out.Disks, func(a, b agent.ErasedDisk) int { return cmp.Compare(rank(a), rank(b)) })
	out.Disks = out.Disks[:agent.MaxErasedDisks]
	if out.Failure == nil && !erase.OnlyWritten(plan) {
		out.Failure = resultOf(failure.New(wire.ReasonEraseFailed, "%s: no record can prove that all were erased", out.Warnings[len(out.Warnings)-1])).Failure
	}
	return out
}
