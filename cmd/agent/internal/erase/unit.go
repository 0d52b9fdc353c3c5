package erase

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// unit is a drive with its disks: one, or the namespaces of an NVMe drive.
type unit struct {
	key     string
	targets []*target
	// excluded are the disks of the drive that are not erased.
	excluded []disk.Disk

	policy   wire.ErasePolicy
	o        Options
	progress *progress
	drive    drive.Drive
	facts    drive.Facts
	// destroyed is true if the data is no longer accessible: a sanitize operation has failed.
	destroyed bool
	// probed is how many targets the drive was asked about.
	probed   int
	deadline atomic.Int64
	// cancel ends the context of run.
	cancel context.CancelFunc
}

// target is a disk that is erased.
type target struct {
	disk    disk.Disk
	ranges  []area
	before  []sample
	started time.Time
	// result is empty while it is unknown.
	result   result
	warnings []string
	tried    []error
}

// ioTimeout is how long a read, a write or a flush of at most a MiB may take: the kernel resets a drive that does not answer, and tries again.
const ioTimeout = 10 * time.Minute

// extendDeadline records that the drive has answered, and that its next answer must come within a time.
func (u *unit) extendDeadline(within time.Duration) {
	u.deadline.Store(time.Now().Add(within).UnixNano())
}

// overdue returns how long ago the deadline passed. It is negative before the deadline.
func (u *unit) overdue() time.Duration { return time.Since(time.Unix(0, u.deadline.Load())) }

// abandoned ends a unit that does not answer: a late answer then has no effect. It makes new results, because the goroutine of the unit may still change those of the
// targets.
func (u *unit) abandoned(why string) []result {
	u.cancel()
	var out []result
	for _, t := range u.targets {
		u.progress.done(t.disk)
		out = append(out, failed(identify(t.disk), "", why))
	}
	return out
}

// run erases the drive.
func (u *unit) run(ctx context.Context) []result {
	for _, t := range u.targets {
		t.started = time.Now().UTC()
	}
	if err := failure.Protect(func() error { return u.erase(ctx) }); err != nil {
		for _, t := range u.pending() {
			t.fail(err)
		}
	}
	var out []result
	for _, t := range u.targets {
		t.result.StartTime, t.result.EndTime = t.started, time.Now().UTC()
		t.result.Warnings = append(slices.Clone(u.facts.Warnings), t.warnings...)
		u.progress.done(t.disk)
		out = append(out, t.result)
	}
	return out
}

// pending are the targets without a result.
func (u *unit) pending() []*target {
	var out []*target
	for _, t := range u.targets {
		if t.result.Outcome == "" {
			out = append(out, t)
		}
	}
	return out
}

func (t *target) fail(err error) {
	reason := ""
	if errors.Is(err, disk.ErrBusy) {
		reason = wire.ReasonDiskBusy
	}
	t.result = failed(identify(t.disk), reason, err.Error())
}

func (t *target) warnf(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

// erase erases the pending targets. An error is the error of all targets that are still pending.
func (u *unit) erase(ctx context.Context) error {
	if u.policy == wire.PolicyMetadata { // which sends no command to the drive
		u.overwriteAll(ctx, metadataMethod)
		return u.allTried()
	}
	running, err := u.prepare(ctx)
	if err != nil {
		return err
	}
	u.excludeFailed()
	if running != "" && u.resumed(ctx, running) {
		return nil
	}
	if !u.destroyed {
		u.removeBootstrapData(ctx)
		u.sample(ctx)
		u.excludeFailed()
	}
	if len(u.pending()) == 0 {
		return nil
	}
	methods, refused := choose(u.policy, u.facts)
	if len(methods) == 0 {
		return fmt.Errorf("the policy %s cannot be met on this disk: %s", u.policy, strings.Join(refused, "; "))
	}
	for _, t := range u.pending() {
		t.warnings = append(t.warnings, refused...)
	}
	return u.try(ctx, methods)
}

// resumed is true if a sanitize operation that was in progress at the start counts as the erasure of this plan. It must meet the policy, and all samples must be blank
// after it: no samples were read before it that could prove a change. Otherwise the targets are erased again.
func (u *unit) resumed(ctx context.Context, running drive.Command) bool {
	methods, _ := choose(u.policy, u.facts)
	at := slices.IndexFunc(methods, func(m Method) bool { return m.Command == running })
	if at < 0 {
		return false
	}
	found := map[*target]wire.ErasureVerification{}
	for _, t := range u.pending() {
		after, size, err := u.samplesAfter(ctx, t)
		if err != nil {
			return false
		}
		v, err := judge(methods[at].Expect, nil, after, u.facts.MayNotRead)
		if err != nil || v.Blank < v.Samples {
			return false
		}
		v.Bytes = int64(v.Samples) * size
		found[t] = v
	}
	for t, v := range found {
		t.erased(methods[at], v, nil)
	}
	return true
}

// excludeFailed excludes the targets that have failed: the commands that follow must not reach them.
func (u *unit) excludeFailed() {
	if open := u.pending(); len(open) < u.probed && len(open) > 0 {
		for _, t := range u.targets {
			if t.result.Outcome != "" && !slices.ContainsFunc(u.excluded, func(d disk.Disk) bool { return d.Name == t.disk.Name }) {
				u.excluded = append(u.excluded, t.disk)
			}
		}
		u.probe()
	}
}

// prepare asks the drive and brings it into a state in which it can be erased. It returns the sanitize command that was in progress and is now complete.
func (u *unit) prepare(ctx context.Context) (drive.Command, error) {
	u.probe()
	switch {
	case ctx.Err() != nil: // it was given up meanwhile
		return "", context.Cause(ctx)
	case u.facts.Locked:
		if err := u.drive.Unlock(); err != nil {
			return "", err
		}
		for _, t := range u.targets {
			t.warnf("it was locked by the password of an erase that was cut off, and is unlocked")
		}
		u.recheck(ctx)
		if len(u.pending()) > 0 {
			u.probe()
		}
		return "", nil
	case u.facts.Sanitizing:
		running := u.facts.Running
		for _, t := range u.targets {
			t.warnf("a sanitize operation was in progress, and was awaited")
		}
		err := u.drive.Await(ctx, u.watch("sanitize operation in progress"))
		if err != nil && !errors.Is(err, drive.ErrFailureMode) {
			return "", err
		}
		if err != nil {
			running, u.destroyed = "", true
		}
		u.probe()
		return running, nil
	case u.facts.FailureMode:
		u.destroyed = true
		return "", nil
	default:
		u.unreadable()
		return "", nil
	}
}

// unreadable fails what cannot be read: it might be kept, or be in use by other servers.
func (u *unit) unreadable() {
	for _, t := range u.pending() {
		if t.disk.Unreadable != "" {
			t.failUnreadable(t.disk.Unreadable)
		}
	}
}

func (t *target) failUnreadable(why string) {
	t.fail(errors.New("what is on it is unknown, so it might be one that is kept: " + why + ": erase or replace it"))
}

// recheck decides again about disks that could not be read before. It does not change them: abandoned reads them in another goroutine.
func (u *unit) recheck(ctx context.Context) {
	for _, t := range u.pending() {
		u.extendDeadline(ioTimeout)
		again := u.o.Contents(ctx, t.disk)
		switch r := decide(again, u.o.all, u.o.plan); {
		case r.Outcome != "":
			t.result, t.warnings = r, append(t.warnings, r.Warnings...)
		case again.Unreadable != "":
			t.failUnreadable(again.Unreadable)
		}
	}
}

// probe asks the drive about the pending targets. A drive that does not answer commands is overwritten. An NVMe drive is not: it may have namespaces that this server does
// not see.
func (u *unit) probe() {
	open := u.pending()
	first := open[0].disk
	u.probed = len(open)
	u.drive = drive.Drive{Kind: drive.Block, Port: u.o.Port(first)}
	if u.drive.Port != nil {
		u.drive.Kind = drive.KindOf(first.Transport)
	}
	for _, t := range open[1:] {
		u.drive.Others = append(u.drive.Others, u.o.Port(t.disk))
	}
	for _, d := range u.excluded {
		u.drive.Excluded = append(u.drive.Excluded, u.o.Port(d))
	}
	u.extendDeadline(probeTimeout)
	facts, err := u.drive.Probe(first.Rotational)
	u.extendDeadline(ioTimeout)
	if err != nil {
		facts = drive.Facts{Kind: drive.Block, Rotational: first.Rotational, Commands: []drive.Command{drive.Overwrite}}
		facts.Warnings = []string{fmt.Sprintf("it does not answer the commands by which a drive is erased: %v", err)}
		if u.drive.Kind == drive.NVMe {
			facts.Commands = nil
		}
	}
	facts.ExcludesPart = len(u.excluded) > 0
	u.facts = facts
}

// probeTimeout is how long a drive may take for all questions: each has a timeout of its own.
const probeTimeout = 15 * time.Minute

// try tries the methods in their order, until each target has a result. A target without a result fails with all that was tried.
func (u *unit) try(ctx context.Context, methods []Method) error {
	for _, m := range methods {
		if len(u.pending()) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if m.Command == drive.Overwrite {
			u.overwriteAll(ctx, m)
			continue
		}
		err := u.drive.Erase(ctx, m.Command, u.facts, u.watch(m.Name))
		if err == nil {
			u.verify(ctx, m)
			return nil
		}
		for _, t := range u.pending() {
			t.failedBy(m, err)
		}
	}
	return u.allTried()
}

// allTried fails the pending targets with what was tried.
func (u *unit) allTried() error {
	for _, t := range u.pending() {
		t.fail(errors.Join(t.tried...))
	}
	return nil
}

// failedBy records a method that failed. If another one succeeds, it is a warning.
func (t *target) failedBy(m Method, err error) {
	t.tried = append(t.tried, fmt.Errorf("%s: %w", m.Name, err))
	t.warnf("%s was tried: %v", m.Name, err)
}

// watch returns the watcher of a method.
func (u *unit) watch(name string) drive.Watcher {
	started := time.Now()
	return func(percent int, within time.Duration) {
		u.extendDeadline(within)
		for _, t := range u.targets {
			u.progress.set(progressOf(t.disk, name, percent, started))
		}
	}
}

// erased sets the result of a target by its verification.
func (t *target) erased(m Method, v wire.ErasureVerification, err error) {
	t.result = result{ErasedDisk: agent.ErasedDisk{DiskErasure: identify(t.disk)}}
	t.result.Outcome, t.result.Method, t.result.Class, t.result.Basis, t.result.Verification = wire.Erased, m.Name, m.Class, m.Basis, &v
	if err != nil || !v.Passed {
		v.Passed = false
		t.result.Outcome = agent.Failed
		t.result.Message = fmt.Sprintf("the verification of %s did not pass: %v", m.Name, err)
	}
}
