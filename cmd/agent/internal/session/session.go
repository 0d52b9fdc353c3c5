// Package session is a boot of the agent: it asks the boot server for the plan, has it carried out, and reports its end.
package session

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Server is the boot server: bootclient.Client implements it. Each request waits for the network for a bounded time, and returns when its context ends.
type Server interface {
	// Plan asks for the plan.
	Plan(ctx context.Context, hello agent.Hello) (*agent.Plan, error)
	// Progress reports progress.
	Progress(ctx context.Context, p agent.Progress) error
	// Result reports the end of the plan, and returns what follows.
	Result(ctx context.Context, r agent.Result) (agent.Answer, error)
}

// Runner carries out the plans of one purpose. report never blocks, and reports that come too fast are dropped. Run returns when ctx ends.
type Runner interface {
	Run(ctx context.Context, plan *agent.Plan, report func(agent.Progress)) agent.Result
}

// RunnerFunc is a function that is a Runner.
type RunnerFunc func(ctx context.Context, plan *agent.Plan, report func(agent.Progress)) agent.Result

// Run implements Runner.
func (f RunnerFunc) Run(ctx context.Context, plan *agent.Plan, report func(agent.Progress)) agent.Result {
	return f(ctx, plan, report)
}

const (
	// progressEvery is the shortest time between progress requests.
	progressEvery = 5 * time.Second
	// reportFor is how long the end of the plan is reported to a boot server that does not answer. Then the server boots its disk if that is complete, and is
	// powered off otherwise: the provider notices by the boot's deadline.
	reportFor = 10 * time.Minute
)

// Session is a boot.
type Session struct {
	Server  Server
	Hello   agent.Hello
	Runners map[agent.Purpose]Runner
	Log     *slog.Logger
	// Tail returns the end of the log.
	Tail func() string
}

// Run carries the boot out. It waits for the boot server without a limit, until ctx ends: the provider powers the server off. The error says why there was no
// plan, or why its result was not accepted; what follows is then to power off.
func (s *Session) Run(ctx context.Context) (agent.Next, error) {
	plan, err := s.plan(ctx)
	switch {
	case failure.HasReason(err, wire.ReasonOtherServer):
		s.Log.Error("The server restarts: the boot is another server's", "error", err)
		return agent.Reboot, nil
	case err != nil:
		return agent.PowerOff, fmt.Errorf("get the plan: %w", err)
	}
	s.Log.Info("Got the plan", "purpose", string(plan.Purpose), "title", plan.Title)
	result := s.carryOut(ctx, plan)
	if result.Failure != nil {
		s.Log.Error("The plan failed", "reason", result.Failure.Reason, "message", result.Failure.Message)
	} else {
		s.Log.Info("The plan succeeded")
	}
	limit := reportFor
	if plan.Purpose == agent.Clean { // which took hours: the provider powers the server off when the time of the boot is over
		limit = 0
	}
	next, err := s.report(ctx, result, limit)
	switch {
	case err != nil && !retry.IsFinal(err) && result.Written != nil && result.Written.Committed:
		s.Log.Error("The boot server does not answer, and the disk is complete: the server boots it", "error", err)
		return agent.Reboot, nil
	case err != nil:
		return agent.PowerOff, fmt.Errorf("report the result: %w", err)
	}
	s.Log.Info("The boot server accepted the result", "next", string(next))
	return next, nil
}

func (s *Session) plan(ctx context.Context) (*agent.Plan, error) {
	var plan *agent.Plan
	err := s.repeat(ctx, "the plan", func(ctx context.Context) (err error) {
		plan, err = s.Server.Plan(ctx, s.Hello)
		return err
	})
	return plan, err
}

// repeat makes a request until it succeeds, cannot succeed any more, or ctx ends.
func (s *Session) repeat(ctx context.Context, what string, request func(context.Context) error) error {
	b := retry.Backoff{Forever: true, Repeats: func(err error, delay time.Duration) {
		s.Log.Warn("A request failed and is repeated", "request", what, "after", delay.String(), "error", err)
	}}
	return b.Do(ctx, request)
}

// carryOut runs the plan. A panic is a failure of the plan.
func (s *Session) carryOut(ctx context.Context, plan *agent.Plan) (result agent.Result) {
	if problem := s.otherServer(plan); problem != "" {
		return failed(wire.ReasonOtherServer, problem)
	}
	runner := s.Runners[plan.Purpose]
	if runner == nil {
		return failed(wire.ReasonPlanInvalid, fmt.Sprintf("this agent cannot carry out plans for the purpose %.40q", string(plan.Purpose)))
	}
	ctx, cancel := context.WithCancel(ctx)
	progress := make(chan agent.Progress, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.sendProgress(ctx, progress)
	}()
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("The plan panicked: this is a bug", "panic", p, "stack", string(debug.Stack()))
			result = failed(wire.ReasonAgentPanicked, fmt.Sprintf("the agent panicked, which is a bug: %v", p))
		}
		cancel()
		<-done
	}()
	return runner.Run(ctx, plan, func(p agent.Progress) { offer(progress, p) })
}

// offer replaces what waits in a channel.
func offer(progress chan agent.Progress, p agent.Progress) {
	select {
	case <-progress:
	default:
	}
	select {
	case progress <- p:
	default: // another report was faster
	}
}

// otherServer says why a plan is another server's; empty if it is not, as far as that is known. The boot server compares, too: neither relies on the other.
func (s *Session) otherServer(plan *agent.Plan) string {
	expected, found := inventory.ServerID(plan.Server), inventory.ServerID(s.Hello.Server)
	if plan.Purpose == agent.Inspect || expected.Compare(found) != inventory.OtherServer {
		return ""
	}
	return inventory.DescribeOtherServer(expected, found)
}

func failed(reason, message string) agent.Result {
	return agent.Result{Failure: &agent.Failure{Reason: reason, Message: message}}
}

// sendProgress sends reports until ctx ends. One that fails is dropped: the next one says more.
func (s *Session) sendProgress(ctx context.Context, progress <-chan agent.Progress) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-progress:
			if err := s.Server.Progress(ctx, p); err != nil && ctx.Err() == nil {
				s.Log.Warn("Failed to report progress", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(progressEvery):
		}
	}
}

// bounded leaves the log, and then the warnings of disks, out of a result that is larger than the boot server accepts: without a result nobody would know what failed.
func bounded(result agent.Result) agent.Result {
	fits := func() bool {
		encoded, err := json.Marshal(result)
		return err != nil || len(encoded) <= agent.MaxBody // the client reports the error
	}
	if fits() {
		return result
	}
	if result.Log = ""; fits() {
		return result
	}
	result.Disks = slices.Clone(result.Disks)
	for i := range result.Disks {
		result.Disks[i].Warnings = nil
	}
	return result
}

// report reports the result. A limit of 0 means no limit.
func (s *Session) report(ctx context.Context, result agent.Result, limit time.Duration) (agent.Next, error) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	answer := agent.Answer{}
	err := s.repeat(ctx, "the result", func(ctx context.Context) (err error) {
		result.Log = s.Tail()
		answer, err = s.Server.Result(ctx, bounded(result))
		return err
	})
	return answer.Next, err
}
