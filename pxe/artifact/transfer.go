package artifact

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// errSlow ends a transfer that is slower than the least rate.
var errSlow = errors.New("slower than the least rate")

// metered counts what is read from a body. A timer that each byte sets back would let an origin hold a lane with a byte now and then.
type metered struct {
	body io.Reader
	read atomic.Int64 // since the last look
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	m.read.Add(int64(n))
	return n, err
}

// watch cancels the transfer with errSlow after a window in which less than least bytes were read. It returns when ctx ends.
func (m *metered) watch(ctx context.Context, window time.Duration, least int64, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(window)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !m.fast(least) {
				cancel(errSlow)
				return
			}
		}
	}
}

// fast ends a window, and is true when at least so many bytes were read in it.
func (m *metered) fast(least int64) bool { return m.read.Swap(0) >= least }
