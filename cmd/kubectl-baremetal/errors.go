package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
)

// The exit codes.
const (
	// exitOK means that the object is as wanted, or waits no longer than usual, or that the change was made.
	exitOK = 0
	// exitFault means that a person has to act on the object, or that the change was refused or failed.
	exitFault = 1
	// exitUnanswered means that the question was not answered, or the change not tried: the command line is wrong, the object does not exist, or the cluster does not answer.
	exitUnanswered = 2
)

// exitError ends the program with an exit code. err is nil if there is nothing to print.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageErrorf is a mistake in the command line, with the remedy.
func usageErrorf(format string, args ...any) error {
	return &exitError{exitUnanswered, fmt.Errorf(format, args...)}
}

// unanswered is an error after which a question has no answer. It is nil if err is nil.
func unanswered(err error) error {
	if err == nil {
		return nil
	}
	var known *exitError
	if errors.As(err, &known) {
		return err
	}
	return &exitError{exitUnanswered, err}
}

// exitCode prints the error in one line, and returns the exit code.
func (t *tool) exitCode(err error) int {
	var known *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &known) && known.err == nil:
		return known.code
	case errors.Is(err, context.Canceled):
		view.Printf(t.streams.ErrOut, "kubectl baremetal: interrupted\n")
	default:
		view.Printf(t.streams.ErrOut, "kubectl baremetal: %s\n", terminal.Line(err.Error()))
	}
	switch {
	case known != nil:
		return known.code
	case strings.HasPrefix(err.Error(), "unknown command"): // by cobra
		return exitUnanswered
	default:
		return exitFault
	}
}
