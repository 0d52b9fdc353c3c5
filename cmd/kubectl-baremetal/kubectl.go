package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// runKubectl runs kubectl, which has started this program, with the input of this program. Its output is written to out.
func (t *tool) runKubectl(ctx context.Context, out io.Writer, args ...string) error {
	program, err := exec.LookPath("kubectl")
	if err != nil {
		return fmt.Errorf("this command runs kubectl, which is not in PATH: %w", err)
	}
	command := exec.CommandContext(ctx, program, args...) //nolint:gosec // kubectl in PATH, as the user runs it
	command.Stdin, command.Stdout, command.Stderr = t.streams.In, out, t.streams.ErrOut
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
