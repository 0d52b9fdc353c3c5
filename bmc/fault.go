package bmc

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"time"
)

// identity stands for credentials and trust: with others a fault may be gone.
type identity [sha256.Size]byte

func identityOf(e Endpoint) identity {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %t", e.Username, e.Password, e.CA, e.InsecureSkipVerify))
}

// faults are why a BMC is left alone for a while: because it did not answer, or because it refused a login.
type faults struct {
	silence fault
	// refused are the logins that were refused, for each of the credentials that hosts behind the BMC have.
	refused map[identity]fault
}

// fault is one reason to leave a BMC alone.
type fault struct {
	err   *Error
	count int // in a row
	until time.Time
}

// mostRefused bounds the credentials that are remembered for a BMC. There is one in the usual case.
const mostRefused = 16

// known returns the error that a job with these credentials would meet, or nil where it is worth a try.
func (f *faults) known(id identity, now time.Time) error {
	for _, fault := range []fault{f.silence, f.refused[id]} {
		if wait := fault.until.Sub(now); fault.err != nil && wait > 0 {
			known := *fault.err
			known.RetryAfter = wait
			return &known
		}
	}
	return nil
}

// reached notes that the BMC did what these credentials asked for.
func (f *faults) reached(id identity) {
	f.silence = fault{}
	delete(f.refused, id)
}

// note decides how long the BMC is left alone after an error that is the BMC's, and returns err with that time.
func (f *faults) note(err error, e *Error, id identity, now time.Time) error {
	var before fault
	switch e.Kind {
	case Unauthorized:
		before = f.refused[id]
	case Unreachable:
		before = f.silence
	default:
		f.silence = fault{} // it answered
		return err
	}
	noted := fault{count: before.count + 1}
	known := *e
	known.RetryAfter = max(leaveAlone(e.Kind, noted.count), e.RetryAfter)
	noted.err, noted.until = &known, now.Add(known.RetryAfter)
	if e.Kind == Unreachable {
		f.silence = noted
		return &known
	}
	f.silence = fault{}
	if f.refused == nil {
		f.refused = map[identity]fault{}
	}
	if len(f.refused) >= mostRefused {
		for other := range f.refused {
			delete(f.refused, other)
			break
		}
	}
	f.refused[id] = noted
	return &known
}

// leaveAlone is how long a BMC is left alone after so many faults in a row.
//
// A refused login is not repeated for two minutes, then for ten, then for an hour: BMCs lock an account for minutes to an hour
// after three to five refusals within some minutes (iDRAC: 3 in 60 s; Supermicro: 3 in 5 minutes; XCC: 5). Half of a wait is added at random
// at most, so that BMCs that failed together are not asked together.
func leaveAlone(kind Kind, count int) time.Duration {
	var wait time.Duration
	switch kind {
	case Unauthorized:
		wait = []time.Duration{2 * time.Minute, 10 * time.Minute, time.Hour}[min(count, 3)-1]
	default:
		wait = min(time.Second<<min(count-1, 10), time.Minute)
	}
	return wait + time.Duration(rand.Int64N(int64(wait)/2)) //nolint:gosec // it spreads load, and guards nothing
}
