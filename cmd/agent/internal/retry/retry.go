// Package retry repeats the requests that a network or a boot server may fail: a link that drops for a minute, a boot server that restarts. Nothing else in the
// agent repeats a request.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
)

// The delays between attempts double from firstDelay to maxDelay. giveUpAfter is counted from the first failure after the last success: it is longer than
// the restart of a boot server with the election of a leader, and than that of an API server.
const (
	firstDelay  = 500 * time.Millisecond
	maxDelay    = 10 * time.Second
	giveUpAfter = 15 * time.Minute
)

// ErrNotYet means that the boot server has no answer yet. The function that returns it has waited as long as the boot server said, so the next attempt follows at once. It does not count towards giveUpAfter: the boot
// server answers, and refuses the agent when the time of the boot is over.
var ErrNotYet = errors.New("the boot server has no answer yet")

// Backoff delays attempts. The zero value is ready.
type Backoff struct {
	// Forever repeats until the context ends. Otherwise the plan fails after giveUpAfter.
	Forever bool
	// Repeats, where not nil, is called before the delay with the error of an attempt. It is not called for ErrNotYet.
	Repeats func(err error, delay time.Duration)

	delay time.Duration
	since time.Time
}

// Succeeded resets the delay and the time.
func (b *Backoff) Succeeded() { b.delay, b.since = 0, time.Time{} }

// Wait waits before the next attempt after err. It returns an error if there is none: err is final, ctx has ended, or it has taken too long.
func (b *Backoff) Wait(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return stopped(ctx, err)
	}
	if IsFinal(err) {
		return err
	}
	if errors.Is(err, ErrNotYet) { // the boot server answers, and ends the boot when its time is up
		b.since = time.Time{}
		return nil
	}
	now := time.Now()
	if b.since.IsZero() {
		b.since, b.delay = now, firstDelay
	}
	delay := b.delay + rand.N(b.delay/4) //nolint:gosec // no secret: it spreads the requests of many servers
	b.delay = min(2*b.delay, maxDelay)
	if !b.Forever && now.Sub(b.since)+delay > giveUpAfter {
		return failure.New(wire.ReasonBootServerUnreachable, "no answer of the boot server for %s, last: %w (check the network between the server and the boot server)",
			now.Sub(b.since).Round(time.Second), err)
	}
	if b.Repeats != nil {
		b.Repeats(err, delay)
	}
	if Pause(ctx, delay) != nil {
		return stopped(ctx, err)
	}
	return nil
}

// stopped is the error of attempts that ctx has ended, with the last one.
func stopped(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		return errors.Join(cause, err)
	}
	return err
}

// Do repeats f until it succeeds or no attempt follows.
func (b *Backoff) Do(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if err := b.Wait(ctx, err); err != nil {
			return err
		}
	}
}

// Do repeats f until it succeeds, its error is final, or the boot server is gone for too long.
func Do(ctx context.Context, f func(context.Context) error) error { return (&Backoff{}).Do(ctx, f) }

// finalError is an error after which no attempt follows.
type finalError struct{ error }

func (e finalError) Unwrap() error { return e.error }

// Final makes an error final.
func Final(err error) error { return finalError{err} }

// IsFinal is true for an error after which no attempt follows: a final one, and a failure of the plan.
func IsFinal(err error) bool {
	_, final := errors.AsType[finalError](err)
	return final || failure.Of(err) != nil
}

// Pause waits, or returns the cause of the end of ctx.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
