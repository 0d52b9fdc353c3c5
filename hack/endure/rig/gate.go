package rig

import (
	"errors"
	"net/http"
	"sync"
)

// ErrHalted is the error of the requests of a halted provider.
var ErrHalted = errors.New("the provider was halted")

// gate passes every request of a provider, until it is closed permanently.
type gate struct {
	once sync.Once
	shut chan struct{}
}

func newGate() *gate { return &gate{shut: make(chan struct{})} }

func (g *gate) close() { g.once.Do(func() { close(g.shut) }) }

func (g *gate) closed() bool {
	select {
	case <-g.shut:
		return true
	default:
		return false
	}
}

func (g *gate) wrap(next http.RoundTripper) http.RoundTripper { return &gated{g, next} }

// gated sends no request after the gate is closed, and drops the answers that come later.
type gated struct {
	gate *gate
	next http.RoundTripper
}

func (r *gated) RoundTrip(request *http.Request) (*http.Response, error) {
	if r.gate.closed() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, ErrHalted
	}
	response, err := r.next.RoundTrip(request)
	if r.gate.closed() {
		if err == nil {
			_ = response.Body.Close()
		}
		return nil, ErrHalted
	}
	return response, err
}

// both applies inner and then outer. Either may be nil.
func both(inner, outer func(http.RoundTripper) http.RoundTripper) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		for _, wrap := range []func(http.RoundTripper) http.RoundTripper{inner, outer} {
			if wrap != nil {
				next = wrap(next)
			}
		}
		return next
	}
}
