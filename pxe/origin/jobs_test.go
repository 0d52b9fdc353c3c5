package origin

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

var errFailed = errors.New("failed")

// TestJobs: a job runs once at a time. Its error is remembered for RetryAfter, and while no repeated job runs. A success is not remembered.
func TestJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		end := make(chan error)
		jobs := NewJobs(JobOptions{RetryAfter: time.Minute}, func(context.Context, int) error { return <-end })
		defer jobs.Close()
		start := func(job, want int, err error) {
			t.Helper()
			got, gotErr := jobs.Start("dc", "disk", job)
			if got != want || !errors.Is(gotErr, err) {
				t.Errorf("job %d: %d, %v", job, got, gotErr)
			}
		}
		start(1, 1, nil)
		start(2, 1, nil) // the first one runs
		end <- errFailed
		synctest.Wait()
		start(3, 3, errFailed)  // not repeated yet
		time.Sleep(time.Minute) // of the bubble's clock: RetryAfter is over
		start(4, 4, errFailed)
		start(5, 4, nil)
		end <- nil
		synctest.Wait()
		g.Expect(jobs.known).To(BeEmpty())
	})
}

// TestRetries: a permanent error is remembered longer each time, and another one ends that.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		permanent := errors.New("permanent")
		jobs := NewJobs(JobOptions{RetryAfter: 1, MaxRetryAfter: 5, Permanent: func(err error) bool { return errors.Is(err, permanent) }},
			func(_ context.Context, err error) error { return err })
		defer jobs.Close()
		var delays []time.Duration
		for _, err := range []error{permanent, permanent, permanent, permanent, errFailed, permanent} {
			_, _ = jobs.Start("dc", "disk", err)
			synctest.Wait()
			delays = append(delays, jobs.known[jobKey{"dc", "disk"}].delay)
			time.Sleep(5 * time.Nanosecond) // of the clock of the bubble
		}
		g.Expect(delays).To(Equal([]time.Duration{1, 2, 4, 5, 1, 2}))
	})
}

// TestJobsOfANamespace: a namespace has at most MaxPerNamespace jobs, also when it repeats those that failed.
func TestJobsOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		fail, running := true, map[int]bool{}
		jobs := NewJobs(JobOptions{MaxPerNamespace: 2}, func(ctx context.Context, job int) error {
			if fail {
				return errFailed
			}
			running[job] = true
			<-ctx.Done()
			return nil
		})
		defer jobs.Close()
		start := func(namespace string, job int) {
			_, _ = jobs.Start(namespace, strconv.Itoa(job), job)
			synctest.Wait()
		}
		start("dc", 1)
		start("dc", 2)
		start("dc", 3)
		fail = false
		for job := range 5 {
			start("dc", job)
		}
		start("other", 5)
		g.Expect(running).To(Equal(map[int]bool{0: true, 1: true, 5: true}))
	})
}

// TestErrorsAreForgotten: users can name any number of URLs, so old errors are forgotten.
func TestErrorsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		jobs := NewJobs(JobOptions{}, func(context.Context, int) error { return errFailed })
		defer jobs.Close()
		for i := range maxErrors {
			_, _ = jobs.Start("dc", strconv.Itoa(i), i)
		}
		synctest.Wait()
		g.Expect(jobs.known).To(HaveLen(maxErrors))
		time.Sleep(time.Second) // of the bubble's clock: the errors are older than a moment
		_, _ = jobs.Start("dc", "another", 0)
		synctest.Wait()
		g.Expect(jobs.known).To(HaveLen(1))
	})
}
