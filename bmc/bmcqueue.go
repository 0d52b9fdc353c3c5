package bmc

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"
)

// bmcQueue is what the pool knows of a BMC. The queue and whether it is scheduled are guarded by Pool.mu; the rest belongs to whoever
// scheduled the line: while nobody did, to the holder of Pool.mu.
type bmcQueue struct {
	queue     []Job
	scheduled bool // it stands in a lane, or a job runs
	expired   bool // its connection is to be dropped
	used      time.Time
	proven    bool // the last job reached the BMC

	client   Client
	unclosed []Client   // their logout failed
	driver   *driverUse // of client
	peer     string     // the URL and the identity that client was opened with
	keep     time.Duration
	limiter  *rate.Limiter
	faults   failures
	observe  func(Call) // nil for none
}

func newBMCQueue(opts PoolOptions) *bmcQueue {
	return &bmcQueue{faults: failures{}, limiter: rate.NewLimiter(rate.Limit(opts.Rate), max(1, int(opts.Rate/2))), used: time.Now(), keep: opts.Idle, observe: opts.Observe}
}

// run runs a job with the connection that is there, or a new one.
func (l *bmcQueue) run(ctx context.Context, driver *driverUse, job Job) error {
	if ctx.Err() != nil {
		return errClosed
	}
	id := credentialsIDOf(job.Endpoint)
	if known := l.faults.known(id, time.Now()); known != nil && !job.Now {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	err := l.connect(ctx, driver, job.Endpoint, id)
	if err == nil {
		err = job.Run(ctx, observe(l.client, driver.scheme, l.observe))
		if rester, ok := l.client.(CacheResetter); ok {
			rester.ResetCache()
		}
	}
	var e *Error
	if err != nil && !errors.As(err, &e) {
		return err // it is none of the BMC's: the job gave up by itself
	}
	if err == nil || e.Kind == Unsupported {
		l.proven = true
		l.faults.reached(id)
		l.closeAgain(ctx)
		return err
	}
	l.drop(ctx)
	l.proven = e.Kind != Unreachable
	return l.faults.note(err, e, id, time.Now())
}

// connect opens the connection, unless the one that is there will do.
func (l *bmcQueue) connect(ctx context.Context, driver *driverUse, e Endpoint, id credentialsID) error {
	peer := e.URL.String() + string(id[:])
	if l.client != nil && l.peer == peer {
		return nil
	}
	l.drop(ctx)
	e.Pace = l.limiter.Wait
	start := time.Now()
	client, err := driver.Open(ctx, e)
	if l.observe != nil {
		l.observe(Call{Scheme: driver.scheme, Operation: "Open", Took: time.Since(start), Err: err})
	}
	if err != nil {
		return Wrap("Open", err)
	}
	l.client, l.driver, l.peer = client, driver, peer
	if driver.KeepIdle != nil {
		l.keep = driver.KeepIdle(e)
	}
	return nil
}

// mostUnclosed is how many sessions of a BMC are remembered that could not be ended. It is less than BMCs have, which is 4 to 16.
const mostUnclosed = 3

// logoutTimeout bounds what the end of sessions may take from who waits for the BMC.
const logoutTimeout = 5 * time.Second

// drop closes the connection, if there is one. A session that is not closed counts against the BMC's few: it is closed also
// when the job's time is up, and once more when the BMC is well again. The job is not the worse for it.
func (l *bmcQueue) drop(ctx context.Context) {
	if l.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	if l.client.Close(ctx) != nil && len(l.unclosed) < mostUnclosed {
		l.unclosed = append(l.unclosed, l.client)
	}
	l.client, l.peer = nil, ""
}

// closeAgain tries once more to end the sessions whose logout failed. What the BMC does not let go of then it ends by itself some time.
func (l *bmcQueue) closeAgain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
	defer cancel()
	for _, client := range l.unclosed {
		_ = client.Close(ctx)
	}
	l.unclosed = nil
}
