package drive

import (
	"encoding/binary"
	"errors"
)

// Locking is the feature Locking in the answer to a Level 0 Discovery (TCG Storage Architecture Core Specification 2.01, 3.3.6.5).
type Locking struct {
	// Enabled is true if the locking was set up by somebody, and Locked if a part of the drive is locked.
	Enabled, Locked bool
	// Encrypts is true if the drive encrypts its media (MediaEncryption).
	Encrypts bool
}

const (
	discoverySize    = 2048
	securityProtocol = 1 // TCG
	discoveryID      = 1 // the ComID of the discovery
	featureLocking   = 2
	discoveryHeader  = 48
)

// errNoLocking means that a drive has no feature Locking.
var errNoLocking = errors.New("the drive has no TCG locking")

// ParseDiscovery returns the feature Locking of a Level 0 Discovery. Drives such as the HGST SSD400M count the length in the header without the header (pull request 233 of
// Drive-Trust-Alliance/sedutil), so as many bytes follow it at most. The features end with the reserved code 0, as the buffer is zeroed.
func ParseDiscovery(data []byte) (Locking, error) {
	if len(data) < discoveryHeader {
		return Locking{}, errNoLocking
	}
	length := uint64(binary.BigEndian.Uint32(data))
	rest := data[discoveryHeader:min(uint64(len(data)), discoveryHeader+length)]
	for len(rest) >= 4 {
		code, size := binary.BigEndian.Uint16(rest), int(rest[3])
		if code == 0 || len(rest) < 4+size {
			break
		}
		if code == featureLocking && size >= 1 {
			flags := rest[4] // 0: supported, 1: enabled, 2: locked, 3: media encryption
			return Locking{Enabled: flags&(1<<1) != 0, Locked: flags&(1<<2) != 0, Encrypts: flags&(1<<3) != 0}, nil
		}
		rest = rest[4+size:]
	}
	return Locking{}, errNoLocking
}

// locking asks an NVMe or a SCSI drive. ATA drives are not asked: Linux lets the commands through only with the parameter libata.allow_tpm.
func (d *Drive) locking() (Locking, error) {
	if d.Kind == NVMe {
		c := AdminCommand{
			Opcode: opSecurityReceive, CDW10: securityProtocol<<24 | discoveryID<<8, CDW11: discoverySize, Data: make([]byte, discoverySize), Timeout: askTimeout,
		}
		if err := d.Port.Admin(&c); err != nil {
			return Locking{}, err
		}
		return ParseDiscovery(c.Data)
	}
	cdb := []byte{opSecurityIn, securityProtocol, 0, discoveryID, 0, 0, 0, 0, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(cdb[6:], discoverySize)
	data, err := d.scsi(cdb, discoverySize)
	if err != nil {
		return Locking{}, err
	}
	return ParseDiscovery(data)
}

// probeLocking reads the TCG features. A drive without them, or that does not let them be read, is not locked.
func (d *Drive) probeLocking(f *Facts) {
	l, err := d.locking()
	if err != nil {
		return
	}
	f.OpalLocked = l.Enabled && l.Locked
	if l.Encrypts {
		f.Encrypts = true
	}
	if l.Enabled && !l.Locked {
		f.warnf("TCG locking is set up on it, and nothing is locked now: the next owner cannot change that without its password or PSID")
	}
}
