package sanitize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/method"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// unit is a drive with its disks: one, or the namespaces of an NVMe drive.
type unit struct {
	key     string
	targets []*target
	// spared are the disks of the drive that are not erased.
	spared []disk.Disk

	policy agent.CleanPolicy
	o      Options
	board  *board
	drive  drive.Drive
	facts  drive.Facts
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
	result   Result
	warnings []string
	tried    []error
}

// ioPatience is how long a read, a write or a flush of at most a MiB may take: the kernel resets a drive that does not answer, and tries again.
const ioPatience = 10 * time.Minute

// beat says that the drive has answered, and how long the next answer may take.
func (u *unit) beat(patience time.Duration) { u.deadline.Store(time.Now().Add(patience).UnixNano()) }

// late is by how much the answer is too late.
func (u *unit) late() time.Duration { return time.Since(time.Unix(0, u.deadline.Load())) }

// abandoned ends a unit that does not answer, so that it does nothing more when it answers late. Its results have nothing that its goroutine may still change.
func (u *unit) abandoned(why string) []Result {
	u.cancel()
	var out []Result
	for _, t := range u.targets {
		u.board.done(t.disk)
		out = append(out, failed(Identify(t.disk), "", why))
	}
	return out
}

// run erases the drive.
func (u *unit) run(ctx context.Context) []Result {
	for _, t := range u.targets {
		t.started = time.Now().UTC()
	}
	if err := failure.Protect(func() error { return u.erase(ctx) }); err != nil {
		for _, t := range u.open() {
			t.fail(err)
		}
	}
	var out []Result
	for _, t := range u.targets {
		t.result.StartedAt, t.result.EndedAt = t.started, time.Now().UTC()
		t.result.Warnings = append(slices.Clone(u.facts.Warnings), t.warnings...)
		u.board.done(t.disk)
		out = append(out, t.result)
	}
	return out
}

// open are the targets without a result.
func (u *unit) open() []*target {
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
		reason = agent.ReasonDiskBusy
	}
	t.result = failed(Identify(t.disk), reason, err.Error())
}

func (t *target) warnf(format string, args ...any) {
	t.warnings = append(t.warnings, fmt.Sprintf(format, args...))
}

// erase erases the open targets. An error is that of all that are still open.
func (u *unit) erase(ctx context.Context) error {
	running, err := u.prepare(ctx)
	if err != nil {
		return err
	}
	u.narrow()
	if running != "" && u.resumed(ctx, running) {
		return nil
	}
	if !u.destroyed {
		u.removeBootstrapData(ctx)
		u.sample(ctx)
		u.narrow()
	}
	if len(u.open()) == 0 {
		return nil
	}
	candidates, refused := method.Choose(u.policy, u.facts)
	if len(candidates) == 0 {
		return fmt.Errorf("the policy %s cannot be met on this disk: %s", u.policy, strings.Join(refused, "; "))
	}
	for _, t := range u.open() {
		t.warnings = append(t.warnings, refused...)
	}
	return u.try(ctx, candidates)
}

// resumed accepts a sanitize operation that was in progress at the start, and is complete, as the erase of this plan: if it meets the policy, and has left
// nothing but blanks. There are no samples of before it that would prove more, so anything else is erased again.
func (u *unit) resumed(ctx context.Context, running drive.Command) bool {
	candidates, _ := method.Choose(u.policy, u.facts)
	at := slices.IndexFunc(candidates, func(c method.Candidate) bool { return c.Command == running })
	if at < 0 {
		return false
	}
	found := map[*target]agent.Verification{}
	for _, t := range u.open() {
		after, size, err := u.samplesAfter(ctx, t)
		if err != nil {
			return false
		}
		v, err := Judge(candidates[at].Expect, nil, after, u.facts.MayNotRead)
		if err != nil || v.Blank < v.Samples {
			return false
		}
		v.Bytes = int64(v.Samples) * size
		found[t] = v
	}
	for t, v := range found {
		t.erased(candidates[at], v, nil)
	}
	return true
}

// narrow leaves out the targets that have failed: the commands that follow must not reach them.
func (u *unit) narrow() {
	if open := u.open(); len(open) < u.probed && len(open) > 0 {
		for _, t := range u.targets {
			if t.result.Outcome != "" && !slices.ContainsFunc(u.spared, func(d disk.Disk) bool { return d.Name == t.disk.Name }) {
				u.spared = append(u.spared, t.disk)
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
		if len(u.open()) > 0 {
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
	for _, t := range u.open() {
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
	for _, t := range u.open() {
		u.beat(ioPatience)
		again := u.o.Contents(ctx, t.disk)
		switch r := Decide(again, u.o.all, u.o.plan); {
		case r.Outcome != "":
			t.result, t.warnings = r, append(t.warnings, r.Warnings...)
		case again.Unreadable != "":
			t.failUnreadable(again.Unreadable)
		}
	}
}

// probe asks the drive about the open targets. A drive that does not answer commands is overwritten. An NVMe drive is not: it may have namespaces that this server does
// not see.
func (u *unit) probe() {
	open := u.open()
	first := open[0].disk
	u.probed = len(open)
	u.drive = drive.Drive{Kind: drive.Block, Port: u.o.Port(first)}
	if u.drive.Port != nil {
		u.drive.Kind = drive.KindOf(first.Transport)
	}
	for _, t := range open[1:] {
		u.drive.Others = append(u.drive.Others, u.o.Port(t.disk))
	}
	for _, d := range u.spared {
		u.drive.Spared = append(u.drive.Spared, u.o.Port(d))
	}
	u.beat(probePatience)
	facts, err := u.drive.Probe(first.Rotational)
	u.beat(ioPatience)
	if err != nil {
		facts = drive.Facts{Kind: drive.Block, Rotational: first.Rotational, Commands: []drive.Command{drive.Overwrite}}
		facts.Warnings = []string{fmt.Sprintf("it does not answer the commands by which a drive is erased: %v", err)}
		if u.drive.Kind == drive.NVMe {
			facts.Commands = nil
		}
	}
	facts.KeptPart = len(u.spared) > 0
	u.facts = facts
}

// probePatience is how long a drive may take for all questions: each has a timeout of its own.
const probePatience = 15 * time.Minute

// try tries the candidates in their order, until each target has a result. The error is that of the targets that have none: all that was tried.
func (u *unit) try(ctx context.Context, candidates []method.Candidate) error {
	for _, c := range candidates {
		if len(u.open()) == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.Command == drive.Overwrite {
			u.overwriteAll(ctx, c)
			continue
		}
		err := u.drive.Erase(ctx, c.Command, u.facts, u.watch(c.Name))
		if err == nil {
			u.verify(ctx, c)
			return nil
		}
		for _, t := range u.open() {
			t.failedBy(c, err)
		}
	}
	for _, t := range u.open() {
		t.fail(errors.Join(t.tried...))
	}
	return nil
}

// failedBy records a method that failed. If another one succeeds, it is a warning.
func (t *target) failedBy(c method.Candidate, err error) {
	t.tried = append(t.tried, fmt.Errorf("%s: %w", c.Name, err))
	t.warnf("%s was tried: %v", c.Name, err)
}

// watch returns the watcher of a method.
func (u *unit) watch(name string) drive.Watcher {
	started := time.Now()
	return func(percent int, patience time.Duration) {
		u.beat(patience)
		for _, t := range u.targets {
			u.board.set(progressOf(t.disk, name, percent, started))
		}
	}
}

// erased sets the result of a target by its verification.
func (t *target) erased(c method.Candidate, v agent.Verification, err error) {
	t.result = Result{ErasedDisk: Identify(t.disk)}
	t.result.Outcome, t.result.Method, t.result.Class, t.result.Basis, t.result.Verification = agent.Erased, c.Name, c.Class, c.Basis, &v
	if err != nil || !v.Passed {
		v.Passed = false
		t.result.Outcome = agent.Failed
		t.result.Message = fmt.Sprintf("the verification of %s did not pass: %v", c.Name, err)
	}
}
