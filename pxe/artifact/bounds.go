package artifact

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds on what is fetched at once: whoever names slow origins must not keep the others waiting.
const (
	mostFetches   = 16
	mostPerOrigin = 2
)

// lanes let so many fetches go at once, in all and from one origin.
type lanes struct {
	all chan struct{}

	mu      *sync.Mutex
	origins map[string]*origin
}

type origin struct {
	lane  chan struct{}
	users int
}

func newLanes() lanes {
	return lanes{all: make(chan struct{}, mostFetches), mu: &sync.Mutex{}, origins: map[string]*origin{}}
}

// enter waits for a turn at the origin and then for one of all. The function that it returns gives both back.
func (l lanes) enter(ctx context.Context, host string) (leave func(), err error) {
	l.mu.Lock()
	o := l.origins[host]
	if o == nil {
		o = &origin{lane: make(chan struct{}, mostPerOrigin)}
		l.origins[host] = o
	}
	o.users++
	l.mu.Unlock()
	leave = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if o.users--; o.users == 0 {
			delete(l.origins, host)
		}
	}
	for _, lane := range []chan struct{}{o.lane, l.all} {
		select {
		case lane <- struct{}{}:
			before := leave
			leave = func() { <-lane; before() }
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	return leave, nil
}

// stalling reads a body, and gives up when it brings nothing for a while.
type stalling struct {
	body    io.Reader
	after   time.Duration
	timer   *time.Timer
	stalled atomic.Bool
}

func newStalling(body io.Reader, after time.Duration, giveUp func()) *stalling {
	s := &stalling{body: body, after: after}
	s.timer = time.AfterFunc(after, func() {
		s.stalled.Store(true)
		giveUp()
	})
	return s
}

func (s *stalling) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	if n > 0 {
		s.timer.Reset(s.after)
	}
	return n, err
}

func (s *stalling) stop() { s.timer.Stop() }

// explain says what really ended the reading.
func (s *stalling) explain(err error) error {
	if err != nil && s.stalled.Load() {
		return fmt.Errorf("it sent nothing for %s", s.after)
	}
	return err
}
