// Package retry repeats what a network may fail: a link that drops for a minute, a boot server that restarts. It gives up after a time.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// The delays between attempts double from firstDelay to maxDelay. giveUpAfter is counted from the first failure after the last success: it is longer than
// the restart of a boot server with the election of a leader.
const (
	firstDelay  = 500 * time.Millisecond
	maxDelay    = 10 * time.Second
	giveUpAfter = 10 * time.Minute
)

// Backoff delays attempts. The zero value is ready.
type Backoff struct {
	delay time.Duration
	since time.Time
}

// Succeeded begins anew.
func (b *Backoff) Succeeded() { *b = Backoff{} }

// Wait waits before the next attempt after err. It returns an error if there is none: err is final, ctx has ended, or it has taken too long.
func (b *Backoff) Wait(ctx context.Context, err error) error {
	if stopped := ctx.Err(); stopped != nil {
		return context.Cause(ctx)
	}
	if IsFinal(err) {
		return err
	}
	now := time.Now()
	if b.since.IsZero() {
		b.since, b.delay = now, firstDelay
	}
	if now.Sub(b.since)+b.delay > giveUpAfter {
		return failure.New(agent.ReasonServerUnreachable, "no answer of the boot server for %s, last: %w (check the network between the server and the boot server)",
			now.Sub(b.since).Round(time.Second), err)
	}
	timer := time.NewTimer(b.delay)
	defer timer.Stop()
	b.delay = min(2*b.delay, maxDelay)
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Do repeats f until it succeeds or its error is final.
func Do(ctx context.Context, f func(context.Context) error) error {
	var b Backoff
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
