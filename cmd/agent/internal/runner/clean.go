package runner

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/erase"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/sanitize"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
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
		return resultOf(failure.New(agent.ReasonPlanInvalid, "the plan has the purpose %s, and nothing to erase", plan.Purpose))
	}
	report(agent.Progress{Step: agent.StepErasing})
	clean := *plan.Clean
	policies := []agent.CleanPolicy{agent.CleanMetadata, agent.CleanClear, agent.CleanPurge}
	if !slices.Contains(policies, clean.Policy) {
		return resultOf(failure.New(agent.ReasonPlanInvalid, "the plan has the unknown policy %.40q", string(clean.Policy)))
	}
	settled := settledFor
	if clean.Policy == agent.CleanMetadata {
		settled = settledForKnown
	}
	// An erasure that has begun is not begun again, so it first waits for the disks that the plan names, and a plan for all disks also for those that it does not name.
	all, err := awaitDisks(ctx, c.Disks, c.Log, func(all []disk.Disk) error {
		if sanitize.Absent(clean, all) {
			return failure.New(agent.ReasonEraseFailed, "a disk of the plan is not there")
		}
		return nil
	}, settled)
	if err != nil && !failure.HasReason(err, agent.ReasonEraseFailed) {
		return resultOf(err)
	}
	release, err := hold(ctx, c.Disks, all, c.Log)
	defer release()
	switch {
	case err != nil:
		return resultOf(err)
	case clean.Policy == agent.CleanMetadata:
		return bounded(clean, c.metadata(ctx, clean, all))
	default:
		return bounded(clean, c.sanitize(ctx, clean, all, report))
	}
}

// sanitize carries out Clear and Purge.
func (c *Cleaner) sanitize(ctx context.Context, plan agent.CleanPlan, all []disk.Disk, report func(agent.Progress)) agent.Result {
	var out agent.Result
	out.Disks, out.Failure = sanitize.Run(ctx, plan, all, sanitize.Options{
		Open: func(d disk.Disk) (disk.Device, error) { return openDisk(c.Disks, d) },
		Port: c.port,
		Contents: func(ctx context.Context, d disk.Disk) disk.Disk {
			one := []disk.Disk{d}
			readContents(ctx, c.Disks, one, c.Log)
			return one[0]
		},
		Report: func(disks []agent.DiskProgress) { report(agent.Progress{Step: agent.StepErasing, Disks: disks}) },
		Log:    c.Log,
	})
	return out
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
		return slices.Index([]agent.Outcome{agent.Failed, agent.Erased, agent.LeftOut}, d.Outcome)
	}
	slices.SortStableFunc(out.Disks, func(a, b agent.ErasedDisk) int { return cmp.Compare(rank(a), rank(b)) })
	out.Disks = out.Disks[:agent.MaxErasedDisks]
	if out.Failure == nil && (plan.AllDisks || plan.Policy != agent.CleanMetadata) {
		out.Failure = resultOf(failure.New(agent.ReasonEraseFailed, "%s: no record can prove that all were erased", out.Warnings[len(out.Warnings)-1])).Failure
	}
	return out
}

// The method of the policy Metadata, and what it rests on.
const (
	metadataMethod = "Overwrite of partition tables, signatures and bootstrap data"
	metadataBasis  = "none: no standard calls it a sanitization; the data of the machine stays on the disk"
)

// metadata carries out Metadata.
func (c *Cleaner) metadata(ctx context.Context, plan agent.CleanPlan, all []disk.Disk) agent.Result {
	result := erase.Clean(ctx, plan, c.eraseDisks(all, plan), erase.Finder{Partitions: findPartitions, Signatures: findSignatures})
	results := append(sanitize.Missing(plan, all), metadataResults(plan, all, result.Outcomes)...)
	out := agent.Result{Warnings: result.Warnings, Failure: cmp.Or(result.Failure, sanitize.Failure(results))}
	for _, r := range results {
		out.Disks = append(out.Disks, r.ErasedDisk)
		c.Log.Info("A disk of the plan", "disk", r.Name, "serial", r.Disk.Serial, "outcome", string(r.Outcome), "message", r.Message)
	}
	return out
}

// metadataResults returns the results of all disks.
func metadataResults(plan agent.CleanPlan, all []disk.Disk, outcomes []erase.Outcome) []sanitize.Result {
	var out []sanitize.Result
	for _, o := range outcomes {
		if o.Disk.Name == "" {
			out = append(out, sanitize.Result{ErasedDisk: agent.ErasedDisk{Disk: o.Disk.ID, Outcome: agent.Failed, Message: o.Err.Error()}})
		}
	}
	for _, d := range all {
		r := sanitize.Result{ErasedDisk: sanitize.Identify(d)}
		at := slices.IndexFunc(outcomes, func(o erase.Outcome) bool { return o.Disk.Name == d.Name })
		switch {
		case at >= 0 && outcomes[at].Err != nil:
			r.Outcome, r.Message = agent.Failed, outcomes[at].Err.Error()
		case at >= 0:
			r.Outcome, r.Method, r.Class, r.Basis = agent.Erased, metadataMethod, agent.CleanMetadata, metadataBasis
			r.Verification = &agent.Verification{Kind: agent.ReadBack, Passed: true, Bytes: outcomes[at].Bytes}
			r.StartedAt, r.EndedAt = outcomes[at].Started, outcomes[at].Ended
		case plan.AllDisks:
			r = spared(d, all, plan)
		default:
			r.Outcome, r.Warnings = agent.LeftOut, sanitize.Confusing(d)
			r.Message = cmp.Or(disk.Protect(d, false, plan.Keep).Why, "the policy erases only the disks that the provider wrote")
		}
		out = append(out, r)
	}
	return out
}

// eraseDisks returns the disks for package erase. A disk that the plan names by its serial number is one that the provider wrote.
func (c *Cleaner) eraseDisks(all []disk.Disk, plan agent.CleanPlan) []erase.Disk {
	out := make([]erase.Disk, 0, len(all))
	for _, d := range all {
		named := slices.ContainsFunc(sanitize.Own(d, plan), func(r agent.DiskRange) bool { return r.Disk.Serial != "" && r.Disk.Serial == d.Serial })
		protected := cmp.Or(disk.Protect(d, named, plan.Keep).Why, sanitize.Foreign(d, plan))
		if protected == "" && plan.AllDisks {
			protected = spared(d, all, plan).Message
		}
		out = append(out, erase.Disk{
			ID: d.ID(), Name: d.Name, ByPathAlias: d.ByPathAlias, Protected: protected,
			Open: func() (erase.Device, error) { return openDisk(c.Disks, d) },
		})
	}
	return out
}

// spared returns the result of a disk that a plan of Metadata for all disks does not touch. Without an outcome the disk is erased.
func spared(d disk.Disk, all []disk.Disk, plan agent.CleanPlan) sanitize.Result {
	r := sanitize.Decide(d, all, plan)
	if r.Outcome == "" && d.Unreadable != "" {
		r.Outcome, r.Message = agent.Failed, "it cannot be read: "+d.Unreadable
	}
	return r
}

// findPartitions returns the partitions of a disk, from each table that is not damaged.
func findPartitions(r io.ReaderAt, size int64, sector int) ([]erase.Area, error) {
	var areas []erase.Area
	add := func(parts []gpt.Partition) {
		for _, p := range parts {
			if start := int64(p.First) * int64(sector); start >= 0 && start < size && p.Last >= p.First { //nolint:gosec // checked
				length := min(int64(p.Last-p.First+1)*int64(sector), size-start) //nolint:gosec // bounded by size
				areas = append(areas, erase.Area{Offset: start, Length: length, Table: p.Extended()})
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
