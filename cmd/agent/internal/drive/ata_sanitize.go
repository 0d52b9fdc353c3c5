package drive

import (
	"errors"
	"fmt"
)

// sanitizeATA are the commands of SANITIZE DEVICE: the bit of word 59 that offers it, the feature, the key that the LBA must have, and the count (ACS-5, 7.35). The bit
// FAILURE MODE of the count stays 0: a drive on which the operation fails gives no access to data until another one succeeds.
var sanitizeATA = []struct {
	command        Command
	bit            int
	feature, count uint16
	lba            uint64
}{
	{ATASanitizeCrypto, 13, 0x11, 0, 0x43727970}, // "Cryp"
	{ATASanitizeBlock, 15, 0x12, 0, 0x426b4572},  // "BkEr"
	// "OW" in the highest 16 bits, and below it the pattern: zeros. The count is that of the passes; 0 would be 16.
	{ATASanitizeOverwrite, 14, 0x14, 1, 0x4f57 << 32},
}

// sanitizesOfATA returns the sanitize commands that word 59 of IDENTIFY DEVICE offers.
func sanitizesOfATA(word uint16) []Command {
	if word&(1<<12) == 0 {
		return nil
	}
	var out []Command
	for _, s := range sanitizeATA {
		if word&(1<<s.bit) != 0 {
			out = append(out, s.command)
		}
	}
	return out
}

func (d *Drive) startSanitizeATA(command Command) error {
	for _, s := range sanitizeATA {
		if s.command != command {
			continue
		}
		_, err := d.ata(ataCommand{command: ataSanitize, feature: s.feature, count: s.count, lba: s.lba, extended: true, timeout: startTimeout, registers: true})
		// A controller that returns a part of the registers has returned STATUS: the drive has accepted the command.
		if err != nil && !errors.Is(err, errPartial) {
			return fmt.Errorf("ATA SANITIZE DEVICE: %w", err)
		}
		return nil
	}
	return fmt.Errorf("%s is no command of SANITIZE DEVICE", command)
}

// ATASanitizeState is what SANITIZE STATUS EXT returns.
type ATASanitizeState struct {
	SanitizeStatus

	// Frozen is true if the drive refuses sanitize commands until its next power cycle.
	Frozen bool
}

// ParseATASanitize parses the registers that SANITIZE STATUS EXT returns (ACS-5, 7.35.2): COUNT bit 15 is "completed without error", bit 14 "in progress",
// bit 13 "frozen", and LBA bits 15:0 are the progress. A drive on which an operation failed aborts the command, with the reason 1 in LBA bits 7:0.
func ParseATASanitize(r Registers) (ATASanitizeState, error) {
	if r.Failed() {
		if r.LBA&0xff == 1 {
			return ATASanitizeState{SanitizeStatus: SanitizeStatus{State: SanitizeFailed}}, nil
		}
		return ATASanitizeState{}, &ATAError{r}
	}
	out := ATASanitizeState{Frozen: r.Count&(1<<13) != 0}
	switch {
	case r.Count&(1<<14) != 0:
		out.State, out.Percent = SanitizeRuns, percentOf(uint16(r.LBA&0xffff))
	case r.Count&(1<<15) != 0:
		out.State, out.Percent = SanitizeDone, 100
	}
	return out, nil
}

func (d *Drive) sanitizeStatusATA() (ATASanitizeState, error) {
	r, err := d.ata(ataCommand{command: ataSanitize, extended: true, registers: true})
	var failed *ATAError
	if err == nil || errors.As(err, &failed) {
		var out ATASanitizeState
		if out, err = ParseATASanitize(r); err == nil {
			return out, nil
		}
	}
	return ATASanitizeState{}, fmt.Errorf("ATA SANITIZE STATUS EXT: %w", err)
}
