package pxe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// requests has two labels with few values: what was asked for is script, seed, report, file, loader or other.
var requests = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
	Name: "capbm_http_requests_total", Help: "HTTP requests to the boot server, by what was requested and result.",
}, []string{"what", "result"})

// How requests end.
const (
	outcomeServed  = "served"
	outcomeRefused = "refused"
	outcomeLimited = "limited" // refused unheard, after too many wrong tries from the address
	outcomeError   = "error"
)

var (
	errLimited = fmt.Errorf("%w: too many wrong tries", ErrRefused)
	errHead    = fmt.Errorf("%w: a HEAD would bind what it does not get", ErrRefused)
	errNobody  = fmt.Errorf("%w: the requester has no address", ErrRefused)
	errPlain   = fmt.Errorf("%w: this goes over HTTPS only", ErrRefused)
	errNoName  = fmt.Errorf("%w: no host can have that name", ErrRefused)
	errNothing = fmt.Errorf("%w: there is nothing of that name", ErrRefused)
)

// guard stands before every route. It counts requests, logs those that were not served, and lets nobody guess.
type guard struct {
	log   logr.Logger
	tries *tries
	lines *rate.Limiter // of the log
}

func newGuard(log logr.Logger) *guard {
	return &guard{log: log, tries: newTries(), lines: rate.NewLimiter(1, 50)}
}

// verdict is why a request was not served. It travels in the request's context: a wrapped answer would keep files from being sent
// by the kernel.
type verdict struct{ err error }

type verdictKey struct{}

// open guards a route that gives away nothing secret.
func (g *guard) open(what string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &verdict{}
		// What is below a path differs from boot to boot.
		w.Header().Set("Cache-Control", "no-store")
		next(w, r.WithContext(context.WithValue(r.Context(), verdictKey{}, v)))
		requests.WithLabelValues(what, v.outcome()).Inc()
		if v.err != nil && g.lines.Allow() {
			// The path may hold a token, and is not logged.
			log := g.log.WithValues("client", clientOf(r), "request", what)
			if errors.Is(v.err, ErrRefused) {
				log.Info("Refused", "why", v.err.Error())
			} else {
				log.Error(v.err, "Answer HTTP")
			}
		}
	}
}

// secret guards a route that gives away, or changes, what is one server's. Whoever tried wrongly too often is refused unheard.
func (g *guard) secret(what string, next http.HandlerFunc) http.HandlerFunc {
	return g.open(what, func(w http.ResponseWriter, r *http.Request) {
		from := clientOf(r)
		switch {
		case !g.tries.left(from):
			refuse(w, r, errLimited)
			return
		case !from.IsValid():
			refuse(w, r, errNobody)
		default:
			next(w, r)
		}
		// Who asks for a file that his seed does not have has the token.
		if err := verdictOf(r); errors.Is(err, ErrRefused) && !errors.Is(err, errNothing) {
			g.tries.wrong(from)
		}
	})
}

// withoutHead refuses a HEAD: the first who asks binds what he asks for, and shall have it.
func withoutHead(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			refuse(w, r, errHead)
			return
		}
		next(w, r)
	}
}

// remember notes what went wrong with a request that was answered all the same.
func remember(r *http.Request, err error) {
	if v, ok := r.Context().Value(verdictKey{}).(*verdict); ok {
		v.err = err
	}
}

func verdictOf(r *http.Request) error {
	if v, ok := r.Context().Value(verdictKey{}).(*verdict); ok {
		return v.err
	}
	return nil
}

func (v *verdict) outcome() string {
	switch {
	case v.err == nil:
		return outcomeServed
	case errors.Is(v.err, errLimited):
		return outcomeLimited
	case errors.Is(v.err, ErrRefused):
		return outcomeRefused
	default:
		return outcomeError
	}
}

// refuse ends a request with an error, and is the only way to do so. Every refusal is the same, whatever its reason: who asks learns
// that he is refused, and no more. Any other error is answered by "not now", which operating systems take as a reason to ask again; it
// comes to everybody alike, or to those who showed the token.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	remember(r, err)
	status, body := http.StatusServiceUnavailable, "not now\n"
	if errors.Is(err, ErrRefused) {
		status, body = http.StatusForbidden, "refused\n"
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
