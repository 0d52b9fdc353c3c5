package bmc

import (
	"context"
	"errors"
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
	// Timeout is how long the job may take, with its connection, from when its turn came. Defaults to PoolOptions.Timeout.
	Timeout time.Duration
	// Now tries also while the Pool leaves the BMC alone after a fault or a refused login.
	Now bool
	// Run does the work. Its context ends at the timeout.
	Run func(context.Context, Client) error
	// Done is called once, with the error of Run or of the connection, when Key is free for the next job.
	Done func(error)
}

// Pool runs jobs in the background. It owns every connection and every session, and keeps to a budget:
//
//   - one job, and so one request, at a time for a BMC, and no more requests a second than its rate;
//   - so many BMCs at a time in all, and so many for each driver that has a limit;
//   - a connection is kept for a while for the next job, and logged out when it is dropped;
//   - a BMC that does not answer is left alone for ever longer, and one that refused a login for so long that no account
//     is locked: jobs submitted meanwhile end at once with the error that is known;
//   - a BMC that answers slowly or never costs its own slot only: BMCs that have not answered yet have slots of their own, and
//     a job that takes long gives its slot away.
//
// A BMC at rest costs some hundred bytes, and no goroutine.
type Pool struct {
	opts    PoolOptions
	drivers map[string]*driverUse
	proven  class // BMCs whose last job reached them
	others  class // new ones, and those that did not answer

	ctx    context.Context //nolint:containedctx // the pool's jobs outlive the calls that submit them
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	lanes  []*lane
	stuck  int             // jobs that gave their slot away
	busy   map[string]bool // by key
	lines  map[string]*bmcQueue
}

// PoolOptions bound what the pool does. Zero values take the defaults.
type PoolOptions struct {
	// Concurrency is how many BMCs are spoken to at once. Defaults to 64. As many more may be spoken to that have not
	// answered yet.
	Concurrency int
	// Timeout is how long a job may take, with its connection. Defaults to 60 s.
	Timeout time.Duration
	// Rate is how many requests a second a BMC gets, with bursts of half as many. Defaults to 20.
	Rate float64
	// Idle is how long an unused connection is kept, unless its driver says otherwise. Defaults to 30 s.
	Idle time.Duration
	// Patience is how long a job keeps its slot from others. Defaults to 2 s.
	Patience time.Duration
	// MostStuck is how many jobs may have given their slot away. Defaults to 1024.
	MostStuck int
	// Observe, where not nil, is told of every call of a driver, by several jobs at once. It must not block.
	Observe func(Call)
}

func (o PoolOptions) withDefaults() PoolOptions {
	set(&o.Concurrency, 64)
	set(&o.Timeout, time.Minute)
	set(&o.Rate, 20)
	set(&o.Idle, 30*time.Second)
	set(&o.Patience, 2*time.Second)
	set(&o.MostStuck, 1024)
	return o
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// class counts the jobs that hold a slot.
type class struct{ running, limit int }

// driverUse counts the jobs that run through a driver.
type driverUse struct {
	Driver

	scheme  string
	running int
}

// lane is where the BMCs of one driver and one class wait for a slot. Each stands in one lane at most, and waits once.
type lane struct {
	driver *driverUse
	class  *class
	ready  []*bmcQueue
}

func (l *lane) free() bool {
	return l.class.running < l.class.limit && (l.driver.Limit == 0 || l.driver.running < l.driver.Limit)
}

// NewPool returns a pool that opens BMCs with the drivers given, by URL scheme. Close it.
func NewPool(drivers map[string]Driver, opts PoolOptions) *Pool {
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{
		opts: opts, drivers: map[string]*driverUse{}, ctx: ctx, cancel: cancel,
		proven: class{limit: opts.Concurrency}, others: class{limit: opts.Concurrency},
		busy: map[string]bool{}, lines: map[string]*bmcQueue{},
	}
	for scheme, driver := range drivers {
		p.drivers[scheme] = &driverUse{Driver: driver, scheme: scheme}
		p.lanes = append(p.lanes, &lane{driver: p.drivers[scheme], class: &p.proven}, &lane{driver: p.drivers[scheme], class: &p.others})
	}
	p.wg.Go(p.sweep)
	return p
}

// Close ends the jobs that run, waits for them, and logs out everywhere. Jobs submitted later are refused.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	var logouts sync.WaitGroup
	slots := make(chan struct{}, p.opts.Concurrency)
	for _, l := range p.lines {
		if l.client == nil && l.unclosed == nil {
			continue
		}
		slots <- struct{}{}
		logouts.Go(func() {
			l.drop(context.Background())
			l.closeAgain(context.Background())
			<-slots
		})
	}
	logouts.Wait()
}

// Submit starts a job in the background and returns at once. It returns false, and does nothing, while the key has a job or
// when the pool is closed.
func (p *Pool) Submit(job Job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.busy[job.Key] {
		return false
	}
	set(&job.Timeout, p.opts.Timeout)
	p.busy[job.Key] = true
	driver := p.drivers[job.Endpoint.URL.Scheme]
	if driver == nil {
		err := &Error{Kind: Unsupported, Op: "Open", Err: fmt.Errorf("there is no driver for the scheme %q", job.Endpoint.URL.Scheme)}
		p.wg.Go(func() { p.done(job, err) })
		return true
	}
	name := job.Endpoint.URL.Host
	if driver.Peer != nil {
		name = driver.Peer(job.Endpoint)
	}
	l := p.lines[name]
	if l == nil {
		l = newBMCQueue(p.opts)
		p.lines[name] = l
	}
	l.queue = append(l.queue, job)
	p.enqueue(l)
	p.dispatch()
	return true
}

// Busy is true while the key has a job.
func (p *Pool) Busy(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy[key]
}

// enqueue puts a BMC that has jobs into its lane, unless it stands in one or a job of it runs. p.mu is held.
func (p *Pool) enqueue(l *bmcQueue) {
	if l.scheduled || len(l.queue) == 0 && !l.expired {
		return
	}
	driver := l.driver
	if len(l.queue) > 0 {
		driver = p.drivers[l.queue[0].Endpoint.URL.Scheme]
	}
	for _, lane := range p.lanes {
		if lane.driver == driver && (lane.class == &p.proven) == l.proven {
			l.scheduled = true
			lane.ready = append(lane.ready, l)
			return
		}
	}
}

// dispatch starts a job for each free slot. p.mu is held.
func (p *Pool) dispatch() {
	for _, lane := range p.lanes {
		for len(lane.ready) > 0 && lane.free() {
			l := lane.ready[0]
			lane.ready[0] = nil
			lane.ready = lane.ready[1:]
			slot := &slot{pool: p, lane: lane}
			lane.class.running++
			lane.driver.running++
			p.wg.Go(func() { p.turn(l, slot) })
		}
	}
}

// turn runs the first job of a BMC, or drops its connection when there is none for it.
func (p *Pool) turn(l *bmcQueue, s *slot) {
	p.mu.Lock()
	var job *Job
	// A BMC that is spoken to in another way from now on is let go of in the old one first.
	if len(l.queue) > 0 && p.drivers[l.queue[0].Endpoint.URL.Scheme] == s.lane.driver {
		first := l.queue[0]
		job = &first
		l.queue[0] = Job{}
		l.queue = l.queue[1:]
	}
	p.mu.Unlock()
	s.impatient(p.opts.Patience)
	var err error
	if job == nil {
		l.drop(p.ctx)
	} else {
		err = l.run(p.ctx, s.lane.driver, *job)
	}
	p.mu.Lock()
	s.release()
	l.scheduled, l.expired, l.used = false, false, time.Now()
	p.enqueue(l)
	p.dispatch()
	p.mu.Unlock()
	if job != nil {
		p.done(*job, err)
	}
}

func (p *Pool) done(job Job, err error) {
	p.mu.Lock()
	delete(p.busy, job.Key)
	p.mu.Unlock()
	job.Done(err)
}

// slot is held by a job that runs. One that takes long gives it away.
type slot struct {
	pool  *Pool
	lane  *lane
	timer *time.Timer
	stuck bool
	over  bool
}

// impatient makes the job give its slot away after a while. A driver's own limit is never exceeded.
func (s *slot) impatient(after time.Duration) {
	if s.lane.driver.Limit > 0 {
		return
	}
	p := s.pool
	s.timer = time.AfterFunc(after, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.over || p.stuck >= p.opts.MostStuck {
			return
		}
		s.stuck = true
		p.stuck++
		s.lane.class.running--
		p.dispatch()
	})
}

// release ends the job's hold. p.mu is held.
func (s *slot) release() {
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.lane.driver.running--
	if s.stuck {
		s.pool.stuck--
		return
	}
	s.lane.class.running--
}

// forgetAfter is how long an unused BMC is remembered.
const forgetAfter = time.Hour

// sweep drops connections that are idle, and forgets BMCs that nobody asks for any more.
func (p *Pool) sweep() {
	ticker := time.NewTicker(max(p.opts.Idle/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-ticker.C:
			p.mu.Lock()
			for name, l := range p.lines {
				switch {
				case l.scheduled:
				case l.client != nil && now.After(l.used.Add(l.keep)):
					l.expired = true
					p.enqueue(l)
				case l.client == nil && now.After(l.used.Add(forgetAfter)):
					delete(p.lines, name)
				}
			}
			p.dispatch()
			p.mu.Unlock()
		}
	}
}

// errClosed ends jobs that were waiting when the pool was closed.
var errClosed = errors.New("the provider is stopping")
