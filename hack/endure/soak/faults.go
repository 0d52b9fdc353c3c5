package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
)

// breakBMCs makes BMCs misbehave until ctx ends: one after the other, each for a while.
func (s *soak) breakBMCs(ctx context.Context) {
	pause := min(5*time.Second, 600*time.Second/time.Duration(s.direct+s.whole)) // one fault for each host in ten minutes
	var names []bmctest.Fault
	for name := range bmctest.Faults {
		names = append(names, name)
	}
	slices.Sort(names)
	for ctx.Err() == nil {
		h := s.hosts[s.misbehave.IntN(len(s.hosts))]
		var fit []bmctest.Fault
		for _, name := range names {
			if info := bmctest.Faults[name]; strings.HasPrefix(h.BMC, "ipmi") && info.IPMI || !strings.HasPrefix(h.BMC, "ipmi") && info.Redfish {
				fit = append(fit, name)
			}
		}
		fault, lasts := fit[s.misbehave.IntN(len(fit))], time.Duration(2+s.misbehave.IntN(14))*time.Second
		s.mu.Lock()
		taken := h.faulty
		s.mu.Unlock()
		if !taken && !s.controlPlane(h) {
			s.breakBMC(ctx, h, fault, lasts)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// fault switches a fault of a BMC on, until the returned function is called.
func (s *soak) fault(h *host, fault bmctest.Fault) (over func()) {
	s.mu.Lock()
	h.faulty = true
	s.mu.Unlock()
	ended := s.checker.Fault(h.id(), string(fault))
	_ = h.Misbehave(fault, -1) // the fault exists
	s.report.injected("BMC " + string(fault))
	return func() {
		_ = h.Misbehave(fault, 0)
		ended()
		s.mu.Lock()
		h.faulty = false
		s.mu.Unlock()
	}
}

// breakBMC makes a BMC misbehave for a while, and measures the time until the provider reports that the BMC has recovered.
func (s *soak) breakBMC(ctx context.Context, h *host, fault bmctest.Fault, lasts time.Duration) {
	over := s.fault(h, fault)
	s.task("fault "+h.Name, func() error {
		time.Sleep(lasts) // the duration of the fault
		over()
		start := time.Now()
		for !bmcReady(s.checker.Host(h.id())) {
			if time.Sleep(200 * time.Millisecond); time.Since(start) > 5*time.Minute { // polling interval
				return fmt.Errorf("the BMC of %s is not ready %s after the fault %s", h.Name, time.Since(start), fault)
			}
			if s.checker.Host(h.id()) == nil || ctx.Err() != nil && time.Since(start) > time.Minute {
				return nil
			}
		}
		s.report.recovered("BMC "+string(fault), time.Since(start))
		return nil
	})
}

func bmcReady(h *v1alpha1.BareMetalHost) bool {
	if h == nil {
		return false
	}
	for _, c := range h.Status.Conditions {
		if c.Type == v1alpha1.BMCReadyCondition {
			return c.Status == "True"
		}
	}
	return false
}

// disturbance is a fault of the whole plane.
type disturbance struct {
	name string
	do   func(s *soak, ctx context.Context, lasts time.Duration) error
}

// kill is the disturbance that each run has a minimum number of.
var kill = disturbance{"manager killed", func(s *soak, ctx context.Context, _ time.Duration) error { return s.crash(ctx) }}

var disturbances = []disturbance{
	{"API server killed and started", func(s *soak, ctx context.Context, _ time.Duration) error {
		return s.plane.Restart(ctx, plane.APIServer, syscall.SIGKILL)
	}},
	{"etcd killed and started", func(s *soak, ctx context.Context, _ time.Duration) error {
		return s.plane.Restart(ctx, plane.Etcd, syscall.SIGKILL)
	}},
	{"manager stopped for a while", pausing(plane.Manager)},
	{"API server stopped for a while", pausing(plane.APIServer)},
	{"etcd stopped for a while", pausing(plane.Etcd)},
	{"etcd ended and started", func(s *soak, ctx context.Context, _ time.Duration) error {
		return s.plane.Restart(ctx, plane.Etcd, syscall.SIGTERM)
	}},
	// Its shutdown takes more than a minute, in which it answers no request.
	{"API server ended and started", func(s *soak, ctx context.Context, _ time.Duration) error {
		return s.plane.Restart(ctx, plane.APIServer, syscall.SIGTERM)
	}},
}

func pausing(program string) func(*soak, context.Context, time.Duration) error {
	return func(s *soak, _ context.Context, lasts time.Duration) error {
		if err := s.plane.Pause(program); err != nil {
			return err
		}
		time.Sleep(lasts) // the duration of the fault
		return s.plane.Resume(program)
	}
}

// crash kills the manager and starts it at once. It also ends the sessions that the manager had with BMCs.
func (s *soak) crash(ctx context.Context) error {
	for _, h := range s.all() {
		n := h.Sessions()
		s.mu.Lock()
		s.sessions[h.Name] = n
		s.mu.Unlock()
	}
	return s.plane.Crash(ctx)
}

// killsIn returns how often the manager is killed in a run: 24 times in 20 minutes.
func killsIn(duration time.Duration) int {
	return max(3, int(24*duration/(20*time.Minute)))
}

// disturbAll disturbs the plane in an order that is drawn before. If the plane recovers late, the next disturbance starts late.
func (s *soak) disturbAll(ctx context.Context) error {
	n := killsIn(s.duration)
	plan := slices.Repeat([]disturbance{kill}, n)
	for i := range n {
		plan = append(plan, disturbances[i%len(disturbances)])
	}
	s.disturb.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	every := s.duration / time.Duration(len(plan))
	start := time.Now()
	for i, d := range plan {
		at := time.Duration(i)*every + time.Duration(s.disturb.Int64N(int64(every/2)))
		lasts := time.Duration(1000+s.disturb.IntN(7000)) * time.Millisecond
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(start.Add(at))):
		}
		if err := s.disturbOnce(ctx, d, lasts); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}

// disturbOnce disturbs the plane, and measures the time until the provider works again.
func (s *soak) disturbOnce(ctx context.Context, d disturbance, lasts time.Duration) error {
	over := s.checker.Trouble()
	defer over()
	start := time.Now()
	if err := d.do(s, ctx, lasts); err != nil {
		return err
	}
	s.report.injected(d.name)
	done := time.Now()
	took, err := s.probe(ctx)
	if err != nil {
		return err
	}
	s.logf("%s for %.1f s; %.1f s later the provider answers", d.name, done.Sub(start).Seconds(), took.Seconds())
	s.report.recovered(d.name, took)
	return nil
}

// listen measures every ten seconds how long the provider takes to answer, until ctx ends. On an overloaded machine everything takes long, which is no
// hang.
func (s *soak) listen(ctx context.Context) {
	const prompt = 4 * time.Second
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Second):
		}
		took, err := s.probe(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.report.failed("probe: " + err.Error())
			continue
		}
		if s.checker.Starved(took > prompt); took > prompt {
			s.report.done("late answers of the provider, after more than " + prompt.String())
		}
	}
}

// probe measures the time until the provider sees the start and the end of a host's maintenance.
func (s *soak) probe(ctx context.Context) (time.Duration, error) {
	s.probing.Lock()
	defer s.probing.Unlock()
	start := time.Now()
	h := s.byName[probeHost]
	for _, wanted := range []bool{true, false} {
		err := s.patch(ctx, h, func(h *v1alpha1.BareMetalHost) {
			h.Spec.Maintenance = nil
			if wanted {
				h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "a probe"}
			}
		})
		if err != nil {
			return 0, err
		}
		for {
			if seen := s.checker.Host(h.id()); seen != nil && (seen.Status.Phase == v1alpha1.PhaseMaintenance) == wanted {
				break
			}
			if time.Sleep(50 * time.Millisecond); time.Since(start) > 3*time.Minute { // polling interval
				return 0, fmt.Errorf("the provider did not answer for %s", time.Since(start))
			}
		}
	}
	return time.Since(start), nil
}
