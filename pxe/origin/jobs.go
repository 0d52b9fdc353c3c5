package origin

import (
	"context"
	"maps"
	"sync"
	"time"
)

// JobOptions bound Jobs.
type JobOptions struct {
	// RetryAfter is how long the error of a job is remembered. The first Start after that repeats the job. With 0 each Start does.
	RetryAfter time.Duration
	// Permanent is true for an error that does not end without another file or URL. Such an error is remembered twice as long each time, up to MaxRetryAfter.
	// Nil means that no error is permanent.
	Permanent     func(error) bool
	MaxRetryAfter time.Duration
	// MaxPerNamespace is how many jobs of a namespace run at once. 0 means any number.
	MaxPerNamespace int
}

// Jobs runs downloads in the background, for clients that ask again until their file is here. At most one job runs for each key. The error of a job is
// remembered, so that clients do not repeat a failed download with each request. J describes a job. Jobs is safe for concurrent use.
type Jobs[J any] struct {
	opts   JobOptions
	work   func(context.Context, J) error
	ctx    context.Context //nolint:containedctx // jobs outlive the requests that start them
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	known map[jobKey]jobState[J]
}

type jobKey struct{ namespace, name string }

// jobState is a job that runs, or why the last one with its key failed.
type jobState[J any] struct {
	running bool
	job     J // while it runs, because it may have credentials
	err     error
	retryAt time.Time
	delay   time.Duration // how long err is remembered
}

// maxErrors is how many keys are remembered before old errors are dropped. Users can name any number of URLs.
const maxErrors = 1000

// NewJobs returns Jobs without a job. work does a job, and returns when its context ends. Close the Jobs.
func NewJobs[J any](opts JobOptions, work func(context.Context, J) error) *Jobs[J] {
	ctx, cancel := context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	return &Jobs[J]{opts: opts, work: work, ctx: ctx, cancel: cancel, known: map[jobKey]jobState[J]{}}
}

// Close ends the jobs that run, and waits for them. The context of a job that is started later has ended.
func (s *Jobs[J]) Close() {
	s.cancel()
	s.wg.Wait()
}

// Start starts a job and does not wait for it. Namespace and name are its key: a slow download must not delay another namespace, or another URL of the same
// file, so the name has everything that the download depends on.
//
// It starts nothing while a job with this key runs, before the RetryAfter of the last one has passed, or while the namespace has MaxPerNamespace jobs. It returns the
// job that runs, and otherwise its argument. The error is nil while a job with this key runs. Otherwise it is why the last one failed, also when that job is repeated.
func (s *Jobs[J]) Start(namespace, name string, job J) (J, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := jobKey{namespace, name}
	state := s.known[key]
	switch {
	case state.running:
		return state.job, nil
	case time.Now().Before(state.retryAt), s.opts.MaxPerNamespace > 0 && s.running(namespace) >= s.opts.MaxPerNamespace:
		return job, state.err
	}
	if len(s.known) >= maxErrors {
		maps.DeleteFunc(s.known, func(_ jobKey, old jobState[J]) bool { return !old.running && time.Now().After(old.retryAt) })
	}
	s.known[key] = jobState[J]{running: true, job: job, delay: state.delay}
	s.wg.Go(func() { s.run(key, job) })
	return job, state.err
}

// running returns how many jobs of a namespace run. s.mu is held.
func (s *Jobs[J]) running(namespace string) (n int) {
	for key, state := range s.known {
		if state.running && key.namespace == namespace {
			n++
		}
	}
	return n
}

func (s *Jobs[J]) run(key jobKey, job J) {
	err := s.work(s.ctx, job)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.known, key)
		return
	}
	delay := s.opts.RetryAfter
	if s.opts.Permanent != nil && s.opts.Permanent(err) {
		delay = max(delay, min(2*s.known[key].delay, s.opts.MaxRetryAfter))
	}
	s.known[key] = jobState[J]{err: err, retryAt: time.Now().Add(delay), delay: delay}
}
