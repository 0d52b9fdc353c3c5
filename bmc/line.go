package bmc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/time/rate"
)

// line is what the pool knows of a BMC. Its connection belongs to the job that runs; the rest is guarded by Pool.mu.
type line struct {
	queue     []Job
	scheduled bool // it stands in a lane, or a job runs
	expired   bool // its connection is to be dropped
	used      time.Time
	proven    bool // the last job reached the BMC

	// What follows belongs to whoever scheduled the line.
	client  Client
	driver  *driverUse // of client
	peer    string     // the URL and the identity that client was opened with
	keep    time.Duration
	limiter *rate.Limiter
	fault   fault
}

// fault is why a BMC is left alone for a while.
type fault struct {
	err      *Error
	count    int // in a row
	until    time.Time
	identity identity
}

// identity stands for credentials and trust: with others a fault may be gone.
type identity [sha256.Size]byte

func identityOf(e Endpoint) identity {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t", e.Username, e.Password, e.CA, e.InsecureSkipVerify))
}

func newLine(opts PoolOptions) *line {
	return &line{limiter: rate.NewLimiter(rate.Limit(opts.Rate), max(1, int(opts.Rate/2))), used: time.Now(), keep: opts.Idle}
}

// run runs a job with the connection that is there, or a new one.
func (l *line) run(ctx context.Context, driver *driverUse, job Job) error {
	if ctx.Err() != nil {
		return errClosed
	}
	identity := identityOf(job.Endpoint)
	if wait := time.Until(l.fault.until); wait > 0 && !job.Now && l.fault.identity == identity {
		known := *l.fault.err
		known.RetryAfter = wait
		return &known
	}
	ctx, cancel := context.WithTimeout(ctx, job.Timeout)
	defer cancel()
	err := l.connect(ctx, driver, job.Endpoint, identity)
	if err == nil {
		err = job.Run(ctx, l.client)
		if rester, ok := l.client.(Rester); ok {
			rester.Rest()
		}
	}
	return l.noteFault(ctx, err, identity)
}

// connect opens the connection, unless the one that is there will do.
func (l *line) connect(ctx context.Context, driver *driverUse, e Endpoint, id identity) error {
	peer := e.URL.String() + string(id[:])
	if l.client != nil && l.peer == peer {
		return nil
	}
	l.drop(ctx)
	e.Pace = l.limiter.Wait
	client, err := driver.Open(ctx, e)
	if err != nil {
		return Wrap("Open", err)
	}
	l.client, l.driver, l.peer = client, driver, peer
	if driver.KeepIdle != nil {
		l.keep = driver.KeepIdle(e)
	}
	return nil
}

// drop closes the connection, if there is one. A session that is not closed counts against the BMC's few: it is closed also
// when the job's time is up. Where the BMC refuses, it ends the session by itself some time, and the job is not the worse for it.
func (l *line) drop(ctx context.Context) {
	if l.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = l.client.Close(ctx)
	l.client, l.peer = nil, ""
}

// noteFault decides how long the BMC is left alone after an error, and returns the error with that time.
func (l *line) noteFault(ctx context.Context, err error, id identity) error {
	kind := KindOf(err)
	if err == nil || kind == Unsupported {
		l.fault, l.proven = fault{}, true
		return err
	}
	l.drop(ctx)
	l.proven = kind != Unreachable
	if kind != Unreachable && kind != Unauthorized {
		l.fault = fault{}
		return err
	}
	if l.fault.identity != id || l.fault.err == nil || l.fault.err.Kind != kind {
		l.fault = fault{identity: id}
	}
	l.fault.count++
	known := &Error{Kind: kind, Op: "Reach the BMC", Err: err, RetryAfter: max(leaveAlone(kind, l.fault.count), RetryAfter(err))}
	var same *Error
	if errors.As(err, &same) {
		known.Op, known.Err = same.Op, same.Err
	}
	l.fault.err, l.fault.until = known, time.Now().Add(known.RetryAfter)
	return known
}

// leaveAlone is how long a BMC is left alone after so many faults in a row.
//
// A refused login is not repeated for two minutes, then for ten, then for an hour: BMCs lock an account for minutes to an hour
// after three to five refusals within some minutes (iDRAC: 3 in 60 s; Supermicro: 3 in 5 minutes; XCC: 5). Half of a wait is added at random
// at most, so that BMCs that failed together are not asked together.
func leaveAlone(kind Kind, count int) time.Duration {
	var wait time.Duration
	switch kind {
	case Unauthorized:
		wait = []time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour}[min(count, 3)-1]
	default:
		wait = min(time.Second<<min(count-1, 10), time.Minute)
	}
	return wait + time.Duration(rand.Int64N(int64(wait)/2)) //nolint:gosec // it spreads load, and guards nothing
}
