// Package apifault makes an API server misbehave for one client. The tested provider connects to a real API server through a transport that delays,
// refuses, cuts or holds back as it is set. The package also has a clock that jumps.
package apifault

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
)

// Faults are the faults of an API server as one client sees it. The zero value has no faults. Faults may be switched while requests run.
type Faults struct {
	mu        sync.Mutex
	slow      time.Duration
	throttle  everyNth
	conflict  everyNth
	away      bool
	held      bool
	freed     chan struct{} // closed when watches are no longer held
	watches   map[*stream]struct{}
	disturbed map[string]int
}

// everyNth is a fault of every n-th request. Zero is no fault.
type everyNth struct{ every, seen int }

func (t *everyNth) next() bool {
	if t.every == 0 {
		return false
	}
	t.seen++
	return t.seen%t.every == 0
}

// The names of faults in Disturbed.
const (
	Slow     = "slow"
	Throttle = "throttled"
	Away     = "away"
	Conflict = "conflict"
	Cut      = "watch cut"
	Held     = "watch held"
)

// Slow delays each request. Zero ends it.
func (f *Faults) Slow(by time.Duration) { f.set(func() { f.slow = by }) }

// Throttle answers every n-th request with 429 and Retry-After: 1, as priority and fairness does. Zero ends it.
func (f *Faults) Throttle(every int) { f.set(func() { f.throttle = everyNth{every: every} }) }

// Conflict answers every n-th update and patch of the provider's own kinds with 409, without passing it on. Zero ends it.
func (f *Faults) Conflict(every int) { f.set(func() { f.conflict = everyNth{every: every} }) }

// Away refuses each request and cuts each watch while it is on.
func (f *Faults) Away(on bool) {
	f.set(func() { f.away = on })
	if on {
		f.CutWatches()
	}
}

// HoldWatches holds back watch events while it is on: caches are behind, but reads from the API server are current. When it ends, all events are delivered.
func (f *Faults) HoldWatches(on bool) {
	f.set(func() {
		switch {
		case on && !f.held:
			f.freed = make(chan struct{})
		case !on && f.held:
			close(f.freed)
		}
		f.held = on
	})
}

// CutWatches ends each running watch, as the idle timeout of a load balancer does.
func (f *Faults) CutWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.watches {
		f.count(Cut)
		go func() { _ = s.ReadCloser.Close() }() // over HTTP/2 it may block until the reader returns, which may need f.mu
	}
}

// Clear ends every fault.
func (f *Faults) Clear() {
	f.Slow(0)
	f.Throttle(0)
	f.Conflict(0)
	f.Away(false)
	f.HoldWatches(false)
}

// Disturbed returns how many requests each fault met.
func (f *Faults) Disturbed() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.disturbed)
}

func (f *Faults) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// count counts a request that met a fault. The caller holds f.mu.
func (f *Faults) count(name string) {
	if f.disturbed == nil {
		f.disturbed = map[string]int{}
	}
	f.disturbed[name]++
}

// Wrap returns a transport that has the faults.
func (f *Faults) Wrap(next http.RoundTripper) http.RoundTripper { return &transport{f, next} }

type transport struct {
	faults *Faults
	next   http.RoundTripper
}

// WrappedRoundTripper lets client-go find the wrapped transport.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip sends a request to the API server, unless a fault answers it.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	delay, response, err := t.faults.meet(request)
	if delay > 0 {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-request.Context().Done():
			err = request.Context().Err()
		}
	}
	if response != nil || err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // as RoundTrippers have to
		}
		return response, err
	}
	response, err = t.next.RoundTrip(request)
	if err == nil && isWatch(request) && response.StatusCode == http.StatusOK {
		response.Body = t.faults.watched(request, response.Body)
	}
	return response, err
}

// meet returns how long a request is delayed, and the answer that replaces that of the API server.
func (f *Faults) meet(request *http.Request) (time.Duration, *http.Response, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.away:
		f.count(Away)
		return 0, nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case f.throttle.next():
		f.count(Throttle)
		response := refuse(request, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later")
		response.Header.Set("Retry-After", "1")
		return 0, response, nil
	case changesOurs(request) && f.conflict.next():
		f.count(Conflict)
		return f.slow, refuse(request, http.StatusConflict, metav1.StatusReasonConflict,
			"the object has been modified; please apply your changes to the latest version and try again"), nil
	}
	if f.slow > 0 {
		f.count(Slow)
	}
	return f.slow, nil, nil
}

func isWatch(request *http.Request) bool {
	watch, _ := strconv.ParseBool(request.URL.Query().Get("watch")) // other values are no watch
	return request.Method == http.MethodGet && watch
}

// changesOurs is true for an update or a patch of an object of the provider's own kinds, or of its status.
func changesOurs(request *http.Request) bool {
	return (request.Method == http.MethodPut || request.Method == http.MethodPatch) && strings.HasPrefix(request.URL.Path, "/apis/infrastructure.cluster.x-k8s.io/")
}

// refuse returns an error answer in place of the API server's.
func refuse(request *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	content, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Message: message, Reason: reason, Code: int32(code), //nolint:gosec // an HTTP status
	})
	if err != nil {
		panic(err) // a plain struct
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(content)), ContentLength: int64(len(content)),
	}
}

// stream is the body of a watch.
type stream struct {
	io.ReadCloser

	faults *Faults
	done   <-chan struct{} // of the request
	closed chan struct{}
	once   sync.Once
}

func (f *Faults) watched(request *http.Request, body io.ReadCloser) io.ReadCloser {
	s := &stream{ReadCloser: body, faults: f, done: request.Context().Done(), closed: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watches == nil {
		f.watches = map[*stream]struct{}{}
	}
	f.watches[s] = struct{}{}
	return s
}

// Read returns watch events as soon as they are not held back.
func (s *stream) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	for {
		freed := s.faults.heldBack()
		if freed == nil {
			return n, err
		}
		select {
		case <-freed:
		case <-s.closed:
			return 0, io.ErrClosedPipe
		case <-s.done:
			return 0, io.ErrClosedPipe
		}
	}
}

// heldBack returns the channel that is closed when watches continue, or nil if they are not held.
func (f *Faults) heldBack() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.held {
		return nil
	}
	f.count(Held)
	return f.freed
}

// Close ends the watch.
func (s *stream) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.faults.set(func() { delete(s.faults.watches, s) })
	})
	return s.ReadCloser.Close()
}
