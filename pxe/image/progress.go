package image

import "sync/atomic"

// progress is what a job does at the moment.
type progress struct {
	step        atomic.Value // Step
	done, total atomic.Int64
}

func (p *progress) set(step Step, done, total int64) {
	p.step.Store(step)
	p.done.Store(done)
	p.total.Store(total)
}

func (p *progress) error() error {
	step, _ := p.step.Load().(Step)
	return &NotReady{Step: step, Done: p.done.Load(), Total: p.total.Load()}
}
