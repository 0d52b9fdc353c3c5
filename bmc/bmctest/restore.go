package bmctest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// restoring is what report is told while the server is put back. It is no check, and not among the results.
const restoring = "leaves the server as it was found"

// takingBack is the check whose known failure excuses an override that stays.
const takingBack = "an override can be taken back"

// leaveAsFound leaves the server as it was found, also when ctx has ended, and tries until that was seen or the time for it is up.
func (s *suite) leaveAsFound(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Restore)
	defer cancel()
	start := time.Now()
	var last error
	for {
		result := Result{Check: restoring}
		if last != nil {
			result.Error = last.Error()
		}
		s.report(result)
		err := s.giveBack(ctx)
		if err != nil && (last == nil || ctx.Err() == nil) { // what the end of the time cut off does not say why
			last = err
		}
		switch {
		case err == nil:
			s.report(Result{Check: restoring, Verdict: Passed, Took: time.Since(start)})
			return nil
		case !wait(ctx, s.pause(err)):
			last = fmt.Errorf("tried for %s: %w", s.Restore, last)
			s.report(Result{Check: restoring, Verdict: Failed, Error: last.Error(), Took: time.Since(start)})
			return last
		}
	}
}

// refusedLoginPause is how long no login is tried after one was refused: BMCs lock an account after three to five refusals.
const refusedLoginPause = 2 * time.Minute

// pause is how long the next try has to wait after an error.
func (s *suite) pause(err error) time.Duration {
	if bmc.KindOf(err) == bmc.Unauthorized {
		return refusedLoginPause
	}
	return max(s.Poll, bmc.RetryAfter(err))
}

// giveBack tries once to leave the server as it was found, with a connection of its own. A step that fails does not keep the others from being tried.
func (s *suite) giveBack(ctx context.Context) error {
	client, err := s.open(ctx, s.Endpoint)
	if err != nil {
		return err
	}
	// What was commanded last comes first: a server that boots later would use up, or set, what is put back here.
	return errors.Join(s.awaitPending(ctx, client), s.eject(ctx, client), s.takeBack(ctx, client), s.switchBack(ctx, client), s.leave(ctx, client))
}

// awaitPending waits until the last power command has taken effect. Until then BMCs tell the state before it, in which nothing seems
// left to do.
func (s *suite) awaitPending(ctx context.Context, client bmc.Client) error {
	if s.unseen != nil {
		if _, err := s.awaitRestart(ctx, client); err != nil {
			return err
		}
	}
	if s.pending == "" {
		return nil
	}
	settle, cancel := context.WithTimeout(ctx, s.Settle)
	defer cancel()
	err := bmc.AwaitPower(settle, client, s.pending, s.Poll)
	late := s.pending != s.power
	if ctx.Err() == nil {
		s.pending = "" // it had its time: the next try goes by what the BMC says
	}
	if err != nil && late {
		return fmt.Errorf("the last power command has not taken effect, and still may: %w", err)
	}
	return nil
}

func (s *suite) eject(ctx context.Context, client bmc.Client) error {
	media, ok := client.(bmc.VirtualMedia)
	if !ok || !s.can(bmc.CanVirtualMedia) || s.Image == "" {
		return nil
	}
	return media.EjectMedia(ctx)
}

// takeBack leaves no override, and the mode and the URI that there were.
func (s *suite) takeBack(ctx context.Context, client bmc.Client) error {
	if !s.can(bmc.CanBootPXE) && !s.can(bmc.CanBootHTTP) && !s.can(bmc.CanBootDisk) && !s.can(bmc.CanBootCD) {
		return nil
	}
	result, err := client.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone, Mode: s.boot.Mode, URI: s.boot.URI}, "")
	if err != nil {
		return err
	}
	if _, known := s.Known[takingBack]; result.Doubt != "" && !known {
		return fmt.Errorf("the boot override cannot be taken back: %s", result.Doubt)
	}
	if now := result.ReadBack; now != nil && s.boot.Mode != "" && now.Mode != "" && now.Mode != s.boot.Mode {
		return fmt.Errorf("the boot mode was %s and is %s", s.boot.Mode, now.Mode)
	}
	return nil
}

// switchBack switches the server to what it was, until it stays so.
func (s *suite) switchBack(ctx context.Context, client bmc.Client) error {
	command := client.ForceOff
	if s.power == bmc.PowerOn {
		command = client.PowerOn
	}
	const tries = 3
	for range tries {
		if err := command(ctx); err != nil {
			return err
		}
		if stays, err := s.settles(ctx, client); stays || err != nil {
			return err
		}
	}
	return fmt.Errorf("the server was switched %s %d times, and does not stay so", s.power, tries)
}

// settles waits until the server is what it was, and tells whether it stays so.
func (s *suite) settles(ctx context.Context, client bmc.Client) (bool, error) {
	settled, cancel := context.WithTimeout(ctx, s.Settle)
	defer cancel()
	if err := bmc.AwaitPower(settled, client, s.power, s.Poll); err != nil {
		return false, err
	}
	return s.stays(ctx, client, s.power)
}
