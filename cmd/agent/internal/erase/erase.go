// Package erase carries out the plan Clean: it erases the disks of the server, and verifies the result. Package drive sends the commands of drives.
//
// select.go decides which disks are erased, method.go and obstacle.go by which methods, and unit.go in which order. overwrite.go and metadata.go write zeros, and verify.go
// verifies the result.
//
// The order on each disk, for the policies Clear and Purge:
//
//  1. The drive is asked what it offers and in which state it is. One that an earlier run has left locked is unlocked, and a sanitize operation that is in
//     progress is awaited.
//  2. The ranges of the plan are overwritten: the bootstrap data is gone, whatever follows.
//  3. Samples are read.
//  4. The best method is tried, and then the next one, as long as it meets the policy.
//  5. The samples are read again, or all that was overwritten. A disk is Erased only after that.
//
// The policy Metadata sends no command to a drive, and has the order of eraseMetadata. Each step may be cut off by a power failure: a second run begins with the first
// step, and finds the drive in one of its states.
package erase

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// Options are what Run works with.
type Options struct {
	// Open opens a disk for writing. The error wraps disk.ErrBusy if something else holds it.
	Open func(d disk.Disk) (disk.Device, error)
	// Port returns the port of a disk. A nil port is that of a disk without commands.
	Port func(d disk.Disk) drive.Port
	// Contents reads again what a disk carries.
	Contents func(ctx context.Context, d disk.Disk) disk.Disk
	// Report is called with the progress of all disks that are erased, also of those that have a result. It must not block.
	Report func([]wire.DiskProgress)
	Log    *slog.Logger

	plan agent.CleanPlan
	all  []disk.Disk
}

// watchInterval is how often it is checked whether a drive hangs.
const watchInterval = 5 * time.Second

// Run erases the disks that the plan means. All drives are erased at the same time, and one that fails does not stop the others. The results are those of all disks of the
// server, and of disks of the plan that are missing. Run may be repeated at any time. It returns at the end of ctx; a drive that hangs in the kernel is not awaited, and
// has failed.
func Run(ctx context.Context, plan agent.CleanPlan, all []disk.Disk, o Options) ([]agent.ErasedDisk, *agent.Failure) {
	if !plan.Policy.Reaches(wire.PolicyMetadata) {
		return nil, &agent.Failure{Reason: wire.ReasonPlanInvalid, Message: fmt.Sprintf("the plan has the unknown policy %.40q", string(plan.Policy))}
	}
	s := selectDisks(plan, all)
	o.plan, o.all = plan, all
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a drive that was given up and answers later is not erased further
	p := &progress{report: o.Report}
	answers := make(chan answer, len(s.units))
	for _, u := range s.units {
		u.policy, u.o, u.progress = plan.Policy, o, p
		u.extendDeadline(ioTimeout)
		unitCtx, cancel := context.WithCancel(ctx)
		u.cancel = cancel
		go func() { answers <- answer{u, u.run(unitCtx)} }()
	}
	results := slices.Concat(s.results, await(ctx, s.units, answers))
	slices.SortStableFunc(results, func(x, y result) int { return cmp.Compare(x.Name, y.Name) })
	out := make([]agent.ErasedDisk, 0, len(results))
	for _, r := range results {
		printable.Clean(&r.ErasedDisk, maxText, maxWarnings)
		out = append(out, r.ErasedDisk)
		if o.Log != nil {
			o.Log.Info("A disk of the plan", "disk", r.Name, "serial", r.Disk.SerialNumber, "outcome", string(r.Outcome), "method", r.Method, "message", r.Message)
		}
	}
	return out, failureOf(results)
}

const (
	// maxText and maxWarnings bound what a disk has in a result: the boot server takes 512 bytes.
	maxText     = 512
	maxWarnings = 16
)

type answer struct {
	unit    *unit
	results []result
}

// await collects the answers. A unit that hangs, or that has no answer at the end of ctx, has failed.
func await(ctx context.Context, units []*unit, answers <-chan answer) []result {
	var results []result
	waiting := slices.Clone(units)
	give := func(u *unit, why string) {
		waiting = slices.DeleteFunc(waiting, func(w *unit) bool { return w == u })
		results = append(results, u.abandoned(why)...)
	}
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			if slices.Contains(waiting, a.unit) {
				waiting = slices.DeleteFunc(waiting, func(w *unit) bool { return w == a.unit })
				results = append(results, a.results...)
			}
		case <-ticker.C:
			for _, u := range slices.Clone(waiting) {
				if overdue := u.overdue(); overdue > 0 {
					give(u, fmt.Sprintf("it has not answered for too long (%s more than it may take): replace it", overdue.Round(time.Second)))
				}
			}
		case <-ctx.Done():
			for _, u := range slices.Clone(waiting) {
				give(u, fmt.Sprintf("it was not erased in time: %v", context.Cause(ctx)))
			}
		}
	}
	return results
}

// result is what became of a disk, with the reason of a failure.
type result struct {
	agent.ErasedDisk

	// reason is one of wire.AgentFailureReasons, empty for ReasonEraseFailed.
	reason string
}

// maxMessage is the maximum number of disks in a message.
const maxMessage = 16

// failureOf returns one failure for all disks that failed, or nil. A plan that must not be carried out comes before a disk that failed.
func failureOf(results []result) *agent.Failure {
	order := []string{wire.ReasonPlanInvalid, wire.ReasonDiskProtected, wire.ReasonDiskBusy, wire.ReasonEraseFailed}
	worst := len(order)
	var messages []string
	for _, r := range results {
		if r.Outcome != agent.Failed {
			continue
		}
		worst = min(worst, slices.Index(order, cmp.Or(r.reason, wire.ReasonEraseFailed)))
		messages = append(messages, fmt.Sprintf("%s: %s", describe(r.Name, r.Disk), r.Message))
	}
	if len(messages) == 0 {
		return nil
	}
	if more := len(messages) - maxMessage; more > 0 {
		messages = append(messages[:maxMessage], fmt.Sprintf("and %d more disks", more))
	}
	return &agent.Failure{Reason: order[worst], Message: strings.Join(messages, "; ")}
}

// describe returns how messages name a disk: always with its serial number, if it has one.
func describe(name string, id wire.DiskIdentity) string {
	known := fmt.Sprintf("path %.128q", id.ByPath)
	switch {
	case id.SerialNumber != "":
		known = fmt.Sprintf("serial number %.64q", id.SerialNumber)
	case id.WWN != "":
		known = fmt.Sprintf("WWN %.64q", id.WWN)
	}
	if name == "" {
		return fmt.Sprintf("the disk with the %s and %d bytes", known, id.SizeBytes)
	}
	return fmt.Sprintf("disk %.32s (%s)", name, known)
}

// identify returns the part of a result that is known before the disk is erased.
func identify(d disk.Disk) wire.DiskErasure {
	return wire.DiskErasure{Disk: d.ID(), Name: d.Name, Model: d.Model, Vendor: d.Vendor, FirmwareVersion: d.FirmwareVersion, Transport: d.Transport}
}
