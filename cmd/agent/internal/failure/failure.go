// Package failure has the error that ends a plan of the agent: an agent.Failure, which the boot server shows to a person.
package failure

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Error is a failure of a plan. Repeating what failed does not help.
type Error struct {
	agent.Failure

	cause error
}

// New returns a failure with one of wire.AgentFailureReasons. The format may have %w.
func New(reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Failure: agent.Failure{Reason: reason, Message: err.Error()}, cause: err}
}

func (e *Error) Error() string { return e.Reason + ": " + e.Message }

// Unwrap returns the error with the message, which wraps the causes.
func (e *Error) Unwrap() error { return e.cause }

// Recover makes a panic of a goroutine its error: without it the panic ends the first program, and with it the kernel. Defer it first.
func Recover(err *error) {
	if p := recover(); p != nil {
		*err = New(wire.ReasonAgentPanicked, "the agent panicked, which is a bug: %v\n%s", p, debug.Stack())
	}
}

// Protect runs a part of the agent that reads what others wrote. A panic is an error.
func Protect(run func() error) (err error) {
	defer Recover(&err)
	return run()
}

// Of returns the failure that err wraps, or nil.
func Of(err error) *agent.Failure {
	if f, ok := errors.AsType[*Error](err); ok {
		return &f.Failure
	}
	return nil
}

// HasReason is true if err wraps a failure with the reason.
func HasReason(err error, reason string) bool {
	f := Of(err)
	return f != nil && f.Reason == reason
}
