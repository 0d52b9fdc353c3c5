package bmc

import (
	"context"
	"fmt"
	"time"
)

// PowerState is the power state of a server.
type PowerState string

// The power states (DSP0268, Resource.PowerState). A server that is powering on or off is neither on nor off: a command that comes meanwhile may be
// refused or dropped.
const (
	PowerOn     PowerState = "On"
	PowerOff    PowerState = "Off"
	PoweringOn  PowerState = "PoweringOn"
	PoweringOff PowerState = "PoweringOff"
)

// InTransition is true for a state that ends without a command.
func (s PowerState) InTransition() bool { return s == PoweringOn || s == PoweringOff }

// Power switches a server. The methods return when the BMC accepted the command, not when it took effect: read the state back,
// as AwaitPower does. All but Reset and NMI are idempotent: on for a server that is on is no error, also where the BMC calls it
// one. The error is Unsupported where the BMC does not offer the command; BMCs that tell which they offer are asked first. It is Busy
// where the power is in transition, and the command has to wait for the end of it.
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

// LastBoot is what a BMC records of the last start of a server. The zero value stands for a BMC that records nothing.
type LastBoot struct {
	// ResetAt is when the server was last powered on or reset, by the BMC's clock; zero where it is not recorded.
	ResetAt time.Time
	// Progress is how far the boot is: it grows during a boot, and falls when the server restarts. Zero where it is not recorded.
	Progress int
}

// RestartedSince is true when the server was started between the two records.
func (b LastBoot) RestartedSince(before LastBoot) bool {
	return !b.ResetAt.IsZero() && !before.ResetAt.IsZero() && !b.ResetAt.Equal(before.ResetAt) || b.Progress > 0 && b.Progress < before.Progress
}

// BootRecorder is a client whose BMC may record the last start of its server. The power state alone does not show a restart: a reset does not cut the
// power, and a cycle may be over between two readings.
type BootRecorder interface {
	// LastBoot reads the record. It is the zero value where the BMC records nothing.
	LastBoot(ctx context.Context) (LastBoot, error)
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
