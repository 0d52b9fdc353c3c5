package drivetest

import (
	"encoding/binary"
	"syscall"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
)

func bit(set bool, n int) byte {
	if set {
		return 1 << n
	}
	return 0
}

// Admin answers NVMe admin commands.
func (p *port) Admin(c *drive.AdminCommand) error {
	d := p.d
	name, ok := map[byte]string{0x02: "log", 0x06: "identify", 0x0a: "features", 0x80: "format", 0x82: "security receive", 0x84: "sanitize"}[c.Opcode]
	if d.Kind != drive.NVMe || !ok {
		return syscall.ENOTTY
	}
	recorded := name
	if name == Sanitize { // AUSE, and the action Exit Failure Mode (NVM Express Base Specification 2.1, figure 372)
		recorded = sanitizeName(c.CDW10&(1<<3) != 0, c.CDW10&7 == 1)
	}
	if err := d.begin(recorded); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch name {
	case "identify":
		return d.identifyNVMe(c)
	case "features":
		if d.DULBE {
			c.Result = 1 << 16
		}
		return nil
	case "security receive":
		if !d.Opal {
			return &drive.NVMeError{Status: 1}
		}
		copy(c.Data, discovery(true, true))
		return nil
	case "log":
		return d.logNVMe(c)
	case "format":
		return d.formatNVMe(c)
	default:
		return d.sanitizeNVMe(c)
	}
}

// discovery is a Level 0 Discovery with the feature Locking.
func discovery(enabled, locked bool) []byte {
	b := make([]byte, 48+16)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4)) //nolint:gosec // a fake: the test gives the sizes
	copy(b[48:], []byte{0, 2, 0x10, 12, 1 | bit(enabled, 1) | bit(locked, 2) | 1<<3})
	return b
}

func (d *Drive) identifyNVMe(c *drive.AdminCommand) error {
	switch c.CDW10 {
	case 0: // Identify Namespace
		if c.Namespace == 0 || int(c.Namespace) > len(d.media) {
			return &drive.NVMeError{Status: 0x0b}
		}
		binary.LittleEndian.PutUint64(c.Data, uint64(len(d.media[c.Namespace-1])/d.Sector)) //nolint:gosec // a fake: the test gives the sizes
		c.Data[128+2] = 9
	case 1: // Identify Controller
		copy(c.Data[4:24], "SERIAL              ")
		copy(c.Data[24:64], "MODEL")
		c.Data[76], c.Data[78] = bit(d.Several, 1), firstController
		c.Data[256] = bit(d.Opal, 0) | bit(d.Format || d.FormatCrypto, 1) | bit(d.Unattached > 0, 3)
		c.Data[524] = bit(d.FormatsAll, 0) | bit(d.FormatsAll && !d.ErasesNamed, 1) | bit(d.FormatCrypto, 2)
		c.Data[328] = bit(d.Crypto, 0) | bit(d.BlockErase, 1)
		c.Data[312] = bit(d.RPMB, 0)
	case 2, 0x10: // the namespace lists
		n := len(d.media)
		if c.CDW10 == 0x10 {
			n += d.Unattached
		}
		for i := range n {
			binary.LittleEndian.PutUint32(c.Data[4*i:], uint32(i+1))
		}
	case 0x13: // the controllers of the subsystem
		if len(d.Controllers) == 0 {
			return &drive.NVMeError{Status: 2}
		}
		binary.LittleEndian.PutUint16(c.Data, uint16(len(d.Controllers))) //nolint:gosec // a fake: the test gives the sizes
		for i, id := range d.Controllers {
			binary.LittleEndian.PutUint16(c.Data[2+2*i:], id)
		}
	default:
		return &drive.NVMeError{Status: 2}
	}
	return nil
}

// firstController identifies the controller that answers.
const firstController = 1

func (d *Drive) logNVMe(c *drive.AdminCommand) error {
	switch c.CDW10 & 0xff {
	case 0x02:
		c.Data[0] = d.SMART
	case 0x15:
		if !d.Boot {
			return &drive.NVMeError{Status: 0x109}
		}
		c.Data[4] = 1
	case 0x81:
		d.poll()
		copy(c.Data, d.sanitizeLog())
	default:
		return &drive.NVMeError{Status: 0x109}
	}
	return nil
}

func (d *Drive) sanitizeLog() []byte {
	b := make([]byte, 32)
	binary.LittleEndian.PutUint16(b, 0xffff)
	b[2] = []byte{Idle: 0, Running: 2, Done: 1, Failed: 3}[d.state]
	if d.state == Running {
		binary.LittleEndian.PutUint16(b, uint16(0xffff*(d.Steps-d.left)/max(d.Steps, 1))) //nolint:gosec // a fake: the test gives the sizes
	}
	b[4] = map[string]byte{"crypto": 4, "block": 2, "overwrite": 3}[d.action]
	for i := 8; i < 20; i++ {
		b[i] = 0xff
	}
	return b
}

func (d *Drive) formatNVMe(c *drive.AdminCommand) error {
	ses := c.CDW10 >> 9 & 7
	switch {
	case d.state == Running:
		return &drive.NVMeError{Status: 0x1d}
	case d.state == Failed:
		return &drive.NVMeError{Status: 0x1c}
	case d.Opal:
		return &drive.NVMeError{Status: 0x15}
	case ses == 2 && !d.FormatCrypto, ses == 1 && !d.Format, ses == 0:
		return &drive.NVMeError{Status: 2}
	case d.Lies:
		return nil
	}
	action := map[uint32]string{1: "block", 2: "crypto"}[ses]
	if d.FormatsAll && !d.ErasesNamed {
		d.wipe(action)
		return nil
	}
	if c.Namespace == 0 || int(c.Namespace) > len(d.media) {
		return &drive.NVMeError{Status: 0x0b}
	}
	d.wipeOne(int(c.Namespace-1), action)
	return nil
}

func (d *Drive) sanitizeNVMe(c *drive.AdminCommand) error {
	action := map[uint32]string{2: "block", 4: "crypto"}[c.CDW10]
	switch {
	case d.state == Running:
		return &drive.NVMeError{Status: 0x1d}
	case d.Opal:
		return &drive.NVMeError{Status: 0x15}
	case action == "crypto" && !d.Crypto, action == "block" && !d.BlockErase, action == "":
		return &drive.NVMeError{Status: 2}
	}
	d.state, d.action, d.left = Running, action, d.Steps
	return nil
}
