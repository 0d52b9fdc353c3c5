package drive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The commands of ATA (ACS-5, annex B, unless a clause of an older standard is named).
const (
	ataIdentify        = 0xec // IDENTIFY DEVICE
	ataSanitize        = 0xb4 // SANITIZE DEVICE
	ataSetPassword     = 0xf1 // SECURITY SET PASSWORD
	ataUnlock          = 0xf2 // SECURITY UNLOCK
	ataErasePrepare    = 0xf3 // SECURITY ERASE PREPARE
	ataEraseUnit       = 0xf4 // SECURITY ERASE UNIT
	ataDisablePassword = 0xf6 // SECURITY DISABLE PASSWORD
	ataNativeMax       = 0x27 // READ NATIVE MAX ADDRESS EXT (ACS-2, 7.33), of the feature set HPA
	ataAccessibleMax   = 0x78 // GET NATIVE MAX ADDRESS EXT, feature 0000h of the accessible max address configuration
	ataConfiguration   = 0xb1 // DEVICE CONFIGURATION IDENTIFY, feature C2h (ACS-2, 7.10)
)

// ataCommand is a command with its registers.
type ataCommand struct {
	command        byte
	feature, count uint16
	lba            uint64
	// extended is true for a command of 48 bits.
	extended bool
	// data is one block of 512 bytes, or nil. send is true if it goes to the drive.
	data []byte
	send bool
	// registers is true if the registers are wanted.
	registers bool
	timeout   time.Duration
}

// cdb is ATA PASS-THROUGH (16) (SAT-5, 12.2.2).
func (c *ataCommand) cdb() []byte {
	const nonData, pioIn, pioOut = 3 << 1, 4 << 1, 5 << 1
	const fromDevice, blocks, lengthInCount, condition = 1 << 3, 1 << 2, 2, 1 << 5
	out := make([]byte, 16)
	out[0], out[1], out[14] = 0x85, nonData, c.command
	count := c.count
	if c.data != nil {
		out[1], out[2], count = pioOut, blocks|lengthInCount, 1
		if !c.send {
			out[1], out[2] = pioIn, fromDevice|blocks|lengthInCount
		}
	}
	if c.registers {
		out[2] |= condition
	}
	if c.extended {
		out[1] |= 1
		out[3], out[5] = byte(c.feature>>8), byte(count>>8)
		out[7], out[9], out[11] = byte(c.lba>>24), byte(c.lba>>32), byte(c.lba>>40) //nolint:gosec // the bytes of a register
	}
	out[4], out[6] = byte(c.feature), byte(count)                           //nolint:gosec // the bytes of a register
	out[8], out[10], out[12] = byte(c.lba), byte(c.lba>>8), byte(c.lba>>16) //nolint:gosec // the bytes of a register
	out[13] = 1 << 6                                                        // LBA
	return out
}

// errPartial means that a controller returns not all bits of the registers.
var errPartial = errors.New("the controller returns only a part of the registers of the drive")

// ata sends a command. Registers that are wanted come with CHECK CONDITION and the sense key RECOVERED ERROR or NO SENSE. An error of the drive is an error.
func (d *Drive) ata(c ataCommand) (Registers, error) {
	if c.timeout == 0 {
		c.timeout = askTimeout
	}
	s := SCSICommand{CDB: c.cdb(), Data: c.data, Send: c.send, Timeout: c.timeout}
	err := d.Port.SCSI(&s)
	var sense *SenseError
	if !errors.As(err, &sense) {
		if err == nil && c.registers {
			err = errors.New("the controller does not return the registers of the drive")
		}
		if err == nil && c.data != nil && !c.send && s.Received < len(c.data) {
			err = fmt.Errorf("the drive returns %d bytes instead of %d", s.Received, len(c.data))
		}
		return Registers{}, err
	}
	r, whole, parsed := ParseRegisters(sense.Sense)
	info, _ := ParseSense(sense.Sense) // the registers were in it
	switch {
	case parsed != nil || info.Key > 1 && !r.Failed():
		return Registers{}, err
	case r.Failed():
		return r, &ATAError{r}
	case c.registers && !whole:
		return r, errPartial
	default:
		return r, nil
	}
}

// ATAError is an error of an ATA drive.
type ATAError struct{ Registers Registers }

func (e *ATAError) Error() string {
	if e.Registers.Error&(1<<2) != 0 {
		return fmt.Sprintf("the drive aborts the command (status %#x, error %#x)", e.Registers.Status, e.Registers.Error)
	}
	return fmt.Sprintf("the drive reports an error (status %#x, error %#x)", e.Registers.Status, e.Registers.Error)
}

// Identity is what an ATA drive says in its IDENTIFY DEVICE data (ACS-5, 9.11 and 9.12; ACS-2, 7.17 for what is obsolete).
type Identity struct {
	Serial, Model, Firmware string
	// Sectors is the accessible size, and SectorSize in bytes.
	Sectors    uint64
	SectorSize int
	// SolidState is true if the nominal media rotation rate is 1 (word 217).
	SolidState bool
	// Encrypts is true if the drive encrypts all user data (word 69 bit 4).
	Encrypts bool
	// Sanitize are the sanitize commands of the drive (word 59).
	Sanitize []Command
	// Security is the state of the feature set Security (word 128), all false without it.
	Security Security
	// HPA, Configuration and AccessibleMax are the support of what hides a part of the drive: the host protected area (word 82 bit 10), the device
	// configuration overlay (word 83 bit 11), and the accessible max address configuration (word 119 bit 8).
	HPA, Configuration, AccessibleMax bool
}

// Security is the state of the feature set Security of an ATA drive.
type Security struct {
	Supported, Enabled, Locked, Frozen, Expired, Enhanced bool
	// Normal and Thorough are how long an erase and an enhanced erase take (words 89 and 90), 0 where it is unknown.
	Normal, Thorough time.Duration
}

const blockSize = 512

// ParseIdentity parses the IDENTIFY DEVICE data.
func ParseIdentity(data []byte) (Identity, error) {
	if len(data) < blockSize {
		return Identity{}, fmt.Errorf("the IDENTIFY DEVICE data has %d bytes instead of %d", len(data), blockSize)
	}
	if err := checksum(data[:blockSize]); err != nil {
		return Identity{}, err
	}
	word := func(n int) uint16 { return binary.LittleEndian.Uint16(data[2*n:]) }
	long := func(n int) uint64 { return binary.LittleEndian.Uint64(data[2*n:]) }
	id := Identity{
		Serial: swappedText(data[20:40]), Firmware: swappedText(data[46:54]), Model: swappedText(data[54:94]),
		SolidState: word(217) == 1, Encrypts: word(69)&(1<<4) != 0, SectorSize: blockSize,
		Sectors: uint64(binary.LittleEndian.Uint32(data[120:])),
	}
	if word(83)>>14 == 1 { // words 82 and 83 are valid
		id.HPA, id.Configuration = word(82)&(1<<10) != 0, word(83)&(1<<11) != 0
		if word(83)&(1<<10) != 0 {
			id.Sectors = long(100)
		}
		if word(82)&(1<<1) != 0 {
			id.Security = security(word(128), word(89), word(90))
		}
	}
	if word(69)&(1<<3) != 0 { // the extended number of user addressable sectors
		id.Sectors = long(230)
	}
	if w := word(106); w>>14 == 1 && w&(1<<12) != 0 {
		if size := 2 * (uint64(word(117)) | uint64(word(118))<<16); size >= blockSize && size <= 1<<20 {
			id.SectorSize = int(size)
		}
	}
	id.AccessibleMax = word(119)>>14 == 1 && word(119)&(1<<8) != 0
	id.Sanitize = sanitizesOfATA(word(59))
	return id, nil
}

// checksum checks the checksum, if there is one: with the low byte A5h of word 255 all bytes add up to zero.
func checksum(data []byte) error {
	if data[510] != 0xa5 {
		return nil
	}
	var sum byte
	for _, b := range data {
		sum += b
	}
	if sum != 0 {
		return errors.New("the IDENTIFY DEVICE data has a wrong checksum")
	}
	return nil
}

func security(status, normal, thorough uint16) Security {
	if status&1 == 0 {
		return Security{}
	}
	return Security{
		Supported: true, Enabled: status&(1<<1) != 0, Locked: status&(1<<2) != 0, Frozen: status&(1<<3) != 0, Expired: status&(1<<4) != 0,
		Enhanced: status&(1<<5) != 0, Normal: eraseTime(normal), Thorough: eraseTime(thorough),
	}
}

// eraseTime is a time in units of two minutes. With bit 15 it has 15 bits, otherwise 8; the highest value means that it is longer.
func eraseTime(word uint16) time.Duration {
	n := word & 0xff
	if word&(1<<15) != 0 {
		n = word & 0x7fff
	}
	return time.Duration(n) * 2 * time.Minute
}

// swappedText is a text in which the bytes of each word are swapped (ACS-5, 3.4.9).
func swappedText(words []byte) string {
	b := make([]byte, len(words))
	for i := 0; i+1 < len(b); i += 2 {
		b[i], b[i+1] = words[i+1], words[i]
	}
	return asciiText(b)
}

func (d *Drive) identifyATA() (Identity, error) {
	data := make([]byte, blockSize)
	if _, err := d.ata(ataCommand{command: ataIdentify, data: data}); err != nil {
		return Identity{}, fmt.Errorf("ATA IDENTIFY DEVICE: %w", err)
	}
	return ParseIdentity(data)
}

func (d *Drive) probeATA(f *Facts) error {
	id, err := d.identifyATA()
	if err != nil {
		return err
	}
	d.identity = id
	f.Rotational = f.Rotational && !id.SolidState
	f.Encrypts = id.Encrypts
	f.SecurityFrozen, f.Locked = id.Security.Frozen, id.Security.Locked
	f.Commands = append(f.Commands, id.Sanitize...)
	f.offer(id.Security.Supported && id.Security.Enhanced, ATAEnhancedErase)
	f.offer(id.Security.Supported, ATAErase)
	f.Times[ATAErase], f.Times[ATAEnhancedErase] = id.Security.Normal, id.Security.Thorough
	if len(id.Sanitize) > 0 {
		status, err := d.sanitizeStatusATA()
		switch {
		case errors.Is(err, errPartial):
			// How a sanitize operation ends could not be read: a controller that hides that cannot be used for it.
			f.Commands = slices.DeleteFunc(f.Commands, func(c Command) bool { return slices.Contains(id.Sanitize, c) })
			f.warnf("its sanitize commands are not used: %v", err)
		case err != nil:
			return err
		}
		f.Sanitizing, f.FailureMode, f.SanitizeFrozen = status.State == SanitizeRuns, status.State == SanitizeFailed, status.Frozen
	}
	if f.Sanitizing || f.FailureMode || f.Locked {
		return nil // it refuses other commands
	}
	f.Hidden, f.HiddenBy, err = d.hiddenATA(id)
	if err != nil {
		f.warnf("whether a part of it is hidden is unknown: %v", err)
	}
	if f.Hidden > 0 {
		f.warnf("%d bytes of it are hidden by %s: an overwrite does not reach them", f.Hidden, f.HiddenBy)
	}
	return nil
}
