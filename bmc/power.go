package bmc

import (
	"context"
	"fmt"
	"time"
)

// PowerState is the power state of a server.
type PowerState string

// The power states. A server in transition is on: only one that is off for sure is off.
const (
	PowerOn  PowerState = "On"
	PowerOff PowerState = "Off"
)

// Power switches a server. The methods return when the BMC accepted the command, not when it took effect: read the state back,
// as AwaitPower does. All but Reset and NMI are idempotent: on for a server that is on is no error, also where the BMC calls it
// one. The error is Unsupported where the BMC does not offer the command; BMCs that tell which they offer are asked first.
type Power interface {
	// PowerState reads the power state.
	PowerState(ctx context.Context) (PowerState, error)
	// PowerOn switches the server on.
	PowerOn(ctx context.Context) error
	// ShutDown asks the operating system to shut down.
	ShutDown(ctx context.Context) error
	// ForceOff switches the server off at once.
	ForceOff(ctx context.Context) error
	// Cycle switches a running server off and on. It switches a server that is off on.
	Cycle(ctx context.Context) error
	// Reset restarts a running server without cutting its power. For a server that is off the error is Failed.
	Reset(ctx context.Context) error
	// NMI sends the processors a non-maskable interrupt, which makes an operating system write a crash dump.
	NMI(ctx context.Context) error
}

// AwaitPower reads the power state, every so often, until it is the one wanted. The error is Failed when ctx ends before.
func AwaitPower(ctx context.Context, p Power, want PowerState, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var last error
	for {
		state, err := p.PowerState(ctx)
		switch {
		case err == nil && state == want:
			return nil
		case err == nil:
			last = fmt.Errorf("the BMC still says %s", state)
		case ctx.Err() == nil || last == nil:
			last = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return &Error{Kind: Failed, Op: "Wait for the power to be " + string(want), Err: last}
		}
	}
}

// SwitchOff shuts the operating system down and, when the server is not off after grace, switches it off. It returns when the
// server is off, or ctx ends.
func SwitchOff(ctx context.Context, p Power, grace, every time.Duration) error {
	if err := p.ShutDown(ctx); err == nil {
		soft, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		if AwaitPower(soft, p, PowerOff, every) == nil {
			return nil
		}
	}
	if err := p.ForceOff(ctx); err != nil {
		return err
	}
	return AwaitPower(ctx, p, PowerOff, every)
}
