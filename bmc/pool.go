package bmc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Job is work that needs a connection to a BMC.
type Job struct {
	// Key identifies the owner of the job. A key has at most one job at a time.
	Key string
	// Endpoint is the BMC. A BMC runs one job at a time, even if several keys name it.
	Endpoint Endpoint
	// Timeout limits the duration of the job, including its connection, from its start. Defaults to PoolOptions.Timeout.
	Timeout time.Duration
	// IgnoreBackoff runs the job even during a backoff after a failure or a refused login.
	IgnoreBackoff bool
	// Run does the work. Its context ends at the timeout.
	Run func(context.Context, Client) error
	// Done is called once, with the error of Run or of the connection. The next job of Key may be submitted from then on.
	Done func(error)
}

// Pool runs jobs in the background. It owns every connection and every session, and limits the load on BMCs:
//
//   - A BMC runs one job, and so one request, at a time, and gets at most PoolOptions.Rate requests a second.
//   - The number of concurrent jobs is limited in total, and for each driver that has a limit.
//   - An idle connection is kept for the next job, and logged out when it is closed.
//   - Failures start a backoff: a growing one for a BMC that does not answer, and one that prevents account lockouts after a refused
//     login. Jobs that are submitted during the backoff end at once with the last error.
//   - A slow BMC does not delay others: BMCs that have not answered yet have separate slots, and a job that exceeds
//     PoolOptions.SlotTimeout gives up its slot.
//
// An idle BMC costs some hundred bytes and no goroutine.
type Pool struct {
	opts      PoolOptions
	drivers   map[string]*driverUse
	answering slots // for BMCs that the last job reached
	others    slots // for new BMCs, and those that did not answer

	ctx    context.Context //nolint:containedctx // the pool's jobs outlive the calls that submit them
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	queues []*readyQueue
	slow   int             // running jobs that gave up their slot
	busy   map[string]bool // by key
	bmcs   map[string]*bmcQueue
	logins *logins
}

// PoolOptions configure a Pool. Zero values take the defaults.
type PoolOptions struct {
	// Concurrency is the maximum number of jobs that hold a slot. Defaults to 64. BMCs that have not answered yet have the same
	// number of separate slots.
	Concurrency int
	// Timeout limits the duration of a job, including its connection. Defaults to 60 s.
	Timeout time.Duration
	// Rate is the maximum number of requests per second to a BMC, with bursts of half as many. Defaults to 20.
	Rate float64
	// Idle is how long an unused connection is kept, unless its driver has KeepIdle. Defaults to 30 s.
	Idle time.Duration
	// SlotTimeout is how long a job holds its slot. A job that runs longer gives it up, and continues. Defaults to 2 s.
	SlotTimeout time.Duration
	// MaxSlow is the maximum number of running jobs without a slot. Defaults to 1024.
	MaxSlow int
	// Observe, if not nil, is called after each call of a driver that the manager makes, by several jobs at once. It must not block.
	Observe func(Call)
}

func (o PoolOptions) withDefaults() PoolOptions {
	setDefault(&o.Concurrency, 64)
	setDefault(&o.Timeout, time.Minute)
	setDefault(&o.Rate, 20)
	setDefault(&o.Idle, 30*time.Second)
	setDefault(&o.SlotTimeout, 2*time.Second)
	setDefault(&o.MaxSlow, 1024)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// slots counts the jobs that hold a slot.
type slots struct{ used, limit int }

// driverUse counts the running jobs of a driver.
type driverUse struct {
	Driver

	scheme  string
	running int
}

// readyQueue contains the BMCs of one driver that wait for one kind of slot. A BMC is in at most one readyQueue, and only once.
type readyQueue struct {
	driver *driverUse
	slots  *slots
	bmcs   []*bmcQueue
}

// hasSlot is true if the first BMC may run a job now.
func (r *readyQueue) hasSlot() bool {
	return r.slots.used < r.slots.limit && (r.driver.Limit == 0 || r.driver.running < r.driver.Limit)
}

// NewPool returns a pool that opens BMCs with the drivers, by URL scheme. The caller closes it.
func NewPool(drivers map[string]Driver, opts PoolOptions) *Pool {
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{
		opts: opts, drivers: map[string]*driverUse{}, ctx: ctx, cancel: cancel,
		answering: slots{limit: opts.Concurrency}, others: slots{limit: opts.Concurrency},
		busy: map[string]bool{}, bmcs: map[string]*bmcQueue{}, logins: newLogins(),
	}
	for scheme, driver := range drivers {
		p.drivers[scheme] = &driverUse{Driver: driver, scheme: scheme}
		p.queues = append(p.queues, &readyQueue{driver: p.drivers[scheme], slots: &p.answering}, &readyQueue{driver: p.drivers[scheme], slots: &p.others})
	}
	p.wg.Go(p.sweep)
	return p
}

// Close cancels the running jobs, waits for them, and closes all connections. Jobs submitted later are refused.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	var logouts sync.WaitGroup
	limit := make(chan struct{}, p.opts.Concurrency)
	for _, q := range p.bmcs {
		if q.client == nil && q.unclosed == nil {
			continue
		}
		limit <- struct{}{}
		logouts.Go(func() {
			q.drop(context.Background())
			q.closeUnclosed(context.Background())
			<-limit
		})
	}
	logouts.Wait()
}

// Submit starts a job in the background and returns at once. If the key already has a job, or the pool is closed, it does nothing and
// returns false.
func (p *Pool) Submit(job Job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.busy[job.Key] {
		return false
	}
	setDefault(&job.Timeout, p.opts.Timeout)
	p.busy[job.Key] = true
	driver := p.drivers[job.Endpoint.URL.Scheme]
	if driver == nil {
		err := &Error{Kind: Unsupported, Op: "Open", Err: fmt.Errorf("there is no driver for the scheme %q", job.Endpoint.URL.Scheme)}
		p.wg.Go(func() { p.done(job, err) })
		return true
	}
	name := CanonicalHost(job.Endpoint.URL)
	if driver.Peer != nil {
		name = driver.Peer(job.Endpoint)
	}
	q := p.bmcs[name]
	if q == nil {
		q = newBMCQueue(p.opts, p.logins)
		p.bmcs[name] = q
	}
	q.jobs = append(q.jobs, job)
	p.enqueue(q)
	p.dispatch()
	return true
}

// Busy is true while the key has a job.
func (p *Pool) Busy(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy[key]
}

// enqueue adds a BMC that has jobs to its readyQueue, unless it is in one already or one of its jobs runs. p.mu is held.
func (p *Pool) enqueue(q *bmcQueue) {
	if q.scheduled || len(q.jobs) == 0 && !q.expired {
		return
	}
	driver := q.driver
	if len(q.jobs) > 0 {
		driver = p.drivers[q.jobs[0].Endpoint.URL.Scheme]
	}
	for _, ready := range p.queues {
		if ready.driver == driver && (ready.slots == &p.answering) == q.answering {
			q.scheduled = true
			ready.bmcs = append(ready.bmcs, q)
			return
		}
	}
}

// dispatch starts a job for each free slot. p.mu is held.
func (p *Pool) dispatch() {
	for _, ready := range p.queues {
		for len(ready.bmcs) > 0 && ready.hasSlot() {
			q := ready.bmcs[0]
			ready.bmcs[0] = nil
			ready.bmcs = ready.bmcs[1:]
			s := &slot{pool: p, queue: ready}
			ready.slots.used++
			ready.driver.running++
			p.wg.Go(func() { p.runNext(q, s) })
		}
	}
}

// runNext runs the first job of a BMC, or closes its connection if it has no job for this driver.
func (p *Pool) runNext(q *bmcQueue, s *slot) {
	p.mu.Lock()
	var job *Job
	// If the next job uses another driver, the connection of this driver is closed first.
	if len(q.jobs) > 0 && p.drivers[q.jobs[0].Endpoint.URL.Scheme] == s.queue.driver {
		first := q.jobs[0]
		job = &first
		q.jobs[0] = Job{}
		q.jobs = q.jobs[1:]
	}
	p.mu.Unlock()
	s.giveUpAfter(p.opts.SlotTimeout)
	var err error
	if job == nil {
		q.drop(p.ctx)
	} else {
		err = q.run(p.ctx, s.queue.driver, *job)
	}
	p.mu.Lock()
	s.release()
	q.scheduled, q.expired, q.used = false, false, time.Now()
	p.enqueue(q)
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

// slot is held by a running job.
type slot struct {
	pool     *Pool
	queue    *readyQueue
	timer    *time.Timer
	slow     bool // the job gave up its slot, and still runs
	released bool
}

// giveUpAfter makes the job give up its slot after the timeout. A slot of a driver with a limit is not given up, so that the limit
// is never exceeded.
func (s *slot) giveUpAfter(timeout time.Duration) {
	if s.queue.driver.Limit > 0 {
		return
	}
	p := s.pool
	s.timer = time.AfterFunc(timeout, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.released || p.slow >= p.opts.MaxSlow {
			return
		}
		s.slow = true
		p.slow++
		s.queue.slots.used--
		p.dispatch()
	})
}

// release frees the slot at the end of the job. p.mu is held.
func (s *slot) release() {
	s.released = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.queue.driver.running--
	if s.slow {
		s.pool.slow--
		return
	}
	s.queue.slots.used--
}

// forgetAfter is how long an unused BMC is remembered.
const forgetAfter = time.Hour

// sweep closes idle connections, and removes BMCs that have had no job for forgetAfter.
func (p *Pool) sweep() {
	ticker := time.NewTicker(max(p.opts.Idle/4, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-ticker.C:
			p.mu.Lock()
			for name, q := range p.bmcs {
				switch {
				case q.scheduled:
				case q.client != nil && now.After(q.used.Add(q.keepIdle)):
					q.expired = true
					p.enqueue(q)
				case q.client == nil && now.After(q.used.Add(forgetAfter)):
					delete(p.bmcs, name)
				}
			}
			p.dispatch()
			p.mu.Unlock()
			p.logins.forget(now)
		}
	}
}

// errClosed is the error of jobs that were waiting when the pool was closed.
var errClosed = errors.New("the provider is stopping")
