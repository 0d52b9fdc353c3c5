package origin

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// ErrSlow ends a transfer that is slower than the minimum rate.
var ErrSlow = errors.New("slower than the minimum rate")

// Metered counts the bytes read from a body. A timer that each byte resets would let an origin keep a lane with a byte now and then.
type Metered struct {
	Body        io.Reader
	windowBytes atomic.Int64 // since the window started
}

// Read reads from the body.
func (m *Metered) Read(p []byte) (int, error) {
	n, err := m.Body.Read(p)
	m.windowBytes.Add(int64(n))
	return n, err
}

// Watch cancels the transfer with ErrSlow after a window with fewer bytes than minBytes. It returns when ctx ends.
func (m *Metered) Watch(ctx context.Context, window time.Duration, minBytes int64, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(window)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !m.endWindow(minBytes) {
				cancel(ErrSlow)
				return
			}
		}
	}
}

// endWindow ends a window, and is true if at least that many bytes were read in it.
func (m *Metered) endWindow(minBytes int64) bool { return m.windowBytes.Swap(0) >= minBytes }
