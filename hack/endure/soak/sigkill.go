package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// life is a part of a machine's life, from one state of rest to the next.
type life struct {
	name  string
	begin func(s *soak, ctx context.Context, h *host) error
	// ended does what Cluster API and operators do in this time. It is true if the host has reached the end of the part.
	ended func(s *soak, ctx context.Context, h *host) (bool, error)
}

// lives are the parts in their order.
var lives = []life{
	{"provision", (*soak).beginProvision, func(s *soak, _ context.Context, h *host) (bool, error) {
		seen := s.checker.Host(h.id())
		m := s.checker.Machine(direct + "/" + machineOf(h))
		return seen.Status.Phase == v1alpha1.PhaseProvisioned && m != nil && m.Spec.ProviderID != "", nil
	}},
	{"remediate", (*soak).beginRemediate, (*soak).remediated},
	{"power cycle", func(s *soak, ctx context.Context, h *host) error {
		return s.patch(ctx, h, annotate(v1alpha1.PowerCyclePrefix+"anna", "it hangs"))
	}, func(s *soak, _ context.Context, h *host) (bool, error) {
		seen := s.checker.Host(h.id())
		return seen.Status.Phase == v1alpha1.PhaseProvisioned && seen.Spec.ProviderState.PowerHoldStartTime == nil && seen.Annotations[v1alpha1.PowerCyclePrefix+"anna"] == "" && h.On(), nil
	}},
	{"release", func(s *soak, ctx context.Context, h *host) error {
		s.deleteMachine(ctx, &machine{name: machineOf(h)})
		return client.IgnoreNotFound(s.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machineOf(h)}}))
	}, func(s *soak, _ context.Context, h *host) (bool, error) {
		seen := s.checker.Host(h.id())
		return seen.Status.Phase == v1alpha1.PhaseAvailable && seen.Spec.ConsumerRef == nil && s.checker.Machine(direct+"/"+machineOf(h)) == nil, nil
	}},
}

// machineOf is the name of the machine that a host is selected for. Each machine has a new name, since the objects of the last one are deleted a moment
// after it.
func machineOf(h *host) string { return fmt.Sprintf("on-%s-%d", h.Name, h.round) }

func (s *soak) beginProvision(ctx context.Context, h *host) error {
	h.round++
	return s.create(ctx, &machine{name: machineOf(h), installed: true, host: h.Name})
}

// trace is the events of a server in a part of its life.
type trace struct {
	commands []string // without repetitions: a command whose answer was lost in a crash may be given again
	lives    int      // the number of power-ons
	seeds    int
	took     time.Duration
}

func (t trace) String() string {
	return fmt.Sprintf("%s; came on %d times, got bootstrap data %d times", strings.Join(t.commands, " "), t.lives, t.seeds)
}

// killAlongLives lets each server live without a crash, and then kills the manager at random moments of the next lives. Each must end as the life without a
// crash.
func (s *soak) killAlongLives(ctx context.Context) error {
	servers := s.hosts
	want := map[string]trace{}
	for _, part := range lives {
		traces, err := s.livePart(ctx, part, servers, nil)
		if err != nil {
			return s.conclude(ctx, err)
		}
		for name, t := range traces {
			want[part.name+" "+name] = t
			s.logf("%s of %s without a crash, %.1f s: %s", part.name, name, t.took.Seconds(), t)
		}
	}
	for i := range s.kills {
		part := lives[i%len(lives)]
		longest := time.Duration(0)
		for _, h := range servers {
			longest = max(longest, want[part.name+" "+h.Name].took)
		}
		after := time.Duration(s.disturb.Int64N(int64(longest)))
		traces, err := s.livePart(ctx, part, servers, &after)
		if err != nil {
			return s.conclude(ctx, fmt.Errorf("%s, killed after %s: %w", part.name, after, err))
		}
		var problems []error
		for _, h := range servers {
			problems = append(problems, same(want[part.name+" "+h.Name], traces[h.Name], part.name+" of "+h.Name))
		}
		err = errors.Join(problems...)
		s.logf("kill %2d of %d: %s, after %5.2f s: %s", i+1, s.kills, part.name, after.Seconds(), verdict(err))
		if err != nil {
			s.report.failed(fmt.Sprintf("killed after %s: %v", after, err))
		}
	}
	s.tasks.Wait()
	return s.conclude(ctx, s.await(ctx, "what is left", 3*time.Minute, s.quiet))
}

func verdict(err error) string {
	if err != nil {
		return err.Error()
	}
	return "as without a crash"
}

// same is nil if a part of a life is equal to the one without a crash.
func same(want, got trace, what string) error {
	if !slices.Equal(want.commands, got.commands) || want.lives != got.lives || want.seeds != got.seeds {
		return fmt.Errorf("%s: want %s, got %s", what, want, got)
	}
	return nil
}

// livePart runs a part of the servers' lives at once, and kills the manager after a time, if there is one.
func (s *soak) livePart(ctx context.Context, part life, servers []*host, kill *time.Duration) (map[string]trace, error) {
	type before struct{ commands, lives, seeds int }
	start := time.Now()
	begun, traces := map[string]before{}, map[string]trace{}
	for _, h := range servers {
		s.mu.Lock()
		begun[h.Name] = before{len(h.Commands()), h.life, h.seeds}
		s.mu.Unlock()
		if err := part.begin(s, ctx, h); err != nil {
			return nil, err
		}
	}
	if kill != nil {
		time.Sleep(time.Until(start.Add(*kill))) // the seed chose the time
		over := s.checker.Trouble()
		if err := s.crash(ctx); err != nil {
			return nil, err
		}
		over()
		s.report.injected("manager killed in " + part.name)
	}
	for _, h := range servers {
		for {
			ended, err := part.ended(s, ctx, h)
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", part.name, h.Name, err)
			}
			if ended {
				break
			}
			if time.Sleep(20 * time.Millisecond); time.Since(start) > 4*time.Minute { // polling interval
				return nil, fmt.Errorf("%s of %s has not ended: the host is %s", part.name, h.Name, s.checker.Host(h.id()).Status.Phase)
			}
		}
		s.mu.Lock()
		b := begun[h.Name]
		names := h.CommandNames()[b.commands:]
		traces[h.Name] = trace{slices.Compact(powerOf(names)), h.life - b.lives, h.seeds - b.seeds, time.Since(start)}
		s.mu.Unlock()
		s.report.done(part.name)
	}
	return traces, nil
}

// powerOf drops the commands without effect of their own: a boot override is set and cleared as often as the BMC has to be asked.
func powerOf(commands []string) []string {
	return slices.DeleteFunc(slices.Clone(commands), func(c string) bool {
		return strings.HasPrefix(c, "Boot=") || strings.HasPrefix(c, "Media=")
	})
}
