package bmc

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"
)

// credentialsID stands for how a BMC is asked: protocol, port, credentials and trust. With another one a fault may be gone. Who asks in a wrong way does not keep
// others from asking: hosts of several tenants may name one BMC.
type credentialsID [sha256.Size]byte

func credentialsIDOf(e Endpoint) credentialsID {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %t", e.URL.Scheme, e.URL.Host, e.Username, e.Password, e.CA, e.InsecureSkipVerify))
}

// failures are why a BMC is left alone for a while by those who ask it in one way: because it did not answer, or because it refused a login.
type failures map[credentialsID]failure

// failure is one reason to leave a BMC alone.
type failure struct {
	err   *Error
	count int // in a row
	until time.Time
}

// maxFailures bounds the identities that are remembered for a BMC. There is one in the usual case.
const maxFailures = 16

// known returns the error that a job with this identity would meet, or nil where it is worth a try.
func (f failures) known(id credentialsID, now time.Time) error {
	fault := f[id]
	wait := fault.until.Sub(now)
	if fault.err == nil || wait <= 0 {
		return nil
	}
	known := *fault.err
	known.RetryAfter = wait
	return &known
}

// reached notes that the BMC did what was asked with this identity.
func (f failures) reached(id credentialsID) { delete(f, id) }

// note decides how long the BMC is left alone after an error that is the BMC's, and returns err with that time.
func (f failures) note(err error, e *Error, id credentialsID, now time.Time) error {
	if e.Kind != Unauthorized && e.Kind != Unreachable {
		delete(f, id) // it answered
		return err
	}
	noted := failure{count: 1}
	if before := f[id]; before.err != nil && before.err.Kind == e.Kind {
		noted.count += before.count
	}
	known := *e
	known.RetryAfter = max(backoff(e.Kind, noted.count), e.RetryAfter)
	noted.err, noted.until = &known, now.Add(known.RetryAfter)
	if _, there := f[id]; !there && len(f) >= maxFailures {
		delete(f, f.soonest())
	}
	f[id] = noted
	return &known
}

// soonest returns the identity that is worth a try soonest.
func (f failures) soonest() (id credentialsID) {
	var until time.Time
	for other, fault := range f {
		if until.IsZero() || fault.until.Before(until) {
			id, until = other, fault.until
		}
	}
	return id
}

// backoff is how long a BMC is left alone after so many faults in a row.
//
// A refused login is not repeated for two minutes, then for ten, then for an hour: BMCs lock an account for minutes to an hour
// after three to five refusals within some minutes (iDRAC: 3 in 60 s; Supermicro: 3 in 5 minutes; XCC: 5). Half of a wait is added at random
// at most, so that BMCs that failed together are not asked together.
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
