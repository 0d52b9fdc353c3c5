package drivetest

import (
	"encoding/binary"
	"strings"
	"syscall"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
)

// check is CHECK CONDITION with sense data in the descriptor format, with a progress unless it is negative.
func check(key, asc, ascq byte, progress int) error {
	sense := []byte{0x72, key, asc, ascq, 0, 0, 0, 0}
	if progress >= 0 {
		sense[7] = 8
		sense = append(sense, 2, 6, 0, 0, 0x80, byte(progress>>8), byte(progress), 0) //nolint:gosec // a fake: the test gives the sizes
	}
	return &drive.SenseError{Status: 2, Sense: sense}
}

var errUnknownCommand = check(5, 0x20, 0, -1)

// SCSI answers SCSI commands, and ATA commands through ATA PASS-THROUGH (16).
func (p *port) SCSI(c *drive.SCSICommand) error {
	d := p.d
	if d.Kind == drive.NVMe || d.Kind == drive.Block {
		return syscall.ENOTTY
	}
	name := map[byte]string{
		0x00: "test unit ready", 0x03: "request sense", 0x12: "inquiry", 0x48: "sanitize", 0x85: "ata", 0x9e: "read capacity", 0xa2: "security in", 0xa3: "maintenance in",
	}[c.CDB[0]]
	if name == "ata" {
		name = ataNames[c.CDB[14]]
	}
	recorded := name
	switch {
	case name != Sanitize:
	case c.CDB[0] == 0x85: // FAILURE MODE, and CLEAR SANITIZE OPERATION FAILED of SANITIZE STATUS EXT (ACS-5, 7.35)
		status := c.CDB[4] == 0
		recorded = sanitizeName(!status && c.CDB[6]&(1<<4) != 0, status && c.CDB[6]&1 != 0)
	default: // AUSE, and EXIT FAILURE MODE (SBC-5, 5.34)
		recorded = sanitizeName(c.CDB[1]&(1<<5) != 0, c.CDB[1]&0x1f == 0x1f)
	}
	if err := d.begin(recorded); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.CDB[0] == 0x85 {
		if d.Kind != drive.ATA {
			return errUnknownCommand
		}
		return d.ata(c)
	}
	return d.scsi(name, c)
}

func (d *Drive) scsi(name string, c *drive.SCSICommand) error {
	answer := func(b []byte) error {
		c.Received = copy(c.Data, b)
		return nil
	}
	switch name {
	case "inquiry":
		pages := []byte{0x00, 0x80, 0x83}
		if d.Kind == drive.ATA {
			pages = append(pages, 0x89)
		}
		return answer(append([]byte{0, 0, 0, byte(len(pages))}, pages...)) //nolint:gosec // a fake: the test gives the sizes
	case "maintenance in":
		support := byte(1)
		if map[byte]bool{1: d.SanitizeOverwrite, 2: d.BlockErase, 3: d.Crypto}[c.CDB[5]] {
			support = 3
		}
		return answer([]byte{0, support, 0, 10})
	case "security in":
		if !d.Opal {
			return errUnknownCommand
		}
		return answer(discovery(true, true))
	case "read capacity":
		return answer(make([]byte, 32))
	case "test unit ready":
		d.poll()
		switch d.state {
		case Running:
			return check(2, 4, 0x1b, 0xffff*(d.Steps-d.left)/max(d.Steps, 1))
		case Failed:
			return check(3, 0x31, 3, -1)
		default:
			return nil
		}
	case "sanitize":
		return d.sanitizeSCSI(c)
	default:
		return errUnknownCommand
	}
}

func (d *Drive) sanitizeSCSI(c *drive.SCSICommand) error {
	action := c.CDB[1] & 0x1f
	supported := map[byte]bool{1: d.SanitizeOverwrite, 2: d.BlockErase, 3: d.Crypto}[action]
	switch {
	case d.state == Running:
		return check(2, 4, 0x1b, 0)
	case !supported || d.Opal, c.CDB[1]&0x80 == 0, action == 1 && (len(c.Data) != 8 || c.Data[0] != 1 || c.CDB[8] != 8):
		return check(5, 0x24, 0, -1)
	}
	d.state, d.left, d.action = Running, d.Steps, map[byte]string{1: "overwrite", 2: "block", 3: "crypto"}[action]
	return nil
}

var ataNames = map[byte]string{
	0xec: "identify", 0xb4: "sanitize", 0xf1: "set password", 0xf2: "unlock", 0xf3: "erase prepare", 0xf4: "erase unit", 0xf6: "disable password", 0x27: "native max",
}

// registers is CHECK CONDITION with an ATA Status Return descriptor.
func registers(status, failure byte, count uint16, lba uint64) error {
	return &drive.SenseError{Status: 2, Sense: []byte{
		0x72, 1, 0, 0x1d, 0, 0, 0, 14, 9, 12, 1, failure, byte(count >> 8), byte(count), //nolint:gosec // a fake: the test gives the sizes
		byte(lba >> 24), byte(lba), byte(lba >> 32), byte(lba >> 8), byte(lba >> 40), byte(lba >> 16), 0x40, status, //nolint:gosec // a fake: the test gives the sizes
	}}
}

func (d *Drive) ata(c *drive.SCSICommand) error {
	abort := registers(0x51, 4, 0, 0)
	if (d.state == Running || d.state == Failed) && ataNames[c.CDB[14]] != "identify" && ataNames[c.CDB[14]] != "sanitize" {
		return abort
	}
	password := ""
	if c.Send && len(c.Data) == 512 {
		password = strings.TrimRight(string(c.Data[2:34]), "\x00")
	}
	prepared := d.prepared
	d.prepared = false
	switch ataNames[c.CDB[14]] {
	case "identify":
		c.Received = copy(c.Data, d.identity())
		d.prepared = prepared
		return nil
	case "native max":
		return registers(0x50, 0, 0, uint64(len(d.media[0])/d.Sector)+d.Hidden-1) //nolint:gosec // a fake: the test gives the sizes
	case "sanitize":
		return d.sanitizeATA(c, abort)
	}
	if d.Frozen || !d.SecurityErase {
		return abort
	}
	switch name := ataNames[c.CDB[14]]; {
	case name == "set password" && !d.locked:
		d.password = password
	case name == "unlock" && password == d.password:
		d.locked = false
	case name == "disable password" && !d.locked && password == d.password:
		d.password = ""
	case name == "erase prepare":
		d.prepared = true
	case name == "erase unit" && prepared && password == d.password && password != "":
		return d.eraseUnit(c.Data[0]&2 != 0, abort)
	default:
		return abort
	}
	return nil
}

func (d *Drive) eraseUnit(enhanced bool, abort error) error {
	if enhanced && !d.Enhanced || d.Fails {
		return abort
	}
	if !d.Lies {
		d.wipe("overwrite")
	}
	d.password, d.locked = "", false
	return nil
}

func (d *Drive) sanitizeATA(c *drive.SCSICommand, abort error) error {
	feature := c.CDB[4]
	lba := uint64(c.CDB[8]) | uint64(c.CDB[10])<<8 | uint64(c.CDB[12])<<16 | uint64(c.CDB[7])<<24 | uint64(c.CDB[9])<<32 | uint64(c.CDB[11])<<40
	if feature == 0 {
		d.poll()
		switch d.state {
		case Running:
			return registers(0x50, 0, 1<<14, uint64(0xffff*(d.Steps-d.left)/max(d.Steps, 1))) //nolint:gosec // a fake: the test gives the sizes
		case Failed:
			return registers(0x51, 4, 0, 1)
		case Done:
			return registers(0x50, 0, 1<<15|uint16(bit(d.SanitizeFrozen, 5))<<8, 0)
		default:
			return registers(0x50, 0, uint16(bit(d.SanitizeFrozen, 5))<<8, 0)
		}
	}
	known := map[byte]struct {
		lba     uint64
		offered bool
		action  string
	}{0x11: {0x43727970, d.Crypto, "crypto"}, 0x12: {0x426b4572, d.BlockErase, "block"}, 0x14: {0x4f57 << 32, d.SanitizeOverwrite, "overwrite"}}[feature]
	if !known.offered || known.lba != lba || d.SanitizeFrozen || d.locked || d.state == Running || feature == 0x14 && c.CDB[6] != 1 {
		return abort
	}
	d.state, d.action, d.left = Running, known.action, d.Steps
	return registers(0x50, 0, 1<<14, 0)
}

// identity is the IDENTIFY DEVICE data.
func (d *Drive) identity() []byte {
	b := make([]byte, 512)
	word := func(n int, value uint16) { binary.LittleEndian.PutUint16(b[2*n:], value) }
	word(59, uint16(bit(d.Crypto || d.BlockErase || d.SanitizeOverwrite, 4)|bit(d.Crypto, 5)|bit(d.SanitizeOverwrite, 6)|bit(d.BlockErase, 7))<<8)
	word(69, uint16(bit(d.Encrypts, 4)))
	word(82, uint16(bit(d.SecurityErase, 1))|uint16(bit(d.Hidden > 0, 2))<<8)
	word(83, 1<<14|1<<10)
	binary.LittleEndian.PutUint64(b[200:], uint64(len(d.media[0])/d.Sector)) //nolint:gosec // a fake: the test gives the sizes
	word(89, 1)
	word(90, 1)
	word(128, uint16(bit(d.SecurityErase, 0)|bit(d.password != "", 1)|bit(d.locked, 2)|bit(d.Frozen, 3)|bit(d.Enhanced, 5)))
	return b
}
