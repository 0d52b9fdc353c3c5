package bmctest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// restoreCheck is the name that report gets while the server is restored. It is not a check, and not among the results.
const restoreCheck = "restores the server"

// removalCheck is the check whose known failure allows an override to remain.
const removalCheck = "a boot override can be removed"

// restore restores the server, even if ctx has ended. It retries until it has verified the result, or until Subject.Restore has passed.
func (s *suite) restore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Restore)
	defer cancel()
	start := time.Now()
	var last error
	wasFinal := false // the last try failed because of what the BMC does not support
	for {
		result := Result{Check: restoreCheck}
		if last != nil {
			result.Error = last.Error()
		}
		s.report(result)
		err := s.tryRestore(ctx)
		if err != nil && (last == nil || ctx.Err() == nil) { // the error of a canceled request is not the cause
			last = err
		}
		switch {
		case err == nil:
			s.report(Result{Check: restoreCheck, Verdict: Passed, Took: time.Since(start)})
			return nil
		case wasFinal && isFinal(err):
			s.report(Result{Check: restoreCheck, Verdict: Failed, Error: last.Error(), Took: time.Since(start)})
			return last
		case !sleep(ctx, s.retryDelay(err)):
			last = fmt.Errorf("tried for %s: %w", s.Restore, last)
			s.report(Result{Check: restoreCheck, Verdict: Failed, Error: last.Error(), Took: time.Since(start)})
			return last
		}
		wasFinal = isFinal(err)
	}
}

// refusedLoginPause is the delay after a refused login, because BMCs lock an account after three to five refusals.
const refusedLoginPause = 2 * time.Minute

// retryDelay is the delay before the next try after an error.
func (s *suite) retryDelay(err error) time.Duration {
	if bmc.KindOf(err) == bmc.Unauthorized {
		return refusedLoginPause
	}
	return max(s.Poll, bmc.RetryAfter(err))
}

// tryRestore tries once to restore the server, with a new connection. It continues after a failed step.
func (s *suite) tryRestore(ctx context.Context) error {
	client, err := s.open(ctx, s.Endpoint)
	if err != nil {
		return err
	}
	// The last power command must take effect first: a server that boots later would change the restored settings.
	return errors.Join(s.awaitPending(ctx, client), s.eject(ctx, client), s.removeOverride(ctx, client), s.restorePower(ctx, client), s.closeClient(ctx, client))
}

// awaitPending waits until the last power command has taken effect. Until then BMCs report the previous state, which may look restored.
func (s *suite) awaitPending(ctx context.Context, client bmc.Client) error {
	if s.unseenRestart != nil {
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
		s.pending = "" // its time has passed: the next try relies on the reported state
	}
	if err != nil && late {
		return fmt.Errorf("the last power command has not taken effect yet: %w", err)
	}
	return nil
}

// stopMedia switches off a server that may run from virtual media. Without the media, its operating system would break.
func (s *suite) stopMedia(ctx context.Context, client bmc.Client) error {
	if !s.runsMedia {
		return nil
	}
	if err := client.ForceOff(ctx); err != nil {
		return err
	}
	settled, cancel := context.WithTimeout(ctx, s.Settle)
	defer cancel()
	return bmc.AwaitPower(settled, client, bmc.PowerOff, s.Poll)
}

func (s *suite) eject(ctx context.Context, client bmc.Client) error {
	media, ok := client.(bmc.VirtualMedia)
	if !ok || !s.can(bmc.CanVirtualMedia) || s.Image == "" {
		return nil
	}
	if err := s.stopMedia(ctx, client); err != nil {
		return err
	}
	err := media.EjectMedia(ctx)
	s.runsMedia = s.runsMedia && err != nil
	return err
}

// removeOverride removes the override, and restores the mode and the URI.
func (s *suite) removeOverride(ctx context.Context, client bmc.Client) error {
	if !s.can(bmc.CanBootPXE) && !s.can(bmc.CanBootHTTP) && !s.can(bmc.CanBootDisk) && !s.can(bmc.CanBootCD) {
		return nil
	}
	result, err := client.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone, Mode: s.boot.Mode, URI: s.boot.URI}, "")
	if err != nil {
		return s.ignoreUnchanged(ctx, client, err)
	}
	if _, known := s.Known[removalCheck]; result.Doubt != "" && !known {
		return fmt.Errorf("the boot override cannot be removed: %s", result.Doubt)
	}
	if now := result.ReadBack; now != nil && s.boot.Mode != "" && now.Mode != "" && now.Mode != s.boot.Mode {
		return fmt.Errorf("the boot mode was %s and is %s", s.boot.Mode, now.Mode)
	}
	return nil
}

// ignoreUnchanged returns nil for a BMC that refuses to remove the override and has no override. It did not accept one before either, so there is nothing to
// restore.
func (s *suite) ignoreUnchanged(ctx context.Context, client bmc.Client, refusal error) error {
	if bmc.KindOf(refusal) != bmc.Unsupported {
		return refusal
	}
	now, err := client.BootOverride(ctx)
	if err != nil || now.Target != bmc.BootNone || now.URI != s.boot.URI || now.Mode != s.boot.Mode {
		return refusal
	}
	return nil
}

// isFinal is true if every step that failed is one that the BMC does not support: 405 and 501 do not change. A BMC that starts may answer them once.
func isFinal(err error) bool {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return bmc.KindOf(err) == bmc.Unsupported
	}
	return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return bmc.KindOf(err) != bmc.Unsupported })
}

// restorePower restores the power state, and checks that it stays.
func (s *suite) restorePower(ctx context.Context, client bmc.Client) error {
	command := client.ForceOff
	if s.power == bmc.PowerOn {
		command = client.PowerOn
	}
	const tries = 3
	for range tries {
		if err := command(ctx); err != nil {
			return err
		}
		if stays, err := s.awaitRestored(ctx, client); stays || err != nil {
			return err
		}
	}
	return fmt.Errorf("the server was switched %s %d times, and does not stay in that state", s.power, tries)
}

// awaitRestored waits for the original power state, and returns whether it stays.
func (s *suite) awaitRestored(ctx context.Context, client bmc.Client) (bool, error) {
	settled, cancel := context.WithTimeout(ctx, s.Settle)
	defer cancel()
	if err := bmc.AwaitPower(settled, client, s.power, s.Poll); err != nil {
		return false, err
	}
	return s.staysAt(ctx, client, s.power)
}
