package runner

import (
	"context"
	"io"
	"log/slog"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/erase"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/gpt"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Cleaner erases what a release must not leave.
type Cleaner struct {
	Disks Disks
	Log   *slog.Logger
}

// Run carries a plan out. A disk of the plan that is missing may appear later: the controllers find their disks one after the other.
func (c *Cleaner) Run(ctx context.Context, plan *agent.Plan, report func(agent.Progress)) agent.Result {
	if plan.Clean == nil {
		return resultOf(failure.New(agent.ReasonPlanInvalid, "the plan has the purpose %s, and nothing to erase", plan.Purpose))
	}
	report(agent.Progress{Step: agent.StepErasing})
	var result erase.Result
	_, err := awaitDisks(ctx, c.Disks, c.Log, func(all []disk.Disk) error {
		result = erase.Clean(ctx, *plan.Clean, c.eraseDisks(all, *plan.Clean), erase.Finder{Partitions: findPartitions, Signatures: findSignatures})
		if f := result.Failure; f != nil {
			return failure.New(f.Reason, "%s", f.Message)
		}
		return nil
	}, false)
	out := resultOf(err)
	out.Warnings = result.Warnings
	for _, id := range result.Erased {
		c.Log.Info("Erased a disk", "serial", id.Serial, "byPath", id.ByPath)
	}
	return out
}

// eraseDisks returns the disks for package erase. A disk that the plan names by its serial number is one that the provider wrote.
func (c *Cleaner) eraseDisks(all []disk.Disk, plan agent.CleanPlan) []erase.Disk {
	out := make([]erase.Disk, 0, len(all))
	for _, d := range all {
		var named agent.RootDevice
		if slices.ContainsFunc(plan.Ranges, func(r agent.DiskRange) bool { return r.Disk.Serial != "" && r.Disk.Serial == d.Serial }) {
			named.Serial = d.Serial
		}
		out = append(out, erase.Disk{
			ID: d.ID(), Name: d.Name, ByPathAlias: d.ByPathAlias, Protected: disk.Protected(d, named, plan.Keep),
			Open: func() (erase.Device, error) { return openDisk(c.Disks, d) },
		})
	}
	return out
}

// findPartitions returns the partitions of a disk, from each table that is not damaged.
func findPartitions(r io.ReaderAt, size int64, sector int) ([]erase.Area, error) {
	var areas []erase.Area
	add := func(parts []gpt.Partition) {
		for _, p := range parts {
			if start := int64(p.First) * int64(sector); start >= 0 && start < size && p.Last >= p.First { //nolint:gosec // checked
				areas = append(areas, erase.Area{Offset: start, Length: min(int64(p.Last-p.First+1)*int64(sector), size-start)}) //nolint:gosec // bounded by size
			}
		}
	}
	for _, lba := range []uint64{1, uint64(size)/uint64(sector) - 1} { //nolint:gosec // a disk has sectors
		if table, err := gpt.Read(r, lba, size, sector); err == nil {
			add(table.Partitions())
		}
	}
	if parts, err := gpt.ReadMBR(r, size, sector); err == nil {
		add(parts)
	}
	return areas, nil
}

func findSignatures(r io.ReaderAt, size int64, sector int) ([]erase.Area, error) {
	found, err := disk.Signatures(r, size, sector)
	areas := make([]erase.Area, 0, len(found))
	for _, s := range found {
		areas = append(areas, erase.Area{Offset: s.Offset, Length: s.Length})
	}
	return areas, err
}
