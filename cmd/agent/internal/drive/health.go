package drive

import (
	"errors"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

const (
	logSMART  = 0x02 // SMART / Health Information
	smartSize = 512
)

// Health asks an NVMe drive. The error of other drives is errors.ErrUnsupported.
func (d *Drive) Health() (wire.Health, error) {
	if d.Kind != NVMe {
		return "", errors.ErrUnsupported
	}
	data, err := d.logPage(logSMART, smartSize)
	if err != nil {
		return "", fmt.Errorf("NVMe SMART / Health Information: %w", err)
	}
	return ParseHealth(data)
}

// ParseHealth parses the log page SMART / Health Information (NVM Express Base Specification 2.1, 5.1.12.1.3, figure 206). Unreliable media, a drive that is read-only, and
// a failed backup of volatile memory are critical. Little spare capacity, temperature and wear are warnings.
func ParseHealth(data []byte) (wire.Health, error) {
	if len(data) < smartSize {
		return "", fmt.Errorf("the log page SMART / Health Information has %d bytes instead of %d", len(data), smartSize)
	}
	warning, used := data[0], data[5]
	switch {
	case warning&(1<<2|1<<3|1<<4) != 0:
		return wire.HealthCritical, nil
	case warning&(1<<0|1<<1|1<<5) != 0 || used >= 100:
		return wire.HealthWarning, nil
	default:
		return wire.HealthOK, nil
	}
}
