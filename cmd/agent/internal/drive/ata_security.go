package drive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// Password is the user password that an ATA drive has during a security erase. It protects nothing, so it is public: after a power failure the drive is
// locked by it, and the next run, or a person with `hdparm --security-unlock`, unlocks the drive.
const Password = "cluster-api-provider-baremetal"

// ErrFrozen means that the firmware of the server has frozen the feature set Security, which a power cycle of the drive ends.
var ErrFrozen = errors.New("the firmware of the server has frozen the security of the drive: switch the server off and on, suspend it once, plug the drive in while it runs, " +
	"or look for a setting of the firmware that freezes drives")

// ErrLocked means that the drive has the password of somebody else.
var ErrLocked = errors.New("the drive is locked by a password that this project did not set: unlock it, or erase it with its PSID or its master password")

// passwordBlock is the data of the security commands (ACS-5, 7.40.3 and others): word 0 has the identifier (bit 0: master) and for an erase the mode (bit 1:
// enhanced), words 1 to 16 the password. The level of SECURITY SET PASSWORD, bit 8, stays 0: High, so that the master password unlocks the drive, too.
func passwordBlock(enhanced bool) []byte {
	data := make([]byte, blockSize)
	if enhanced {
		data[0] |= 1 << 1
	}
	copy(data[2:34], Password)
	return data
}

func (d *Drive) securityCommand(name string, command byte, data []byte, timeout time.Duration) error {
	if _, err := d.ata(ataCommand{command: command, data: data, send: data != nil, timeout: timeout}); err != nil {
		return fmt.Errorf("ATA %s: %w", name, err)
	}
	return nil
}

// Unlock unlocks an ATA drive that an earlier run has left locked, and removes the password. It does nothing to a drive that is not locked.
func (d *Drive) Unlock() error {
	id, err := d.identifyATA()
	if err != nil || !id.Security.Locked {
		return err
	}
	if id.Security.Expired {
		return fmt.Errorf("%w; it accepts no further attempts until a power cycle", ErrLocked)
	}
	if err := d.securityCommand("SECURITY UNLOCK", ataUnlock, passwordBlock(false), askTimeout); err != nil {
		return fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	return d.securityCommand("SECURITY DISABLE PASSWORD", ataDisablePassword, passwordBlock(false), askTimeout)
}

// securityErase is a security erase: set the password, prepare, erase (ACS-5, 7.38 and 4.17). The erase removes the password. One that fails must not leave
// the drive with it. At the end of ctx the erase does not begin any more.
func (d *Drive) securityErase(ctx context.Context, enhanced bool) error {
	if err := d.Unlock(); err != nil {
		return err
	}
	id, err := d.identifyATA()
	switch {
	case err != nil:
		return err
	case id.Security.Frozen:
		return ErrFrozen
	}
	timeout := id.Security.Normal
	if enhanced {
		timeout = id.Security.Thorough
	}
	if timeout == 0 {
		timeout = unknownErase
	}
	if err := d.securityCommand("SECURITY SET PASSWORD", ataSetPassword, passwordBlock(false), askTimeout); err != nil {
		return err
	}
	err = context.Cause(ctx)
	if err == nil {
		err = d.securityCommand("SECURITY ERASE PREPARE", ataErasePrepare, nil, askTimeout)
	}
	if err == nil {
		err = d.securityCommand("SECURITY ERASE UNIT", ataEraseUnit, passwordBlock(enhanced), 2*timeout+time.Hour)
	}
	return errors.Join(err, d.removePassword())
}

// removePassword removes the password of an erase that did not do it.
func (d *Drive) removePassword() error {
	id, err := d.identifyATA()
	switch {
	case err != nil:
		return err
	case id.Security.Locked:
		return d.Unlock()
	case id.Security.Enabled:
		return d.securityCommand("SECURITY DISABLE PASSWORD", ataDisablePassword, passwordBlock(false), askTimeout)
	default:
		return nil
	}
}

// securityErase erases the drive with SECURITY ERASE UNIT.
func securityErase(command Command) func(context.Context, *Drive, Facts, Watcher) error {
	return func(ctx context.Context, d *Drive, f Facts, watch Watcher) error {
		limit := 2*cmp.Or(f.Times[command], unknownErase) + time.Hour
		return d.blocking(ctx, watch, f.Times[command], limit, func() error { return d.securityErase(ctx, command == ATAEnhancedErase) })
	}
}

// unknownErase is how long an erase takes that the drive has no time for: the largest hard disks need two days.
const unknownErase = 24 * time.Hour

// hiddenATA returns how many bytes of the drive are not accessible, and why. With an error there may be more.
func (d *Drive) hiddenATA(id Identity) (int64, string, error) {
	native, by, err := d.nativeSectors(id)
	if native <= id.Sectors || native > 1<<48 {
		return 0, "", err
	}
	return int64(native-id.Sectors) * int64(id.SectorSize), by, err // below 2^48 sectors of at most 1 MiB
}

// nativeSectors returns the number of sectors of the drive, 0 where it cannot have hidden ones.
func (d *Drive) nativeSectors(id Identity) (uint64, string, error) {
	var sectors uint64
	by := ""
	command := ataCommand{command: ataNativeMax, extended: true, registers: true}
	if id.AccessibleMax {
		command.command = ataAccessibleMax
	}
	if id.AccessibleMax || id.HPA {
		r, err := d.ata(command)
		if err != nil {
			return 0, "", fmt.Errorf("the native size of the drive: %w", err)
		}
		sectors, by = r.LBA+1, "a host protected area or an accessible max address"
	}
	if !id.Configuration {
		return sectors, by, nil
	}
	data := make([]byte, blockSize)
	// A drive whose overlay is frozen or restored refuses the command: what it hides is then unknown.
	if _, err := d.ata(ataCommand{command: ataConfiguration, feature: 0xc2, data: data}); err != nil {
		return sectors, by, fmt.Errorf("the device configuration overlay of the drive: %w", err)
	}
	if n := ParseConfiguration(data); n > sectors {
		return n, "a device configuration overlay", nil
	}
	return sectors, by, nil
}

// ParseConfiguration returns the number of sectors in the data of DEVICE CONFIGURATION IDENTIFY: words 3 to 6 are the maximum LBA (ACS-2, 7.10.3), 0 where they
// say nothing.
func ParseConfiguration(data []byte) uint64 {
	if len(data) < blockSize {
		return 0
	}
	var last uint64
	for i := 7; i >= 0; i-- {
		last = last<<8 | uint64(data[6+i])
	}
	if last == 0 || last >= 1<<48 {
		return 0
	}
	return last + 1
}
