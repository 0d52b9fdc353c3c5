package bmc

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Job is something to do through a BMC.
type Job struct {
	// Key says whose job it is. A key has one job at a time.
	Key string
	// Endpoint is the BMC. A BMC gets one job at a time, also when several keys name it.
	Endpoint Endpoint
	// Run does the work. Its context ends at the pool's deadline.
	Run func(context.Context, Client) error
	// Done is called once, with the error of Run or of the connection, when Key is free for the next job.
	Done func(error)
}

// Pool runs jobs, each in the background. It keeps BMCs from being flooded, and dead BMCs from delaying the others: those
// whose last job failed for the network wait for each other in a lane of their own.
type Pool struct {
	drivers map[string]OpenFunc
	timeout time.Duration
	fast    chan struct{}
	slow    chan struct{}

	ctx    context.Context //nolint:containedctx // the pool's jobs outlive the calls that submit them
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running map[string]bool        // by key
	bmcs    map[string]*bmcTraffic // by host of the URL
}

// bmcTraffic is what the pool remembers of a BMC while it has jobs, or after it failed.
type bmcTraffic struct {
	turn   chan struct{} // holds a token while a job runs
	users  int
	failed bool
}

// PoolOptions bound what the pool does at once. Zero values take the defaults.
type PoolOptions struct {
	// Concurrency is how many BMCs are spoken to at once. Defaults to 64. As many more may be waiting for dead BMCs.
	Concurrency int
	// Timeout is how long a job may take, with its connection. Defaults to 60 s.
	Timeout time.Duration
}

// NewPool returns a pool that opens BMCs with the drivers given, by URL scheme. Close it.
func NewPool(drivers map[string]OpenFunc, opts PoolOptions) *Pool {
	if opts.Concurrency == 0 {
		opts.Concurrency = 64
	}
	if opts.Timeout == 0 {
		opts.Timeout = time.Minute
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{
		drivers: drivers, timeout: opts.Timeout, ctx: ctx, cancel: cancel,
		fast: make(chan struct{}, opts.Concurrency), slow: make(chan struct{}, opts.Concurrency),
		running: map[string]bool{}, bmcs: map[string]*bmcTraffic{},
	}
}

// Close ends the jobs that run and waits for them. Jobs submitted later are refused.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}

// Submit starts a job in the background and returns at once. It returns false, and does nothing, while the key has a job or
// when the pool is closed.
func (p *Pool) Submit(job Job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.running[job.Key] {
		return false
	}
	p.running[job.Key] = true
	traffic := p.bmcs[job.Endpoint.URL.Host]
	if traffic == nil {
		traffic = &bmcTraffic{turn: make(chan struct{}, 1)}
		p.bmcs[job.Endpoint.URL.Host] = traffic
	}
	traffic.users++
	lane := p.fast
	if traffic.failed {
		lane = p.slow
	}
	p.wg.Go(func() {
		err := p.run(job, traffic, lane)
		p.finish(job, traffic, err)
		job.Done(err)
	})
	return true
}

// Busy is true while the key has a job.
func (p *Pool) Busy(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[key]
}

func (p *Pool) run(job Job, traffic *bmcTraffic, lane chan struct{}) error {
	for _, gate := range []chan struct{}{traffic.turn, lane} {
		select {
		case gate <- struct{}{}:
			defer func() { <-gate }()
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, p.timeout)
	defer cancel()
	open, ok := p.drivers[job.Endpoint.URL.Scheme]
	if !ok {
		return &Error{Kind: Unsupported, Op: "Open", Err: fmt.Errorf("no driver for the scheme %q", job.Endpoint.URL.Scheme)}
	}
	client, err := open(ctx, job.Endpoint)
	if err != nil {
		return err
	}
	err = job.Run(ctx, client)
	// A session that is not closed counts against the BMC's few: it is closed also when the job's time is up. Where the BMC
	// refuses, the session ends by itself some time, and the job is not the worse for it.
	closeCtx, closeCancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer closeCancel()
	_ = client.Close(closeCtx)
	return err
}

func (p *Pool) finish(job Job, traffic *bmcTraffic, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, job.Key)
	traffic.users--
	traffic.failed = err != nil && KindOf(err) == Unreachable
	if traffic.users == 0 && !traffic.failed {
		delete(p.bmcs, job.Endpoint.URL.Host)
	}
}
