package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// runKubectl runs kubectl, which has started this program, with the input and output of this program.
func (t *tool) runKubectl(ctx context.Context, args ...string) error {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("this command runs kubectl, which is not in PATH: %w", err)
	}
	command := exec.CommandContext(ctx, program, args...)                                            //nolint:gosec // kubectl in PATH, as the user runs it
	command.Stdin, command.Stdout, command.Stderr = t.streams.In, t.streams.ErrOut, t.streams.ErrOut // the standard output is for the result
	command.Cancel = func() error {
		if err := command.Process.Signal(os.Interrupt); err != nil { // Windows has no such signal
			return command.Process.Kill()
		}
		return nil
	}
	err = command.Run()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return fmt.Errorf("kubectl ended with the exit code %d", exit.ExitCode())
	}
	return err
}
