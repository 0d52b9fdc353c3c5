package dhcp

import (
	"errors"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// Result is how a request ended. It is a label of a metric, so there are few values.
type Result string

// The results of requests, over IPv4 and IPv6.
const (
	ResultAnswered   Result = "answered"
	ResultRefused    Result = "refused"    // a NAK
	ResultUnknown    Result = "unknown"    // not a server of the inventory
	ResultNothing    Result = "nothing"    // a server of the inventory without a boot file, in a network where another server gives addresses
	ResultNoNetwork  Result = "no-network" // from none of the networks
	ResultUntrusted  Result = "untrusted"  // for a network, from a source that is neither in it nor one of its relay agents
	ResultElsewhere  Result = "elsewhere"  // for another DHCP server
	ResultNoted      Result = "noted"      // RELEASE and DECLINE over IPv4, which have no answer
	ResultUnsuitable Result = "unsuitable" // a request that this server does not answer
	ResultMalformed  Result = "malformed"  // not DHCP
	ResultOverloaded Result = "overloaded" // too many at once
	ResultFailed     Result = "failed"     // an error of the boot server
	ResultPanicked   Result = "panicked"   // a bug of the boot server
)

// NoReplyError is why a request gets no answer. This is normal: many requests on a network are for other servers.
type NoReplyError struct {
	Result Result
	Reason string
}

func (e NoReplyError) Error() string { return e.Reason }

// NoReply returns the error of a request that gets no reply, with the reason for the log.
func NoReply(r Result, reason string) error { return NoReplyError{Result: r, Reason: reason} }

// NoLease returns the error of a request for which no address was found. A client that repeats a request which is being answered gets no second answer.
func NoLease(err error) error {
	if errors.Is(err, pxe.ErrNotYet) {
		return NoReply(ResultUnsuitable, err.Error())
	}
	return fmt.Errorf("find an address: %w", err)
}

// ResultOf returns the result of a request that ended with an error, or with an answer if err is nil.
func ResultOf(err error) Result {
	var e NoReplyError
	switch {
	case errors.As(err, &e):
		return e.Result
	case err != nil:
		return ResultFailed
	default:
		return ResultAnswered
	}
}
