package bmctest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

var powerChecks = []check{
	{"power off, also when it is off", bmc.CanForceOff, func(ctx context.Context, r *round) error {
		return errors.Join(r.setPower(ctx, bmc.PowerOff, r.client.ForceOff), r.setPower(ctx, bmc.PowerOff, r.client.ForceOff))
	}},
	{"power on, also when it is on", bmc.CanPowerOn, func(ctx context.Context, r *round) error {
		return errors.Join(r.setPower(ctx, bmc.PowerOn, r.client.PowerOn), r.setPower(ctx, bmc.PowerOn, r.client.PowerOn))
	}},
	{"a power cycle leaves the server on", bmc.CanCycle, func(ctx context.Context, r *round) error {
		if err := r.setPower(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		return r.restart(ctx, r.client.Cycle)
	}},
	{"a power cycle switches on a server that is off", bmc.CanCycle, func(ctx context.Context, r *round) error {
		if err := r.setPower(ctx, bmc.PowerOff, r.client.ForceOff); err != nil {
			return err
		}
		return r.setPower(ctx, bmc.PowerOn, r.client.Cycle)
	}},
	{"a reset leaves the server on", bmc.CanReset, func(ctx context.Context, r *round) error {
		if err := r.setPower(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		return r.restart(ctx, r.client.Reset)
	}},
	{"an NMI is accepted and leaves the server on", bmc.CanNMI, func(ctx context.Context, r *round) error {
		if err := r.setPower(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		r.pending = bmc.PowerOn
		if err := r.command(ctx, r.client.NMI); err != nil {
			return err
		}
		return r.awaitSteady(ctx, bmc.PowerOn) // firmware may answer an NMI with a restart
	}},
	{"power off after a graceful shutdown request", bmc.CanForceOff, func(ctx context.Context, r *round) error {
		if err := r.setPower(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		if !r.can(bmc.CanShutDown) {
			return r.setPower(ctx, bmc.PowerOff, r.client.ForceOff)
		}
		_, err := r.shutDown(ctx) // after a refusal, the server is switched off too
		if err != nil {
			r.notef("the request to shut down was refused: %v", err)
		}
		return r.setPower(ctx, bmc.PowerOff, r.client.ForceOff)
	}},
	{"a running server accepts a shutdown request", bmc.CanShutDown, func(ctx context.Context, r *round) error {
		if err := r.setPower(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		obeyed, err := r.shutDown(ctx)
		if err != nil || obeyed || !r.can(bmc.CanForceOff) {
			return err
		}
		return r.setPower(ctx, bmc.PowerOff, r.client.ForceOff) // so that it does not shut down later
	}},
	{"a reset of a server that is off is an error", bmc.CanReset, func(ctx context.Context, r *round) error {
		if err := r.setPower(ctx, bmc.PowerOff, r.client.ForceOff); err != nil {
			return err
		}
		if err := r.client.Reset(ctx); err == nil {
			r.pending = bmc.PowerOn
			return errors.New("the BMC accepted it")
		}
		return r.awaitPower(ctx, bmc.PowerOff)
	}},
	{"a shutdown of a server that is off is no error", bmc.CanShutDown, func(ctx context.Context, r *round) error {
		return errors.Join(r.setPower(ctx, bmc.PowerOff, r.client.ForceOff), r.setPower(ctx, bmc.PowerOff, r.client.ShutDown))
	}},
}

// shutDown requests a shutdown of a running server, and returns whether it shut down. The BMC is only responsible for accepting the request: the
// operating system may ignore it.
func (r *round) shutDown(ctx context.Context) (obeyed bool, err error) {
	r.pending = bmc.PowerOff
	if err := r.command(ctx, r.client.ShutDown); err != nil {
		return false, err
	}
	grace, cancel := context.WithTimeout(ctx, r.Settle/10)
	defer cancel()
	if bmc.AwaitPower(grace, r.client, bmc.PowerOff, r.Poll) == nil {
		r.pending = ""
		return true, nil
	}
	r.notef("accepted; the server did not shut down within %s", r.Settle/10)
	return false, ctx.Err()
}

// command sends a power command, and repeats it while the BMC refuses it temporarily, until the time to settle has passed. An error with RetryAfter
// means that nothing was done, so it is safe to repeat any command.
func (r *round) command(ctx context.Context, command func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	for {
		err := command(ctx)
		after := max(bmc.RetryAfter(err), r.Poll)
		if err == nil || bmc.KindOf(err) != bmc.Busy && bmc.RetryAfter(err) == 0 {
			return err
		}
		r.notef("tried again: %v", err)
		if !sleep(ctx, after) {
			return err
		}
	}
}

// sleep waits, and returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// setPower sends a command and waits for the power state. It is for commands that change the power state, or do nothing if the server is in that
// state: the state after a restart does not prove the restart.
func (r *round) setPower(ctx context.Context, want bmc.PowerState, command func(context.Context) error) error {
	before := r.pending
	r.pending = want // even if the command fails: it may have taken effect
	if err := r.command(ctx, command); err != nil {
		if bmc.KindOf(err) == bmc.Unsupported {
			r.pending = before
		}
		return err
	}
	return r.awaitPower(ctx, want)
}

// restart sends a command that restarts a running server, and waits until the restart has been observed and the server stays on. For a BMC that does
// not show restarts, it waits for the whole time to settle, so that the next command does not arrive during the restart.
func (r *round) restart(ctx context.Context, command func(context.Context) error) error {
	before, err := r.lastBoot(ctx, r.client)
	if err != nil {
		return err
	}
	pending := r.pending
	r.pending, r.unseenRestart = bmc.PowerOn, &before
	if err := r.command(ctx, command); err != nil {
		if bmc.KindOf(err) == bmc.Unsupported {
			r.pending, r.unseenRestart = pending, nil
		}
		return err
	}
	proof, err := r.awaitRestart(ctx, r.client)
	switch {
	case err != nil:
		return err
	case proof != "":
		r.notef("the restart was observed: %s", proof)
	case r.recordsResets:
		return fmt.Errorf("the BMC accepted the command, but the server did not restart within %s: it was always on, and was last reset at %s", r.Settle, before.ResetAt.Format(time.RFC3339))
	default:
		r.unverified = "the restart cannot be observed"
		r.notef("accepted; the server was always on, and the BMC does not report resets")
	}
	return r.awaitSteady(ctx, bmc.PowerOn)
}

// lastBoot reads the BMC's record of the last start of the server. It is the zero value if the BMC or its protocol has no such record.
func (s *suite) lastBoot(ctx context.Context, client bmc.Client) (bmc.LastBoot, error) {
	recorder, ok := client.(bmc.BootRecorder)
	if !ok {
		return bmc.LastBoot{}, nil
	}
	boot, err := recorder.LastBoot(ctx)
	// The checks have restarted the server since found, so a changed record proves that the BMC maintains it.
	s.recordsResets = s.recordsResets || !s.found.ResetAt.IsZero() && !boot.ResetAt.IsZero() && !boot.ResetAt.Equal(s.found.ResetAt)
	return boot, err
}

// awaitRestart waits until the commanded restart has been observed, and returns the evidence. The proof is empty if the time to settle has passed
// without evidence.
func (s *suite) awaitRestart(ctx context.Context, client bmc.Client) (proof string, err error) {
	settle, cancel := context.WithTimeout(ctx, s.Settle)
	defer cancel()
	var last error
	for {
		state, err := client.PowerState(settle)
		boot, bootErr := s.lastBoot(settle, client)
		switch {
		case err == nil && state != bmc.PowerOn:
			s.unseenRestart = nil
			return fmt.Sprintf("the power was %s", state), nil
		case bootErr == nil && boot.RestartedSince(*s.unseenRestart):
			s.unseenRestart = nil
			return "the BMC records it", nil
		case settle.Err() == nil: // errors of requests that the timeout canceled are ignored
			last = errors.Join(err, bootErr)
		}
		if !sleep(settle, s.Poll) {
			break
		}
	}
	if err := errors.Join(ctx.Err(), last); err != nil {
		return "", err
	}
	s.unseenRestart = nil // the time for a restart has passed
	return "", nil
}

// awaitSteady waits until the power is in the state and stays there. The time to settle is that of the server: a driver whose requests take long, such as a program on a
// busy machine, has more.
func (r *round) awaitSteady(ctx context.Context, want bmc.PowerState) error {
	settle, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	for {
		if err := bmc.AwaitPower(settle, r.client, want, r.Poll); err != nil {
			return err
		}
		stays, err := r.staysAt(ctx, r.client, want)
		if err != nil {
			return err
		}
		if stays {
			r.pending = ""
			return nil
		}
	}
}

// staysAt reads the power several times, because a transition that has just begun may show both states.
func (s *suite) staysAt(ctx context.Context, client bmc.Client, want bmc.PowerState) (bool, error) {
	const readings = 5
	for range readings {
		if !sleep(ctx, s.Poll) {
			return false, fmt.Errorf("check that the power stays %s: %w", want, ctx.Err())
		}
		state, err := client.PowerState(ctx)
		if err != nil || state != want {
			return false, err
		}
	}
	return true, nil
}

func (r *round) awaitPower(ctx context.Context, want bmc.PowerState) error {
	ctx, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	err := bmc.AwaitPower(ctx, r.client, want, r.Poll)
	if err == nil && r.pending == want {
		r.pending = ""
	}
	return err
}
