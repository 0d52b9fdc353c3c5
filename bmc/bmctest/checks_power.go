package bmctest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

var powerChecks = []check{
	{"off, also when it is off", bmc.CanForceOff, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOff, r.client.ForceOff), r.to(ctx, bmc.PowerOff, r.client.ForceOff))
	}},
	{"on, also when it is on", bmc.CanPowerOn, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOn, r.client.PowerOn), r.to(ctx, bmc.PowerOn, r.client.PowerOn))
	}},
	{"a cycle leaves it on", bmc.CanCycle, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		return r.restart(ctx, r.client.Cycle)
	}},
	{"a cycle switches on what is off", bmc.CanCycle, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOff, r.client.ForceOff); err != nil {
			return err
		}
		return r.to(ctx, bmc.PowerOn, r.client.Cycle)
	}},
	{"a reset leaves it on", bmc.CanReset, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		return r.restart(ctx, r.client.Reset)
	}},
	{"an NMI is taken and leaves it on", bmc.CanNMI, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		r.pending = bmc.PowerOn
		if err := r.command(ctx, r.client.NMI); err != nil {
			return err
		}
		return r.steady(ctx, bmc.PowerOn) // firmware may answer an NMI with a restart
	}},
	{"off, asked nicely first", bmc.CanForceOff, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		if !r.can(bmc.CanShutDown) {
			return r.to(ctx, bmc.PowerOff, r.client.ForceOff)
		}
		_, err := r.shutDown(ctx) // where it is refused the server is switched off all the same
		if err != nil {
			r.notef("the request to shut down was refused: %v", err)
		}
		return r.to(ctx, bmc.PowerOff, r.client.ForceOff)
	}},
	{"a running server is asked to shut down", bmc.CanShutDown, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		obeyed, err := r.shutDown(ctx)
		if err != nil || obeyed || !r.can(bmc.CanForceOff) {
			return err
		}
		return r.to(ctx, bmc.PowerOff, r.client.ForceOff) // lest it obeys later
	}},
	{"a reset of what is off is an error", bmc.CanReset, func(ctx context.Context, r *round) error {
		if err := r.to(ctx, bmc.PowerOff, r.client.ForceOff); err != nil {
			return err
		}
		if err := r.client.Reset(ctx); err == nil {
			r.pending = bmc.PowerOn
			return errors.New("it was taken")
		}
		return r.settled(ctx, bmc.PowerOff)
	}},
	{"asking a server that is off to shut down is no error", bmc.CanShutDown, func(ctx context.Context, r *round) error {
		return errors.Join(r.to(ctx, bmc.PowerOff, r.client.ForceOff), r.to(ctx, bmc.PowerOff, r.client.ShutDown))
	}},
}

// shutDown asks a running server to shut down, and says whether it did. That the BMC takes it is all that it can be blamed for: the operating system
// may not listen.
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
	r.notef("it was taken, and nothing on the server obeyed within %s", r.Settle/10)
	return false, ctx.Err()
}

// command gives a power command, and repeats it while the BMC refuses it for now, until the server had its time to obey. Nothing was done where the
// error says when the BMC is to be asked again, so repeating it is safe for any command.
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
		if !wait(ctx, after) {
			return err
		}
	}
}

// wait waits, and returns false where ctx ends before.
func wait(ctx context.Context, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// to gives a command and waits until the power is as it should be then. It is for a power state that the server does not have before, or for a command
// that does nothing where it has: what a restart leads to proves no restart.
func (r *round) to(ctx context.Context, want bmc.PowerState, command func(context.Context) error) error {
	before := r.pending
	r.pending = want // also where the command fails: it may have been obeyed
	if err := r.command(ctx, command); err != nil {
		if bmc.KindOf(err) == bmc.Unsupported {
			r.pending = before
		}
		return err
	}
	return r.settled(ctx, want)
}

// restart gives a command that restarts a running server, and waits until the restart was seen, and the server is on and stays so. A BMC that does not
// show restarts gets the whole time to obey, so that the next command does not come in the middle of one.
func (r *round) restart(ctx context.Context, command func(context.Context) error) error {
	before, err := r.lastBoot(ctx, r.client)
	if err != nil {
		return err
	}
	pending := r.pending
	r.pending, r.unseen = bmc.PowerOn, &before
	if err := r.command(ctx, command); err != nil {
		if bmc.KindOf(err) == bmc.Unsupported {
			r.pending, r.unseen = pending, nil
		}
		return err
	}
	proof, err := r.awaitRestart(ctx, r.client)
	switch {
	case err != nil:
		return err
	case proof != "":
		r.notef("the restart was seen: %s", proof)
	case r.records:
		return fmt.Errorf("the BMC took it, and the server did not restart within %s: it was always on, and was last reset at %s", r.Settle, before.ResetAt.Format(time.RFC3339))
	default:
		r.hearsay = "the restart cannot be seen"
		r.notef("taken; the server was always on, and the BMC does not tell when it was reset")
	}
	return r.steady(ctx, bmc.PowerOn)
}

// lastBoot reads what the BMC records of the last start of the server. It is nothing where the BMC or its protocol has no such record.
func (s *suite) lastBoot(ctx context.Context, client bmc.Client) (bmc.LastBoot, error) {
	recorder, ok := client.(bmc.BootRecorder)
	if !ok {
		return bmc.LastBoot{}, nil
	}
	boot, err := recorder.LastBoot(ctx)
	// Checks switched the server on since it was found: a record that changed since is one that the BMC keeps.
	s.records = s.records || !s.found.ResetAt.IsZero() && !boot.ResetAt.IsZero() && !boot.ResetAt.Equal(s.found.ResetAt)
	return boot, err
}

// awaitRestart waits until the restart that is not seen yet was seen, and says by what. The proof is empty where none came in the time that the server
// has to obey.
func (s *suite) awaitRestart(ctx context.Context, client bmc.Client) (proof string, err error) {
	settle, cancel := context.WithTimeout(ctx, s.Settle)
	defer cancel()
	var last error
	for {
		state, err := client.PowerState(settle)
		boot, bootErr := s.lastBoot(settle, client)
		switch {
		case err == nil && state != bmc.PowerOn:
			s.unseen = nil
			return fmt.Sprintf("the power was %s", state), nil
		case bootErr == nil && boot.RestartedSince(*s.unseen):
			s.unseen = nil
			return "the BMC records it", nil
		case settle.Err() == nil: // what the end of the time cut off says nothing
			last = errors.Join(err, bootErr)
		}
		if !wait(settle, s.Poll) {
			break
		}
	}
	if err := errors.Join(ctx.Err(), last); err != nil {
		return "", err
	}
	s.unseen = nil // whatever the command did is over
	return "", nil
}

// steady waits until the power is as it should be and stays so.
func (r *round) steady(ctx context.Context, want bmc.PowerState) error {
	ctx, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	for {
		if err := bmc.AwaitPower(ctx, r.client, want, r.Poll); err != nil {
			return err
		}
		stays, err := r.stays(ctx, r.client, want)
		if err != nil {
			return err
		}
		if stays {
			r.pending = ""
			return nil
		}
	}
}

// stays reads the power several times: a transition that has just begun shows both states.
func (s *suite) stays(ctx context.Context, client bmc.Client, want bmc.PowerState) (bool, error) {
	const readings = 5
	for range readings {
		if !wait(ctx, s.Poll) {
			return false, fmt.Errorf("see that the power stays %s: %w", want, ctx.Err())
		}
		state, err := client.PowerState(ctx)
		if err != nil || state != want {
			return false, err
		}
	}
	return true, nil
}

func (r *round) settled(ctx context.Context, want bmc.PowerState) error {
	ctx, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	err := bmc.AwaitPower(ctx, r.client, want, r.Poll)
	if err == nil && r.pending == want {
		r.pending = ""
	}
	return err
}
