package bmc

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"
)

// bmcQueue is the pool's state of one BMC: its jobs, its connection and its recent failures. Pool.mu guards jobs and scheduled. The rest
// belongs to the goroutine that runs the BMC's job; while no job is scheduled, to the holder of Pool.mu.
type bmcQueue struct {
	jobs      []Job
	scheduled bool // it waits in a readyQueue, or one of its jobs runs
	expired   bool // its idle connection is to be closed
	used      time.Time
	answering bool // the last job reached the BMC

	client   Client
	unclosed []Client   // clients whose logout failed
	driver   *driverUse // of client
	peer     string     // the URL and the credentialsID of client
	keepIdle time.Duration
	limiter  *rate.Limiter
	failures failures
	logins   *logins    // of the pool
	observe  func(Call) // nil for none
}

func newBMCQueue(opts PoolOptions, all *logins) *bmcQueue {
	return &bmcQueue{
		logins:   all,
		failures: failures{}, limiter: rate.NewLimiter(rate.Limit(opts.Rate), max(1, int(opts.Rate/2))), used: time.Now(), keepIdle: opts.Idle, observe: opts.Observe,
	}
}

// run runs a job with the existing connection, or opens a new one.
func (q *bmcQueue) run(ctx context.Context, driver *driverUse, job Job) error {
	if ctx.Err() != nil {
		return errClosed
	}
	id := credentialsIDOf(job.Endpoint)
	if known := q.failures.active(id, time.Now()); known != nil && !job.IgnoreBackoff {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	ctx, login := q.logins.withLogin(ctx, job.Endpoint, id)
	err := q.connect(ctx, driver, job.Endpoint, id)
	if err == nil {
		defer q.resetCache()
		err = job.Run(ctx, observe(q.client, driver.scheme, q.observe))
	}
	login.end(err, time.Now())
	var e *Error
	if err != nil && !errors.As(err, &e) {
		return err // the error is not from the BMC: the job gave up
	}
	if err == nil || e.Kind == Unsupported {
		q.answering = true
		q.failures.clear(id)
		q.closeUnclosed(ctx)
		return err
	}
	q.drop(ctx)
	if errors.Is(e, ErrLoginDeferred) { // nothing was tried
		return e
	}
	q.answering = e.Kind != Unreachable
	return q.failures.record(err, e, id, time.Now())
}

// resetCache resets the cache of the connection, unless the job ended with an error that closed it.
func (q *bmcQueue) resetCache() {
	if cached, ok := q.client.(CacheResetter); ok {
		cached.ResetCache()
	}
}

// connect opens the connection, unless the existing one has the same URL and credentials.
func (q *bmcQueue) connect(ctx context.Context, driver *driverUse, e Endpoint, id credentialsID) error {
	peer := e.URL.String() + string(id[:])
	if q.client != nil && q.peer == peer {
		return nil
	}
	q.drop(ctx)
	e.Throttle = q.limiter.Wait
	start := time.Now()
	client, err := driver.Open(ctx, e)
	if q.observe != nil {
		q.observe(Call{Scheme: driver.scheme, Operation: "Open", Took: time.Since(start), Err: err})
	}
	if err != nil {
		return Wrap("Open", err)
	}
	q.client, q.driver, q.peer = client, driver, peer
	if driver.KeepIdle != nil {
		q.keepIdle = driver.KeepIdle(e)
	}
	return nil
}

// maxUnclosed bounds the sessions of a BMC that the pool remembers because their logout failed. BMCs allow 4 to 16 sessions.
const maxUnclosed = 3

// logoutTimeout bounds how long logouts delay the next job of the BMC.
const logoutTimeout = 5 * time.Second

// drop closes the connection, if there is one. An open session counts against the BMC's few, so it is closed even when the job's
// context has ended, and a failed logout is repeated when the BMC works again. A failed logout does not fail the job.
func (q *bmcQueue) drop(ctx context.Context) {
	if q.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	if q.client.Close(ctx) != nil && len(q.unclosed) < maxUnclosed {
		q.unclosed = append(q.unclosed, q.client)
	}
	q.client, q.peer = nil, ""
}

// closeUnclosed repeats failed logouts once. If one fails again, the session ends with the BMC's own timeout.
func (q *bmcQueue) closeUnclosed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	for _, client := range q.unclosed {
		_ = client.Close(ctx)
	}
	q.unclosed = nil
}
