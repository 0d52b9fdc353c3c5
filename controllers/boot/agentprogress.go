package boot

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// progressInterval is the shortest time between two writes of the progress of one agent in the same step. 250 agents then cause 17 requests a second.
const progressInterval = 15 * time.Second

// maxProgressBoots is how many boots are limited at once. The limits of the boots that reported longest ago are dropped.
const maxProgressBoots = 4096

// progressLimiter limits the writes of the progress of each boot. An agent does not take from the share of another one.
type progressLimiter struct {
	mu    sync.Mutex
	boots *lru.Cache // from attemptKey to *bootProgress
}

// bootProgress is what was written of the progress of a boot.
type bootProgress struct {
	step wire.AgentStep
	at   time.Time
	// writes lets each step begin at once, and an agent that alternates between steps write no more often than one that does not.
	writes *rate.Limiter
}

func newProgressLimiter() *progressLimiter { return &progressLimiter{boots: lru.New(maxProgressBoots)} }

// allow is true if the progress of a boot in a step is to be written now.
func (l *progressLimiter) allow(key attemptKey, step wire.AgentStep, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.boots.Get(key)
	if !ok {
		known = &bootProgress{writes: rate.NewLimiter(rate.Every(progressInterval), len(wire.AgentSteps))}
		l.boots.Add(key, known)
	}
	boot := known.(*bootProgress) //nolint:forcetypeassert // nothing else is put in
	if boot.step == step && now.Sub(boot.at) < progressInterval || !boot.writes.AllowN(now, 1) {
		return false
	}
	boot.step, boot.at = step, now
	return true
}

// Progress writes what an agent does to the status of its boot, in the background.
func (s *agents) Progress(ctx context.Context, r pxe.AgentRequest, p agent.Progress) error {
	a, err := s.guard.cachedAgent(ctx, r)
	if err != nil {
		return err
	}
	if !slices.Contains(wire.AgentSteps, p.Step) {
		return refused("the agent of %s reports an unknown step", r.Host)
	}
	now := s.clock.Now()
	if !s.progress.allow(keyOf(a.boot), p.Step, now) {
		return nil
	}
	progress := progressOf(p, a.boot.Spec.Number, now)
	s.stages.enqueue(a.boot, fmt.Sprintf("agent %s %d", p.Step, now.UnixNano()), func(n *pendingStatus) { n.agent = progress })
	return nil
}

// progressOf converts the progress of an agent, which is not trusted.
func progressOf(p agent.Progress, number int32, now time.Time) *v1alpha1.AgentProgress {
	out := &v1alpha1.AgentProgress{Number: number, Step: p.Step, Time: metav1.NewTime(now)}
	if p.Total > 0 && p.Done >= 0 {
		done := min(p.Done, p.Total)
		out.DoneBytes, out.TotalBytes, out.Percent = done, p.Total, int32(float64(done)/float64(p.Total)*100)
		if p.Rate > 0 {
			out.BytesPerSecond, out.SecondsLeft = p.Rate, min((p.Total-done)/p.Rate, maxSecondsLeft)
		}
	}
	for i := range p.Disks[:min(len(p.Disks), agent.MaxProgressDisks)] {
		d := &p.Disks[i]
		out.Disks = append(out.Disks, wire.DiskProgress{
			Name: controllers.Clip(d.Name, 64), SerialNumber: controllers.Clip(d.SerialNumber, 128), Method: controllers.Clip(d.Method, 128),
			Percent: min(max(d.Percent, 0), 100), SecondsLeft: min(max(d.SecondsLeft, 0), maxSecondsLeft),
		})
	}
	return out
}

// maxSecondsLeft bounds the estimate of an agent: a time.Duration of more seconds overflows.
const maxSecondsLeft = 30 * 24 * 60 * 60
