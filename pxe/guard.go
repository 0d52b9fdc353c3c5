package pxe

import (
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

// requests has two labels with few values. The label what is script, seed, report, agent, file, media, loader or other.
var requests = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
	Name: "capbm_http_requests_total", Help: "HTTP requests to the boot server, by what was requested and result.",
}, []string{"what", "result"})

const (
	outcomeServed  = "served"
	outcomeRefused = "refused"
	outcomeLimited = "limited" // refused without a check, after too many failed attempts from the address
	outcomeError   = "error"
)

var (
	errLimited       = fmt.Errorf("%w: too many failed attempts", ErrRefused)
	errHead          = fmt.Errorf("%w: a HEAD would bind data that it does not get", ErrRefused)
	errNoAddress     = fmt.Errorf("%w: the client has no address", ErrRefused)
	errHTTPSRequired = fmt.Errorf("%w: HTTPS is required", ErrRefused)
	errNoName        = fmt.Errorf("%w: no host can have that name", ErrRefused)
	errNotFound      = fmt.Errorf("%w: not found", ErrRefused)
)

// guard wraps every route. It counts requests, logs those that were not served, and limits guessing.
type guard struct {
	log        logr.Logger
	attempts   *attemptLimiter
	logLimiter *rate.Limiter // limits the messages about requests
}

func newGuard(log logr.Logger) *guard {
	return &guard{log: log, attempts: newAttemptLimiter(), logLimiter: rate.NewLimiter(1, 50)}
}

// requestError has the error of a request that was not served. withBounds puts it into the request's context: a wrapped ResponseWriter would prevent the kernel from
// sending files (sendfile).
type requestError struct{ err error }

type requestErrorKey struct{}

// open guards a route without secrets.
func (g *guard) open(what string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// The content of a path differs from boot to boot.
		w.Header().Set("Cache-Control", "no-store")
		next(w, r)
		err := errorOf(r)
		requests.WithLabelValues(what, outcomeOf(err)).Inc()
		if err != nil && g.logLimiter.Allow() {
			// The path may contain a token, and is not logged.
			log := g.log.WithValues("client", clientOf(r), "request", what)
			if errors.Is(err, ErrRefused) {
				log.Info("Refused an HTTP request", "why", err.Error())
			} else {
				log.Error(err, "Failed to answer an HTTP request")
			}
		}
	}
}

// agent guards a route of the agent. A limited agent asks again: its disk may be half written, and the failed attempts may be those of another client of its
// network.
func (g *guard) agent(next http.HandlerFunc) http.HandlerFunc {
	return g.limited("agent", next, func(w http.ResponseWriter, r *http.Request) {
		recordError(r, errLimited)
		w.Header().Set("Retry-After", agentRetry)
		w.WriteHeader(http.StatusTooManyRequests)
	})
}

// secret guards a route that serves or changes data of one server. A client with too many failed attempts is refused without a check.
func (g *guard) secret(what string, next http.HandlerFunc) http.HandlerFunc {
	return g.limited(what, next, func(w http.ResponseWriter, r *http.Request) { refuse(w, r, errLimited) })
}

// limited is secret with an answer for clients with too many failed attempts.
func (g *guard) limited(what string, next, limit http.HandlerFunc) http.HandlerFunc {
	return g.open(what, func(w http.ResponseWriter, r *http.Request) {
		from := clientOf(r)
		switch {
		case !g.attempts.allowed(from):
			limit(w, r)
			return
		case !from.IsValid():
			refuse(w, r, errNoAddress)
		default:
			next(w, r)
		}
		// A client that asks for a file which its seed does not have presented the right token.
		if err := errorOf(r); errors.Is(err, ErrRefused) && !errors.Is(err, errNotFound) || errors.Is(err, ErrTokenUnknown) {
			g.attempts.countFailure(from)
		}
	})
}

// withoutHead refuses a HEAD. The first request binds the data to its client, which must then get the data.
func withoutHead(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			refuse(w, r, errHead)
			return
		}
		next(w, r)
	}
}

// recordError records the error of a request that was answered nevertheless.
func recordError(r *http.Request, err error) {
	if v, ok := r.Context().Value(requestErrorKey{}).(*requestError); ok {
		v.err = err
	}
}

func errorOf(r *http.Request) error {
	if v, ok := r.Context().Value(requestErrorKey{}).(*requestError); ok {
		return v.err
	}
	return nil
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeServed
	case errors.Is(err, errLimited):
		return outcomeLimited
	case errors.Is(err, ErrRefused):
		return outcomeRefused
	default:
		return outcomeError
	}
}

// refuse ends a request with an error. No other function does. All refusals are the same, whatever the reason, so that a client learns nothing else. Any other
// error is answered by "not now", after which operating systems ask again. Such an answer depends on no secret, or goes to clients that presented the token.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	recordError(r, err)
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
