package apifault

import (
	"fmt"
	"sync"
	"time"
	"unsafe"

	"k8s.io/utils/clock"
)

// Clock is a clock that jumps. It implements clock.PassiveClock. The zero value returns the real time.
type Clock struct {
	mu   sync.Mutex
	wall time.Duration
	both time.Duration
}

var _ clock.PassiveClock = &Clock{}

// Jump moves the wall clock forwards or backwards by whole seconds, like an administrator who sets the clock of a machine. The monotonic clock, by which
// Go measures durations within a process, continues as before.
func (c *Clock) Jump(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += by.Truncate(time.Second)
}

// Pass lets time pass: it moves both clocks forwards.
func (c *Clock) Pass(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.both += by
}

// Now returns the current time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return shifted(time.Now().Add(c.both), c.wall)
}

// Since returns the time that passed since an earlier time of this clock.
func (c *Clock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// clockTime is the layout of a time.Time with a monotonic reading, which package time documents with the type.
type clockTime struct {
	wall uint64 // 1 bit set, 33 bits of seconds since 1885, 30 bits of nanoseconds
	ext  int64  // the monotonic reading
	loc  *time.Location
}

// shifted returns a time with another wall reading and the same monotonic reading. Package time cannot make such a time (Go 1.26; no upstream issue found):
// only a machine whose clock is set makes one. Delete when testing/synctest or package time can.
func shifted(t time.Time, by time.Duration) time.Time {
	if by == 0 {
		return t
	}
	want := t.Round(0).Add(by)
	raw := (*clockTime)(unsafe.Pointer(&t))         //nolint:gosec // the result is compared below
	raw.wall += uint64(int64(by/time.Second)) << 30 //nolint:gosec // a negative value is subtracted
	if !t.Round(0).Equal(want) {
		panic(fmt.Sprintf("apifault: package time keeps its times in another way by now: %s and %s", t, want))
	}
	return t
}
