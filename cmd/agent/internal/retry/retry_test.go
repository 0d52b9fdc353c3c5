package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
)

var errDown = errors.New("connection refused")

// TestDo: attempts are repeated with growing delays, until one succeeds or none can.
func TestDo(t *testing.T) {
	refused := Final(errors.New("refused"))
	for name, c := range map[string]struct {
		// answer is the outcome of an attempt after a time.
		answer  func(time.Duration) error
		forever bool
		want    error
		// attempts and took are the least and the most.
		attempts, mostAttempts int
		took, mostTook         time.Duration
	}{
		"at once":           {answer: func(time.Duration) error { return nil }, attempts: 1, mostAttempts: 1},
		"refused":           {answer: func(time.Duration) error { return refused }, want: refused, attempts: 1, mostAttempts: 1},
		"a failed":          {answer: func(time.Duration) error { return failure.New("Reason", "x") }, want: failure.New("Reason", "x"), attempts: 1, mostAttempts: 1},
		"down for a minute": {answer: until(time.Minute, errDown), attempts: 8, mostAttempts: 16, took: time.Minute, mostTook: 75 * time.Second},
		"down for too long": {answer: until(time.Hour, errDown), want: errDown, attempts: 80, mostAttempts: 100, took: 14 * time.Minute, mostTook: 15 * time.Minute},
		"down for long, and patient": {
			answer: until(time.Hour, errDown), forever: true, attempts: 300, mostAttempts: 400, took: time.Hour, mostTook: time.Hour + 15*time.Second,
		},
		// The client waits for a second before each of these answers.
		"no answer yet":     {answer: until(10*time.Second, ErrNotYet), attempts: 10, mostAttempts: 12, took: 10 * time.Second, mostTook: 12 * time.Second},
		"no answer, by far": {answer: until(time.Hour, ErrNotYet), attempts: 3600, mostAttempts: 3602, took: time.Hour, mostTook: time.Hour + 2*time.Second},
		"down between two answers": {
			answer: func(now time.Duration) error {
				switch {
				case now < 10*time.Minute, now > 11*time.Minute && now < 21*time.Minute:
					return errDown
				case now < 22*time.Minute:
					return ErrNotYet
				}
				return nil
			}, attempts: 200, mostAttempts: 300, took: 22 * time.Minute, mostTook: 23 * time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, attempts := time.Now(), 0
				b := Backoff{Forever: c.forever}
				err := b.Do(t.Context(), func(context.Context) error {
					attempts++
					err := c.answer(time.Since(start))
					if errors.Is(err, ErrNotYet) {
						time.Sleep(time.Second) // of the bubble's clock
					}
					return err
				})
				switch {
				case c.want == nil && err != nil, c.want != nil && (err == nil || !errors.Is(err, c.want) && err.Error() != c.want.Error()):
					t.Errorf("%v, and not %v", err, c.want)
				case attempts < c.attempts || attempts > c.mostAttempts:
					t.Errorf("%d attempts", attempts)
				case time.Since(start) < c.took || time.Since(start) > c.mostTook:
					t.Errorf("it takes %s", time.Since(start))
				}
				if errors.Is(err, errDown) && !failure.HasReason(err, wire.ReasonBootServerUnreachable) {
					t.Errorf("%v has no reason", err)
				}
			})
		})
	}
}

func until(end time.Duration, err error) func(time.Duration) error {
	return func(now time.Duration) error {
		if now < end {
			return err
		}
		return nil
	}
}

// TestDoStops: the end of the context ends the attempts. Its error is there with that of the last attempt, and is not final: the answer may have been lost.
func TestDoStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var told []error
		b := Backoff{Forever: true, Repeats: func(err error, _ time.Duration) { told = append(told, err) }}
		err := b.Do(ctx, func(context.Context) error { return errDown })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, errDown) || IsFinal(err) {
			t.Errorf("%v", err)
		}
		if len(told) < 5 || !errors.Is(told[0], errDown) {
			t.Errorf("%v", told)
		}
	})
}

// TestSucceeded: a success in between resets the delay.
func TestSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Backoff
		for start := time.Now(); time.Since(start) < time.Hour; b.Succeeded() {
			if err := b.Wait(t.Context(), errDown); err != nil {
				t.Fatal(err)
			}
		}
	})
}
