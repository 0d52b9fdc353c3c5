package artifact

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// errSlow ends a transfer that is slower than the minimum rate.
var errSlow = errors.New("slower than the minimum rate")

// metered counts the bytes read from a body. A timer that each byte resets would let an origin keep a lane with a byte now and then.
type metered struct {
	body        io.Reader
	windowBytes atomic.Int64 // since the window started
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	m.windowBytes.Add(int64(n))
	return n, err
}

// watch cancels the transfer with errSlow after a window with fewer bytes than minBytes. It returns when ctx ends.
func (m *metered) watch(ctx context.Context, window time.Duration, minBytes int64, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(window)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !m.endWindow(minBytes) {
				cancel(errSlow)
				return
			}
		}
	}
}

// endWindow ends a window, and is true if at least that many bytes were read in it.
func (m *metered) endWindow(minBytes int64) bool { return m.windowBytes.Swap(0) >= minBytes }
