package session

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/bootclient"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/agenttest"
)

func newSession(t *testing.T, boots *agenttest.Server, run RunnerFunc) *Session {
	t.Helper()
	boots.Host, boots.Token = "default/host-1", "t"
	web := httptest.NewServer(boots)
	t.Cleanup(web.Close)
	client, err := bootclient.New(bootclient.Config{URL: web.URL, Host: boots.Host, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return &Session{
		Server:  client,
		Runners: map[agent.Purpose]Runner{agent.Inspect: run}, Log: slog.New(slog.DiscardHandler), Tail: func() string { return "the log" },
	}
}

func TestRun(t *testing.T) {
	g := NewWithT(t)
	var failures atomic.Int32
	boots := &agenttest.Server{Plan: agent.Plan{Purpose: agent.Inspect, Title: "x"}, Next: agent.Reboot, NotYet: 1, Fail: func(endpoint string) int {
		if endpoint != agent.EndpointProgress && failures.Add(1)%2 == 1 {
			return 503
		}
		return 0
	}}
	s := newSession(t, boots, func(_ context.Context, plan *agent.Plan, report func(agent.Progress)) agent.Result {
		for i := range int64(1000) { // it never blocks
			report(agent.Progress{Step: wire.StepReading, Done: i})
		}
		NewWithT(t).Eventually(func() int { return len(boots.Requests(agent.EndpointProgress)) }).Should(BeNumerically(">=", 1))
		return agent.Result{Warnings: []string{plan.Title}}
	})
	next, err := s.Run(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(next).To(Equal(agent.Reboot))
	g.Expect(boots.Result()).To(Equal(&agent.Result{Warnings: []string{"x"}, Log: "the log"}))
}

// TestRunFails: a plan that nobody can carry out, or that panics, is reported as failed.
func TestRunFails(t *testing.T) {
	for _, c := range []struct {
		purpose agent.Purpose
		reason  string
		want    string
	}{{agent.Clean, wire.ReasonPlanInvalid, "cannot carry out"}, {agent.Inspect, wire.ReasonAgentPanicked, "a defect"}} {
		boots := &agenttest.Server{Plan: agent.Plan{Purpose: c.purpose}, Next: agent.Wait}
		s := newSession(t, boots, func(context.Context, *agent.Plan, func(agent.Progress)) agent.Result { panic("a defect") })
		next, err := s.Run(t.Context())
		if err != nil || next != agent.Wait || boots.Result().Failure == nil || boots.Result().Failure.Reason != c.reason || !strings.Contains(boots.Result().Failure.Message, c.want) {
			t.Errorf("%s: %v %v %+v", c.purpose, next, err, boots.Result())
		}
	}
}

// TestLargeResult: a result that is larger than the boot server accepts loses its log, and then the warnings of the disks, and arrives.
func TestLargeResult(t *testing.T) {
	for name, c := range map[string]struct {
		warning       string
		log, warnings int
	}{
		"small":       {warning: "w", log: agent.MaxLog, warnings: 16},
		"no log":      {warning: strings.Repeat("w", 210), warnings: 16},
		"no warnings": {warning: strings.Repeat("w", 512)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			result := agent.Result{Failure: &agent.Failure{Reason: wire.ReasonEraseFailed, Message: "it is frozen"}}
			for range agent.MaxErasedDisks {
				result.Disks = append(result.Disks, agent.ErasedDisk{DiskErasure: wire.DiskErasure{
					Outcome: agent.Failed, Message: strings.Repeat("m", 512), Warnings: slices.Repeat([]string{c.warning}, 16),
				}})
			}
			boots := &agenttest.Server{Plan: agent.Plan{Purpose: agent.Inspect}, Next: agent.Wait}
			s := newSession(t, boots, func(context.Context, *agent.Plan, func(agent.Progress)) agent.Result { return result })
			s.Tail = func() string { return strings.Repeat("l", agent.MaxLog) }
			next, err := s.Run(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(next).To(Equal(agent.Wait))
			got := boots.Result()
			g.Expect(got.Failure).To(Equal(result.Failure))
			g.Expect(got.Disks).To(HaveLen(agent.MaxErasedDisks))
			g.Expect(got.Log).To(HaveLen(c.log))
			g.Expect(got.Disks[0].Warnings).To(HaveLen(c.warnings))
			g.Expect(result.Disks[0].Warnings).To(HaveLen(16), "the result of the plan is not changed")
		})
	}
}

// TestRunEnds: after these answers the agent asks no more.
func TestRunEnds(t *testing.T) {
	for code, want := range map[int]string{401: "the boot is over", 403: "refuses", 409: "version"} {
		for _, failed := range []string{agent.EndpointPlan, agent.EndpointResult} {
			boots := &agenttest.Server{Plan: agent.Plan{Purpose: agent.Clean}, Fail: func(endpoint string) int {
				if endpoint == failed {
					return code
				}
				return 0
			}}
			next, err := newSession(t, boots, nil).Run(t.Context())
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(want)))
			NewWithT(t).Expect(next).To(Equal(agent.PowerOff))
		}
	}
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	boots := &agenttest.Server{Fail: func(string) int { return 500 }}
	_, err := newSession(t, boots, nil).Run(ctx)
	NewWithT(t).Expect(err).To(MatchError(context.DeadlineExceeded))
}

// TestOtherServer: an agent carries out no plan for another server, whether the boot server notices or the agent itself, and its server returns to its own system. What
// is unknown, and an inspection, stop nothing.
func TestOtherServer(t *testing.T) {
	mine := agent.Server{SystemUUID: "4c4c4544-0042-3510-8053-b4c04f4d3132", SerialNumber: "S1"}
	for name, c := range map[string]struct {
		purpose  agent.Purpose
		expected agent.Server
		refuses  bool
		runs     bool
	}{
		"mine":                      {purpose: agent.Clean, expected: mine, runs: true},
		"mine, in other byte order": {purpose: agent.Clean, expected: agent.Server{SystemUUID: "44454c4c-4200-1035-8053-b4c04f4d3132"}, runs: true},
		"unknown":                   {purpose: agent.Clean, runs: true},
		"erases another":            {purpose: agent.Clean, expected: agent.Server{SerialNumber: "S2"}},
		"writes another":            {purpose: agent.Provision, expected: agent.Server{SerialNumber: "S2"}},
		"reads another":             {purpose: agent.Inspect, expected: agent.Server{SerialNumber: "S2"}, runs: true},
		"the boot server notices":   {purpose: agent.Clean, refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			boots := &agenttest.Server{Plan: agent.Plan{Purpose: c.purpose, Server: c.expected}, Next: agent.Reboot}
			if c.refuses {
				boots.Refusal = &agent.Error{Reason: wire.ReasonOtherServer, Message: "S1, and not S2"}
			}
			ran := false
			s := newSession(t, boots, func(context.Context, *agent.Plan, func(agent.Progress)) agent.Result {
				ran = true
				return agent.Result{}
			})
			s.Runners[agent.Clean], s.Runners[agent.Provision], s.Hello.Server = s.Runners[agent.Inspect], s.Runners[agent.Inspect], mine
			next, err := s.Run(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(next).To(Equal(agent.Reboot))
			g.Expect(ran).To(Equal(c.runs))
			if !c.runs && !c.refuses {
				g.Expect(boots.Result().Failure.Reason).To(Equal(wire.ReasonOtherServer))
				g.Expect(boots.Result().Failure.Message).To(And(ContainSubstring("S1"), ContainSubstring("S2")))
			}
		})
	}
}
