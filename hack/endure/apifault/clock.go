package apifault

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"k8s.io/utils/clock"
)

// Clock is a clock that jumps. It implements clock.PassiveClock; the zero value tells the real time.
type Clock struct {
	mu   sync.Mutex
	wall time.Duration
	both time.Duration
}

var _ clock.PassiveClock = &Clock{}

// Jump puts the wall clock forwards or backwards by whole seconds, as somebody who sets a machine's clock does. The monotonic clock, by which
// Go measures what lies between two times of one process, goes on as before.
func (c *Clock) Jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += by.Truncate(time.Second)
}

// Pass lets time pass: both clocks go forwards.
func (c *Clock) Pass(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.both += by
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return shifted(time.Now().Add(c.both), c.wall)
}

// Since returns the time that passed since another of the clock.
func (c *Clock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// clockTime is the layout of a time.Time with a monotonic reading: package time documents it beside the type.
type clockTime struct {
	wall uint64 // 1 bit set, 33 bits of seconds since 1885, 30 bits of nanoseconds
	ext  int64  // the monotonic reading
	loc  *time.Location
}

// shifted returns a time whose wall reading is another and whose monotonic reading is the same. Nothing but a machine whose clock is set
// makes such times, so package time has no way to make one.
func shifted(t time.Time, by time.Duration) time.Time {
	if by == 0 {
		return t
	}
	want := t.Round(0).Add(by)
	raw := (*clockTime)(unsafe.Pointer(&t))         //nolint:gosec // and what came of it is compared below
	raw.wall += uint64(int64(by/time.Second)) << 30 //nolint:gosec // a negative one is subtracted
	if !t.Round(0).Equal(want) {
		panic(fmt.Sprintf("apifault: package time keeps its times in another way by now: %s and %s", t, want))
	}
	return t
}
