package bmc

import (
	"context"
	"fmt"
	"time"
)

// PowerState is the power state of a server.
type PowerState string

// The power states (DSP0268, Resource.PowerState). A server that is powering on or off is neither on nor off: the BMC may refuse or drop a
// command during the transition.
const (
	PowerOn     PowerState = "On"
	PowerOff    PowerState = "Off"
	PoweringOn  PowerState = "PoweringOn"
	PoweringOff PowerState = "PoweringOff"
)

// InTransition is true for a state that ends without a command.
func (s PowerState) InTransition() bool { return s == PoweringOn || s == PoweringOff }

// Power controls a server's power. The methods return when the BMC has accepted the command, not when it has taken effect: read the state
// back, as AwaitPower does. All methods except Reset and NMI are idempotent: PowerOn for a server that is on is no error, even if the BMC
// returns one. The error is Unsupported if the BMC does not offer the command; the driver reads the BMC's list of commands first, if it
// has one. The error is Busy while the power is in transition: the caller repeats the command after the transition.
type Power interface {
	// PowerState reads the power state.
	PowerState(ctx context.Context) (PowerState, error)
	// PowerOn switches the server on.
	PowerOn(ctx context.Context) error
	// ShutDown asks the operating system to shut down.
	ShutDown(ctx context.Context) error
	// ForceOff switches the server off at once.
	ForceOff(ctx context.Context) error
	// Cycle switches a running server off and on again. A server that is off is switched on.
	Cycle(ctx context.Context) error
	// Reset restarts a running server without cutting its power. For a server that is off the error is Failed.
	Reset(ctx context.Context) error
	// NMI sends the processors a non-maskable interrupt, which makes the operating system write a crash dump.
	NMI(ctx context.Context) error
}

// LastBoot is a BMC's record of the last start of a server. The zero value means that the BMC has no record.
type LastBoot struct {
	// ResetAt is when the server was last powered on or reset, by the BMC's clock; zero if it is not recorded.
	ResetAt time.Time
	// Progress is the stage of the boot: it grows during a boot, and falls when the server restarts. It is zero if it is not recorded.
	Progress int
}

// RestartedSince is true when the server was started between the two records.
func (b LastBoot) RestartedSince(before LastBoot) bool {
	return !b.ResetAt.IsZero() && !before.ResetAt.IsZero() && !b.ResetAt.Equal(before.ResetAt) || b.Progress > 0 && b.Progress < before.Progress
}

// BootRecorder reads the BMC's record of the last start of its server. The power state does not show every restart: a reset does not cut
// the power, and a cycle may be over between two reads.
type BootRecorder interface {
	// LastBoot reads the record. It is the zero value if the BMC has no record.
	LastBoot(ctx context.Context) (LastBoot, error)
}

// AwaitPower reads the power state at each interval until it is the wanted one. The error is Failed if ctx ends first.
func AwaitPower(ctx context.Context, p Power, want PowerState, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		state, err := p.PowerState(ctx)
		switch {
		case err == nil && state == want:
			return nil
		case err == nil:
			last = fmt.Errorf("the BMC still reports %s", state)
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
