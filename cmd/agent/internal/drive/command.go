package drive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
)

// Command is what erases a drive.
type Command string

// The commands. Overwrite is no command of a drive: the agent writes zeros.
const (
	NVMeSanitizeCrypto    Command = "NVMeSanitizeCrypto"
	NVMeSanitizeBlock     Command = "NVMeSanitizeBlock"
	NVMeFormatCrypto      Command = "NVMeFormatCrypto"
	NVMeFormatUser        Command = "NVMeFormatUser"
	ATASanitizeCrypto     Command = "ATASanitizeCrypto"
	ATASanitizeBlock      Command = "ATASanitizeBlock"
	ATASanitizeOverwrite  Command = "ATASanitizeOverwrite"
	ATAEnhancedErase      Command = "ATAEnhancedErase"
	ATAErase              Command = "ATAErase"
	SCSISanitizeCrypto    Command = "SCSISanitizeCrypto"
	SCSISanitizeBlock     Command = "SCSISanitizeBlock"
	SCSISanitizeOverwrite Command = "SCSISanitizeOverwrite"
	Overwrite             Command = "Overwrite"
)

// implementation is how a drive carries out a command.
type implementation struct {
	// sanitizes is true for a sanitize operation: it erases the whole drive in the background, and works while the drive is in the failure mode of an earlier one.
	sanitizes bool
	erase     func(ctx context.Context, d *Drive, f Facts, watch Watcher) error
}

// implementations are those of all commands of drives. The file of a protocol sends them.
var implementations = map[Command]implementation{
	NVMeSanitizeCrypto:    sanitize(func(d *Drive) error { return d.sanitizeNVMe(actionCrypto) }),
	NVMeSanitizeBlock:     sanitize(func(d *Drive) error { return d.sanitizeNVMe(actionBlock) }),
	NVMeFormatCrypto:      {erase: format(NVMeFormatCrypto, sesCrypto)},
	NVMeFormatUser:        {erase: format(NVMeFormatUser, sesUser)},
	ATASanitizeCrypto:     sanitize(func(d *Drive) error { return d.startSanitizeATA(ATASanitizeCrypto) }),
	ATASanitizeBlock:      sanitize(func(d *Drive) error { return d.startSanitizeATA(ATASanitizeBlock) }),
	ATASanitizeOverwrite:  sanitize(func(d *Drive) error { return d.startSanitizeATA(ATASanitizeOverwrite) }),
	ATAEnhancedErase:      {erase: securityErase(ATAEnhancedErase)},
	ATAErase:              {erase: securityErase(ATAErase)},
	SCSISanitizeCrypto:    sanitize(func(d *Drive) error { return d.startSanitizeSCSI(SCSISanitizeCrypto) }),
	SCSISanitizeBlock:     sanitize(func(d *Drive) error { return d.startSanitizeSCSI(SCSISanitizeBlock) }),
	SCSISanitizeOverwrite: sanitize(func(d *Drive) error { return d.startSanitizeSCSI(SCSISanitizeOverwrite) }),
}

// Sanitizes is true for a command that starts a sanitize operation.
func (c Command) Sanitizes() bool { return implementations[c].sanitizes }

// Watcher is called while a drive is erased. percent is from 0 to 100. nextReportWithin is the maximum time until the next call; a drive that exceeds it hangs.
type Watcher func(percent int, nextReportWithin time.Duration)

const (
	// firstPoll and maxPoll are the times between two questions for the progress, which double.
	firstPoll = 250 * time.Millisecond
	maxPoll   = 5 * time.Second
	// maxPollErrors is how many questions in a row may fail: a drive that resets itself does not answer for some seconds.
	maxPollErrors = 12
	// stuckAfter is how long an operation may make no progress. Some drives report none before a block erase is complete.
	stuckAfter = 2 * time.Hour
	// slack is added to the timeout of a command: the kernel resets a drive that does not answer, and tries again.
	slack = 5 * time.Minute
)

// ErrFailureMode means that a sanitize operation has failed. The drive gives no access to data until another one succeeds. The agent does not send
// the command that exits the failure mode, because it would make the data accessible again.
var ErrFailureMode = errors.New("the sanitize operation failed, and the drive gives no access to data now: sanitize it with the tool of its vendor, or destroy it")

// sanitize starts an operation and waits for it.
func sanitize(start func(*Drive) error) implementation {
	return implementation{sanitizes: true, erase: func(ctx context.Context, d *Drive, _ Facts, watch Watcher) error {
		watch(0, startTimeout+slack)
		if err := start(d); err != nil {
			return err
		}
		return d.Await(ctx, watch)
	}}
}

// Erase erases the drive and returns when the drive has reported success. For NVMe drives it needs a Probe before it.
func (d *Drive) Erase(ctx context.Context, command Command, f Facts, watch Watcher) error {
	i, known := implementations[command]
	if !known {
		return fmt.Errorf("%s is no command of a drive", command)
	}
	return i.erase(ctx, d, f, watch)
}

// Await waits for the end of a sanitize operation that is in progress, also one that another program has started.
func (d *Drive) Await(ctx context.Context, watch Watcher) error {
	delay, failures, last, moved := firstPoll, 0, -1, time.Now()
	for {
		if err := retry.Pause(ctx, delay); err != nil {
			return err
		}
		delay = min(2*delay, maxPoll)
		status, err := d.sanitizeStatus()
		watch(status.Percent, askTimeout+slack)
		switch {
		case err != nil:
			if failures++; failures > maxPollErrors {
				return fmt.Errorf("the progress cannot be read any more: %w", err)
			}
			continue
		case status.State == SanitizeDone:
			return nil
		case status.State == SanitizeFailed:
			return ErrFailureMode
		case status.State == SanitizeNever:
			return errors.New("the drive accepted the sanitize command, and reports that it never had one")
		}
		failures = 0
		if status.Percent != last {
			last, moved = status.Percent, time.Now()
		}
		if time.Since(moved) > stuckAfter {
			return fmt.Errorf("the sanitize operation makes no progress after %d%% for %s", last, stuckAfter)
		}
	}
}

func (d *Drive) sanitizeStatus() (SanitizeStatus, error) {
	switch d.Kind {
	case NVMe:
		return d.sanitizeStatusNVMe()
	case ATA:
		status, err := d.sanitizeStatusATA()
		return status.SanitizeStatus, err
	case SCSI:
		return d.sanitizeStatusSCSI()
	default:
		return SanitizeStatus{}, errors.ErrUnsupported
	}
}

// blocking runs a command that returns when the drive is erased. Its progress is estimated by the time that the drive says it takes.
func (d *Drive) blocking(ctx context.Context, watch Watcher, takes, limit time.Duration, run func() error) error {
	done := make(chan error, 1)
	go func() { done <- run() }()
	started := time.Now()
	for {
		percent := 0
		if takes > 0 {
			percent = int(min(99, 100*time.Since(started)/takes))
		}
		watch(percent, max(0, limit-time.Since(started))+slack)
		timer := time.NewTimer(maxPoll)
		select {
		case err := <-done:
			timer.Stop()
			return err
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
