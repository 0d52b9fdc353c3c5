package image

import (
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

const (
	// reportInterval is the minimum between two reports.
	reportInterval = time.Second
	// rateWindow is how many reports a rate spans.
	rateWindow = 5
)

// meter counts what is done, and reports it.
type meter struct {
	report func(agent.Progress)

	mu       sync.Mutex
	now      agent.Progress
	reported time.Time
	samples  []sample
}

// sample is what was done at a time.
type sample struct {
	at   time.Time
	done int64
}

func newMeter(report func(agent.Progress)) *meter { return &meter{report: report} }

// step begins a step.
func (m *meter) step(step wire.AgentStep, total int64) {
	m.mu.Lock()
	m.now = agent.Progress{Step: step, Total: total}
	m.samples = []sample{{at: time.Now()}}
	m.mu.Unlock()
	m.add(0)
}

// add counts bytes.
func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now.Done += n
	now := time.Now()
	if m.report == nil || now.Sub(m.reported) < reportInterval {
		return
	}
	m.samples = append(m.samples, sample{now, m.now.Done})
	if len(m.samples) > rateWindow {
		m.samples = m.samples[1:]
	}
	first := m.samples[0]
	m.now.Rate = 0
	if elapsed := now.Sub(first.at).Seconds(); elapsed > 0 {
		m.now.Rate = int64(float64(m.now.Done-first.done) / elapsed)
	}
	m.reported = now
	m.report(m.now)
}
