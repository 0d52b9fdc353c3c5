package bmc

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"
)

// credentialsID identifies how a job connects to a BMC: protocol, port, credentials and trust. Failures are kept for each ID, because
// hosts of several tenants may name one BMC, and wrong credentials of one must not block the others.
type credentialsID [sha256.Size]byte

func credentialsIDOf(e Endpoint) credentialsID {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %t", e.URL.Scheme, e.URL.Host, e.Username, e.Password, e.CA, e.InsecureSkipVerify))
}

// failures are the reasons why the pool does not contact a BMC for a while: it did not answer, or it refused a login.
type failures map[credentialsID]failure

// failure is one reason not to contact a BMC.
type failure struct {
	err   *Error
	count int // in a row
	until time.Time
}

// maxFailures bounds the IDs that are remembered for a BMC. Usually there is one.
const maxFailures = 16

// active returns the error that jobs with this ID end with until the backoff is over. It is nil when a job may try.
func (f failures) active(id credentialsID, now time.Time) error {
	last := f[id]
	wait := last.until.Sub(now)
	if last.err == nil || wait <= 0 {
		return nil
	}
	err := *last.err
	err.RetryAfter = wait
	return &err
}

// clear removes the failure after a success with this ID.
func (f failures) clear(id credentialsID) { delete(f, id) }

// record starts a backoff after an error of the BMC, and returns err with the backoff as RetryAfter.
func (f failures) record(err error, e *Error, id credentialsID, now time.Time) error {
	if e.Kind != Unauthorized && e.Kind != Unreachable {
		delete(f, id) // it answered
		return err
	}
	recorded := failure{count: 1}
	if before := f[id]; before.err != nil && before.err.Kind == e.Kind {
		recorded.count += before.count
	}
	known := *e
	known.RetryAfter = max(backoff(e.Kind, recorded.count), e.RetryAfter)
	recorded.err, recorded.until = &known, now.Add(known.RetryAfter)
	if _, exists := f[id]; !exists && len(f) >= maxFailures {
		delete(f, f.earliest())
	}
	f[id] = recorded
	return &known
}

// earliest returns the ID whose backoff ends first.
func (f failures) earliest() (id credentialsID) {
	var until time.Time
	for other, failure := range f {
		if until.IsZero() || failure.until.Before(until) {
			id, until = other, failure.until
		}
	}
	return id
}

// backoff is how long the pool does not contact a BMC after this many failures in a row.
//
// A refused login is not repeated for two minutes, then for ten, then for an hour: BMCs lock an account for minutes to an hour
// after three to five refusals within some minutes (iDRAC: 3 in 60 s; Supermicro: 3 in 5 minutes; XCC: 5). A random delay of up to half
// of the wait is added, so that BMCs that failed together are not contacted together.
func backoff(kind Kind, count int) time.Duration {
	var wait time.Duration
	switch kind {
	case Unauthorized:
		wait = []time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour}[min(count, 3)-1]
	default:
		wait = min(time.Second<<min(count-1, 10), time.Minute)
	}
	return wait + time.Duration(rand.Int64N(int64(wait)/2)) //nolint:gosec // it spreads load, and guards nothing
}
