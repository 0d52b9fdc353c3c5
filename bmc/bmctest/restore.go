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

// leaveAsFound leaves the server as it was found, also when ctx has ended.
func (s *suite) leaveAsFound(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*s.Settle+time.Minute)
	defer cancel()
	s.report(Result{Check: restoring})
	start := time.Now()
	client, err := s.open(ctx, s.Endpoint)
	if err == nil {
		// What was commanded last comes first: a server that boots later would use up, or set, what is put back here.
		err = errors.Join(s.awaitPending(ctx, client), s.eject(ctx, client), s.takeBack(ctx, client), s.switchBack(ctx, client), s.leave(ctx, client))
	}
	result := Result{Check: restoring, Verdict: Passed, Took: time.Since(start)}
	if err != nil {
		result.Verdict, result.Error = Failed, err.Error()
	}
	s.report(result)
	return err
}

// awaitPending waits until the last power command has taken effect. Until then BMCs tell the state before it, in which nothing seems
// left to do.
func (s *suite) awaitPending(ctx context.Context, client bmc.Client) error {
	if s.pending == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Settle)
	defer cancel()
	if err := bmc.AwaitPower(ctx, client, s.pending, s.Poll); err != nil && s.pending != s.power {
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
	return s.stays(ctx, client)
}

// stays looks again several times: a cycle that has just begun shows both states.
func (s *suite) stays(ctx context.Context, client bmc.Client) (bool, error) {
	ticker := time.NewTicker(s.Poll)
	defer ticker.Stop()
	const looks = 5
	for range looks {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false, fmt.Errorf("see that the power stays %s: %w", s.power, ctx.Err())
		}
		state, err := client.PowerState(ctx)
		if err != nil || state != s.power {
			return false, err
		}
	}
	return true, nil
}
