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

// ReadError is an error of the origin while a body is read. An error of the disk that the body is written to is not a ReadError.
type ReadError struct{ Err error }

func (e *ReadError) Error() string { return e.Err.Error() }
func (e *ReadError) Unwrap() error { return e.Err }

// MinRate is how fast an origin must send a body.
type MinRate struct {
	// BytesPerSecond is how many bytes must come in a second, on average in each Window.
	BytesPerSecond int64
	Window         time.Duration
}

// DefaultMinRate is 32 KiB a second on average in 30 seconds.
var DefaultMinRate = MinRate{32 << 10, 30 * time.Second}

// Meter returns a reader of a body, which calls cancel with ErrSlow after a window in which fewer bytes were read. It stops to watch the body when ctx ends. Every
// error of the reader except io.EOF is a *ReadError.
func (r MinRate) Meter(ctx context.Context, body io.Reader, cancel context.CancelCauseFunc) io.Reader {
	m := &metered{body: body}
	go func() {
		ticker := time.NewTicker(r.Window)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if !m.endWindow(int64(float64(r.BytesPerSecond) * r.Window.Seconds())) {
					cancel(ErrSlow)
					return
				}
			}
		}
	}()
	return m
}

// metered counts the bytes read from a body. A timer that each byte resets would let an origin keep a slot with a byte now and then.
type metered struct {
	body        io.Reader
	windowBytes atomic.Int64 // since the window started
}

// Read reads from the body.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	m.windowBytes.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		err = &ReadError{err}
	}
	return n, err
}

// endWindow ends a window, and is true if at least that many bytes were read in it.
func (m *metered) endWindow(minBytes int64) bool { return m.windowBytes.Swap(0) >= minBytes }
